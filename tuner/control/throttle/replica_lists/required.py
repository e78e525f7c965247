"""Computes which replicas must be on the throttled-replica lists for the moves of one topic.

The leader's list gets every existing replica, because each of them may become the leader. The follower's list gets the replicas
that are being added, until they are in sync. While a lost replica of a partition catches up, the partition is not on the leader's
list (list_rules.py). A lost replica has fallen out of the ISR although its broker is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import Pair
from tuner.control.throttle.isr_recovery import find_lost_replicas
from tuner.core.cluster import LiveCluster, PartitionMove


@dataclass(frozen=True, slots=True)
class RequiredReplicas:
    """Required pairs (partition, broker) of one topic.

    Attributes:
        leader: pairs of the leader's list.
        follower: pairs of the follower's list.
        current_leaders: the pairs of ``leader`` for the present leaders; the other pairs matter only after a change of leader.
        with_lost_replicas: moves of partitions with an existing replica that is not in the ISR.
        recovering: partitions that are not on the leader's list, because a lost replica catches up.
    """

    leader: frozenset[Pair] = frozenset()
    follower: frozenset[Pair] = frozenset()
    current_leaders: frozenset[Pair] = frozenset()
    with_lost_replicas: tuple[PartitionMove, ...] = ()
    recovering: frozenset[int] = frozenset()

    def for_side(self, side: Side) -> frozenset[Pair]:
        return self.leader if side is Side.LEADER else self.follower


def required_replicas(moves: Sequence[PartitionMove]) -> RequiredReplicas:
    """Returns the required replicas; the leader's list still has partitions with lost replicas (see ``without_recovering``)."""
    leader: set[Pair] = set()
    follower: set[Pair] = set()
    current_leaders: set[Pair] = set()
    with_lost_replicas = []
    for move in moves:
        copying = [b for b in move.adding if b not in move.isr]
        if not copying:
            continue
        existing = [b for b in move.replicas if b not in move.adding]
        follower.update((move.partition, b) for b in copying)
        leader.update((move.partition, b) for b in existing)
        current_leaders.add((move.partition, move.leader))
        if not all(b in move.isr for b in existing):
            with_lost_replicas.append(move)
    return RequiredReplicas(
        frozenset(leader), frozenset(follower), frozenset(current_leaders), tuple(with_lost_replicas)
    )


def without_recovering(required: RequiredReplicas, live: LiveCluster) -> RequiredReplicas:
    """Returns ``required`` without recovering partitions on the leader's list; the same object if no partition recovers."""
    recovering = frozenset(move.partition for move in required.with_lost_replicas if find_lost_replicas(move, live))
    if not recovering:
        return required
    leader = frozenset(pair for pair in required.leader if pair[0] not in recovering)
    return replace(required, leader=leader, recovering=recovering)


def pairs_missing_from(pairs: frozenset[Pair], others: frozenset[Pair]) -> frozenset[Pair]:
    """Returns the pairs that are not in ``others``."""
    # Usually there are no such pairs, and the subset test is cheaper than a new set.
    return frozenset() if pairs <= others else pairs - others
