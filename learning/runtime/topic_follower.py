"""Reads a topic from its beginning, and then follows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

# kafka-python's network thread also raises RuntimeError and OSError (TimeoutError included).
KAFKA_ERRORS = (kafka.errors.KafkaError, RuntimeError, OSError)
_POLLS_MAX = 50  # Bounds the time of one call.
# A process that waits for Kafka must still end soon after SIGTERM.
_POSITION_MS_MAX, _END_OFFSETS_MS_MAX = 1_000, 5_000


class TopicFollower:
    """Follows all partitions of one topic, outside any consumer group. ``poll`` raises ``KAFKA_ERRORS``."""

    def __init__(self, consumer: KafkaConsumer, topic: str) -> None:
        """
        Args:
            consumer: has ``auto_offset_reset="earliest"``, so that it reads a recreated topic from the beginning.
        """
        self._consumer = consumer
        self._topic = topic
        self._partitions: list[TopicPartition] = []
        self._ends: dict[TopicPartition, int] = {}
        # Whether all records that the topic had at the first poll were read. It stays True if the topic is recreated later.
        self.is_at_end = False

    def poll(self, timeout_ms: int) -> Iterator[Any]:
        """Yields the records since the last call, and waits for the first one."""
        if not self._partitions and not self._assign():
            return
        for _ in range(_POLLS_MAX):
            batches = self._consumer.poll(timeout_ms=timeout_ms)
            if not batches:
                break
            timeout_ms = 0
            for records in batches.values():
                yield from records
        self.is_at_end = self.is_at_end or all(map(self._has_read, self._partitions))

    def _has_read(self, partition: TopicPartition) -> bool:
        position = self._consumer.position(partition, timeout_ms=_POSITION_MS_MAX)
        return position is not None and position >= self._ends[partition]

    def _assign(self) -> bool:
        numbers = self._consumer.partitions_for_topic(self._topic)
        if not numbers:
            return False  # The topic does not exist yet; the next call asks again.
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self._ends = self._consumer.end_offsets(partitions, timeout_ms=_END_OFFSETS_MS_MAX)
        self._partitions = partitions
        return True
