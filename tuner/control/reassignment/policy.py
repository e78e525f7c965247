"""Makes the decisions of one executor step: which reassignment steps to request or stop, which leaders to elect, which plans end.

In KIP-435 a whole batch must end before the next batch starts. Here, each snapshot replaces the steps that have ended with new
ones. The new steps are taken from all plans together, because the limits apply to the whole cluster.

Desired state of a plan:
    running      steps start, but none before ``not_before_ms``
    paused       no new step starts; steps under way continue to their end
    cancelling   steps that lead away from the original replicas are stopped. Partitions between original and target are moved back
                 with new steps; partitions at their target stay. With ``no_rollback`` every partition stays where it is

Cordons (KIP-1066): no step adds a replica on a cordoned broker, and a step that does so is stopped once its target is cordoned. A
plan that orders cordons begins no step before they are in place.

If another tool stops a step, its partition is left alone until an operator pauses, resumes or cancels the plan.

Invariant: requested and running steps together stay within the limits, and no partition has two steps. A plan ends when every
partition has arrived, is gone, or stays because of a cancel, and no step of the plan is under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.control.reassignment.admission import Admission, ClusterMeasurements, OperatorLimits, admit
from tuner.control.reassignment.concurrency_model import ConcurrencyState
from tuner.control.reassignment.cordon_text import cordon_texts, left_texts, partitions_by_cordoned_target
from tuner.control.reassignment.explain import concurrency_text, find_blockers
from tuner.control.reassignment.partition_progress import (
    PartitionProgress,
    PlanMemory,
    classify_partitions,
    update_memory,
)
from tuner.core.batch_limits import BatchLimits
from tuner.core.cordon_state import CordonState
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
from tuner.core.vetoes import Veto


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """Limits and recent failures that a decision respects.

    Attributes:
        limits: the operator's limits over all plans. A plan may have stricter limits of its own.
        pause_reason: why no plan starts steps; None: plans continue.
        vetoes: external checks that veto now: only steps for partitions below min.insync.replicas start.
        backing_off: partitions whose last request failed and that are retried later.
        refusals: why the last request for a partition failed.
        cordons: brokers that take no replicas, and ordered cordons that are not in place yet.
    """

    now_ms: int
    limits: OperatorLimits = field(default_factory=OperatorLimits)
    pause_reason: str | None = None
    backing_off: frozenset[TopicPartition] = frozenset()
    refusals: Mapping[TopicPartition, str] = field(default_factory=dict)
    cordons: CordonState = field(default_factory=CordonState)
    vetoes: tuple[Veto, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """State of one leadership term. It is not stored: the next term begins with an empty state."""

    plans: Mapping[str, PlanMemory] = field(default_factory=dict)
    concurrency: ConcurrencyState = field(default_factory=ConcurrencyState)


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The decision for one plan.

    Attributes:
        plan: the plan as it is written to the journal before anything is requested.
        cancels: partitions whose step is stopped.
        unlikely_starts: starts that Kafka will probably refuse again.
        cordoned_targets: cordoned brokers that hold back steps.
    """

    plan: Plan
    progress: PartitionProgress
    starts: tuple[ReassignmentStep, ...] = ()
    cancels: tuple[TopicPartition, ...] = ()
    unlikely_starts: frozenset[TopicPartition] = frozenset()
    cordoned_targets: frozenset[int] = frozenset()

    @property
    def likely_starts(self) -> tuple[ReassignmentStep, ...]:
        """The starts that Kafka will probably accept."""
        return tuple(step for step in self.starts if (step.topic, step.partition) not in self.unlikely_starts)


@dataclass(frozen=True, slots=True)
class ExecutorDecision:
    """The decisions for all plans; ``limits`` has the lowest value of each limit that the operator or a plan sets."""

    plans: tuple[PlanDecision, ...]
    state: ExecutorState
    admission: Admission
    limits: BatchLimits


