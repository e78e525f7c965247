"""The newest signal of every entity, from the signals topic.

Windows overlap: one scrape is in six of them, and the youngest holds only that scrape. So the best signal of an entity is
not the one with the latest end, but among those with the newest sample the one with the most samples.

What was made from records that waited while the stream was down (``backlog``) is history: it is counted, and kept out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import kafka.errors
import structlog
from kafka import KafkaConsumer, TopicPartition

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
from tuner.runtime.observe.refused import RefusedRecords

log = structlog.get_logger("tuner")

# An entity that stopped sending: its age is shown and alerted on until then.
FORGET_MS = 10 * 60 * 1000
# Of each kind. More than any cluster has; a client that invents brokers or tenants must not fill the memory.
ENTITIES_MAX = 50_000
# What a poll gives at once was fetched ahead, right after the last look, or was then answered with nothing (fetch.max.wait.ms).
# What has come since takes a fetch of its own: without a moment for its answer it would be read with the next look only.
ANSWER_MS = 50
POLLS_MAX = 50  # A cycle takes in all that has come, but does not live in here.
# kafka-python's network thread answers with these two beside its own errors.
TROUBLE = (kafka.errors.KafkaError, RuntimeError, OSError)

# A look without a history begins so far back, and so many records at least: enough for every entity of a large cluster,
# also of sources that speak once a minute, and with a stream that stands still for its last words.
_REWIND_MS = 60_000
_REWIND_RECORDS_MAX = 50_000
_SILENCE_S_MAX = 3.0  # A first fetch takes its time; a partition without a leader never answers.

Tenant = tuple[int, str | None, str | None]  # Node of the controller, user, client-id.
K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=Signal)


class NewestSignals:
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


class SignalTail:
    """Follows all partitions of the topic, in no consumer group: everybody sees everything. Raises what Kafka raises."""

    def __init__(self, consumer: KafkaConsumer, topic: str, since: Mapping[int, int] | None = None) -> None:
        """
        Args:
            since: by partition, the offset to begin with; one that isn't named begins at its end.
        """
        self._consumer = consumer
        self._topic = topic
        self._since = since or {}
        self._assigned: list[TopicPartition] = []

    def new(self, timeout_ms: int = 0) -> Iterator[Any]:
        """The records that have come since; the first call begins at the end, or where it was said.

        Args:
            timeout_ms: how long to wait for the first of them; for more, as long as an answer takes.
        """
        if not self._assigned and self._assign():
            self._consumer.seek_to_end(*self._assigned)
            for partition in self._assigned:
                if partition.partition in self._since:
                    self._consumer.seek(partition, self._since[partition.partition])
        if not self._assigned:
            return
        for _ in range(POLLS_MAX):
            batches = self._consumer.poll(timeout_ms=timeout_ms, max_records=20_000)
            if not batches:
                return
            timeout_ms = min(timeout_ms, ANSWER_MS)
            for records in batches.values():
                yield from records

    def rewound(self, records: int) -> Iterator[Any]:
        """Those of the last minute, and of each partition at least the newest ``records``; further calls of ``new`` go on."""
        if not self._assign():
            return
        ends = self._consumer.end_offsets(self._assigned)
        begins = self._consumer.beginning_offsets(self._assigned)
        since_ms = round(time.time() * 1000) - _REWIND_MS
        recent = self._consumer.offsets_for_times(dict.fromkeys(self._assigned, since_ms))
        for partition, end in ends.items():
            found = recent.get(partition)
            start = min(end - records, found.offset if found is not None else end)
            self._consumer.seek(partition, max(begins[partition], start, end - _REWIND_RECORDS_MAX))
        heard_s = time.monotonic()
        while any((self._consumer.position(p) or 0) < end for p, end in ends.items()):
            batches = self._consumer.poll(timeout_ms=500)
            if batches:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > _SILENCE_S_MAX:
                return
            for batch in batches.values():
                yield from batch

    def _assign(self) -> bool:
        partitions = self._consumer.partitions_for_topic(self._topic)
        if not partitions:
            return False  # Not created yet; asked again at the next call.
        self._assigned = [TopicPartition(self._topic, p) for p in sorted(partitions)]
        self._consumer.assign(self._assigned)
        return True


class SignalReader(NewestSignals):
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
        self._tail = SignalTail(consumer, topic)
        self._cluster = cluster
        self._topic = topic

    def poll(self) -> int:
        """Takes in what has come; how many records. A broker that is away costs nothing here but staleness later."""
        return self._take_all(self._tail.new(ANSWER_MS))

    def rewind(self, records: int) -> None:
        """Takes in the newest that are there already, at least ``records``; for a look without a history."""
        self._take_all(self._tail.rewound(records))

    def _take_all(self, records: Iterator[Any]) -> int:
        taken = 0
        try:
            for record in records:
                taken += 1
                self._take(record)
        except TROUBLE as error:
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
