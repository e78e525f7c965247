"""Reads the signals topic, and keeps the best signal of each broker, side, follower, controller and tenant.

Windows overlap: each scrape is in six windows, and the latest of these windows holds only this scrape. So the signal of the latest
window is imprecise. Among the signals that include the newest scrape, the best signal has the most samples.

Signals made from records that waited while the stream was down (``backlog``) are out of date. They are counted and dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import structlog
from kafka import KafkaConsumer

from streaming.shared.contract import (
    BrokerProfile,
    BrokerSignal,
    ContractError,
    ControllerSignal,
    MoveSignal,
    ReplicationSignal,
    Signal,
    TenantSignal,
    decode_signal,
)
from tuner.control.throttle.recovery import without_recoveries
from tuner.control.throttle.steering.latency_baseline import LatencyBaseline, quiet_from_ms, update_baseline
from tuner.core.broker_baseline import BrokerBaseline, baseline_now
from tuner.core.cluster import BrokerSide
from tuner.journal.topic_tail import ANSWER_MS, KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.refused import RefusedRecords

log = structlog.get_logger("tuner")

# An entity without new signals is forgotten after this time. Until then its age is shown, and causes alerts.
FORGET_MS = 10 * 60 * 1000
# Maximum number of entities of one kind; more than any cluster has. A client with random names must not fill the memory.
ENTITIES_MAX = 50_000


Tenant = tuple[int, str | None, str | None]  # Node of the controller, user, client-id.
K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=Signal)


class SignalCache:
    """The best signal of every entity of one cluster so far."""

    def __init__(self) -> None:
        # If False, the tuner does not throttle recovering replicas, so recovering partitions are removed from the signals of sides.
        self.includes_recoveries = True
        self.brokers: dict[int, BrokerSignal] = {}
        self.moves: dict[BrokerSide, MoveSignal] = {}
        self.replication: dict[int, ReplicationSignal] = {}  # By follower.
        self.controllers: dict[int, ControllerSignal] = {}
        self.tenants: dict[Tenant, TenantSignal] = {}
        # Profiles and baselines are by broker. They stay when signals are forgotten.
        self.profiles: Mapping[int, BrokerProfile] = {}  # The profiles that `rheostat learn` has published.
        self.baselines: dict[int, BrokerBaseline] = {}  # Each broker's usual latency without copies.
        self._latencies: dict[int, LatencyBaseline] = {}
        self._quiet_from_ms = 0
        self.backlog = 0

    def add(self, signal: Signal) -> None:
        if signal.backlog:
            self.backlog += 1
            return
        match signal:
            case BrokerSignal():
                _keep(self.brokers, signal.broker, signal)
                if signal is self.brokers.get(signal.broker):
                    self._quiet_from_ms = quiet_from_ms(self._quiet_from_ms, signal)
                    self._update_baseline(signal)
            case MoveSignal():
                self._quiet_from_ms = quiet_from_ms(self._quiet_from_ms, signal)
                move = signal if self.includes_recoveries else without_recoveries(signal)
                _keep(self.moves, (signal.broker, signal.side), move)
            case ReplicationSignal():
                _keep(self.replication, signal.broker, signal)
            case ControllerSignal():
                _keep(self.controllers, signal.node, signal)
            case TenantSignal():
                _keep(self.tenants, (signal.node, signal.user, signal.client_id), signal)

    def _update_baseline(self, signal: BrokerSignal) -> None:
        broker = signal.broker
        latency = update_baseline(self._latencies.get(broker), signal, self._quiet_from_ms)
        self._latencies[broker] = latency
        measured = BrokerBaseline()
        if latency.is_known:
            measured = BrokerBaseline(latency.p99_ms, latency.mean_ms or None)
        self.baselines[broker] = baseline_now(
            measured, latency.counted_at_ms, self.profiles.get(broker), signal.sampled_at_ms
        )

    def link_speed_bytes_per_s(self, broker: int) -> float | None:
        """Returns the speed of a broker's link; None if its metrics do not tell it."""
        signal = self.brokers.get(broker)
        return None if signal is None else signal.link_speed_bytes_per_s

    def forget_old(self, now_ms: int) -> None:
        self.brokers = _recent(self.brokers, now_ms)
        self.moves = _recent(self.moves, now_ms)
        self.replication = _recent(self.replication, now_ms)
        self.controllers = _recent(self.controllers, now_ms)
        self.tenants = _recent(self.tenants, now_ms)


class SignalReader(SignalCache):
    """Reads the signals of one cluster. If the topic cannot be read, no exception is raised, but the signals become stale."""

    def __init__(
        self,
        consumer: KafkaConsumer | None,
        topic: str,
        cluster: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            consumer: None if there are no signals until ``attach``.
        """
        super().__init__()
        self.refused = RefusedRecords(topic, "it is not used as a signal", monotonic=monotonic)
        self._tail = TopicTail(consumer, topic) if consumer is not None else None
        self._cluster = cluster
        self._topic = topic

    def attach(self, consumer: KafkaConsumer) -> None:
        """Reads with this consumer from now on. Safe to call from any thread."""
        self._tail = TopicTail(consumer, self._topic)

    def poll(self) -> int:
        """Reads new records. Returns their number."""
        return self._add_all(self._tail.poll(ANSWER_MS)) if self._tail is not None else 0

    def rewind(self) -> None:
        """Reads the minute before the newest record, for a command that has just started and has read none yet."""
        if self._tail is not None:
            self._add_all(self._tail.read_recent())

    def _add_all(self, records: Iterator[Any]) -> int:
        count = 0
        try:
            for record in records:
                count += 1
                self._add_record(record)
        except KAFKA_ERRORS as error:
            log.warning("the signals topic cannot be read", topic=self._topic, error=str(error))
        return count

    def _add_record(self, record: Any) -> None:
        try:
            signal = decode_signal(record.value or b"")
        except ContractError as error:
            self.refused.refuse(record, str(error))
            return
        if signal.cluster == self._cluster:
            self.add(signal)


def _keep(known: dict[K, S], key: K, new: S) -> None:
    old = known.get(key)
    if (old is not None or len(known) < ENTITIES_MAX) and _is_better(new, old):
        known[key] = new


def _recent(known: dict[K, S], now_ms: int) -> dict[K, S]:
    # ``abs``: a sample from the future comes from a wrong clock. Without ``abs``, this sample would look new until its time has
    # come.
    return {key: signal for key, signal in known.items() if abs(now_ms - signal.sampled_at_ms) < FORGET_MS}


def _is_better(new: Signal, old: Signal | None) -> bool:
    if old is None:
        return True
    # An old sample from far in the future comes from a wrong clock. It must not block all later samples.
    if old.sampled_at_ms - new.sampled_at_ms > FORGET_MS:
        return True
    return (new.sampled_at_ms, new.samples) >= (old.sampled_at_ms, old.samples)
