"""Evens out what brokers hold, by moving as little as will do.

Intuition: who holds more than the mean gives, who holds less takes, and a replica goes straight from one to the other: the largest
that neither end would have too little or too much of after it. Where none fits, the smallest that still leaves the two
nearer to each other than they were.

Invariant: a partition is moved once at most, and every move leaves its two brokers nearer to each other. So it ends.

Vocabulary:
    load   bytes a broker holds; where no partition has any, replicas.
    lacks  what a broker is below the mean, spare what it is above.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tuner.planning.broker_load import BrokerLoads
from tuner.planning.plan_file import TopicPartition


def even_out(
    ground: BrokerLoads, givers: Sequence[int], takers: Sequence[int], tolerance: float, *, both: bool
) -> None:
    """
    Args:
        givers, takers: brokers that are alive; one may be both.
        tolerance: a share of the mean. Takers are filled up to so much below it.
        both: givers, too, shall be no more than so much above it.
    """
    level = _Level(ground)
    active = set(givers)
    while active:
        giver = max(active, key=lambda b: (level.load[b], -b))
        if not _give(level, giver, takers, tolerance, both=both):
            active.discard(giver)


def _give(level: _Level, giver: int, takers: Sequence[int], tolerance: float, *, both: bool) -> bool:
    spare = level.load[giver] - level.mean
    for taker in sorted(takers, key=lambda b: (level.load[b], b)):
        lacks, gap = level.mean - level.load[taker], level.load[giver] - level.load[taker]
        near = max(lacks, spare) if both else lacks
        if spare <= 0 or gap <= 0 or near <= tolerance * level.mean:
            return False
        key = level.find(giver, taker, min(spare, lacks), gap)
        if key is not None:
            level.move(key, giver, taker)
            return True
    return False


class _Level:
    """Loads while replicas are moved, and what each broker has to give, the largest first."""

    def __init__(self, ground: BrokerLoads) -> None:
        self._ground = ground
        self._by_bytes = any(ground.held_bytes[b] > 0 for b in ground.alive)
        self._moved: set[TopicPartition] = set()
        # Replicas on brokers that are down are no part of it: they come back.
        self.load = dict.fromkeys(ground.alive, 0.0)
        self._on: dict[int, list[TopicPartition]] = {b: [] for b in ground.alive}
        for key in sorted(ground.partitions, key=lambda k: (-self._weight(k), k)):
            for broker in ground.replicas[key]:
                if broker in self.load:
                    self.load[broker] += self._weight(key)
                    self._on[broker].append(key)
        self.mean = sum(self.load.values()) / max(1, len(self.load))

    def _weight(self, key: TopicPartition) -> float:
        return self._ground.partitions[key].size_bytes if self._by_bytes else 1.0

    def find(self, giver: int, taker: int, most: float, gap: float) -> TopicPartition | None:
        """The largest up to ``most``, else the smallest above it and below ``gap``."""
        there = self._on[giver]
        first = bisect_left(there, -most, key=lambda key: -self._weight(key))
        return self._first(there[first:], giver, taker, gap) or self._first(reversed(there[:first]), giver, taker, gap)

    def _first(self, keys: Iterable[TopicPartition], giver: int, taker: int, gap: float) -> TopicPartition | None:
        ground = self._ground
        for key in keys:
            if key in self._moved or not 0 < self._weight(key) < gap:
                continue
            if ground.may_be_on(key, taker) and ground.has_room(key, taker) and ground.keeps_racks(key, giver, taker):
                return key
        return None

    def move(self, key: TopicPartition, giver: int, taker: int) -> None:
        self._ground.move(key, giver, taker)
        self._moved.add(key)
        self._on[giver].remove(key)
        self.load[giver] -= self._weight(key)
        self.load[taker] += self._weight(key)
