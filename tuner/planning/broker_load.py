"""Brokers with what they hold, while a plan is being made: who may take a replica, and who should.

Intuition: three things forbid a move (a second replica on one broker, a limit, fewer racks than before), and one recommends it: the
broker that holds least. Limits are never bent. Racks are where a partition has nowhere else to go, and that is said.

Invariant: what a broker holds and hosts is what the plan so far leaves it with, so two moves never count on the same room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionCounts, PartitionLimits
from tuner.planning.plan_file import TopicPartition


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition as it stands; none of it is being reassigned."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    size_bytes: float = 0.0

    @property
    def key(self) -> TopicPartition:
        return (self.topic, self.partition)


class BrokerLoads:
    """The one thing here that changes: moves are made on it, one replica at a time."""

    def __init__(
        self,
        partitions: Iterable[Placed],
        racks: Mapping[int, str | None],
        counts: PartitionCounts,
        limits: PartitionLimits,
    ) -> None:
        """
        Args:
            racks: of the brokers that are alive; only these can take something. Racks of others are not known.
            counts: what every broker hosts now.
        """
        self._racks = dict(racks)
        self._rack_aware = bool(racks) and None not in racks.values()
        self.limits = limits
        self.partitions = {p.key: p for p in partitions}
        self.replicas = {key: p.replicas for key, p in self.partitions.items()}
        brokers = {*racks, *counts.by_broker, *(b for p in self.partitions.values() for b in p.replicas)}
        self.hosted = {b: counts.of(b) for b in brokers}
        self.held_bytes = dict.fromkeys(brokers, 0.0)
        for p in self.partitions.values():
            for b in p.replicas:
                self.held_bytes[b] += p.size_bytes

    @property
    def alive(self) -> list[int]:
        return sorted(self._racks)

    def move(self, key: TopicPartition, old: int, new: int) -> None:
        """In the old one's place, so that a preferred leader is followed by one."""
        self.replicas[key] = tuple(new if b == old else b for b in self.replicas[key])
        size_bytes, counts = self.partitions[key].size_bytes, key[0] not in INTERNAL_TOPICS
        self.held_bytes[old] -= size_bytes
        self.held_bytes[new] += size_bytes
        self.hosted[old] -= counts
        self.hosted[new] += counts

    def has_room(self, key: TopicPartition, broker: int) -> bool:
        return key[0] in INTERNAL_TOPICS or self.hosted[broker] < self.limits.of(broker)

    def may_be_on(self, key: TopicPartition, broker: int) -> bool:
        """No replica of it is there; the broker's limit is another question."""
        return broker not in self.replicas[key]

    def keeps_racks(self, key: TopicPartition, old: int, new: int) -> bool:
        """The partition is on no fewer racks after the move than at the start."""
        return self.racks_after(key, old, new) >= self._spread(self.partitions[key].replicas)

    def still_apart(self, key: TopicPartition) -> bool:
        """The same of where the plan so far has it."""
        return self._spread(self.replicas[key]) >= self._spread(self.partitions[key].replicas)

    def racks_after(self, key: TopicPartition, old: int, new: int) -> int:
        return self._spread(tuple(new if b == old else b for b in self.replicas[key]))

    def _spread(self, replicas: tuple[int, ...]) -> int:
        if not self._rack_aware:
            return 0
        return len({self._racks[b] for b in replicas if b in self._racks})

    def choices(self, key: TopicPartition, old: int, among: Collection[int]) -> list[int]:
        """Who of these, all alive, may take the replica, the best first: more racks, then fewer bytes. Room is not looked at."""
        free = [b for b in among if self.may_be_on(key, b)]
        return sorted(free, key=lambda b: (-self.racks_after(key, old, b), self.held_bytes[b], self.hosted[b], b))
