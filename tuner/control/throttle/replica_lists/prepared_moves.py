"""Steps of plans that are about to be asked for, as moves: throttled before their first byte, and not some seconds after it.

Intuition: a lorry is weighed before it is let onto the bridge. Kafka copies from the moment it is asked, and what small partitions
have to copy is gone by before the next look finds them. So the executor of plans says first what it is about to ask for, the
tuner takes it for a move that has copied nothing yet, and puts rates and lists on as it does for everything that moves. Only
then is the step asked for. What is not asked for after all looks like a move that was cancelled: its entries leave the lists.

Invariant: a step is withheld where its throttle could not be put on, or where somebody else has begun to reassign the partition
meanwhile; and asked for wherever the tuner would not throttle a move. One that only waits for its turn has not failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streaming.shared.contract import Side
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove, side_name
from tuner.core.reassignment_plan import ReassignmentSnapshot, TopicPartition
from tuner.core.reassignment_steps import ReassignmentStep

REASSIGNED_EXTERNALLY = "not begun: somebody has begun to reassign it meanwhile"
CANCELLATION_FIRST = "what is stopped goes first"
ORDER_CHANGED = "something else was said meanwhile"


@dataclass(frozen=True, slots=True)
class FailedThrottles:
    """What a cycle could not put on."""

    topics: frozenset[str] = frozenset()  # Whose lists could not be written.
    sides: frozenset[BrokerSide] = frozenset()  # Whose rate could not be set.


@dataclass(frozen=True, slots=True)
class Deferred:
    """Steps of a turn that are on record and are not asked for, and why."""

    failed: Mapping[TopicPartition, str] = field(
        default_factory=dict
    )  # Something has to be mended first: tried again later.
    waiting: Mapping[TopicPartition, str] = field(default_factory=dict)  # Nothing has: the next look goes on with them.
    waiting_for_room: frozenset[TopicPartition] = frozenset()  # Of those, what a look at once would find as it is.


NONE_DEFERRED = Deferred()


def steps_as_moves(steps: Iterable[ReassignmentStep], look: ReassignmentSnapshot) -> tuple[PartitionMove, ...]:
    """The steps that copy anything, as Kafka will tell of them once they have begun."""
    found = []
    for step in steps:
        now = look.partitions.get((step.topic, step.partition))
        if now is None or not step.adding:
            continue
        together = (*step.replicas, *(b for b in now.replicas if b not in step.replicas))
        found.append(
            PartitionMove(step.topic, step.partition, now.leader, together, step.adding, step.dropping, now.isr)
        )
    return tuple(found)


def with_prepared_moves(live: LiveCluster, announced: Sequence[PartitionMove]) -> LiveCluster:
    """What moves by now is told by the cluster, and better."""
    moving = {(move.topic, move.partition) for move in live.moves} if announced else set()
    more = tuple(move for move in announced if (move.topic, move.partition) not in moving)
    return replace(live, moves=(*live.moves, *more)) if more else live


def sides_of(announced: Iterable[PartitionMove]) -> frozenset[BrokerSide]:
    """What they copy through."""
    return frozenset(
        side
        for move in announced
        for side in ((move.leader, Side.LEADER), *((b, Side.FOLLOWER) for b in move.destinations))
    )


def sides_not_readable(live: LiveCluster, memory: Memory) -> frozenset[BrokerSide]:
    """Where nobody can say by this look whether anything throttles: settings that could not be read, a rate that is gone since."""
    return memory.missing_rates | {(broker, side) for broker in live.unreadable for side in Side}


def find_deferred_steps(
    announced: Sequence[PartitionMove],
    failed: FailedThrottles,
    not_seen: Collection[BrokerSide] = frozenset(),
    moving: Collection[TopicPartition] = frozenset(),
) -> dict[TopicPartition, str]:
    """Which of them must not begin, and why.

    Args:
        not_seen: see ``sides_not_readable``.
        moving: what is being reassigned by now.
    """
    found = {}
    for move in announced:
        if (move.topic, move.partition) in moving:
            found[(move.topic, move.partition)] = REASSIGNED_EXTERNALLY
            continue
        why = _why_not(move, failed.topics, {*failed.sides, *not_seen})
        if why is not None:
            found[(move.topic, move.partition)] = why
    return found


def classify_deferred(
    found: Mapping[TopicPartition, str],
    urgent: Collection[TopicPartition],
    unsaid: Collection[TopicPartition],
    without_room: Collection[TopicPartition] = (),
) -> Deferred:
    """
    Args:
        found: what must not begin, as the tuner's cycle has said.
        urgent: what producers wait for: only somebody else's reassignment keeps it from beginning.
        unsaid: what nobody wants any more as it was wanted when it was announced.
        without_room: of ``found``, what waits for others to be done.
    """
    rests = frozenset(key for key in without_room if key in found and key not in urgent)
    waits = {key: why for key, why in found.items() if why == REASSIGNED_EXTERNALLY or key in rests}
    waits |= dict.fromkeys(unsaid, ORDER_CHANGED)
    failed = {key: why for key, why in found.items() if key not in waits and key not in urgent}
    return Deferred(failed, waits, rests - {*unsaid})


def _why_not(move: PartitionMove, topics: Collection[str], sides: Collection[BrokerSide]) -> str | None:
    passed = [(move.leader, Side.LEADER), *((b, Side.FOLLOWER) for b in move.destinations)]
    unset = [side_name(side) for side in passed if side in sides]
    if unset:
        return f"not begun, as it would not be throttled: {', '.join(unset)} could not be read or set"
    if move.topic in topics:
        return f"not begun, as it would not be throttled: the throttled-replica lists of topic {move.topic} could not be written"
    return None
