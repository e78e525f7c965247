"""The one question that commands ask before they change something dangerous."""

from __future__ import annotations

import sys
import termios
from collections.abc import Sequence

from rheostat.console.output import tell
from rheostat.errors import NotConfirmedError


def check_can_confirm(*, yes: bool) -> None:
    """Checks early, before slow work, that ``confirm`` can get an answer.

    Args:
        yes: ``--yes`` was given.

    Raises:
        NotConfirmedError: without ``--yes`` there is no terminal to ask on.
    """
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmedError(
            "This needs a confirmation, and there is no terminal to ask on: give --yes. Nothing was changed."
        )


def confirm(changes: Sequence[str], *, yes: bool, word: str | None = None) -> None:
    """Shows on stderr what the command is about to change, and returns once the operator agrees.

    Args:
        changes: one line for each: what, from what, to what, on which brokers.
        yes: ``--yes`` was given: the changes are shown and nothing is asked.
        word: what the operator has to type instead of ``y``, for what should not be agreed to by habit.

    Raises:
        NotConfirmedError: the operator did not agree, or there is no terminal to ask on.
    """
    for line in changes:
        tell(line)
    check_can_confirm(yes=yes)
    if yes:
        return
    if sys.stdin.isatty():  # What was typed before the question is no answer to it.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    tell("Continue? [y/N] " if word is None else f"Type {word} to continue: ", end="")
    if sys.stdin.readline().strip().lower() not in (("y", "yes") if word is None else (word,)):
        raise NotConfirmedError("Not confirmed. Nothing was changed.")
