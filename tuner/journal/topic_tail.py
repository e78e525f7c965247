"""Follows the newest records of one topic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

from streaming.shared.kafka.client_internals import newest_timestamps_ms
from streaming.shared.kafka.read_to_end import READ_POLL_MS

# How long a poll waits for a new fetch. A poll with timeout 0 returns only the records of the previous fetch, which may be none:
# records written since then would arrive one poll later.
ANSWER_MS = 50

POLLS_MAX = 50  # Bounds the time of one call while records keep coming.

# kafka-python's network thread also raises RuntimeError and OSError (TimeoutError included).
KAFKA_ERRORS = (kafka.errors.KafkaError, RuntimeError, OSError)

# ``read_recent`` starts so long before the newest record. This time covers every entity of a large cluster, sources that report
# once a minute, and the last signals of a stream that stands still.
_RECENT_MS = 60_000
_RECENT_RECORDS_MAX = 50_000
_SILENCE_S_MAX = 3.0  # Time without a record after which a read ends: a partition without a leader never answers.


class TopicTail:
    """Reads all partitions of a topic, outside any consumer group. Its methods raise ``KAFKA_ERRORS``."""

    def __init__(self, consumer: KafkaConsumer, topic: str, start_offsets: Mapping[int, int] | None = None) -> None:
        """
        Args:
            start_offsets: by partition, the offset to begin at. Other partitions begin at their end.
        """
        self._consumer = consumer
        self._topic = topic
        self._start_offsets = start_offsets or {}
        self._partitions: list[TopicPartition] = []

    @property
    def topic_exists(self) -> bool:
        """Whether the last call has found the topic."""
        return bool(self._partitions)

    def poll(self, timeout_ms: int = 0) -> Iterator[Any]:
        """Yields the records since the last call. The first call begins at the end, or at ``start_offsets``.

        Args:
            timeout_ms: how long to wait for the first record. Each further poll waits ``ANSWER_MS`` at most.
        """
        if not self._partitions and self._assign():
            self._consumer.seek_to_end(*self._partitions)
            for partition in self._partitions:
                if partition.partition in self._start_offsets:
                    self._consumer.seek(partition, self._start_offsets[partition.partition])
        if not self._partitions:
            return
        for _ in range(POLLS_MAX):
            batches = self._consumer.poll(timeout_ms=timeout_ms, max_records=20_000)
            if not batches:
                return
            timeout_ms = min(timeout_ms, ANSWER_MS)
            for records in batches.values():
                yield from records

    def read_recent(self, records: int = 0) -> Iterator[Any]:
        """Yields the minute before the newest record, in each partition. ``poll`` then continues after them.

        Args:
            records: at least so many records of each partition, also if they are older.
        """
        if not self._assign():
            return
        ends = self._consumer.end_offsets(self._partitions)
        begins = self._consumer.beginning_offsets(self._partitions)
        newest_ms = newest_timestamps_ms(self._consumer, self._partitions)
        # A record from the future comes from a wrong clock.
        now_ms = round(time.time() * 1000)
        since_ms = {partition: max(0, min(now_ms, ms) - _RECENT_MS) for partition, ms in newest_ms.items()}
        by_time = self._consumer.offsets_for_times(since_ms)
        for partition, end in ends.items():
            first_recent = by_time.get(partition)
            start = min(end - records, first_recent.offset if first_recent is not None else end)
            self._consumer.seek(partition, max(begins[partition], start, end - _RECENT_RECORDS_MAX))
        yield from self._read_to(ends)

    def read_all(self) -> Iterator[Any]:
        """Yields all records up to the current end, for a compacted topic. ``poll`` then continues after them."""
        if not self._assign():
            return
        ends = self._consumer.end_offsets(self._partitions)
        for partition, begin in self._consumer.beginning_offsets(self._partitions).items():
            self._consumer.seek(partition, begin)
        yield from self._read_to(ends)

    def _read_to(self, ends: Mapping[TopicPartition, int]) -> Iterator[Any]:
        """Yields the records up to these offsets. Ends earlier if no record comes for ``_SILENCE_S_MAX``."""
        last_answer_s = time.monotonic()
        while any((self._consumer.position(p) or 0) < end for p, end in ends.items()):
            batches = self._consumer.poll(timeout_ms=READ_POLL_MS)
            if batches:
                last_answer_s = time.monotonic()
            elif time.monotonic() - last_answer_s > _SILENCE_S_MAX:
                return
            for batch in batches.values():
                yield from batch

    def _assign(self) -> bool:
        partitions = self._consumer.partitions_for_topic(self._topic)
        if not partitions:
            return False  # The topic does not exist yet; the next call asks again.
        self._partitions = [TopicPartition(self._topic, p) for p in sorted(partitions)]
        self._consumer.assign(self._partitions)
        return True
