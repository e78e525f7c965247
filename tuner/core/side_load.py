"""Computes the load of a reassignment on each side of each broker: bytes to copy, and steady-state replication W (bytes/s).

kafka-reassign-partitions lists every partition of its plan for the throttle, including those that do not move. On the leader side
each follower of a listed partition uses the quota, in sync or not (KIP-73, Amendments). On the follower side only replicas that
are being added use it.

    W_leader(i)   = Σ over the plan's partitions led by i   of write rate × (in-sync followers + adding replicas)
    W_follower(j) = Σ over replicas being added on j        of write rate

Invariant: a side is in the result only if the plan copies through it. Other sides need no rate, because a throttle never delays
in-sync replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition of the plan in its current state, with the bytes that each adding replica still lacks."""

    topic: str
    partition: int
    leader: int
    isr: frozenset[int]
    write_bytes_per_s: float
    lacking_bytes: Mapping[int, float] = field(default_factory=dict)  # By adding replica; empty: nothing to copy.

    @property
    def followers(self) -> int:
        """Number of followers that use the leader's quota."""
        fetching = self.isr.union(self.lacking_bytes)
        return len(fetching) - (self.leader in fetching)


def side_loads(partitions: Iterable[PlannedPartition]) -> dict[BrokerSide, SideLoad]:
    """Returns the load of every side that the plan copies through, by broker, leader side first."""
    remaining: dict[BrokerSide, float] = {}
    steady_state: dict[BrokerSide, float] = {}
    for partition in partitions:
        source = (partition.leader, Side.LEADER)
        steady_state[source] = steady_state.get(source, 0.0) + partition.write_bytes_per_s * partition.followers
        for broker, lacking_bytes in partition.lacking_bytes.items():
            target = (broker, Side.FOLLOWER)
            steady_state[target] = steady_state.get(target, 0.0) + partition.write_bytes_per_s
            for side in (source, target):
                remaining[side] = remaining.get(side, 0.0) + lacking_bytes
    order = sorted(remaining, key=lambda side: (side[0], side[1] is Side.FOLLOWER))
    return {side: SideLoad(remaining[side], steady_state[side]) for side in order}


def idle_steady_state_bytes_per_s(partitions: Iterable[PlannedPartition]) -> dict[int, float]:
    """Returns the bytes/s of each leader's throttle that partitions of the plan use although they do not move."""
    used: dict[int, float] = {}
    for partition in partitions:
        if not partition.lacking_bytes:
            rate = partition.write_bytes_per_s * partition.followers
            used[partition.leader] = used.get(partition.leader, 0.0) + rate
    return used
