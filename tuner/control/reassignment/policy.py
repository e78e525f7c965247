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

from tuner.control.reassignment.admission import Admission, ClusterMeasurements, OperatorLimits, admit
from tuner.control.reassignment.concurrency_model import ConcurrencyState
from tuner.control.reassignment.explain import concurrency_text, find_blockers
from tuner.control.reassignment.partition_progress import (
    PartitionProgress,
    PlanMemory,
    classify_partitions,
    update_memory,
)
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import (
    DesiredPlanState,
    Plan,
    PlanEnding,
    PlanPartition,
    PlanResult,
    ReassignmentSnapshot,
    RequestedStep,
    TopicPartition,
)
from tuner.core.reassignment_steps import ReassignmentStep


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """What a turn keeps to."""

    now_ms: int
    limits: OperatorLimits = field(default_factory=OperatorLimits)  # The operator's; a plan's own may be stricter.
    pause_reason: str | None = None  # Why no plan goes on; None: plans go on.
    backing_off: frozenset[TopicPartition] = frozenset()  # Failed just now, and tried again later.
    refusals: Mapping[TopicPartition, str] = field(
        default_factory=dict
    )  # Why the last try failed, of what was not taken since.


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """What one life of a tuner knows, and the next does without."""

    plans: Mapping[str, PlanMemory] = field(default_factory=dict)
    concurrency: ConcurrencyState = field(default_factory=ConcurrencyState)


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """``plan`` as it is to be on record before anything of this is done."""

    plan: Plan
    progress: PartitionProgress
    starts: tuple[ReassignmentStep, ...] = ()
    cancels: tuple[TopicPartition, ...] = ()
    unlikely_starts: frozenset[TopicPartition] = frozenset()  # Of the starts: who was refused before may be so again.

    @property
    def likely_starts(self) -> tuple[ReassignmentStep, ...]:
        """What is as good as under way."""
        return tuple(decide for decide in self.starts if (decide.topic, decide.partition) not in self.unlikely_starts)


@dataclass(frozen=True, slots=True)
class ExecutorDecision:
    plans: tuple[PlanDecision, ...]
    state: ExecutorState
    admission: Admission
    limits: BatchLimits  # The strictest that holds.


def decide(
    plans: Sequence[Plan],
    look: ReassignmentSnapshot,
    measures: ClusterMeasurements,
    memory: ExecutorState,
    terms: ExecutorContext,
) -> ExecutorDecision:
    """
    Args:
        plans: those that have not ended, the oldest first; no partition is in two of them.
    """
    acknowledged = [_acknowledge(plan) for plan in plans]
    recent = [memory.plans.get(plan.id, PlanMemory()) for plan in plans]
    stands: list[PartitionProgress] = []
    taken: set[TopicPartition] = (
        set()
    )  # Two people may have given the same partition at once: it is the older plan's until that has ended.
    for plan, known in zip(acknowledged, recent, strict=True):
        stands.append(classify_partitions(plan, look, known, terms.now_ms, taken))
        taken |= plan.partitions.keys()
    goes_on = [terms.pause_reason is None and plan.head.desired is not DesiredPlanState.PAUSED for plan in acknowledged]
    bounds = replace(terms.limits, batch=strictest([terms.limits.batch, *(plan.head.limits for plan in acknowledged)]))
    begun = admit(
        list(zip(acknowledged, stands, goes_on, strict=True)),
        look,
        measures,
        memory.concurrency,
        bounds,
        terms.now_ms,
        terms.backing_off,
    )
    steps = {(start.step.topic, start.step.partition): start.step for start in begun.schedule.starts}
    made = tuple(
        _decide_plan(plan, parts, known, tuple(steps[key] for key in steps if key in parts.ready), begun, look, terms)
        for plan, parts, known in zip(acknowledged, stands, recent, strict=True)
    )
    after = {
        plan.id: update_memory(parts, known, terms.now_ms)
        for plan, parts, known in zip(acknowledged, stands, recent, strict=True)
    }
    return ExecutorDecision(made, ExecutorState(after, begun.concurrency.state), begun, bounds.batch)


