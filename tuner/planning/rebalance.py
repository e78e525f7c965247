"""Balances what brokers hold, by moving as few bytes as possible.

A replica goes straight from a broker above the mean to one below it: the largest replica that fits both the surplus and the gap.
If none fits, the smallest one that still brings the two brokers nearer to each other.

Invariant: each partition moves at most once, and each move brings its two brokers nearer to each other. So the search ends.

Terms: a broker's load is the bytes it holds, or its replicas if no partition has any bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tuner.core.reassignment_plan import TopicPartition
from tuner.planning.broker_load import BrokerLoads


def even_out(
    loads: BrokerLoads, givers: Sequence[int], takers: Sequence[int], tolerance: float, *, level_givers: bool
) -> None:
    """Moves replicas from givers to takers.

    Args:
        givers, takers: brokers that are alive; a broker may be both.
        tolerance: share of the mean; takers are filled up to this much below the mean.
        level_givers: also move replicas off each giver until it is at most ``tolerance`` above the mean; False: stop once the
            takers are filled.
    """
    balance = _Balance(loads)
    active = set(givers)
    while active:
        giver = max(active, key=lambda b: (balance.load[b], -b))
        if not _give(balance, giver, takers, tolerance, level_givers=level_givers):
            active.discard(giver)


def _give(balance: _Balance, giver: int, takers: Sequence[int], tolerance: float, *, level_givers: bool) -> bool:
    """Moves one replica from the giver to the emptiest taker with room; returns False if no such move is left."""
    surplus = balance.load[giver] - balance.mean
    for taker in sorted(takers, key=lambda b: (balance.load[b], b)):
        gap_to_mean, difference = balance.mean - balance.load[taker], balance.load[giver] - balance.load[taker]
        distance = max(gap_to_mean, surplus) if level_givers else gap_to_mean
        if surplus <= 0 or difference <= 0 or distance <= tolerance * balance.mean:
            return False
        key = balance.find(giver, taker, min(surplus, gap_to_mean), difference)
        if key is not None:
            balance.move(key, giver, taker)
            return True
    return False


class _Balance:
    """Loads while replicas are moved, and the replicas of each broker, the largest first."""

    def __init__(self, loads: BrokerLoads) -> None:
        self._loads = loads
        self._by_bytes = any(loads.held_bytes[b] > 0 for b in loads.alive)
        self._moved_partitions: set[TopicPartition] = set()
        # Replicas on brokers that are down do not count: they come back.
        self.load = dict.fromkeys(loads.alive, 0.0)
        self._replicas_on: dict[int, list[TopicPartition]] = {b: [] for b in loads.alive}
        for key in sorted(loads.partitions, key=lambda k: (-self._weight(k), k)):
            for broker in loads.replicas[key]:
                if broker in self.load:
                    self.load[broker] += self._weight(key)
                    self._replicas_on[broker].append(key)
        self.mean = sum(self.load.values()) / max(1, len(self.load))

    def _weight(self, key: TopicPartition) -> float:
        return self._loads.partitions[key].size_bytes if self._by_bytes else 1.0

    def find(self, giver: int, taker: int, size_max: float, gap: float) -> TopicPartition | None:
        """Returns the largest replica up to ``size_max``, else the smallest one between it and ``gap``."""
        replicas = self._replicas_on[giver]
        first = bisect_left(replicas, -size_max, key=lambda key: -self._weight(key))
        return self._first_allowed(replicas[first:], giver, taker, gap) or self._first_allowed(
            reversed(replicas[:first]), giver, taker, gap
        )

    def _first_allowed(
        self, keys: Iterable[TopicPartition], giver: int, taker: int, gap: float
    ) -> TopicPartition | None:
        loads = self._loads
        for key in keys:
            if key in self._moved_partitions or not 0 < self._weight(key) < gap:
                continue
            if loads.may_be_on(key, taker) and loads.has_room(key, taker) and loads.keeps_racks(key, giver, taker):
                return key
        return None

    def move(self, key: TopicPartition, giver: int, taker: int) -> None:
        self._loads.move(key, giver, taker)
        self._moved_partitions.add(key)
        self._replicas_on[giver].remove(key)
        self.load[giver] -= self._weight(key)
        self.load[taker] += self._weight(key)
