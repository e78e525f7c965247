"""Decides which partitions of all plans start now.

All plans share the brokers and the controller. So the concurrency is decided once for the running steps of all plans, and the
scheduler chooses from the waiting partitions of all plans together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from streaming.shared.contract import BrokerSignal, ControllerSignal
from tuner.control.reassignment.concurrency import decide_concurrency
from tuner.control.reassignment.concurrency_model import (
    ConcurrencyDecision,
    ConcurrencyInput,
    ConcurrencyLimits,
    ConcurrencyState,
)
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.partition_progress import PartitionProgress, transition_of
from tuner.control.reassignment.scheduler import schedule
from tuner.control.reassignment.scheduler_model import (
    RunningStep,
    Schedule,
    SchedulerConstraints,
    WaitingPartition,
    pending_bytes,
    slots_in_use,
    steady_state,
    steps_that_copy,
    waiting_by_side,
)
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.controller import ControllerObjective
from tuner.core.partition_limits import PartitionCounts, PartitionLimits, count_partitions
from tuner.core.reassignment_plan import Plan, ReassignmentSnapshot, TopicPartition
from tuner.core.throttle_state import ThrottleState

# A step that is stuck, because a broker is down, keeps its slots for this time. A restarted broker is back sooner.
STUCK_S_MIN = 60.0


@dataclass(frozen=True, slots=True)
class ClusterMeasurements:
    """Measurements of the cluster besides the assignment of its partitions.

    Attributes:
        last_request_steps: number of steps in the last request.
    """

    partitions: PartitionMeasurements = field(default_factory=PartitionMeasurements)
    throttles: ThrottleState = field(default_factory=ThrottleState)
    brokers: Mapping[int, BrokerSignal] = field(default_factory=dict)
    controllers: Mapping[int, ControllerSignal] = field(default_factory=dict)
    last_request_steps: int = 0


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """The operator's limits over all plans together."""

    batch: BatchLimits = field(default_factory=BatchLimits)
    concurrency: ConcurrencyLimits = field(default_factory=ConcurrencyLimits)
    partitions: PartitionLimits = field(default_factory=PartitionLimits)
    controller_objective: ControllerObjective = field(default_factory=ControllerObjective)
    first_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of one decision.

    Attributes:
        schedule: the steps to start.
        concurrency: the concurrency that allows these steps.
        pending_bytes: by side, the bytes of waiting partitions and of later steps of running partitions.
    """

    schedule: Schedule
    concurrency: ConcurrencyDecision
    pending_bytes: Mapping[BrokerSide, float]


def admit(
    plans: Sequence[tuple[Plan, PartitionProgress, bool]],
    snapshot: ReassignmentSnapshot,
    measurements: ClusterMeasurements,
    state: ConcurrencyState,
    limits: OperatorLimits,
    now_ms: int,
    backing_off: frozenset[TopicPartition] = frozenset(),
    cordoned: frozenset[int] = frozenset(),
) -> Admission:
    """Returns the steps to start now.

    Args:
        plans: each plan with its progress, and whether its steps may start.
        backing_off: partitions whose last request failed and that are retried later.
        cordoned: brokers that take no new replicas.
    """
    measured = measurements.partitions
    running: list[RunningStep] = []
    waiting: list[WaitingPartition] = []
    for plan, progress, may_start in plans:
        running += _running_steps(plan, progress, snapshot, measured, now_ms)
        if may_start:
            waiting += _waiting_partitions(plan, progress, measured, backing_off, cordoned)
    # If a plan was submitted without write rates, they are known only after the second snapshot.
    writes_known = bool(measured.write_bytes_per_s) or any(candidate.write_bytes_per_s > 0 for candidate in waiting)
    inputs = _concurrency_input(running, waiting, snapshot, measurements, limits, now_ms)
    concurrency = decide_concurrency(inputs, state, limits.concurrency)
    constraints = SchedulerConstraints(
        online=snapshot.online,
        batch=limits.batch,
        slots=concurrency.slots,
        cluster_max=concurrency.cluster_max,
        starts_max=concurrency.starts_max,
        max_rates=measurements.throttles.max_rates,
        setpoints=measurements.throttles.setpoints,
        limits=limits.partitions,
        hosted=_hosted_partitions(snapshot, limits),
        writes_known=writes_known,
        since_last_request_s=state.since_last_start_s(now_ms),
        snapshot_interval_s=state.snapshot_interval_s(now_ms),
        carried_small_share=state.carried_small_share,
        first_topics=limits.first_topics,
    )
    scheduled = schedule(waiting, running, constraints)
    state_after = replace(
        concurrency.state,
        last_start_at_ms=now_ms if scheduled.starts else state.last_start_at_ms,
        last_snapshot_at_ms=now_ms,
        carried_small_share=scheduled.carried_small_share,
    )
    return Admission(scheduled, replace(concurrency, state=state_after), pending_bytes(waiting, running))


def _concurrency_input(
    running: Sequence[RunningStep],
    waiting: Sequence[WaitingPartition],
    snapshot: ReassignmentSnapshot,
    measurements: ClusterMeasurements,
    limits: OperatorLimits,
    now_ms: int,
) -> ConcurrencyInput:
    copying = steps_that_copy(running, snapshot.online)
    slots = slots_in_use(copying, measurements.throttles.setpoints)
    waiting_counts = waiting_by_side(waiting)
    return ConcurrencyInput(
        now_ms,
        sides=frozenset(slots) | frozenset(waiting_counts),
        slots_in_use=slots,
        waiting=waiting_counts,
        setpoints=measurements.throttles.setpoints,
        steady_state=steady_state(copying),
        last_request_steps=measurements.last_request_steps,
        brokers=measurements.brokers,
        controllers=measurements.controllers,
        objective=limits.controller_objective,
    )


def _waiting_partitions(
    plan: Plan,
    progress: PartitionProgress,
    measurements: PartitionMeasurements,
    backing_off: frozenset[TopicPartition],
    cordoned: frozenset[int],
) -> list[WaitingPartition]:
    waiting = [
        WaitingPartition(
            transition,
            size_bytes=measurements.size(key, plan.partitions[key]),
            write_bytes_per_s=measurements.write_rate(key, plan.partitions[key]),
        )
        for key, transition in progress.ready.items()
        if key not in backing_off
    ]
    # Usually no broker is cordoned, and a plan may have 200,000 partitions. So the check is skipped without cordons.
    return [candidate for candidate in waiting if cordoned.isdisjoint(candidate.missing)] if cordoned else waiting


def _running_steps(
    plan: Plan,
    progress: PartitionProgress,
    snapshot: ReassignmentSnapshot,
    measurements: PartitionMeasurements,
    now_ms: int,
) -> list[RunningStep]:
    runs = []
    for key, step in progress.running.items():
        partition, current = plan.partitions[key], snapshot.partitions[key]
        size_bytes = measurements.size(key, partition)
        transition = transition_of(key, plan.goal(partition), current, snapshot)
        run = RunningStep(
            # While the step runs, Kafka's list of replicas has the added replicas too. So the replicas from before the request are
            # used.
            replace(transition, replicas=plan.requested[key].replicas_before),
            step,
            remaining_bytes=measurements.remaining_bytes.get(key, size_bytes * len(step.adding)),
            size_bytes=size_bytes,
            write_bytes_per_s=measurements.write_rate(key, partition),
            is_stuck=key in progress.stuck and now_ms - progress.stuck[key].since_ms > STUCK_S_MIN * 1000,
        )
        runs.append(run)
    return runs


def _hosted_partitions(snapshot: ReassignmentSnapshot, limits: OperatorLimits) -> PartitionCounts:
    """Returns the number of replicas on each broker; empty without partition limits, because the counts are not needed then."""
    if limits.partitions == PartitionLimits():
        return PartitionCounts({})
    replicas = ((key, current.replicas) for key, current in snapshot.partitions.items())
    return count_partitions(replicas, snapshot.online)
