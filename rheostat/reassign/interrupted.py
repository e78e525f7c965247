"""Ctrl-C while a plan is watched: what shall become of it? Without somebody to ask it goes on."""

from __future__ import annotations

import sys

from rheostat.config.settings import Settings
from rheostat.console.output import tell
from rheostat.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_NOT_ACKNOWLEDGED
from rheostat.reassign import plan_store
from rheostat.reassign.orders import cancel, pause
from rheostat.reassign.view import say


def interrupted(settings: Settings, plan: str, *, here: bool) -> int | None:
    """Returns the exit code; None: it is to be watched further, until what was answered is so, or as it has ended by now.

    Args:
        here: the tuner that executes the plan is ours, and ends with this command.
    """
    word = _answer(here) if sys.stdin.isatty() and sys.stderr.isatty() else "l"
    if word not in ("p", "c"):
        return left(plan, here=here)
    known = plan_store.read(settings).of(plan)
    if not known.is_active:
        return None
    said = pause(settings, known) if word == "p" else cancel(settings, known)
    say(said.text)
    if here:
        return None
    return EXIT_DONE if said.acknowledged else EXIT_NOT_ACKNOWLEDGED


def left(plan: str, *, here: bool) -> int:
    """Nothing is said about the plan; returns the exit code."""
    say(
        f"Plan {plan} stays on record, and what is under way at Kafka goes on, with the throttles that it has. The next tuner that "
        f"acts (`rheostat run`) goes on with it; `rheostat reassign cancel {plan}` has it put back then."
        if here
        else f"Plan {plan} goes on, executed by the tuner: `rheostat reassign status {plan}`, pause, or cancel."
    )
    return EXIT_INTERRUPTED


def _answer(here: bool) -> str:
    leave = "The tuner here ends with this command. Leave it to the next one (l)" if here else "Leave it running (l)"
    question = f"{leave}, pause it (p), or cancel it and put back (c)? [l] "
    tell(question, end="")
    try:
        return sys.stdin.readline().strip().lower()[:1]
    except KeyboardInterrupt:
        tell("")
        return "l"
