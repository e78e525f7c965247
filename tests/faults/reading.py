"""Reads a topic from its beginning to its current end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from kafka import TopicPartition

from streaming.shared.kafka import KafkaSettings, consumer

_READ_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    at_ms: int
    key: bytes
    value: bytes


def read(settings: KafkaSettings, topic: str) -> Iterator[Record]:
    """Returns committed records; raises TimeoutError if the end is not reached in time."""
    reader = consumer(settings, "faults-reader", isolation_level="read_committed")
    try:
        partitions = [TopicPartition(topic, p) for p in sorted(reader.partitions_for_topic(topic) or ())]
        reader.assign(partitions)
        reader.seek_to_beginning(*partitions)
        ends = reader.end_offsets(partitions)
        deadline = time.monotonic() + _READ_S_MAX
        while any((reader.position(p) or 0) < end for p, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {topic} was not reached within {_READ_S_MAX:.0f} s")
            for records in reader.poll(timeout_ms=500).values():
                for record in records:
                    yield Record(record.timestamp, record.key or b"", record.value or b"")
    finally:
        reader.close(timeout_ms=2000)
