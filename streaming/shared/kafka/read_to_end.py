"""Reads partitions up to their end, and raises an error if Kafka is silent before that."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

# A poll without records takes this time, even if its fetches have shown the end of the topic earlier.
READ_POLL_MS = 50
_SILENCE_S_MAX = 10.0


def read_to_end(
    consumer: KafkaConsumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None = None
) -> Iterator[Any]:
    """Yields the records from ``starts`` to before ``ends``. Without ``ends`` it reads to the current end, or slightly beyond.

    Args:
        starts: the first offset of each partition; all are assigned to ``consumer``.

    Raises:
        KafkaError: Kafka does not answer, or no record has come for 10 s before the end is reached.
    """
    if not starts:
        return
    limits, ends = ends, consumer.end_offsets(list(starts)) if ends is None else ends
    for partition, offset in starts.items():
        consumer.seek(partition, offset)
    answered_s = time.monotonic()
    while unread := [p for p, end in ends.items() if (consumer.position(p) or 0) < end]:
        batches = consumer.poll(timeout_ms=READ_POLL_MS)
        if batches:
            answered_s = time.monotonic()
        elif time.monotonic() - answered_s > _SILENCE_S_MAX:
            raise KafkaTimeoutError(
                f"{unread[0].topic}: no record came for {_SILENCE_S_MAX:.0f} s before the end of partition {unread[0].partition}"
            )
        for partition, records in batches.items():
            yield from (r for r in records if limits is None or r.offset < limits[partition])
