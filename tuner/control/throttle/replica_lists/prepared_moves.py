"""Treats steps of plans that are about to begin as moves, so that they are throttled before their first byte.

Kafka copies as soon as a step is requested, and a small partition is copied before the next snapshot shows its move. So the
executor of plans first submits its steps. The tuner treats each of these prepared steps as a move that has copied nothing yet, and
sets its rates and lists. Only then does the executor request the step from Kafka. If the executor does not request it, the step
looks like a cancelled move: the tuner removes its entries from the lists.

Invariant: a step is deferred if its throttle could not be set, or if another client has begun to reassign the partition. A step
that needs no throttle is never deferred. A step that waits for other steps does not count as failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streaming.shared.contract import Side
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove, side_name
from tuner.core.reassignment_plan import ReassignmentSnapshot, TopicPartition
from tuner.core.reassignment_steps import ReassignmentStep

REASSIGNED_EXTERNALLY = "not begun: another client has begun to reassign the partition"
CANCELLATION_FIRST = "cancelled steps are stopped first"
ORDER_CHANGED = "an operator has changed the order meanwhile"


@dataclass(frozen=True, slots=True)
class FailedThrottles:
    """Topics whose lists a cycle could not write, and sides whose rate it could not set."""

    topics: frozenset[str] = frozenset()
    sides: frozenset[BrokerSide] = frozenset()


@dataclass(frozen=True, slots=True)
class Deferred:
    """Steps that are recorded and must not be requested yet, with the reason.

    Attributes:
        failed: an operator has to repair something; the steps are tried again later.
        waiting: nothing has to be repaired; the steps are evaluated again with the next snapshot.
        waiting_for_capacity: the waiting steps for which an immediate new snapshot would change nothing.
    """

    failed: Mapping[TopicPartition, str] = field(default_factory=dict)
    waiting: Mapping[TopicPartition, str] = field(default_factory=dict)
    waiting_for_capacity: frozenset[TopicPartition] = frozenset()


NONE_DEFERRED = Deferred()


def steps_as_moves(steps: Iterable[ReassignmentStep], snapshot: ReassignmentSnapshot) -> tuple[PartitionMove, ...]:
    """Returns the steps that copy data, as the moves that Kafka will list once the steps have begun."""
    moves = []
    for step in steps:
        current = snapshot.partitions.get((step.topic, step.partition))
        if current is None or not step.adding:
            continue
        replicas = (*step.replicas, *(b for b in current.replicas if b not in step.replicas))
        moves.append(
            PartitionMove(
                topic=step.topic,
                partition=step.partition,
                leader=current.leader,
                replicas=replicas,
                adding=step.adding,
                removing=step.dropping,
                isr=current.isr,
            )
        )
    return tuple(moves)


def with_prepared_moves(live: LiveCluster, prepared: Sequence[PartitionMove]) -> LiveCluster:
    """Returns the snapshot with the prepared moves of partitions that do not move yet."""
    if not prepared:
        return live
    moving = {(move.topic, move.partition) for move in live.moves}
    new_moves = tuple(move for move in prepared if (move.topic, move.partition) not in moving)
    return replace(live, moves=(*live.moves, *new_moves)) if new_moves else live


def sides_of(moves: Iterable[PartitionMove]) -> frozenset[BrokerSide]:
    """Returns all sides that the moves copy through."""
    return frozenset(side for move in moves for side in _sides_of_move(move))


def sides_not_readable(live: LiveCluster, memory: Memory) -> frozenset[BrokerSide]:
    """Returns the sides whose throttle is unknown: the settings are unreadable, or an owned rate has disappeared."""
    return memory.missing_rates | {(broker, side) for broker in live.unreadable for side in Side}


def find_deferred_steps(
    prepared: Sequence[PartitionMove],
    failed: FailedThrottles,
    not_readable: Collection[BrokerSide] = frozenset(),
    moving: Collection[TopicPartition] = frozenset(),
) -> dict[TopicPartition, str]:
    """Returns the prepared moves that must not begin, with the reason.

    Args:
        not_readable: see ``sides_not_readable``.
        moving: partitions that are being reassigned already.
    """
    deferred = {}
    for move in prepared:
        key = (move.topic, move.partition)
        if key in moving:
            deferred[key] = REASSIGNED_EXTERNALLY
            continue
        reason = _explain_unthrottled(move, failed.topics, {*failed.sides, *not_readable})
        if reason is not None:
            deferred[key] = reason
    return deferred


def classify_deferred(
    deferred: Mapping[TopicPartition, str],
    urgent: Collection[TopicPartition],
    order_changed: Collection[TopicPartition],
    waiting_for_capacity: Collection[TopicPartition] = (),
) -> Deferred:
    """Sorts deferred steps into failed and waiting ones.

    Args:
        deferred: the steps that must not begin, from the tuner's cycle.
        urgent: steps of partitions below min.insync.replicas. Only an external reassignment or a changed order defers them.
        order_changed: steps of plans whose state an operator has changed since the steps were submitted.
        waiting_for_capacity: the deferred steps that wait for other steps to end.
    """
    for_capacity = frozenset(key for key in waiting_for_capacity if key in deferred and key not in urgent)
    waiting = {key: why for key, why in deferred.items() if why == REASSIGNED_EXTERNALLY or key in for_capacity}
    waiting |= dict.fromkeys(order_changed, ORDER_CHANGED)
    failed = {key: why for key, why in deferred.items() if key not in waiting and key not in urgent}
    return Deferred(failed, waiting, waiting_for_capacity=for_capacity - {*order_changed})


def _explain_unthrottled(move: PartitionMove, topics: Collection[str], sides: Collection[BrokerSide]) -> str | None:
    """Returns why the move would run without a throttle; None if it would be throttled.

    Args:
        topics: topics whose lists could not be written.
        sides: sides whose rate could not be read or set.
    """
    unset_sides = [side_name(side) for side in _sides_of_move(move) if side in sides]
    if unset_sides:
        return f"not begun, because it would run without a throttle: {', '.join(unset_sides)} could not be read or set"
    if move.topic in topics:
        return (
            f"not begun, because it would run without a throttle: the throttled-replica lists of topic {move.topic} "
            "could not be written"
        )
    return None


def _sides_of_move(move: PartitionMove) -> tuple[BrokerSide, ...]:
    return ((move.leader, Side.LEADER), *((b, Side.FOLLOWER) for b in move.destinations))
