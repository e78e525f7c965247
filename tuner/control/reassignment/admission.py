"""Which parts of all plans begin now, given how many at a time the cluster stands.

Intuition: plans share the brokers, so their parts stand in one line: how many at a time is asked once, of all that runs, and
whose turn it is follows from the slowest side, not from whose plan it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from streaming.shared.contract import BrokerSignal, ControllerSignal
from tuner.control.reassignment.concurrency import pace
from tuner.control.reassignment.concurrency_model import Paced, PaceLimits, PaceMemory, PaceView
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.partition_progress import PartitionProgress, way_of
from tuner.control.reassignment.scheduler import refill
from tuner.control.reassignment.scheduler_model import (
    Refill,
    Running,
    SchedulerConstraints,
    Waiting,
    copied,
    pending_bytes,
    steady_state,
    taken,
    wanted,
)
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.controller import ControllerObjective
from tuner.core.partition_limits import PartitionCounts, PartitionLimits, counted
from tuner.core.reassignment_plan import Key, Plan, ReassignmentSnapshot
from tuner.core.throttle_state import ThrottleState

# A broker that is restarted is back by then, and its steps go on; so long they count as any others.
STUCK_S_MIN = 60.0


@dataclass(frozen=True, slots=True)
class Measures:
    """What is measured of the cluster besides where its partitions are."""

    figures: PartitionMeasurements = field(default_factory=PartitionMeasurements)
    throttling: ThrottleState = field(default_factory=ThrottleState)
    brokers: Mapping[int, BrokerSignal] = field(default_factory=dict)
    controllers: Mapping[int, ControllerSignal] = field(default_factory=dict)
    asked: int = 0  # Steps that the last request asked for.


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the operator allows."""

    batch: BatchLimits = field(default_factory=BatchLimits)
    pace: PaceLimits = field(default_factory=PaceLimits)
    partitions: PartitionLimits = field(default_factory=PartitionLimits)
    controller: ControllerObjective = field(default_factory=ControllerObjective)


@dataclass(frozen=True, slots=True)
class Begun:
    refill: Refill
    paced: Paced
    pending_bytes: Mapping[BrokerSide, float]  # What no step under way copies yet.


def begin(
    plans: Sequence[tuple[Plan, PartitionProgress, bool]],
    look: ReassignmentSnapshot,
    measures: Measures,
    memory: PaceMemory,
    bounds: Bounds,
    now_ms: int,
    resting: frozenset[Key] = frozenset(),
) -> Begun:
    """
    Args:
        plans: how each stands, and whether parts of it may begin.
        resting: parts that failed just now.
    """
    running = [one for plan, parts, _ in plans for one in _running(plan, parts, look, measures.figures, now_ms)]
    copying = copied(running, look.online)
    waiting = [
        Waiting(way, measures.figures.size(key, plan.parts[key]), measures.figures.write_rate(key, plan.parts[key]))
        for plan, parts, goes_on in plans
        if goes_on
        for key, way in parts.ready.items()
        if key not in resting
    ]
    # Who was not watched at the plan's start is measured with the second look.
    writes_known = bool(measures.figures.write_bytes_per_s) or any(one.write_bytes_per_s > 0 for one in waiting)
    slots_taken, slots_wanted = taken(copying, measures.throttling.meant), wanted(waiting)
    view = PaceView(
        now_ms,
        frozenset(slots_taken) | frozenset(slots_wanted),
        slots_taken,
        slots_wanted,
        measures.throttling.meant,
        steady_state(copying),
        measures.asked,
        measures.brokers,
        measures.controllers,
        bounds.controller,
    )
    paced = pace(view, memory, bounds.pace)
    terms = SchedulerConstraints(
        look.online,
        bounds.batch,
        paced.slots,
        paced.cluster_max,
        paced.starts_max,
        measures.throttling.most,
        meant=measures.throttling.meant,
        limits=bounds.partitions,
        hosted=_hosted(look, bounds),
        writes_known=writes_known,
        asked_ago_s=memory.begun_ago_s(now_ms),
        look_every_s=memory.look_every_s(now_ms),
        small_due=memory.small_due,
    )
    refilled = refill(waiting, running, terms)
    begun_at_ms = now_ms if refilled.starts else memory.begun_at_ms
    seen = replace(paced.memory, begun_at_ms=begun_at_ms, looked_at_ms=now_ms, small_due=refilled.small_due)
    return Begun(refilled, replace(paced, memory=seen), pending_bytes(waiting, running))


def _running(
    plan: Plan, parts: PartitionProgress, look: ReassignmentSnapshot, figures: PartitionMeasurements, now_ms: int
) -> list[Running]:
    found = []
    for key, step in parts.running.items():
        part, now = plan.parts[key], look.partitions[key]
        size = figures.size(key, part)
        way = replace(way_of(key, plan.goal(part), now, look), replicas=plan.asked[key].since)
        remaining = figures.remaining_bytes.get(key, size * len(step.adding))
        stuck = key in parts.stuck and now_ms - parts.stuck[key].since_ms > STUCK_S_MIN * 1000
        found.append(Running(way, step, remaining, size, figures.write_rate(key, part), stuck))
    return found


def _hosted(look: ReassignmentSnapshot, bounds: Bounds) -> PartitionCounts:
    """Where nothing is limited nobody needs to count."""
    if bounds.partitions == PartitionLimits():
        return PartitionCounts({})
    return counted(((key, now.replicas) for key, now in look.partitions.items()), look.online)
