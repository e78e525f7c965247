"""Follows the newest records of one topic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

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
