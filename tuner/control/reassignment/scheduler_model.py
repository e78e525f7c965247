"""What a refill is told and what it answers, as values, and the sums over a plan that go with them.

Vocabulary:
    side     one end of a copy: the leader that it is read from, or the broker that it is added to. Each has its own quota.
    slot     of a side, for one partition that is copied through it. A step takes one at its leader and one at each broker
             that it adds; a step that copies nothing takes none. What is small takes a part of one: a side that copies
             only small ones would else stand still until somebody looks again. What is written to takes more: as long as it
             is under way, keeping up with it takes of the quota, and who waits costs nothing.
    beside   keep-up bytes/s that others use of a quota: moves that are not ours, listed partitions that don't move.
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

# A step is two records or more, and the controller takes 10,000 of them for one request.
REQUEST_PARTITIONS_MAX = 1_000


# What a side copies in so many seconds takes no more than one slot, however many partitions it is ...
SLOT_S = 1.0
# ... but for this: each one is work for the controller and for its brokers, be it empty.
SLOT_PART_MIN = 1 / 16
# Keeping up with what one slot holds takes this much of the quota, so five of them a tenth ...
STEADY_STATE_RATIO_PER_SLOT = 0.02
# ... but who is copied for so long fills a slot whatever is written to it: there has to be enough under way to go on with until
# somebody has looked again, and what begins then has been heard of.
FILLED_SLOT_S = 1.8
# One copy leaves a slot of the five with which a side begins, however much is written to it: what is small goes beside it.
COPY_SLOTS_MAX = 4.0
_LEADER, _FOLLOWER = Side.LEADER, Side.FOLLOWER  # Asked for a million times.
ASSUMED_RATE_BYTES_PER_S = (
    10 * MB
)  # Where nothing is known: less than any network carries, and than people throttle to.


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """A partition that has no step under way."""

    transition: PartitionTransition
    size_bytes: float  # Of its leader's log: what each replica that is added lacks.
    write_bytes_per_s: float
    missing: tuple[int, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # A plan of 200,000 is gone through many times.
        replicas = self.transition.replicas
        object.__setattr__(self, "missing", tuple([b for b in self.transition.target if b not in replicas]))


@dataclass(frozen=True, slots=True)
class RunningStep:
    """A step under way."""

    transition: PartitionTransition  # As it stood when the step was asked for; its ISR and leader as they are now.
    step: ReassignmentStep
    remaining_bytes: float  # Of all replicas that the step adds.
    size_bytes: float
    write_bytes_per_s: float
    is_stuck: bool = False  # For long it has needed a broker that is down: nobody knows when it ends.


@dataclass(frozen=True, slots=True)
class SchedulerConstraints:
    """What a refill keeps within."""

    online: frozenset[int]
    batch: BatchLimits
    slots: Mapping[BrokerSide, int]  # In all, those in use included; a side that isn't named has one.
    cluster_max: int  # Steps that copy something, in all.
    starts_max: int  # With this refill.
    # The most that the side may be given: what its throttle will be raised to where the law turns it, else what stands. A side that
    # isn't named has no throttle.
    max_rates: Mapping[BrokerSide, float] = field(default_factory=dict)
    setpoints: Mapping[BrokerSide, float] = field(default_factory=dict)  # What it has now; not named: all it may have.
    other_steady_state: Mapping[BrokerSide, float] = field(default_factory=dict)
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    hosted: PartitionCounts = field(default_factory=lambda: PartitionCounts({}))  # Now; what is being added is there.
    writes_known: bool = True  # False: nobody has measured yet how much is written, so it may be much.
    since_last_request_s: float = math.inf  # Since something was to begin last.
    snapshot_interval_s: float = 0.0  # So long after the last look this one comes.
    carried_small_share: float = 0.0  # Of what is small, what was carried from the last request.

    def slots_for(self, side: BrokerSide, remaining_bytes: float, steady_state_bytes_per_s: float = 0.0) -> float:
        """Slots that it takes."""
        steady_state = steady_state_bytes_per_s if self.writes_known else math.inf
        return slots_for_copy(remaining_bytes, self.setpoints.get(side, self.max_rates.get(side)), steady_state)


class HeldBy(StrEnum):
    SLOTS = "slots"
    CLUSTER = "cluster"  # As many steps run as may run in the whole cluster.
    QUOTA = "quota"  # Keeping up with it, and with what runs, would take all that the throttle lets through.
    PARTITION_LIMIT = "partition_limit"  # KIP-578: the broker has as many partitions as it may.
    LEADER_MOVEMENTS = "leader_movements"  # KIP-435.
    PARTITION_MOVEMENTS = "partition_movements"  # KIP-435.
    REQUEST = "request"  # It comes with the next request.


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition that can't start, whatever else ends."""

    topic: str
    partition: int
    by: HeldBy
    side: BrokerSide
    text: str


@dataclass(frozen=True, slots=True)
class StepStart:
    transition: PartitionTransition
    step: ReassignmentStep


@dataclass(frozen=True, slots=True)
class Schedule:
    starts: tuple[StepStart, ...]  # To be asked for now, with one request, in this order.
    waits: tuple[Wait, ...]  # Partitions that can't go on, and why.
    held: Mapping[HeldBy, int]  # Of those looked at, how many were kept back by what.
    impossible: tuple[HeldPartition, ...]
    full_brokers: frozenset[int] = (
        frozenset()
    )  # Brokers that have as many partitions as they may, and for which some wait.
    carried_small_share: float = 0.0  # Of what is small, what is carried to the next request.


def sides_of_copy(leader: int, adding: Iterable[int]) -> list[BrokerSide]:
    """The sides that a copy goes through, the leader's first; none where nothing is copied."""
    into = [(b, _FOLLOWER) for b in adding if b != leader]
    return [(leader, _LEADER), *into] if into else []


