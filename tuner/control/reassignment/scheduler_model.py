"""Holds the inputs and outputs of the scheduler, and the sums over a plan that it needs.

Terms:
    side                one end of a copy: the leader's broker or the broker that gets the replica. Each has its own throttle.
    slot                a share of a side's capacity for one copied partition. A step takes one slot at its leader and one at each
                        broker that it adds; a step that copies nothing takes none. A small partition takes a fraction of a slot.
                        A partition with much write traffic takes more than one, because replicating new writes uses the quota.
    steady state (W)    bytes/s of a side's quota that replicate new writes instead of copying the backlog.
    other_steady_state  W of partitions that no plan moves: other tools move them, or they are in a throttle's replica list
                        although they do not move.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum

from streaming.shared.contract import Side
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.partition_limits import PartitionCounts, PartitionLimits
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, Wait
from tuner.core.side_load import PlannedPartition
from tuner.core.throttle_limits import MB

# A step makes two records or more, and the controller accepts 10,000 records in one request.
REQUEST_PARTITIONS_MAX = 1_000

# All partitions that a side copies within this time share one slot ...
SLOT_S = 1.0
# ... but each takes at least this fraction, because even an empty partition is work for the controller and its brokers.
SLOT_PART_MIN = 1 / 16
# One slot covers write traffic of up to this share of the quota, so the five start slots of a side cover 10 %.
STEADY_STATE_RATIO_PER_SLOT = 0.02
# A copy shorter than this takes fewer slots for its write traffic, because it is likely to end before the next snapshot.
FILLED_SLOT_S = 1.8
# One copy leaves one of the five start slots of a side free, so that small partitions can be copied at the same time.
COPY_SLOTS_MAX = 4.0
# Assumed if no rate is known: lower than any network's rate, and lower than usual throttles.
ASSUMED_RATE_BYTES_PER_S = 10 * MB
# Local names, because an attribute look-up of an enum is slow and this code runs for every partition of a plan.
_LEADER, _FOLLOWER = Side.LEADER, Side.FOLLOWER


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """A partition of a plan without a step under way.

    Attributes:
        size_bytes: size of the leader's log, which each added replica has to copy.
        missing: brokers of the target that have no replica yet.
    """

    transition: PartitionTransition
    size_bytes: float
    write_bytes_per_s: float
    missing: tuple[int, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Computed once: the scheduler reads it many times, and a plan may have 200,000 partitions.
        replicas = self.transition.replicas
        object.__setattr__(self, "missing", tuple([b for b in self.transition.target if b not in replicas]))


@dataclass(frozen=True, slots=True)
class RunningStep:
    """A reassignment step under way.

    Attributes:
        transition: has the replicas at the time of the request, and the current leader and ISR.
        remaining_bytes: bytes that all added replicas together still have to copy.
        is_stuck: the step has needed an offline broker for long, so its end is unknown.
    """

    transition: PartitionTransition
    step: ReassignmentStep
    remaining_bytes: float
    size_bytes: float
    write_bytes_per_s: float
    is_stuck: bool = False


@dataclass(frozen=True, slots=True)
class SchedulerConstraints:
    """The limits that a schedule keeps. Rates are bytes/s.

    Attributes:
        online: brokers that are alive.
        slots: number of slots of each side, free or in use; a side without an entry has one.
        cluster_max: number of copying steps in the whole cluster.
        starts_max: number of steps that this schedule may start.
        max_rates: the highest throttle that a side may get; a side without an entry has no throttle.
        setpoints: the throttle of each side now; for a side without an entry, its entry in ``max_rates`` is used.
        hosted: number of replicas on each broker now, including those that are being added.
        writes_known: False while no write rate has been measured, so any partition may have much write traffic.
        since_last_request_s: time since the last request.
        snapshot_interval_s: time between the previous snapshot of the cluster and this one.
        carried_small_share: rounded-off fraction of a small partition from the last request (see ``small_partitions``).
        first_topics: topics whose partitions go first (see streaming/shared/move_order.py).
    """

    online: frozenset[int]
    batch: BatchLimits
    slots: Mapping[BrokerSide, int]
    cluster_max: int
    starts_max: int
    max_rates: Mapping[BrokerSide, float] = field(default_factory=dict)
    setpoints: Mapping[BrokerSide, float] = field(default_factory=dict)
    other_steady_state: Mapping[BrokerSide, float] = field(default_factory=dict)
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    hosted: PartitionCounts = field(default_factory=lambda: PartitionCounts({}))
    writes_known: bool = True
    since_last_request_s: float = math.inf
    snapshot_interval_s: float = 0.0
    carried_small_share: float = 0.0
    first_topics: tuple[str, ...] = ()

    def slots_for(self, side: BrokerSide, remaining_bytes: float, steady_state_bytes_per_s: float = 0.0) -> float:
        """Returns the slots of the side that a copy takes."""
        steady_state = steady_state_bytes_per_s if self.writes_known else math.inf
        return slots_for_copy(remaining_bytes, self.setpoints.get(side, self.max_rates.get(side)), steady_state)


class HeldBy(StrEnum):
    """Why a partition does not start now."""

    SLOTS = "slots"
    CLUSTER = "cluster"  # The cluster-wide number of copying steps is reached.
    QUOTA = "quota"  # New writes of this partition and of the running ones would use up the throttle.
    PARTITION_LIMIT = "partition_limit"  # KIP-578: the broker has as many partitions as it may.
    LEADER_MOVEMENTS = "leader_movements"  # KIP-435.
    PARTITION_MOVEMENTS = "partition_movements"  # KIP-435.
    REQUEST = "request"  # The partition starts with the next request.


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition that cannot start even when all running steps have ended."""

    topic: str
    partition: int
    by: HeldBy
    side: BrokerSide
    text: str


