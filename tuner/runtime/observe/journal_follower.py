"""Follows the journal and its orders topic for the history of the API (tuner/api/journal_history.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from streaming.shared.kafka.read_to_end import read_to_end
from tuner.api.journal_history import JournalHistory
from tuner.journal.entries import RINGS, Entry, entry_or_none, entry_prefix
from tuner.journal.orders_topic import is_order, orders_topic_of
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.observe.background_reader import BackgroundReader

_POLL_MS = 1_000
_SLICE_S_MAX = 2.0  # How long a request waits while another request reads the journal.


def journal_follower(
    create_consumer: Callable[[], KafkaConsumer], topic: str, store: JournalHistory
) -> BackgroundReader:
    """Returns a thread that reads the journal after the first request for its history, and then reads new records.

    Args:
        create_consumer: as in ``BackgroundReader``; its consumer reads only committed records.
    """
    prefixes = tuple(entry_prefix(ring, store.cluster) for ring in RINGS)

    def add(record: Any) -> None:
        key = record.key or b""
        if record.topic == topic and record.value is not None and key.startswith(prefixes):
            entry = entry_or_none(record.value)
            if entry is not None:
                store.add(entry, record.offset)
        # Orders are taken only from the orders topic, and all other records only from the journal.
        elif is_order(key) == (record.topic != topic):
            store.apply_plan_record(key, record.value)

    def follow(consumer: KafkaConsumer, reader: BackgroundReader) -> None:
        partitions = [
            TopicPartition(name, p)
            for name in (topic, orders_topic_of(topic))
            for p in sorted(consumer.partitions_for_topic(name) or ())
        ]
        consumer.assign(partitions)
        begins = consumer.beginning_offsets(partitions) if partitions else {}
        for record in read_to_end(consumer, begins):
            add(record)
            reader.pause()
            if reader.is_stopping:
                return
        store.mark_read()
        while partitions and not reader.is_stopping:
            for records in consumer.poll(timeout_ms=_POLL_MS).values():
                for record in records:
                    add(record)
                    reader.pause()

    store.read_entries = _SliceReader(create_consumer, topic, prefixes)
    return BackgroundReader("journal", create_consumer, topic, follow, store=store)


class _SliceReader:
    """Reads some entries of the journal for one request at a time."""

    def __init__(self, create_consumer: Callable[[], KafkaConsumer], topic: str, prefixes: tuple[bytes, ...]) -> None:
        self._create_consumer = create_consumer
        self._partition = TopicPartition(topic, 0)  # The journal has one partition.
        self._prefixes = prefixes
        self._lock = threading.Lock()

    def __call__(self, offset: int, count: int) -> Iterator[Entry]:
        """Yields the entries in ``count`` offsets from ``offset`` on; none if Kafka does not answer, or another request reads."""
        if not self._lock.acquire(timeout=_SLICE_S_MAX):
            return
        try:
            consumer = self._create_consumer()
            try:
                yield from self._entries(consumer, offset, count)
            finally:
                consumer.close(timeout_ms=_POLL_MS)
        except KAFKA_ERRORS:
            return
        finally:
            self._lock.release()

    def _entries(self, consumer: KafkaConsumer, offset: int, count: int) -> Iterator[Entry]:
        consumer.assign([self._partition])
        end = min(consumer.end_offsets([self._partition])[self._partition], offset + count)
        for record in read_to_end(consumer, {self._partition: offset}, {self._partition: end}):
            if record.value is not None and (record.key or b"").startswith(self._prefixes):
                entry = entry_or_none(record.value)
                if entry is not None:
                    yield entry
