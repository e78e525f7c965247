"""The newest signal of every entity, from the signals topic.

Windows overlap: one scrape is in six of them, and the youngest holds only that scrape. So the best signal of an entity is
not the one with the latest end, but among those with the newest sample the one with the most samples.

What was made from records that waited while the stream was down (``backlog``) is history: it is counted, and kept out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import structlog
from kafka import KafkaConsumer

from streaming.shared.contract import (
    BrokerSignal,
    ContractError,
    ControllerSignal,
    MoveSignal,
    Signal,
    TenantSignal,
    decode_signal,
)
from tuner.core.cluster import BrokerSide
from tuner.journal.topic_tail import ANSWER_MS, KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.refused import RefusedRecords

log = structlog.get_logger("tuner")

# An entity that stopped sending: its age is shown and alerted on until then.
FORGET_MS = 10 * 60 * 1000
# Of each kind. More than any cluster has; a client that invents brokers or tenants must not fill the memory.
ENTITIES_MAX = 50_000


Tenant = tuple[int, str | None, str | None]  # Node of the controller, user, client-id.
K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=Signal)


class SignalCache:
    """The best signal yet of every entity of one cluster."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerSignal] = {}
        self.moves: dict[BrokerSide, MoveSignal] = {}
        self.controllers: dict[int, ControllerSignal] = {}
        self.tenants: dict[Tenant, TenantSignal] = {}
        self.backlog = 0

    def take(self, signal: Signal) -> None:
        if signal.backlog:
            self.backlog += 1
            return
        match signal:
            case BrokerSignal():
                _keep(self.brokers, signal.broker, signal)
            case MoveSignal():
                _keep(self.moves, (signal.broker, signal.side), signal)
            case ControllerSignal():
                _keep(self.controllers, signal.node, signal)
            case TenantSignal():
                _keep(self.tenants, (signal.node, signal.user, signal.client_id), signal)

    def forget_old(self, now_ms: int) -> None:
        self.brokers = _young(self.brokers, now_ms)
        self.moves = _young(self.moves, now_ms)
        self.controllers = _young(self.controllers, now_ms)
        self.tenants = _young(self.tenants, now_ms)


class SignalReader(SignalCache):
    """The signals of one cluster, for a loop that must go on: what cannot be read stays unknown."""

    def __init__(
        self,
        consumer: KafkaConsumer,
        topic: str,
        cluster: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.refused = RefusedRecords(topic, "it counts as no signal", monotonic=monotonic)
        self._tail = TopicTail(consumer, topic)
        self._cluster = cluster
        self._topic = topic

    def poll(self) -> int:
        """Takes in what has come; how many records. A broker that is away costs nothing here but staleness later."""
        return self._take_all(self._tail.poll(ANSWER_MS))

    def rewind(self, records: int) -> None:
        """Takes in the newest that are there already, at least ``records``; for a look without a history."""
        self._take_all(self._tail.read_recent(records))

    def _take_all(self, records: Iterator[Any]) -> int:
        taken = 0
        try:
            for record in records:
                taken += 1
                self._take(record)
        except KAFKA_ERRORS as error:
            log.warning("the signals topic cannot be read", topic=self._topic, error=str(error))
        return taken

    def _take(self, record: Any) -> None:
        try:
            signal = decode_signal(record.value or b"")
        except ContractError as error:
            self.refused.refuse(record, str(error))
            return
        if signal.cluster == self._cluster:
            self.take(signal)


def _keep(known: dict[K, S], key: K, new: S) -> None:
    old = known.get(key)
    if (old is not None or len(known) < ENTITIES_MAX) and _better(new, old):
        known[key] = new


def _young(known: dict[K, S], now_ms: int) -> dict[K, S]:
    # A sample from far ahead would else be kept, and counted as new, until its time comes.
    return {key: signal for key, signal in known.items() if abs(now_ms - signal.sampled_at_ms) < FORGET_MS}


def _better(new: Signal, old: Signal | None) -> bool:
    if old is None:
        return True
    # A sample from far ahead came from a clock that was wrong then: it must not keep out all that come after.
    if old.sampled_at_ms - new.sampled_at_ms > FORGET_MS:
        return True
    return (new.sampled_at_ms, new.samples) >= (old.sampled_at_ms, old.samples)
