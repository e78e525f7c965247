"""Finds the plans on record that have not ended, so that other commands can warn of them or refuse to run."""

from __future__ import annotations

from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.reassign import plan_store
from tuner.core.reassignment_plan import DesiredPlanState, Plan


def read_active_plans(settings: Settings) -> tuple[Plan, ...]:
    """Reads the plans that have not ended.

    Raises:
        CommandError: the journal cannot be read.
    """
    return plan_store.read_plans(settings).active


def may_begin_steps(plan: Plan) -> bool:
    """Returns whether a step of the plan runs now, or may begin at any moment."""
    # A paused plan begins no steps, but a step that the tuner has already requested from Kafka still runs.
    return plan.head.desired is not DesiredPlanState.PAUSED or bool(plan.requested)


def describe_active_plans(settings: Settings) -> list[str]:
    """Returns a warning for each active plan, for a command that plans from the current replicas."""
    try:
        plans = read_active_plans(settings)
    except CommandError as error:
        return [f"It is not known whether a plan is active, because the plans cannot be read: {error}"]
    return [
        f"Plan {plan.id}, submitted by {plan.head.submitted_by}, has not ended and moves "
        f"{len(plan.partitions)} partitions: the new plan starts from their current replicas"
        for plan in plans
    ]
