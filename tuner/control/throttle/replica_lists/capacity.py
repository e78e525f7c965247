"""Steps of plans that would not fit on the throttled-replica lists: they wait, as what is not listed is not throttled.

Intuition: Kafka bounds the length of a setting, so one topic's list is a car park with some four thousand places. What moves
already is let in as far as there is room, leaders first, because it copies whether it is listed or not. A step that has not begun
can wait at the gate until others have left.

Invariant: a step that is let in fits whole, on both sides, beside all that stands and all that moves; so it takes no place from
what moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import LIST_CHARS_MAX, LIST_KEYS, Pair, TopicThrottle, replica_list_text
from tuner.control.throttle.replica_lists.required import required_replicas
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.reassignment_plan import TopicPartition

_NOTHING = TopicThrottle()


def steps_that_fit(
    live: LiveCluster, announced: Sequence[PartitionMove]
) -> tuple[tuple[PartitionMove, ...], dict[TopicPartition, str]]:
    """
    Args:
        live: as the cluster tells of it, without what is announced.
        announced: what is to begin first comes first.

    Returns:
        what fits, in the same order; and of the rest, why it must not begin yet.
    """
    if not announced:
        return (), {}
    moving = {(move.topic, move.partition) for move in live.moves}
    busy = {move.topic for move in live.moves}
    taken: dict[str, dict[Side, int]] = {}
    fits: list[PartitionMove] = []
    waits: dict[TopicPartition, str] = {}
    for move in announced:
        stands = live.lists.get(move.topic, _NOTHING)
        if (move.topic, move.partition) in moving:
            fits.append(move)  # It copies already.
            continue
        if move.topic not in taken:
            taken[move.topic] = _taken(live, move.topic, stands)
        needed = required_replicas([move])
        more = {side: _chars(needed.of(side), stands, side) for side in Side}
        of_topic = taken[move.topic]
        if any(more[side] and of_topic[side] + more[side] > LIST_CHARS_MAX for side in Side):
            waits[(move.topic, move.partition)] = _why(move.topic, others=move.topic in busy)
            continue
        for side in Side:
            of_topic[side] += more[side]
        busy.add(move.topic)
        fits.append(move)
    return tuple(fits), waits


def _taken(live: LiveCluster, topic: str, stands: TopicThrottle) -> dict[Side, int]:
    """The characters of each list with all that stands on it and all that has to be on it for what moves."""
    needed = required_replicas([move for move in live.moves if move.topic == topic])
    return {
        side: len(replica_list_text(stands.for_side(side).pairs)) + _chars(needed.of(side), stands, side)
        for side in Side
    }


def _chars(pairs: frozenset[Pair], stands: TopicThrottle, side: Side) -> int:
    """What they make the list longer, with a comma before each; nothing where they are listed."""
    of_side = stands.for_side(side)
    return sum(len(f",{partition}:{broker}") for partition, broker in pairs if not of_side.includes(partition, broker))


def _why(topic: str, *, others: bool) -> str:
    until = (
        "until others are done"
        if others
        else f"and nothing of it moves: take off what somebody has left there (`kafka-configs --alter --entity-type topics "
        f"--entity-name {topic} --delete-config {LIST_KEYS[Side.LEADER]},{LIST_KEYS[Side.FOLLOWER]}`)"
    )
    return (
        f"not begun, as it would not be throttled: the throttled-replica lists of topic {topic} have no room for it "
        f"({LIST_CHARS_MAX} characters each) {until}"
    )
