"""Errors that end a command, each with the exit code that tells a script what kind it was.

The message is all a person sees, so it says what is wrong, where, and what to do.
"""

from __future__ import annotations

EXIT_DONE = 0
EXIT_NOT_WELL = 1
EXIT_BAD_INPUT = 2
EXIT_UNREACHABLE = 3


class CommandError(Exception):
    """Ends the command; the text goes to stderr as it is."""

    exit_code = EXIT_NOT_WELL


class SetupError(CommandError):
    """This machine lacks something: Java, the JVM artifacts, a free port."""


class BadInputError(CommandError):
    """What the user gave cannot be used; nothing was changed."""

    exit_code = EXIT_BAD_INPUT


class UnreachableError(CommandError):
    """The cluster does not answer."""

    exit_code = EXIT_UNREACHABLE
