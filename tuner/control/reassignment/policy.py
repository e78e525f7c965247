"""What the executor of plans does now: which steps it asks for, which it stops, where it has a leader elected, what has ended.

Intuition: KIP-435's controller would make a batch, wait for all of it, and make the next. Here what has ended is refilled with
the next look or within seconds, of all plans together, as the limits are the cluster's: the controller doesn't care whose step
it is busy with.

    paused       nothing is begun; what is under way ends
    cancelling   what is under way and leads away is stopped; parts on an intermediate step go back by steps of their own, those
                 that have arrived stay. Or every part stays where it stands, if that was said
    left         where somebody stopped a step of ours, it is theirs until a person pauses, resumes or cancels the plan

Invariant: what is asked for is within the limits together with what runs, and never twice for one partition. A plan has ended
when every part of it has arrived, is not there any more, or stays where it is as somebody cancelled; not before the last
step of ours is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.control.reassignment.admission import Begun, Bounds, Measures, begin
from tuner.control.reassignment.concurrency_model import PaceMemory
from tuner.control.reassignment.explain import held_up, paces
from tuner.control.reassignment.partition_progress import PartitionProgress, Recent, remembered, stand
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import (
    DesiredPlanState,
    Key,
    Plan,
    PlanEnding,
    PlanPartition,
    ReassignmentSnapshot,
    RequestedStep,
    Tally,
)
from tuner.core.reassignment_steps import ReassignmentStep


@dataclass(frozen=True, slots=True)
class StepConstraints:
    """What a turn keeps to."""

    now_ms: int
    bounds: Bounds = field(default_factory=Bounds)  # The operator's; a plan's own may be stricter.
    paused: str | None = None  # Why no plan goes on; None: plans go on.
    resting: frozenset[Key] = frozenset()  # Failed just now, and tried again later.
    refused: Mapping[Key, str] = field(default_factory=dict)  # Why the last try failed, of what was not taken since.


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """What one life of a tuner knows, and the next does without."""

    plans: Mapping[str, Recent] = field(default_factory=dict)
    pace: PaceMemory = field(default_factory=PaceMemory)


@dataclass(frozen=True, slots=True)
class PlanTurn:
    """``plan`` as it is to be on record before anything of this is done."""

    plan: Plan
    parts: PartitionProgress
    starts: tuple[ReassignmentStep, ...] = ()
    cancels: tuple[Key, ...] = ()
    doubted: frozenset[Key] = frozenset()  # Of the starts: who was refused before may be so again.

    @property
    def begins(self) -> tuple[ReassignmentStep, ...]:
        """What is as good as under way."""
        return tuple(step for step in self.starts if (step.topic, step.partition) not in self.doubted)


@dataclass(frozen=True, slots=True)
class ExecutorStep:
    plans: tuple[PlanTurn, ...]
    memory: ExecutorState
    begun: Begun
    limits: BatchLimits  # The strictest that holds.


def turn(
    plans: Sequence[Plan], look: ReassignmentSnapshot, measures: Measures, memory: ExecutorState, terms: StepConstraints
) -> ExecutorStep:
    """
    Args:
        plans: those that have not ended, the oldest first; no partition is in two of them.
    """
    acknowledged = [_heeded(plan) for plan in plans]
    recent = [memory.plans.get(plan.id, Recent()) for plan in plans]
    stands: list[PartitionProgress] = []
    taken: set[Key] = (
        set()
    )  # Two people may have given the same partition at once: it is the older plan's until that has ended.
    for plan, known in zip(acknowledged, recent, strict=True):
        stands.append(stand(plan, look, known, terms.now_ms, taken))
        taken |= plan.parts.keys()
    goes_on = [terms.paused is None and plan.head.wanted is not DesiredPlanState.PAUSED for plan in acknowledged]
    bounds = replace(terms.bounds, batch=strictest([terms.bounds.batch, *(plan.head.limits for plan in acknowledged)]))
    begun = begin(
        list(zip(acknowledged, stands, goes_on, strict=True)),
        look,
        measures,
        memory.pace,
        bounds,
        terms.now_ms,
        terms.resting,
    )
    steps = {(start.step.topic, start.step.partition): start.step for start in begun.refill.starts}
    made = tuple(
        _made(plan, parts, known, tuple(steps[key] for key in steps if key in parts.ready), begun, look, terms)
        for plan, parts, known in zip(acknowledged, stands, recent, strict=True)
    )
    after = {
        plan.id: remembered(parts, known, terms.now_ms)
        for plan, parts, known in zip(acknowledged, stands, recent, strict=True)
    }
    return ExecutorStep(made, ExecutorState(after, begun.paced.memory), begun, bounds.batch)


def _tally(plan: Plan, parts: PartitionProgress, look: ReassignmentSnapshot) -> Tally:
    total = copied = 0.0
    at_target = 0
    for key, part in plan.parts.items():
        now = None if key in parts.dropped else look.partitions.get(key)
        added = {*part.target} - {*part.before}
        total += len(added) * part.size_bytes
        copied += 0.0 if now is None else len(added & {*now.replicas}) * part.size_bytes
        at_target += now is not None and now.replicas == part.target
    return Tally(len(plan.parts), at_target, total, copied)


def strictest(limits: Sequence[BatchLimits]) -> BatchLimits:
    return BatchLimits(
        min(each.leader_movements_max for each in limits),
        min(each.partition_movements_max for each in limits),
        min(each.replica_movements_max for each in limits),
    )


def _heeded(plan: Plan) -> Plan:
    """With the newest word about it, which also ends that parts are left alone, if it is not about the limits."""
    state, head = plan.state, plan.head
    if state.acknowledged_at_ms >= head.at_ms:
        return plan
    left = {} if head.course_at_ms > state.acknowledged_at_ms else state.left
    paused_at_ms, rested_ms = state.paused_at_ms, state.rested_ms
    if head.wanted is DesiredPlanState.PAUSED:
        paused_at_ms = paused_at_ms or head.course_at_ms
    elif paused_at_ms:
        paused_at_ms, rested_ms = 0, rested_ms + max(0, head.course_at_ms - paused_at_ms)
    return replace(
        plan,
        state=replace(state, acknowledged_at_ms=head.at_ms, left=left, paused_at_ms=paused_at_ms, rested_ms=rested_ms),
    )


def _is_to_stop(step: ReassignmentStep, plan: Plan, part: PlanPartition) -> bool:
    """Of a cancelled plan: a step that brings a part back is what was asked for."""
    goal = {*plan.goal(part)}
    return plan.head.leaves or not goal >= {*step.adding} or bool(goal & {*step.dropping})


def _made(
    plan: Plan,
    parts: PartitionProgress,
    known: Recent,
    starts: tuple[ReassignmentStep, ...],
    begun: Begun,
    look: ReassignmentSnapshot,
    terms: StepConstraints,
) -> PlanTurn:
    cancels: tuple[Key, ...] = ()
    if plan.head.wanted is DesiredPlanState.CANCELLING and terms.paused is None:
        cancels = tuple(
            key
            for key, step in parts.running.items()
            if key not in terms.resting and _is_to_stop(step, plan, plan.parts[key])
        )
    over = {*parts.reached, *parts.never_taken, *parts.put_back, *parts.left, *parts.dropped}
    asked = {
        key: a for key, a in plan.asked.items() if key in plan.parts and key not in over and key not in parts.foreign
    }
    asked |= {key: replace(asked[key], cancels=True) for key in cancels}
    for step in starts:
        key = (step.topic, step.partition)
        asked[key] = RequestedStep(step.replicas, parts.ready[key].replicas, step.moves_leader, step.elect)
    unsettled = parts.running or parts.ready or parts.to_elect or parts.unclear or parts.foreign or parts.left
    state = replace(
        plan.state,
        dropped=parts.dropped,
        left=parts.left,
        said=held_up(plan, parts, begun.refill, terms.paused, terms.refused),
        pace=paces(begun.paced),
    )
    if not unsettled:
        cancelled = plan.head.wanted is DesiredPlanState.CANCELLING
        state = replace(
            state,
            ending=PlanEnding.CANCELLED if cancelled else PlanEnding.DONE,
            ended_at_ms=terms.now_ms,
            tally=_tally(plan, parts, look),
        )
    # A large plan finds others to try each time: where none was taken, nobody knows that these will be.
    starting = frozenset((step.topic, step.partition) for step in starts)
    doubted = starting if known.refused else starting.intersection(terms.refused)
    return PlanTurn(replace(plan, asked=asked, state=state), parts, starts, cancels, doubted)
