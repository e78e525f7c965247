"""What has to be listed for the moves of one topic, whoever lists it.

The leader's side gets every replica that may lead and serve the partition, the follower's side those that are being added,
until they are in sync; while a replica that was in sync comes back, its partition is off the leader's side (see lists.py).
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
    """Of one topic."""

    leader: frozenset[Pair] = frozenset()
    follower: frozenset[Pair] = frozenset()
    first: frozenset[Pair] = frozenset()  # Of the leader's side, what counts now and not only after a failure.
    with_lost_replicas: tuple[PartitionMove, ...] = ()  # Of which a replica that was in sync is not.
    recovering: frozenset[int] = frozenset()  # Partitions that are off the leader's side for that.

    def of(self, side: Side) -> frozenset[Pair]:
        return self.leader if side is Side.LEADER else self.follower


def required_replicas(moves: Sequence[PartitionMove]) -> RequiredReplicas:
    """As if nothing came back."""
    leader: set[Pair] = set()
    follower: set[Pair] = set()
    first: set[Pair] = set()
    out = []
    for move in moves:
        waited_for = [b for b in move.adding if b not in move.isr]
        if not waited_for:
            continue  # Nothing is to be copied, or nothing any more.
        kept = [b for b in move.replicas if b not in move.adding]
        follower.update((move.partition, b) for b in waited_for)
        leader.update((move.partition, b) for b in kept)
        first.add((move.partition, move.leader))
        if not all(b in move.isr for b in kept):
            out.append(move)
    return RequiredReplicas(frozenset(leader), frozenset(follower), frozenset(first), tuple(out))


def without_recovering(needed: RequiredReplicas, live: LiveCluster) -> RequiredReplicas:
    """The same object where nothing comes back."""
    recovering = frozenset(move.partition for move in needed.with_lost_replicas if find_lost_replicas(move, live))
    if not recovering:
        return needed
    leader = frozenset(pair for pair in needed.leader if pair[0] not in recovering)
    return replace(needed, leader=leader, recovering=recovering)


def pairs_missing_from(pairs: frozenset[Pair], others: frozenset[Pair]) -> frozenset[Pair]:
    """What is not among the others; mostly nothing, which is cheaper to see than to make a set of."""
    return frozenset() if pairs <= others else pairs - others
