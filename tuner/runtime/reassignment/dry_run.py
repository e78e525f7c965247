"""What the executor of plans would do, said by a tuner that does nothing."""

from __future__ import annotations

import structlog

from streaming.shared.short_lists import join_names
from tuner.control.reassignment.policy import ExecutorDecision, PlanDecision
from tuner.core.reassignment_plan import DesiredPlanState

log = structlog.get_logger("tuner")

EVERY_S = 30.0  # Nothing waits for it.
_STEPS_NAMED = 5


class DryRunReassignments:
    """Of each plan what it would begin with, once for every word about it."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[int, DesiredPlanState]] = {}  # By plan: the word, and when it was given.

    def log_decision(self, made: ExecutorDecision) -> None:
        known = {each.plan.id for each in made.plans}
        self._said = {plan: word for plan, word in self._said.items() if plan in known}
        for each in made.plans:
            word = (each.plan.head.ordered_at_ms, each.plan.head.desired)
            if self._said.get(each.plan.id) != word:
                self._said[each.plan.id] = word
                log.info(describe_start(each), action="reassign", dry_run=True)


def describe_start(made: PlanDecision) -> str:
    plan, parts = made.plan, made.progress
    head = (
        f"plan {plan.id} ({plan.head.desired.value}, {len(parts.arrived)} of {len(plan.partitions)} partitions arrived)"
    )
    steps = [f"{step.topic}-{step.partition} to {list(step.replicas)}" for step in made.starts]
    said = (
        [f"would begin {len(made.starts)} steps: {join_names(steps, _STEPS_NAMED)}"]
        if steps
        else ["would begin nothing now"]
    )
    said += [f"would stop {len(made.cancels)} under way"] if made.cancels else []
    return f"a dry run executes no plans: {head}: {'; '.join([*said, *plan.state.blockers])}"
