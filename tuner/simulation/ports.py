"""Implements the ports of the production loop on the simulated cluster, in simulated time.

Simulated time stops during a call. A production port waits until a setting is visible. A simulated port instead computes whether
the setting would be visible in time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterError, PartitionState
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.decision import Decision, ExecutedDecision
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, PartitionMove, RateSetting
from tuner.core.operator_orders import Orders
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure
from tuner.journal.entries import Entry
from tuner.runtime.observe.signals_reader import SignalCache
from tuner.runtime.observe.stationary_partitions import StationaryPartitions
from tuner.runtime.throttle.actuator import CONFIRM_S_MAX
from tuner.simulation.cluster import Cluster
from tuner.simulation.signals import Stream


class SimulatedSignals(SignalCache):
    """The production cache of the newest signals, fed by the simulated stream."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def poll(self) -> int:
        arrived = self._stream.arrived()
        for signal in arrived:
            self.add(signal)
        return len(arrived)


class SimulatedLive:
    """Takes snapshots of the simulated cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._moves: tuple[PartitionMove, ...] = ()
        self._stationary = StationaryPartitions()
        self._changes = -1  # The value of ``Cluster.changes`` for which ``_moves`` was read.

    def snapshot(
        self,
        *,
        full: bool,  # noqa: ARG002 - the port's signature; every snapshot is full here
        extra_topics: Collection[str] = (),  # noqa: ARG002 - the port's signature
        waiting_brokers: Collection[int] = (),  # noqa: ARG002 - the port's signature
    ) -> LiveCluster:
        cluster, replicas = self._cluster, self._cluster.replicas
        alive = frozenset(b for b, lives in zip(replicas.brokers, replicas.alive, strict=True) if lives)
        if self._changes != cluster.changes:
            self._moves, self._changes = tuple(moves_of(cluster)), cluster.changes
            self._stationary.read(
                partitions_of(cluster), cluster.lists, {(m.topic, m.partition) for m in self._moves}, alive
            )
        rates = {side: RateSetting(rate) for side, rate in cluster.controller.rates.items() if side[0] in alive}
        fetch = cluster.world.fetch
        return LiveCluster(
            alive,
            self._moves,
            rates,
            dict(cluster.lists),
            quota_samples=dict.fromkeys(alive, fetch.quota_samples),
            fetchers=dict.fromkeys(alive, fetch.fetchers),
            lost_replica_sides=self._stationary.sides,
            quota_sample_s=dict.fromkeys(alive, round(fetch.quota_sample_s)) if fetch.quota_sample_s != 1 else {},
        )


def moves_of(cluster: Cluster) -> Iterable[PartitionMove]:
    """Yields the moves that ListPartitionReassignments would return."""
    replicas = cluster.replicas
    yield from _as_moves(cluster, np.unique(replicas.partition[replicas.adding]))


def partitions_of(cluster: Cluster) -> Iterable[PartitionState]:
    """Yields the partitions with out-of-sync replicas, as a description of all topics would show them."""
    replicas = cluster.replicas
    for move in _as_moves(cluster, np.unique(replicas.partition[replicas.present & ~replicas.in_sync])):
        yield PartitionState(move.topic, move.partition, leader=move.leader, replicas=move.replicas, isr=move.isr)


def _as_moves(cluster: Cluster, partitions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterable[PartitionMove]:
    """Yields the state of these partitions as moves, even if they do not move."""
    replicas = cluster.replicas
    brokers = np.array(replicas.brokers)
    for partition in partitions:
        is_replica = (replicas.partition == partition) & replicas.present

        def brokers_of(rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, ...]:
            return tuple(int(b) for b in brokers[replicas.broker[rows]])

        spec, leader = replicas.specs[partition], int(replicas.leader[partition])
        yield PartitionMove(
            spec.topic,
            spec.partition,
            replicas.brokers[leader] if leader >= 0 else -1,
            replicas=brokers_of(is_replica),
            adding=brokers_of(is_replica & replicas.adding),
            removing=brokers_of(is_replica & replicas.removing),
            isr=brokers_of(is_replica & replicas.in_sync),
        )


class SimulatedThrottles:
    """Reads and writes throttles; ``writes`` counts the requested settings."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.writes = 0

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        rates = self._cluster.controller.rates
        return {s: rates.get(s) if self._alive(s[0]) else ClusterError(_no_answer(s[0])) for s in sides}

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        answers: dict[BrokerSide, Failure | None] = {}
        for side, rate in rates.items():
            self.writes += 1
            answers[side] = None if self._alive(side[0]) else _no_answer(side[0])
            if answers[side] is None:
                self._cluster.controller.write(self._cluster.now_s, side, rate)
        return answers

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        until_s = self._cluster.now_s + CONFIRM_S_MAX
        answers: dict[BrokerSide, Failure | None] = {}
        for side, rate in rates.items():
            current = self._cluster.controller.expected(side, until_s)
            answers[side] = None if current == rate else f"{rate} was written, but the broker has {current}"
        return answers

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        current, cleared = self._cluster.lists.get(topic, TopicThrottle()), set(sides)
        if decided_on is not None and any(current.for_side(side) != decided_on.for_side(side) for side in cleared):
            return CHANGED_EXTERNALLY
        self.writes += 1
        self._cluster.set_lists(
            topic,
            TopicThrottle(
                ThrottledReplicas() if Side.LEADER in cleared else current.leader,
                ThrottledReplicas() if Side.FOLLOWER in cleared else current.follower,
            ),
        )
        return None

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        for topic, added in pairs.items():
            current = self._cluster.lists.get(topic, TopicThrottle())
            merged = current.plus(added)
            self.writes += 1
            # A list of all replicas (``*``) needs no entry.
            self._cluster.set_lists(
                topic,
                TopicThrottle(
                    current.leader if current.leader.all_replicas else merged.leader,
                    current.follower if current.follower.all_replicas else merged.follower,
                ),
            )
        return dict.fromkeys(pairs)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        for topic, removed in pairs.items():
            self.writes += 1
            self._cluster.set_lists(topic, self._cluster.lists.get(topic, TopicThrottle()).without(removed))
        return dict.fromkeys(pairs)

    def _alive(self, broker: int) -> bool:
        return bool(self._cluster.replicas.alive[self._cluster.replicas.index_of[broker]])


class MemoryJournal:
    """Keeps every record; tests and reports read ``entries`` and ``memory``."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.memory = Memory()

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        moving_replicas: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        self.entries.extend(entries)
        base = self.memory if memory is None else memory
        new_replicas = {
            (topic, partition): brokers
            for topic, rows in (moving_replicas or {}).items()
            for partition, brokers in rows.items()
        }
        managed_lists = {topic: pairs for topic, pairs in {**base.listed, **(listed or {})}.items() if pairs}
        self.memory = replace(
            base,
            owned={**base.owned, **(owned or {})},
            moving_replicas={**base.moving_replicas, **new_replicas},
            listed=managed_lists,
        )


class NoOrders:
    """The port of operator orders, without any order."""

    latest = Orders()
    superseded: tuple[Orders, ...] = ()

    def follow(self, wait_ms: int = 0) -> None:
        pass


class SilentObserver:
    """An observer that records nothing."""

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:
        pass

    def record_actions(self, acts: Sequence[ExecutedDecision]) -> None:
        pass


def _no_answer(broker: int) -> Failure:
    return f"broker {broker} does not answer"