def slots_for_copy(
    remaining_bytes: float, rate_bytes_per_s: float | None, steady_state_bytes_per_s: float = 0.0
) -> float:
    """Slots that a copy takes of a side with this rate; None: of one whose rate is not known.

    Args:
        steady_state_bytes_per_s: what keeping up with it takes of this side's quota.
    """
    rate = ASSUMED_RATE_BYTES_PER_S if rate_bytes_per_s is None else rate_bytes_per_s
    if rate <= 0:
        return 1.0  # Somebody has shut it, which Kafka allows: nothing is small there.
    lasts_s = remaining_bytes / rate
    part = min(1.0, max(SLOT_PART_MIN, lasts_s / SLOT_S))
    if rate_bytes_per_s is None:
        return part  # No quota is known that keeping up could take.
    return max(
        part,
        min(steady_state_bytes_per_s / (STEADY_STATE_RATIO_PER_SLOT * rate), lasts_s / FILLED_SLOT_S, COPY_SLOTS_MAX),
    )


def steps_that_copy(running: Iterable[RunningStep], online: AbstractSet[int]) -> list[RunningStep]:
    """What is copied of what runs: from a broker that is away, or to one, nothing is."""
    found = []
    for one in running:
        adding = tuple(b for b in one.step.adding if b in online) if one.transition.leader in online else ()
        if len(adding) < len(one.step.adding):
            one = replace(one, step=replace(one.step, adding=adding), remaining_bytes=_share(one, adding))
        found.append(one)
    return found


def _share(one: RunningStep, adding: Sequence[int]) -> float:
    return one.remaining_bytes * len(adding) / len(one.step.adding)


def slots_in_use(
    running: Iterable[RunningStep], rates: Mapping[BrokerSide, float] | None = None, *, writes_known: bool = True
) -> dict[BrokerSide, float]:
    """Slots in use.

    Args:
        rates: what each side copies with, as for ``slots_for_copy``; None: no side's is known.
        writes_known: as of ``SchedulerConstraints``.
    """
    found: dict[BrokerSide, float] = {}
    rates = rates or {}
    for one in running:
        copies = max(1, len(one.step.adding))
        for side, steady_state_bytes_per_s in step_steady_state(one.transition, one.step.adding, one.write_bytes_per_s):
            uses = steady_state_bytes_per_s if writes_known else math.inf
            part = slots_for_copy(one.remaining_bytes / copies, rates.get(side), uses)
            found[side] = found.get(side, 0.0) + part
    return found


def waiting_by_side(waiting: Iterable[WaitingPartition]) -> dict[BrokerSide, int]:
    """How many partitions wait for each side, now or with a later step."""
    by_pair: dict[tuple[int, int], int] = {}
    for one in waiting:
        for broker in one.missing:
            pair = (one.transition.leader, broker)
            by_pair[pair] = by_pair.get(pair, 0) + 1
    found: dict[BrokerSide, int] = {}
    for (leader, broker), count in by_pair.items():
        for side in ((leader, Side.LEADER), (broker, Side.FOLLOWER)):
            found[side] = found.get(side, 0) + count
    return found


def step_steady_state(
    way: PartitionTransition, adding: Sequence[int], write_bytes_per_s: float
) -> list[tuple[BrokerSide, float]]:
    """W of one step: bytes/s that keeping up uses of each side's quota while it runs, its leader's first."""
    sides = sides_of_copy(way.leader, adding)
    if not sides:
        return []
    followers = len(way.isr.union(adding) - {way.leader})
    return [(side, write_bytes_per_s * (followers if side[1] is Side.LEADER else 1)) for side in sides]


def steady_state(running: Iterable[RunningStep]) -> dict[BrokerSide, float]:
    """W of all that runs."""
    found: dict[BrokerSide, float] = {}
    for one in running:
        for side, bytes_per_s in step_steady_state(one.transition, one.step.adding, one.write_bytes_per_s):
            found[side] = found.get(side, 0.0) + bytes_per_s
    return found


def pending_bytes(waiting: Iterable[WaitingPartition], running: Iterable[RunningStep] = ()) -> dict[BrokerSide, float]:
    """What no step under way copies yet, by side; of what runs, what its later steps will add."""
    found: dict[BrokerSide, float] = {}
    later = [
        (
            one.transition,
            [b for b in one.transition.target if b not in (*one.transition.replicas, *one.step.adding)],
            one.size_bytes,
        )
        for one in running
    ]
    for way, adding, size_bytes in [*((one.transition, one.missing, one.size_bytes) for one in waiting), *later]:
        for side in sides_of_copy(way.leader, adding):
            copies = 1 if side[1] is Side.FOLLOWER else len(adding)
            found[side] = found.get(side, 0.0) + copies * size_bytes
    return found


def planned_partitions(
    waiting: Iterable[WaitingPartition], running: Iterable[RunningStep] = ()
) -> list[PlannedPartition]:
    """The plan as its loads are reckoned with."""
    found = [
        PlannedPartition(
            one.transition.topic,
            one.transition.partition,
            one.transition.leader,
            one.transition.isr,
            one.write_bytes_per_s,
            dict.fromkeys(one.missing, one.size_bytes),
        )
        for one in waiting
    ]
    for one in running:
        now = dict.fromkeys(one.step.adding, one.remaining_bytes / max(1, len(one.step.adding)))
        later = {b: one.size_bytes for b in one.transition.target if b not in one.transition.replicas and b not in now}
        found.append(
            PlannedPartition(
                one.transition.topic,
                one.transition.partition,
                one.transition.leader,
                one.transition.isr,
                one.write_bytes_per_s,
                now | later,
            )
        )
    return found
