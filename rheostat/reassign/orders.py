"""Submits the operator's orders for a plan on record: pause, resume, cancel, or replace its limits.

Each order raises BadInputError if the state of the plan does not allow it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError
from rheostat.reassign import plan_store
from rheostat.reassign.text import limits_text
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead

_NOT_ACKNOWLEDGED = "No tuner has acknowledged the order yet. The next active tuner will apply it."


@dataclass(frozen=True, slots=True)
class OrderResult:
    plan: str
    text: str
    acknowledged: bool


def pause(settings: Settings, plan: Plan) -> OrderResult:
    """Pauses a plan."""
    _check_not_cancelled(plan, "paused")
    text = "paused: running steps finish, and no step begins until `rheostat reassign resume`"
    return _submit(settings, plan, lambda head: replace(head, desired=DesiredPlanState.PAUSED), text)


def resume(settings: Settings, plan: Plan) -> OrderResult:
    """Resumes a plan."""
    _check_not_cancelled(plan, "resumed")
    text = "resumed; it also retries the partitions whose step another tool has cancelled"
    return _submit(settings, plan, lambda head: replace(head, desired=DesiredPlanState.RUNNING), text)


def cancel(settings: Settings, plan: Plan) -> OrderResult:
    """Cancels a plan and rolls it back."""
    _check_active(plan)
    if plan.head.no_rollback:
        raise BadInputError(f"Plan {plan.id} was cancelled with --no-rollback: it can no longer be rolled back.")
    text = (
        "being rolled back: running steps are stopped, partitions on an intermediate step get their original replicas back, "
        "and partitions at their target stay there"
    )
    return _submit(settings, plan, lambda head: replace(head, desired=DesiredPlanState.CANCELLING), text)


def cancel_without_rollback(settings: Settings, plan: Plan) -> OrderResult:
    """Cancels a plan; every partition keeps its current replicas."""
    _check_active(plan)
    text = "cancelled without rollback: running steps are stopped, and partitions keep their current replicas"
    cancelling = DesiredPlanState.CANCELLING
    return _submit(settings, plan, lambda head: replace(head, desired=cancelling, no_rollback=True), text)


def set_limits(settings: Settings, plan: Plan, limits: BatchLimits) -> OrderResult:
    """Replaces the limits of a plan."""
    _check_active(plan)
    # After an order that changes the plan's state, the tuner retries partitions that another tool has stopped. After an order that
    # changes only the limits, it does not.
    return _submit(settings, plan, lambda head: replace(head, limits=limits), limits_text(limits), changes_state=False)


def _check_not_cancelled(plan: Plan, action: str) -> None:
    _check_active(plan)
    if plan.head.desired is DesiredPlanState.CANCELLING:
        state = "ending without rollback" if plan.head.no_rollback else "being rolled back"
        raise BadInputError(
            f"Plan {plan.id} is {state} and cannot be {action}: wait until it has ended, and submit it again."
        )


def _check_active(plan: Plan) -> None:
    if plan.state.ending is not None:
        raise BadInputError(f"Plan {plan.id} has ended ({plan.state.ending.value}) and takes no more orders.")


def _submit(
    settings: Settings, plan: Plan, change: Callable[[PlanHead], PlanHead], text: str, *, changes_state: bool = True
) -> OrderResult:
    """Records the order, and waits until a tuner has acknowledged it.

    Args:
        change: returns the head of the plan (the operator's orders about the plan) with the new order.
        text: the new state of the plan, for the operator.
        changes_state: whether the order changes more than the limits.
    """
    head = plan_store.update_plan(settings, plan, change, changes_state=changes_state)
    text = f"Plan {plan.id}: {text}."
    try:
        acknowledged = plan_store.wait_until_acknowledged(settings, plan.id, head.ordered_at_ms)
    except CommandError as error:
        # An operator who saw only the error would repeat an order that is already on record.
        unknown = f"The order is on record, but it is not known whether a tuner has acknowledged it: {error}"
        return OrderResult(plan.id, f"{text}\n{unknown}", acknowledged=False)
    return OrderResult(plan.id, text if acknowledged else f"{text}\n{_NOT_ACKNOWLEDGED}", acknowledged)