def decide(
    plans: Sequence[Plan],
    snapshot: ReassignmentSnapshot,
    measurements: ClusterMeasurements,
    state: ExecutorState,
    context: ExecutorContext,
) -> ExecutorDecision:
    """Returns what the executor does now.

    Args:
        plans: plans that have not ended, the oldest first.
    """
    plans = [_acknowledge(plan) for plan in plans]
    memories = [state.plans.get(plan.id, PlanMemory()) for plan in plans]
    progresses: list[PartitionProgress] = []
    # If two operators submit the same partition at once, it belongs to the older plan until that plan has ended.
    taken: set[TopicPartition] = set()
    for plan, memory in zip(plans, memories, strict=True):
        progresses.append(classify_partitions(plan, snapshot, memory, context.now_ms, taken))
        taken |= plan.partitions.keys()
    may_start = [
        context.pause_reason is None
        and plan.head.may_start_steps(context.now_ms)
        and (plan.head.desired is DesiredPlanState.CANCELLING or context.cordons.wait_text(plan.head) is None)
        for plan in plans
    ]
    batch = strictest_limits([context.limits.batch, *(plan.head.limits for plan in plans)])
    admissible = [_without_vetoed_steps(progress, context) for progress in progresses]
    admission = admit(
        list(zip(plans, admissible, may_start, strict=True)),
        snapshot,
        measurements,
        state.concurrency,
        replace(context.limits, batch=batch),
        context.now_ms,
        context.backing_off,
        context.cordons.cordoned,
    )
    steps = {(start.step.topic, start.step.partition): start.step for start in admission.schedule.starts}
    decisions = []
    for plan, progress, memory in zip(plans, progresses, memories, strict=True):
        starts = tuple(step for key, step in steps.items() if key in progress.ready)
        decisions.append(_decide_plan(plan, progress, memory, starts, admission, snapshot, context))
    memories_after = {
        plan.id: update_memory(progress, memory, context.now_ms)
        for plan, progress, memory in zip(plans, progresses, memories, strict=True)
    }
    return ExecutorDecision(
        tuple(decisions), ExecutorState(memories_after, admission.concurrency.state), admission, batch
    )


def strictest_limits(limits: Sequence[BatchLimits]) -> BatchLimits:
    """Returns the lowest value of each limit."""
    return BatchLimits(
        leader_movements_max=min(batch.leader_movements_max for batch in limits),
        partition_movements_max=min(batch.partition_movements_max for batch in limits),
        replica_movements_max=min(batch.replica_movements_max for batch in limits),
    )


def _without_vetoed_steps(progress: PartitionProgress, context: ExecutorContext) -> PartitionProgress:
    """Returns the progress with the partitions whose step a veto does not hold: all, or those that refuse writes until the step."""
    if not context.vetoes:
        return progress
    urgent = {key: transition for key, transition in progress.ready.items() if transition.is_below_min_in_sync}
    return replace(progress, ready=urgent)


def _acknowledge(plan: Plan) -> Plan:
    """Returns the plan with the operator's newest order acknowledged.

    An order that only changes limits keeps ``stopped_externally``. Any other order clears it, so that these partitions move again.
    """
    state, head = plan.state, plan.head
    if state.acknowledged_at_ms >= head.ordered_at_ms:
        return plan
    stopped = {} if head.state_ordered_at_ms > state.acknowledged_at_ms else state.stopped_externally
    paused_since_ms, paused_total_ms = state.paused_since_ms, state.paused_total_ms
    if head.desired is DesiredPlanState.PAUSED:
        paused_since_ms = paused_since_ms or head.state_ordered_at_ms
    elif paused_since_ms:
        # The time before the planned start is no part of the move, so a pause in that time does not count.
        paused_total_ms += max(0, head.state_ordered_at_ms - max(paused_since_ms, head.not_before_ms))
        paused_since_ms = 0
    acknowledged = replace(
        state,
        acknowledged_at_ms=head.ordered_at_ms,
        stopped_externally=stopped,
        paused_since_ms=paused_since_ms,
        paused_total_ms=paused_total_ms,
    )
    return replace(plan, state=acknowledged)