@dataclass(frozen=True, slots=True)
class StepStart:
    """A step that the executor requests now."""

    transition: PartitionTransition
    step: ReassignmentStep


@dataclass(frozen=True, slots=True)
class Schedule:
    """The scheduler's decision.

    Attributes:
        starts: steps to request now, in this order, with one request.
        waits: partitions that have no next step at present, for example because a broker is down.
        held: number of partitions that each limit keeps waiting.
        impossible: partitions that cannot start under the present throttle.
        full_brokers: brokers at their partition limit for which partitions wait.
        carried_small_share: rounded-off fraction of a small partition, for the next request.
    """

    starts: tuple[StepStart, ...]
    waits: tuple[Wait, ...]
    held: Mapping[HeldBy, int]
    impossible: tuple[HeldPartition, ...]
    full_brokers: frozenset[int] = frozenset()
    carried_small_share: float = 0.0


def sides_of_copy(leader: int, adding: Iterable[int]) -> list[BrokerSide]:
    """Returns the sides that a copy passes, the leader's first; empty if nothing is copied."""
    destinations = [(b, _FOLLOWER) for b in adding if b != leader]
    return [(leader, _LEADER), *destinations] if destinations else []


def slots_for_copy(
    remaining_bytes: float, rate_bytes_per_s: float | None, steady_state_bytes_per_s: float = 0.0
) -> float:
    """Returns the slots that a copy takes of a side.

    Args:
        rate_bytes_per_s: the side's throttle; None: not known.
        steady_state_bytes_per_s: part of the side's quota that replicates new writes of the partition.
    """
    rate = ASSUMED_RATE_BYTES_PER_S if rate_bytes_per_s is None else rate_bytes_per_s
    if rate <= 0:
        return 1.0  # Kafka allows a throttle of 0. At this rate every copy is long, so it takes a whole slot.
    duration_s = remaining_bytes / rate
    size_slots = min(1.0, max(SLOT_PART_MIN, duration_s / SLOT_S))
    if rate_bytes_per_s is None:
        return size_slots
    write_slots = steady_state_bytes_per_s / (STEADY_STATE_RATIO_PER_SLOT * rate)
    return max(size_slots, min(write_slots, duration_s / FILLED_SLOT_S, COPY_SLOTS_MAX))


def steps_that_copy(running: Iterable[RunningStep], online: AbstractSet[int]) -> list[RunningStep]:
    """Returns the running steps without the copies from or to offline brokers."""
    copying = []
    for run in running:
        adding = tuple(b for b in run.step.adding if b in online) if run.transition.leader in online else ()
        if len(adding) < len(run.step.adding):
            remaining_bytes = run.remaining_bytes * len(adding) / len(run.step.adding)
            run = replace(run, step=replace(run.step, adding=adding), remaining_bytes=remaining_bytes)
        copying.append(run)
    return copying


