"""Logs the steps that the plan executor would begin, for a tuner in a dry run."""

from __future__ import annotations

import structlog

from streaming.shared.short_lists import join_names
from tuner.control.reassignment.policy import ExecutorDecision, PlanDecision
from tuner.core.reassignment_plan import DesiredPlanState

log = structlog.get_logger("tuner")

EVERY_S = 30.0  # Nothing depends on these log lines, so they need no faster cycle.
_STEPS_NAMED = 5


class DryRunReassignments:
    """Logs the first steps that the executor would begin, once for each order of a plan."""

    def __init__(self) -> None:
        # By plan id: time and content of the last order logged.
        self._logged: dict[str, tuple[int, DesiredPlanState]] = {}

    def log_decision(self, decision: ExecutorDecision) -> None:
        known = {plan_decision.plan.id for plan_decision in decision.plans}
        self._logged = {plan_id: order for plan_id, order in self._logged.items() if plan_id in known}
        for plan_decision in decision.plans:
            head = plan_decision.plan.head
            order = (head.ordered_at_ms, head.desired)
            if self._logged.get(plan_decision.plan.id) != order:
                self._logged[plan_decision.plan.id] = order
                log.info(describe_start(plan_decision), action="reassign", dry_run=True)


def describe_start(decision: PlanDecision) -> str:
    """Returns one line: the plan, its progress, the steps that would begin and stop now, and its blockers."""
    plan = decision.plan
    arrived = f"{len(decision.progress.arrived)} of {len(plan.partitions)} partitions arrived"
    steps = [f"{step.topic}-{step.partition} to {list(step.replicas)}" for step in decision.starts]
    texts = [
        f"would begin {len(steps)} steps: {join_names(steps, _STEPS_NAMED)}" if steps else "would begin nothing now"
    ]
    if decision.cancels:
        texts.append(f"would stop {len(decision.cancels)} running steps")
    texts += plan.state.blockers
    return f"a dry run executes no plans: plan {plan.id} ({plan.head.desired.value}, {arrived}): {'; '.join(texts)}"
