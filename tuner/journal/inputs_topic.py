"""The topic of the inputs, read from a moment on; whoever starts does not read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

from tuner.journal.topic_reader import SILENCE_S_MAX, JournalError


def read_since(consumer: KafkaConsumer, topic: str, since_ms: int | None, *, back: int = 0) -> Iterator[Any]:
    """Kafka's records from the first that is not older to the end as it is now; none where there is no such topic.

    Args:
        since_ms: by the broker's clock; None: from so many offsets before the end.
        back: how many those are.

    Raises:
        JournalError: it cannot be read.
    """
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        if not partitions:
            return
        consumer.assign(partitions)
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        found = consumer.offsets_for_times(dict.fromkeys(partitions, max(0, since_ms))) if since_ms is not None else {}
        for partition in partitions:
            at = found.get(partition)
            start = at.offset if at is not None else ends[partition] - back
            consumer.seek(partition, max(begins[partition], start))
        deadline = time.monotonic() + SILENCE_S_MAX
        while any((consumer.position(p) or 0) < ends[p] for p in partitions):
            if time.monotonic() > deadline:
                raise JournalError(f"nothing came for {SILENCE_S_MAX:.0f} s, and the end was not reached")
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    deadline = time.monotonic() + SILENCE_S_MAX
                    yield record
    except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
        raise JournalError(f"{type(error).__name__}: {error}") from error
