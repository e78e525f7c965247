"""Handles Ctrl-C while a plan is watched: leaves the plan running, pauses it, or cancels it. Without a terminal, it keeps
running."""

from __future__ import annotations

import sys

from rheostat.config.settings import Settings
from rheostat.console.output import tell
from rheostat.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_NOT_ACKNOWLEDGED
from rheostat.reassign import plan_store
from rheostat.reassign.orders import cancel, pause
from rheostat.reassign.view import print_line


def handle_interrupt(settings: Settings, plan_id: str, *, standalone: bool) -> int | None:
    """Asks the operator what to do with the plan, and submits the order.

    Args:
        standalone: the tuner that executes the plan runs in this command and ends with the command.

    Returns:
        The exit code; None if the command continues to watch, until the order is carried out or the ended plan is shown.
    """
    answer = _ask(standalone) if sys.stdin.isatty() and sys.stderr.isatty() else "l"
    if answer not in ("p", "c"):
        return leave_running(plan_id, standalone=standalone)
    plan = plan_store.read_plans(settings).find(plan_id)
    if not plan.is_active:
        return None
    result = pause(settings, plan) if answer == "p" else cancel(settings, plan)
    print_line(result.text)
    if standalone:
        return None
    return EXIT_DONE if result.acknowledged else EXIT_NOT_ACKNOWLEDGED


def leave_running(plan_id: str, *, standalone: bool) -> int:
    """Tells the operator what happens to the plan from now on, and returns the exit code. No order is submitted."""
    print_line(
        f"Plan {plan_id} stays on record. The steps that Kafka runs now continue with their throttles. The next active "
        f"tuner (`rheostat run`) continues the plan, or rolls it back after `rheostat reassign cancel {plan_id}`."
        if standalone
        else f"Plan {plan_id} continues in the tuner: see `rheostat reassign status {plan_id}`, or use pause or cancel."
    )
    return EXIT_INTERRUPTED


def _ask(standalone: bool) -> str:
    leave_to_next = "The tuner ends with this command. Leave the plan to the next tuner (l)"
    leave = leave_to_next if standalone else "Leave the plan running (l)"
    tell(f"{leave}, pause it (p), or cancel it and roll back (c)? [l] ", end="")
    try:
        return sys.stdin.readline().strip().lower()[:1]
    except KeyboardInterrupt:
        tell("")
        return "l"
