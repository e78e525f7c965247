"""`rheostat reassign pause | resume | cancel | limits`: a person's word about a plan on record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError
from rheostat.reassign import plan_store
from rheostat.reassign.text import limits_text
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead

_NOBODY = "No tuner has acknowledged it yet: none runs, or it is between two lives. The next that acts begins with it."


@dataclass(frozen=True, slots=True)
class OrderResult:
    plan: str
    text: str
    acknowledged: bool


def pause(settings: Settings, plan: Plan) -> OrderResult:
    """
    Raises:
        BadInputError: it is being put back, or has ended.
    """
    _goes_forward(plan, "paused")
    return _say(
        settings,
        plan,
        lambda head: replace(head, desired=DesiredPlanState.PAUSED),
        "paused: what is under way ends, and nothing new is begun until `rheostat reassign resume`",
    )


def resume(settings: Settings, plan: Plan) -> OrderResult:
    """
    Raises:
        BadInputError: it is being put back, or has ended.
    """
    _goes_forward(plan, "resumed")
    return _say(
        settings,
        plan,
        lambda head: replace(head, desired=DesiredPlanState.RUNNING),
        "resumed; also parts that were left alone, because somebody had stopped their step",
    )


def cancel(settings: Settings, plan: Plan) -> OrderResult:
    _still_runs(plan)
    if plan.head.no_rollback:
        raise BadInputError(f"plan {plan.id} was cancelled with --no-rollback: nothing of it is put back")
    return _say(
        settings,
        plan,
        lambda head: replace(head, desired=DesiredPlanState.CANCELLING),
        "being put back: steps under way are stopped, partitions on an intermediate step go back to the replicas that stood "
        "before, those that have arrived stay",
    )


def leave(settings: Settings, plan: Plan) -> OrderResult:
    _still_runs(plan)
    return _say(
        settings,
        plan,
        lambda head: replace(head, desired=DesiredPlanState.CANCELLING, no_rollback=True),
        "ends where it stands: steps under way are stopped, and nothing is put back",
    )


def set_limits(settings: Settings, plan: Plan, limits: BatchLimits) -> OrderResult:
    _still_runs(plan)
    return _say(settings, plan, lambda head: replace(head, limits=limits), limits_text(limits), on_course=False)


def _goes_forward(plan: Plan, word: str) -> None:
    _still_runs(plan)
    if plan.head.desired is DesiredPlanState.CANCELLING:
        goes = "ending where it stands" if plan.head.no_rollback else "being put back"
        raise BadInputError(f"plan {plan.id} is {goes}, and can't be {word}: wait until it is, and give it again")


def _still_runs(plan: Plan) -> None:
    if plan.state.ending is not None:
        raise BadInputError(
            f"plan {plan.id} has ended ({plan.state.ending.value}): there is nothing to be said about it"
        )


def _say(
    settings: Settings, plan: Plan, change: Callable[[PlanHead], PlanHead], text: str, *, on_course: bool = True
) -> OrderResult:
    head = plan_store.say(settings, plan, change, on_course=on_course)
    said = f"Plan {plan.id}: {text}."
    try:
        acknowledged = plan_store.acknowledged(settings, plan.id, head.ordered_at_ms)
    except CommandError as error:
        # Who is told nothing but that would say it again.
        return OrderResult(
            plan.id, f"{said}\nIt is on record, and not known whether a tuner has acknowledged it: {error}", False
        )
    return OrderResult(plan.id, said if acknowledged else f"{said}\n{_NOBODY}", acknowledged)
