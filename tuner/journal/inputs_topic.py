"""The topic of the inputs: made when it is not there. Its bytes are bounded, and whoever starts does not read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

from streaming.kafka.clients import RECORD_BYTES_MAX
from streaming.kafka.cluster import ClusterClient
from tuner.journal.inputs import topic_of
from tuner.journal.kafka_journal import SILENCE_S_MAX, JournalError

BYTES_MAX = 1024**3
DAYS = 7
_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(DAYS * 86_400_000),
    "retention.bytes": str(BYTES_MAX),
    "segment.bytes": str(64 * 1024 * 1024),  # What is deleted is deleted by whole segments.
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(RECORD_BYTES_MAX),
}


def ensure_inputs_topic(client: ClusterClient, journal: str) -> None:
    """
    Raises:
        ClusterError: not reachable, or a right is missing.
    """
    name = topic_of(journal)
    if not client.partitions([name]):
        client.create_topic(name, 1, min(3, len(client.brokers())), _SETTINGS)


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