def _result(plan: Plan, parts: PartitionProgress, look: ReassignmentSnapshot) -> PlanResult:
    total = copied = 0.0
    at_target = 0
    for key, part in plan.partitions.items():
        now = None if key in parts.dropped else look.partitions.get(key)
        added = {*part.target} - {*part.original_replicas}
        total += len(added) * part.size_bytes
        copied += 0.0 if now is None else len(added & {*now.replicas}) * part.size_bytes
        at_target += now is not None and now.replicas == part.target
    return PlanResult(len(plan.partitions), at_target, total, copied)


def strictest(limits: Sequence[BatchLimits]) -> BatchLimits:
    return BatchLimits(
        min(each.leader_movements_max for each in limits),
        min(each.partition_movements_max for each in limits),
        min(each.replica_movements_max for each in limits),
    )


def _acknowledge(plan: Plan) -> Plan:
    """With the newest word about it, which also ends that parts are left alone, if it is not about the limits."""
    state, head = plan.state, plan.head
    if state.acknowledged_at_ms >= head.ordered_at_ms:
        return plan
    left = {} if head.state_ordered_at_ms > state.acknowledged_at_ms else state.stopped_externally
    paused_at_ms, rested_ms = state.paused_since_ms, state.paused_total_ms
    if head.desired is DesiredPlanState.PAUSED:
        paused_at_ms = paused_at_ms or head.state_ordered_at_ms
    elif paused_at_ms:
        paused_at_ms, rested_ms = 0, rested_ms + max(0, head.state_ordered_at_ms - paused_at_ms)
    return replace(
        plan,
        state=replace(
            state,
            acknowledged_at_ms=head.ordered_at_ms,
            stopped_externally=left,
            paused_since_ms=paused_at_ms,
            paused_total_ms=rested_ms,
        ),
    )


def _must_stop(step: ReassignmentStep, plan: Plan, part: PlanPartition) -> bool:
    """Of a cancelled plan: a step that brings a part back is what was asked for."""
    goal = {*plan.goal(part)}
    return plan.head.no_rollback or not goal >= {*step.adding} or bool(goal & {*step.dropping})


def _decide_plan(
    plan: Plan,
    parts: PartitionProgress,
    known: PlanMemory,
    starts: tuple[ReassignmentStep, ...],
    begun: Admission,
    look: ReassignmentSnapshot,
    terms: ExecutorContext,
) -> PlanDecision:
    cancels: tuple[TopicPartition, ...] = ()
    if plan.head.desired is DesiredPlanState.CANCELLING and terms.pause_reason is None:
        cancels = tuple(
            key
            for key, decide in parts.running.items()
            if key not in terms.backing_off and _must_stop(decide, plan, plan.partitions[key])
        )
    over = {*parts.reached, *parts.never_accepted, *parts.rolled_back, *parts.stopped_externally, *parts.dropped}
    asked = {
        key: a
        for key, a in plan.requested.items()
        if key in plan.partitions and key not in over and key not in parts.externally_reassigned
    }
    asked |= {key: replace(asked[key], cancel_requested=True) for key in cancels}
    for decide in starts:
        key = (decide.topic, decide.partition)
        asked[key] = RequestedStep(
            decide.replicas, parts.ready[key].replicas, decide.moves_leader, decide.needs_election
        )
    unsettled = (
        parts.running
        or parts.ready
        or parts.to_elect
        or parts.unconfirmed
        or parts.externally_reassigned
        or parts.stopped_externally
    )
    state = replace(
        plan.state,
        dropped=parts.dropped,
        stopped_externally=parts.stopped_externally,
        blockers=find_blockers(plan, parts, begun.schedule, terms.pause_reason, terms.refusals),
        concurrency=concurrency_text(begun.concurrency),
    )
    if not unsettled:
        cancelled = plan.head.desired is DesiredPlanState.CANCELLING
        state = replace(
            state,
            ending=PlanEnding.CANCELLED if cancelled else PlanEnding.DONE,
            ended_at_ms=terms.now_ms,
            result=_result(plan, parts, look),
        )
    # A large plan finds others to try each time: where none was taken, nobody knows that these will be.
    starting = frozenset((decide.topic, decide.partition) for decide in starts)
    doubted = starting if known.all_refused else starting.intersection(terms.refusals)
    return PlanDecision(replace(plan, requested=asked, state=state), parts, starts, cancels, doubted)
