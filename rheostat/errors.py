"""The exit codes of all commands, and the errors that end a command with an exit code.

An operator sees only the message of the error, so the message must say what is wrong, where, and what to do.
"""

from __future__ import annotations

EXIT_DONE = 0
EXIT_NOT_WELL = 1
EXIT_BAD_INPUT = 2
EXIT_UNREACHABLE = 3
EXIT_NOT_ACKNOWLEDGED = 4
EXIT_NOT_CONFIRMED = 5
EXIT_FAULT = 70
EXIT_HUNG_UP = 129
EXIT_INTERRUPTED = 130
EXIT_OUTPUT_CLOSED = 141
EXIT_TERMINATED = 143

# A code has the same meaning in every command; docs/reference/exit-codes.md has the same table.
EXIT_CODES = {
    EXIT_DONE: "done, and no problem was found",
    EXIT_NOT_WELL: "a problem was found, or the request was not completed",
    EXIT_BAD_INPUT: "an argument or a file cannot be used; nothing was changed",
    EXIT_UNREACHABLE: "the cluster does not answer",
    EXIT_NOT_ACKNOWLEDGED: "the order is recorded, but no tuner has acknowledged it",
    EXIT_NOT_CONFIRMED: "the operator did not confirm the change; nothing was changed",
    EXIT_FAULT: "an internal error of rheostat",
    EXIT_HUNG_UP: "ended because the terminal was closed",
    EXIT_INTERRUPTED: "ended by Ctrl-C",
    EXIT_OUTPUT_CLOSED: "the program that reads the output, such as head, has closed it",
    EXIT_TERMINATED: "ended by SIGTERM",
}


class CommandError(Exception):
    """Ends the command; its text is printed on stderr unchanged."""

    exit_code = EXIT_NOT_WELL


class SetupError(CommandError):
    """This machine lacks something: Java, the JVM artifacts, a free port."""


class ThreadEndedError(CommandError):
    """A thread of this process has ended with an error, and the process cannot continue without it."""

    exit_code = EXIT_FAULT


class BadInputError(CommandError):
    """An argument or a file cannot be used; nothing was changed."""

    exit_code = EXIT_BAD_INPUT


class UnreachableError(CommandError):
    """The cluster does not answer."""

    exit_code = EXIT_UNREACHABLE


class NotConfirmedError(CommandError):
    """The operator did not agree to a change, or could not be asked."""

    exit_code = EXIT_NOT_CONFIRMED


class NotAcknowledgedError(CommandError):
    """An order is recorded, but no tuner has acknowledged it."""

    exit_code = EXIT_NOT_ACKNOWLEDGED
