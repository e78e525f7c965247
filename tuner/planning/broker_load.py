"""Tracks which replicas and how many bytes each broker holds while a plan is made, and which brokers may take a replica.

A replica never moves to one of these brokers:

1. a cordoned broker;
2. a broker that has a replica of the same partition;
3. a broker at its partition limit.

A replica moves to a broker that leaves its partition on fewer racks only if no other broker is possible. The plan then names the
partition. Among the possible brokers, the broker that holds the fewest bytes is the best.

Invariant: loads and counts always include the moves of the plan so far, so no two moves use the same capacity.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionCounts, PartitionLimits
from tuner.core.reassignment_plan import TopicPartition


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """A partition with its current replicas; no reassignment of it is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    size_bytes: float = 0.0

    @property
    def key(self) -> TopicPartition:
        return (self.topic, self.partition)


class BrokerLoads:
    """Loads of all brokers; ``move`` changes them, one replica at a time."""

    def __init__(
        self,
        partitions: Iterable[PlacedPartition],
        racks: Mapping[int, str | None],
        counts: PartitionCounts,
        limits: PartitionLimits,
        cordoned: Collection[int] = (),
    ) -> None:
        """
        Args:
            racks: rack of each broker that is alive; only these brokers can take replicas.
            counts: number of partitions that each broker hosts now.
            cordoned: brokers that take no new replicas (KIP-1066).
        """
        self.cordoned = frozenset(cordoned)
        self._racks = dict(racks)
        self._rack_aware = bool(racks) and None not in racks.values()
        self.limits = limits
        self.partitions = {p.key: p for p in partitions}
        self.replicas = {key: p.replicas for key, p in self.partitions.items()}
        brokers = {*racks, *counts.by_broker}.union(*(p.replicas for p in self.partitions.values()))
        self.hosted = {b: counts.on_broker(b) for b in brokers}
        self.held_bytes = dict.fromkeys(brokers, 0.0)
        for p in self.partitions.values():
            for b in p.replicas:
                self.held_bytes[b] += p.size_bytes

    @property
    def alive(self) -> list[int]:
        return sorted(self._racks)

    @property
    def takers(self) -> list[int]:
        """The brokers that are alive and take new replicas."""
        return [broker for broker in self.alive if broker not in self.cordoned]

    def move(self, key: TopicPartition, old: int, new: int) -> None:
        """Moves a replica. It keeps its position in the replica list, so a preferred leader's replica remains preferred."""
        self.replicas[key] = tuple(new if b == old else b for b in self.replicas[key])
        size_bytes = self.partitions[key].size_bytes
        self.held_bytes[old] -= size_bytes
        self.held_bytes[new] += size_bytes
        if key[0] not in INTERNAL_TOPICS:  # No partition limit counts internal topics.
            self.hosted[old] -= 1
            self.hosted[new] += 1

    def has_room(self, key: TopicPartition, broker: int) -> bool:
        """Returns whether the broker's partition limit allows one more partition."""
        return key[0] in INTERNAL_TOPICS or self.hosted[broker] < self.limits.for_broker(broker)

    def has_no_replica_on(self, key: TopicPartition, broker: int) -> bool:
        """Returns whether the broker has no replica of the partition. The broker's partition limit is not considered."""
        return broker not in self.replicas[key]

    def keeps_racks(self, key: TopicPartition, old: int, new: int) -> bool:
        """Returns whether the move leaves the partition on at least as many racks as before the plan."""
        return self.racks_after(key, old, new) >= self._rack_count(self.partitions[key].replicas)

    def keeps_rack_count(self, key: TopicPartition) -> bool:
        """Returns whether the plan so far leaves the partition on at least as many racks as before."""
        return self._rack_count(self.replicas[key]) >= self._rack_count(self.partitions[key].replicas)

    def racks_after(self, key: TopicPartition, old: int, new: int) -> int:
        """Returns on how many racks the partition is after the move; 0 if racks are unknown."""
        return self._rack_count(tuple(new if b == old else b for b in self.replicas[key]))

    def _rack_count(self, replicas: tuple[int, ...]) -> int:
        if not self._rack_aware:
            return 0
        return len({self._racks[b] for b in replicas if b in self._racks})

    def candidate_brokers(self, key: TopicPartition, old: int, brokers: Collection[int]) -> list[int]:
        """Returns the ``brokers`` without a replica of the partition, the best first: more racks, then fewer bytes.

        Partition limits are not considered.
        """
        free = [b for b in brokers if self.has_no_replica_on(key, b)]
        return sorted(free, key=lambda b: (-self.racks_after(key, old, b), self.held_bytes[b], self.hosted[b], b))