def _decide_plan(
    plan: Plan,
    progress: PartitionProgress,
    memory: PlanMemory,
    starts: tuple[ReassignmentStep, ...],
    admission: Admission,
    snapshot: ReassignmentSnapshot,
    context: ExecutorContext,
) -> PlanDecision:
    cancels = _steps_to_stop(plan, progress, context)
    held_by_broker = partitions_by_cordoned_target(progress, context.cordons.cordoned)
    requested = _requested_steps(plan, progress, starts, cancels)
    state = replace(
        plan.state,
        dropped=progress.dropped,
        stopped_externally=progress.stopped_externally,
        blockers=(
            *find_blockers(plan, progress, admission.schedule, context.pause_reason, context.refusals, context.vetoes),
            *cordon_texts(plan, held_by_broker, context.cordons, context.now_ms),
        ),
        concurrency=concurrency_text(admission.concurrency),
    )
    if not _has_open_partitions(progress):
        cancelled = plan.head.desired is DesiredPlanState.CANCELLING
        state = replace(
            state,
            ending=PlanEnding.CANCELLED if cancelled else PlanEnding.DONE,
            ended_at_ms=context.now_ms,
            result=_result(plan, progress, snapshot),
            blockers=(*state.blockers, *(() if cancelled else left_texts(plan, snapshot))),
        )
    # A large plan requests other partitions each time. If Kafka refused the whole last request, it may refuse these as well.
    starting = frozenset((step.topic, step.partition) for step in starts)
    unlikely = starting if memory.all_refused else starting.intersection(context.refusals)
    return PlanDecision(
        replace(plan, requested=requested, state=state),
        progress,
        starts,
        cancels,
        unlikely,
        frozenset(held_by_broker),
    )


def _steps_to_stop(plan: Plan, progress: PartitionProgress, context: ExecutorContext) -> tuple[TopicPartition, ...]:
    """Returns the running steps that have to be stopped: of a cancelled plan, or because their target is cordoned."""
    if context.pause_reason is not None:
        return ()
    cancelling, cordoned = plan.head.desired is DesiredPlanState.CANCELLING, context.cordons.cordoned
    return tuple(
        key
        for key, step in progress.running.items()
        if key not in context.backing_off
        and (not cordoned.isdisjoint(step.adding) or (cancelling and _must_stop(step, plan, plan.partitions[key])))
    )


def _must_stop(step: ReassignmentStep, plan: Plan, partition: PlanPartition) -> bool:
    """Returns whether a step of a cancelled plan leads away from the goal. A step towards the original replicas may end."""
    goal = {*plan.goal(partition)}
    return plan.head.no_rollback or not goal >= {*step.adding} or bool(goal & {*step.dropping})


def _requested_steps(
    plan: Plan,
    progress: PartitionProgress,
    starts: Sequence[ReassignmentStep],
    cancels: Sequence[TopicPartition],
) -> dict[TopicPartition, RequestedStep]:
    """Returns the requested steps that may be under way after this decision."""
    ended = {
        *progress.reached,
        *progress.never_accepted,
        *progress.rolled_back,
        *progress.stopped_externally,
        *progress.dropped,
    }
    requested = {
        key: step
        for key, step in plan.requested.items()
        if key in plan.partitions and key not in ended and key not in progress.externally_reassigned
    }
    requested |= {key: replace(requested[key], cancel_requested=True) for key in cancels}
    for step in starts:
        key = (step.topic, step.partition)
        replicas_before = progress.ready[key].replicas
        requested[key] = RequestedStep(step.replicas, replicas_before, step.moves_leader, step.needs_election)
    return requested


def _has_open_partitions(progress: PartitionProgress) -> bool:
    return bool(
        progress.running
        or progress.ready
        or progress.to_elect
        or progress.unconfirmed
        or progress.externally_reassigned
        or progress.stopped_externally
    )


def _result(plan: Plan, progress: PartitionProgress, snapshot: ReassignmentSnapshot) -> PlanResult:
    total_bytes = copied_bytes = 0.0
    at_target = 0
    for key, partition in plan.partitions.items():
        current = None if key in progress.dropped else snapshot.partitions.get(key)
        added = {*partition.target} - {*partition.original_replicas}
        total_bytes += len(added) * partition.size_bytes
        copied_bytes += 0.0 if current is None else len(added & {*current.replicas}) * partition.size_bytes
        at_target += current is not None and current.replicas == partition.target
    return PlanResult(len(plan.partitions), at_target, total_bytes, copied_bytes)
