"""Plans on record that have not ended, for commands that should not act beside them."""

from __future__ import annotations

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.reassign import plan_store
from tuner.core.reassignment_plan import DesiredPlanState, Plan


def unfinished(settings: Settings) -> tuple[Plan, ...]:
    """
    Raises:
        CommandError: the journal cannot be read.
    """
    return plan_store.read(settings).active


def may_begin_steps(plan: Plan) -> bool:
    """Whether something of it is under way, or may be at any moment."""
    return plan.head.desired is not DesiredPlanState.PAUSED or bool(plan.requested)


def said_of_unfinished(settings: Settings) -> list[str]:
    """What a person should know who plans by where partitions stand now."""
    try:
        plans = unfinished(settings)
    except CommandError as error:
        return [f"Whether plans are on record that have not ended is not known: {error}"]
    return [
        f"Plan {plan.id}, given by {plan.head.submitted_by}, has not ended and moves "
        f"{len(plan.partitions)} partitions: this one goes by where they stand now"
        for plan in plans
    ]
