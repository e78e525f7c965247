"""Balances the loads of brokers by moving as few bytes as possible.

Terms:
    load   the bytes that a broker holds, or the number of its replicas if no partition has any bytes.
    giver  a broker with a load above the mean, from which a replica moves.
    taker  a broker with a load below the mean, to which a replica moves.

Each move takes the largest replica that is at most as large as the giver's surplus over the mean and the taker's gap to the mean.
If no replica is small enough, the move takes the smallest replica that still makes the two loads more equal.

Invariant: each partition moves at most once, and each move makes two loads more equal, so the search ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tuner.core.reassignment_plan import TopicPartition
from tuner.planning.broker_load import BrokerLoads


def balance_loads(
    loads: BrokerLoads, givers: Sequence[int], takers: Sequence[int], tolerance: float, *, limits_givers: bool
) -> None:
    """Moves replicas from givers to takers.

    Args:
        givers, takers: brokers that are alive; a broker may be in both.
        tolerance: the load of a taker ends at (1 − tolerance) × mean or higher, if moves of whole replicas allow it.
        limits_givers: the load of a giver also ends at (1 + tolerance) × mean or lower; False: moves end once the takers are
            filled.
    """
    balance = _Balance(loads)
    active = set(givers)
    while active:
        giver = max(active, key=lambda b: (balance.load[b], -b))
        if not _give(balance, giver, takers, tolerance, limits_givers=limits_givers):
            active.discard(giver)


def _give(balance: _Balance, giver: int, takers: Sequence[int], tolerance: float, *, limits_givers: bool) -> bool:
    """Moves one replica from the giver to the emptiest taker that can get one. Returns False if no move is possible or needed."""
    surplus = balance.load[giver] - balance.mean
    for taker in sorted(takers, key=lambda b: (balance.load[b], b)):
        gap_to_mean = balance.mean - balance.load[taker]
        difference = balance.load[giver] - balance.load[taker]
        distance = max(gap_to_mean, surplus) if limits_givers else gap_to_mean
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
        # Replicas on brokers that are down are left out, because these brokers will come back.
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

    def find(self, giver: int, taker: int, size_max: float, difference: float) -> TopicPartition | None:
        """Returns the largest replica up to ``size_max``, else the smallest replica below ``difference``; None if there is none.

        Args:
            size_max: the largest size that leaves both loads on their side of the mean.
            difference: load of the giver − load of the taker.
        """
        replicas = self._replicas_on[giver]
        first = bisect_left(replicas, -size_max, key=lambda key: -self._weight(key))
        key = self._first_allowed(replicas[first:], giver, taker, difference)
        if key is None:
            key = self._first_allowed(reversed(replicas[:first]), giver, taker, difference)
        return key

    def _first_allowed(
        self, keys: Iterable[TopicPartition], giver: int, taker: int, difference: float
    ) -> TopicPartition | None:
        """Returns the first replica that may move and is smaller than ``difference``, so its move makes the loads more equal."""
        loads = self._loads
        for key in keys:
            if key in self._moved_partitions or not 0 < self._weight(key) < difference:
                continue
            if (
                loads.has_no_replica_on(key, taker)
                and loads.has_room(key, taker)
                and loads.keeps_racks(key, giver, taker)
            ):
                return key
        return None

    def move(self, key: TopicPartition, giver: int, taker: int) -> None:
        self._loads.move(key, giver, taker)
        self._moved_partitions.add(key)
        self._replicas_on[giver].remove(key)
        self.load[giver] -= self._weight(key)
        self.load[taker] += self._weight(key)
