"""Asks the operator to confirm a dangerous change."""

from __future__ import annotations

import sys
import termios
from collections.abc import Sequence

from rheostat.console.output import tell
from rheostat.errors import NotConfirmedError


def check_can_confirm(*, yes: bool) -> None:
    """Checks before slow work that ``confirm`` can get an answer.

    Args:
        yes: whether ``--yes`` was given.

    Raises:
        NotConfirmedError: neither ``--yes`` nor a terminal is available.
    """
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmedError(
            "This needs a confirmation, and there is no terminal to ask on: give --yes. Nothing was changed."
        )


def confirm(changes: Sequence[str], *, yes: bool, word: str | None = None) -> None:
    """Shows the planned changes on stderr, and returns once the operator agrees.

    Args:
        changes: a line for each change: setting, old value, new value, brokers.
        yes: whether ``--yes`` was given: the changes are shown without a question.
        word: the word to type instead of ``y``, for changes that should not be confirmed by habit.

    Raises:
        NotConfirmedError: the operator did not agree, or there is no terminal to ask on.
    """
    for line in changes:
        tell(line)
    check_can_confirm(yes=yes)
    if yes:
        return
    if sys.stdin.isatty():  # Input typed before the question is not an answer.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    question = "Continue? [y/N] " if word is None else f"Type {word} to continue: "
    accepted = ["y", "yes"] if word is None else [word]
    tell(question, end="")
    if sys.stdin.readline().strip().lower() not in accepted:
        raise NotConfirmedError("Not confirmed. Nothing was changed.")
