"""Which parts of all plans begin now, given how many at a time the cluster stands.

Intuition: plans share the brokers, so their parts stand in one line: how many at a time is asked once, of all that runs, and
whose turn it is follows from the slowest side, not from whose plan it is.
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
from tuner.core.partition_limits import PartitionCounts, PartitionLimits, counted
from tuner.core.reassignment_plan import Plan, ReassignmentSnapshot, TopicPartition
from tuner.core.throttle_state import ThrottleState

# A broker that is restarted is back by then, and its steps go on; so long they count as any others.
STUCK_S_MIN = 60.0


@dataclass(frozen=True, slots=True)
class ClusterMeasurements:
    """What is measured of the cluster besides where its partitions are."""

    partitions: PartitionMeasurements = field(default_factory=PartitionMeasurements)
    throttles: ThrottleState = field(default_factory=ThrottleState)
    brokers: Mapping[int, BrokerSignal] = field(default_factory=dict)
    controllers: Mapping[int, ControllerSignal] = field(default_factory=dict)
    last_request_steps: int = 0  # Steps that the last request asked for.


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """What the operator allows."""

    batch: BatchLimits = field(default_factory=BatchLimits)
    concurrency: ConcurrencyLimits = field(default_factory=ConcurrencyLimits)
    partitions: PartitionLimits = field(default_factory=PartitionLimits)
    controller_objective: ControllerObjective = field(default_factory=ControllerObjective)


@dataclass(frozen=True, slots=True)
class Admission:
    schedule: Schedule
    concurrency: ConcurrencyDecision
    pending_bytes: Mapping[BrokerSide, float]  # What no step under way copies yet.


def admit(
    plans: Sequence[tuple[Plan, PartitionProgress, bool]],
    look: ReassignmentSnapshot,
    measures: ClusterMeasurements,
    memory: ConcurrencyState,
    bounds: OperatorLimits,
    now_ms: int,
    resting: frozenset[TopicPartition] = frozenset(),
) -> Admission:
    """
    Args:
        plans: how each stands, and whether parts of it may begin.
        resting: parts that failed just now.
    """
    running = [
        one for plan, parts, _ in plans for one in _running_steps(plan, parts, look, measures.partitions, now_ms)
    ]
    copying = steps_that_copy(running, look.online)
    waiting = [
        WaitingPartition(
            way,
            measures.partitions.size(key, plan.partitions[key]),
            measures.partitions.write_rate(key, plan.partitions[key]),
        )
        for plan, parts, goes_on in plans
        if goes_on
        for key, way in parts.ready.items()
        if key not in resting
    ]
    # Who was not watched at the plan's start is measured with the second look.
    writes_known = bool(measures.partitions.write_bytes_per_s) or any(one.write_bytes_per_s > 0 for one in waiting)
    slots_taken, slots_wanted = slots_in_use(copying, measures.throttles.meant), waiting_by_side(waiting)
    view = ConcurrencyInput(
        now_ms,
        frozenset(slots_taken) | frozenset(slots_wanted),
        slots_taken,
        slots_wanted,
        measures.throttles.meant,
        steady_state(copying),
        measures.last_request_steps,
        measures.brokers,
        measures.controllers,
        bounds.controller_objective,
    )
    paced = decide_concurrency(view, memory, bounds.concurrency)
    terms = SchedulerConstraints(
        look.online,
        bounds.batch,
        paced.slots,
        paced.cluster_max,
        paced.starts_max,
        measures.throttles.most,
        setpoints=measures.throttles.meant,
        limits=bounds.partitions,
        hosted=_hosted_partitions(look, bounds),
        writes_known=writes_known,
        since_last_request_s=memory.since_last_start_s(now_ms),
        snapshot_interval_s=memory.snapshot_interval_s(now_ms),
        carried_small_share=memory.carried_small_share,
    )
    refilled = schedule(waiting, running, terms)
    begun_at_ms = now_ms if refilled.starts else memory.last_start_at_ms
    seen = replace(
        paced.state,
        last_start_at_ms=begun_at_ms,
        last_snapshot_at_ms=now_ms,
        carried_small_share=refilled.carried_small_share,
    )
    return Admission(refilled, replace(paced, state=seen), pending_bytes(waiting, running))


def _running_steps(
    plan: Plan, parts: PartitionProgress, look: ReassignmentSnapshot, figures: PartitionMeasurements, now_ms: int
) -> list[RunningStep]:
    found = []
    for key, step in parts.running.items():
        part, now = plan.partitions[key], look.partitions[key]
        size = figures.size(key, part)
        way = replace(transition_of(key, plan.goal(part), now, look), replicas=plan.requested[key].replicas_before)
        remaining = figures.remaining_bytes.get(key, size * len(step.adding))
        stuck = key in parts.stuck and now_ms - parts.stuck[key].since_ms > STUCK_S_MIN * 1000
        found.append(RunningStep(way, step, remaining, size, figures.write_rate(key, part), stuck))
    return found


def _hosted_partitions(look: ReassignmentSnapshot, bounds: OperatorLimits) -> PartitionCounts:
    """Where nothing is limited nobody needs to count."""
    if bounds.partitions == PartitionLimits():
        return PartitionCounts({})
    return counted(((key, now.replicas) for key, now in look.partitions.items()), look.online)
