"""What a reassignment loads onto each side of each broker: bytes to copy, and the bytes/s that keeping up takes.

Intuition: kafka-reassign-partitions lists every partition of its plan for the throttle, those that stay where they are
too. On the leader side each follower of a listed partition uses the quota, in sync or not (KIP-73, Amendments); on the
follower side only the replica that is being added.

    W_leader(i)   = Σ over the plan's partitions led by i   of write rate × (in-sync followers + adding replicas)
    W_follower(j) = Σ over replicas being added on j        of write rate

Invariant: a side is here iff something is copied through it. One that only keeps up is never held back, whatever its
throttle: in-sync replicas pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition of the plan as it stands now, with what its target replicas lack."""

    topic: str
    partition: int
    leader: int
    isr: frozenset[int]
    write_bytes_per_s: float
    lacking_bytes: Mapping[int, float] = field(default_factory=dict)  # By adding replica; empty: nothing to copy.

    @property
    def followers(self) -> int:
        """How many fetch from the leader and count."""
        fetching = self.isr.union(self.lacking_bytes)
        return len(fetching) - (self.leader in fetching)


def side_loads(partitions: Iterable[PlannedPartition]) -> dict[BrokerSide, SideLoad]:
    """The load of every side that something is copied through, by broker, leader side first."""
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
    """What partitions that the plan names and that do not move take of each leader's throttle."""
    taken: dict[int, float] = {}
    for partition in partitions:
        if not partition.lacking_bytes:
            used = partition.write_bytes_per_s * partition.followers
            taken[partition.leader] = taken.get(partition.leader, 0.0) + used
    return taken
