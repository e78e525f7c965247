"""Defers steps of plans that would not fit on the throttled-replica lists, because an unlisted replica is not throttled.

Kafka limits the length of a setting, so the list of one topic has room for some four thousand replicas. Moves in progress come
first, because they copy whether they are listed or not. A step that has not begun can wait until other moves have ended.

Invariant: a step may begin only if all its entries fit on the leader's and the follower's list, in addition to all present entries
and the entries of all moves in progress.
"""

from __future__ import annotations

from collections.abc import Sequence

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import LIST_CHARS_MAX, LIST_KEYS, Pair, TopicThrottle, replica_list_text
from tuner.control.throttle.replica_lists.required import required_replicas
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.reassignment_plan import TopicPartition

_EMPTY_LISTS = TopicThrottle()


def steps_that_fit(
    live: LiveCluster, prepared: Sequence[PartitionMove]
) -> tuple[tuple[PartitionMove, ...], dict[TopicPartition, str]]:
    """Divides the prepared steps into those that fit and those that must wait.

    Args:
        live: the snapshot without the prepared steps.
        prepared: steps that are about to begin, by priority.

    Returns:
        the steps that fit, in the same order; and the remaining steps with the reason why they must not begin yet.
    """
    if not prepared:
        return (), {}
    moving = {(move.topic, move.partition) for move in live.moves}
    busy_topics = {move.topic for move in live.moves}
    used_chars: dict[str, dict[Side, int]] = {}
    fitting: list[PartitionMove] = []
    waiting: dict[TopicPartition, str] = {}
    for move in prepared:
        current = live.lists.get(move.topic, _EMPTY_LISTS)
        if (move.topic, move.partition) in moving:
            fitting.append(move)  # The step has begun already.
            continue
        if move.topic not in used_chars:
            used_chars[move.topic] = _used_chars(live, move.topic, current)
        required = required_replicas([move])
        added = {side: _added_chars(required.for_side(side), current, side) for side in Side}
        used_by_side = used_chars[move.topic]
        if any(added[side] and used_by_side[side] + added[side] > LIST_CHARS_MAX for side in Side):
            waiting[(move.topic, move.partition)] = _explain_full_list(
                move.topic, others_move=move.topic in busy_topics
            )
            continue
        for side in Side:
            used_by_side[side] += added[side]
        busy_topics.add(move.topic)
        fitting.append(move)
    return tuple(fitting), waiting


def _used_chars(live: LiveCluster, topic: str, current: TopicThrottle) -> dict[Side, int]:
    """Returns the length of each list with its current entries and those that moves in progress require."""
    required = required_replicas([move for move in live.moves if move.topic == topic])
    return {
        side: len(replica_list_text(current.for_side(side).pairs))
        + _added_chars(required.for_side(side), current, side)
        for side in Side
    }


def _added_chars(pairs: frozenset[Pair], current: TopicThrottle, side: Side) -> int:
    """Returns the number of characters that the pairs add to the list, each with a comma. Pairs on the list add none."""
    replicas = current.for_side(side)
    return sum(len(f",{partition}:{broker}") for partition, broker in pairs if not replicas.includes(partition, broker))


def _explain_full_list(topic: str, *, others_move: bool) -> str:
    action = (
        "the step waits until other steps are done"
        if others_move
        else "no partition of the topic moves, so delete the entries that another tool left there (`kafka-configs --alter "
        f"--entity-type topics --entity-name {topic} --delete-config {LIST_KEYS[Side.LEADER]},{LIST_KEYS[Side.FOLLOWER]}`)"
    )
    return (
        f"not begun, because it would run without a throttle: the throttled-replica lists of topic {topic} have no room for it "
        f"({LIST_CHARS_MAX} characters each); {action}"
    )
