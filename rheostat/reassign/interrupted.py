"""Ctrl-C while a plan is watched: what shall become of it? Without somebody to ask it goes on."""

from __future__ import annotations

import sys

from rheostat.reassign import record
from rheostat.reassign.say import cancel, pause
from rheostat.settings import Settings

EXIT_INTERRUPTED = 130


def interrupted(settings: Settings, plan: str, *, here: bool) -> int:
    """Returns the exit code.

    Args:
        here: the tuner that executes the plan is ours, and ends with this command.
    """
    left = (
        f"Plan {plan} stays on record; it goes on with the next tuner that acts (`rheostat run`), or "
        if here
        else f"Plan {plan} goes on, executed by the tuner: `rheostat reassign status {plan}`, pause, or cancel. "
    )
    if here:
        left += f"`rheostat reassign cancel {plan}` ends it."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _say(left.strip())
        return EXIT_INTERRUPTED
    match _answer():
        case "p" | "c" as word:
            known = record.read(settings).of(plan)
            said = pause(settings, known) if word == "p" else cancel(settings, known)
            _say(said.text)
            if not here:
                return 0
            _say(
                "The tuner that would do it ends with this command: the next that acts (`rheostat run`) goes on with that."
            )
            return EXIT_INTERRUPTED
        case _:
            _say(left.strip())
            return EXIT_INTERRUPTED


def _answer() -> str:
    sys.stderr.write("\nLeave it running (l), pause it (p), or cancel it and put back (c)? [l] ")
    sys.stderr.flush()
    try:
        return sys.stdin.readline().strip().lower()[:1]
    except KeyboardInterrupt:
        return "l"


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
