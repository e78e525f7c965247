"""Reads a topic from its beginning, and then follows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

# kafka-python's network thread also raises RuntimeError and OSError (TimeoutError included).
KAFKA_ERRORS = (kafka.errors.KafkaError, RuntimeError, OSError)
_POLLS_MAX = 50  # Bounds the time of one call.


class TopicFollower:
    """Follows all partitions of one topic, outside any consumer group. Its methods raise ``KAFKA_ERRORS``."""

    def __init__(self, consumer: KafkaConsumer, topic: str) -> None:
        """
        Args:
            consumer: with ``auto_offset_reset="earliest"``, so that it reads a topic that was made again from its beginning.
        """
        self._consumer = consumer
        self._topic = topic
        self._partitions: list[TopicPartition] = []
        self._ends: dict[TopicPartition, int] = {}
        self._was_at_end = False

    @property
    def is_at_end(self) -> bool:
        """Whether everything was read that the topic had at the first poll. A topic that is made again later changes nothing."""
        if not self._was_at_end and self._partitions:
            self._was_at_end = all((self._consumer.position(p) or 0) >= end for p, end in self._ends.items())
        return self._was_at_end

    def poll(self, timeout_ms: int) -> Iterator[Any]:
        """Yields the records since the last call, and waits for the first one."""
        if not self._partitions and not self._assign():
            return
        for _ in range(_POLLS_MAX):
            batches = self._consumer.poll(timeout_ms=timeout_ms)
            if not batches:
                return
            timeout_ms = 0
            for records in batches.values():
                yield from records

    def _assign(self) -> bool:
        numbers = self._consumer.partitions_for_topic(self._topic)
        if not numbers:
            return False  # The topic does not exist yet; the next call asks again.
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self._ends = self._consumer.end_offsets(partitions)
        self._partitions = partitions
        return True