def slots_in_use(
    running: Iterable[RunningStep], rates: Mapping[BrokerSide, float] | None = None, *, writes_known: bool = True
) -> dict[BrokerSide, float]:
    """Returns the slots of each side that the running steps take.

    Args:
        rates: throttle of each side, bytes/s, as for ``slots_for_copy``; None: no throttle is known.
        writes_known: see ``SchedulerConstraints``.
    """
    slots: dict[BrokerSide, float] = {}
    rates = rates or {}
    for run in running:
        copies = max(1, len(run.step.adding))
        for side, steady_state_bytes_per_s in step_steady_state(run.transition, run.step.adding, run.write_bytes_per_s):
            write_bytes_per_s = steady_state_bytes_per_s if writes_known else math.inf
            taken = slots_for_copy(run.remaining_bytes / copies, rates.get(side), write_bytes_per_s)
            slots[side] = slots.get(side, 0.0) + taken
    return slots


def waiting_by_side(waiting: Iterable[WaitingPartition]) -> dict[BrokerSide, int]:
    """Returns the number of partitions that wait for each side, with their next step or a later one."""
    by_pair: dict[tuple[int, int], int] = {}
    for candidate in waiting:
        for broker in candidate.missing:
            pair = (candidate.transition.leader, broker)
            by_pair[pair] = by_pair.get(pair, 0) + 1
    counts: dict[BrokerSide, int] = {}
    for (leader, broker), count in by_pair.items():
        for side in ((leader, Side.LEADER), (broker, Side.FOLLOWER)):
            counts[side] = counts.get(side, 0) + count
    return counts


def step_steady_state(
    transition: PartitionTransition, adding: Sequence[int], write_bytes_per_s: float
) -> list[tuple[BrokerSide, float]]:
    """Returns W of one step: for each side, the bytes/s that replicate new writes while the step runs; the leader's side first."""
    sides = sides_of_copy(transition.leader, adding)
    if not sides:
        return []
    followers = len(transition.isr.union(adding) - {transition.leader})
    return [(side, write_bytes_per_s * (followers if side[1] is Side.LEADER else 1)) for side in sides]


def steady_state(running: Iterable[RunningStep]) -> dict[BrokerSide, float]:
    """Returns W of all running steps together, bytes/s by side."""
    totals: dict[BrokerSide, float] = {}
    for run in running:
        for side, bytes_per_s in step_steady_state(run.transition, run.step.adding, run.write_bytes_per_s):
            totals[side] = totals.get(side, 0.0) + bytes_per_s
    return totals


def pending_bytes(waiting: Iterable[WaitingPartition], running: Iterable[RunningStep] = ()) -> dict[BrokerSide, float]:
    """Returns, by side, the bytes of waiting partitions and of later steps of running partitions."""
    pending: dict[BrokerSide, float] = {}
    copies = [(candidate.transition, candidate.missing, candidate.size_bytes) for candidate in waiting]
    for run in running:
        later = [b for b in run.transition.target if b not in (*run.transition.replicas, *run.step.adding)]
        copies.append((run.transition, tuple(later), run.size_bytes))
    for transition, adding, size_bytes in copies:
        for side in sides_of_copy(transition.leader, adding):
            count = 1 if side[1] is Side.FOLLOWER else len(adding)
            pending[side] = pending.get(side, 0.0) + count * size_bytes
    return pending


def planned_partitions(
    waiting: Iterable[WaitingPartition], running: Iterable[RunningStep] = ()
) -> list[PlannedPartition]:
    """Returns the partitions with the bytes that each destination still has to copy; used to estimate the remaining time."""
    planned = [
        _planned(
            candidate.transition, candidate.write_bytes_per_s, dict.fromkeys(candidate.missing, candidate.size_bytes)
        )
        for candidate in waiting
    ]
    for run in running:
        this_step = dict.fromkeys(run.step.adding, run.remaining_bytes / max(1, len(run.step.adding)))
        placed = {*run.transition.replicas, *this_step}
        later_steps = {b: run.size_bytes for b in run.transition.target if b not in placed}
        planned.append(_planned(run.transition, run.write_bytes_per_s, this_step | later_steps))
    return planned


def _planned(transition: PartitionTransition, write_bytes_per_s: float, copies: dict[int, float]) -> PlannedPartition:
    return PlannedPartition(
        transition.topic,
        transition.partition,
        transition.leader,
        transition.isr,
        write_bytes_per_s,
        lacking_bytes=copies,
    )
