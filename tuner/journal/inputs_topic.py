"""Reads the inputs topic from a given time on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

from streaming.shared.kafka.read_to_end import READ_POLL_MS
from tuner.journal.topic_reader import SILENCE_S_MAX, JournalError


def read_inputs(consumer: KafkaConsumer, topic: str, since_ms: int | None, *, back: int = 0) -> Iterator[Any]:
    """Yields Kafka's records from a time on up to the current end; none if the topic does not exist.

    Args:
        since_ms: the broker's timestamp of the oldest record to read; None if the reader starts at an offset, see ``back``.
        back: how many offsets before the end of each partition to start.

    Raises:
        JournalError: the topic cannot be read.
    """
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        if not partitions:
            return
        consumer.assign(partitions)
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        by_time = (
            consumer.offsets_for_times(dict.fromkeys(partitions, max(0, since_ms))) if since_ms is not None else {}
        )
        for partition in partitions:
            first = by_time.get(partition)
            start = first.offset if first is not None else ends[partition] - back
            consumer.seek(partition, max(begins[partition], start))
        deadline = time.monotonic() + SILENCE_S_MAX
        while any((consumer.position(p) or 0) < ends[p] for p in partitions):
            if time.monotonic() > deadline:
                raise JournalError(
                    f"{topic}: no record came for {SILENCE_S_MAX:.0f} s, and the topic was not read to its end"
                )
            for records in consumer.poll(timeout_ms=READ_POLL_MS).values():
                for record in records:
                    deadline = time.monotonic() + SILENCE_S_MAX
                    yield record
    except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
        raise JournalError(f"{type(error).__name__}: {error}") from error
