"""The journal in its topic. A write that is not acknowledged did not happen, and what it announced must not either."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import kafka.errors
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tuner.journal.entries import (
    Entry,
    decode_entry,
    decode_memory,
    encode_entry,
    encode_memory,
    entry_key,
    memory_key,
)
from tuner.model.memory import Memory

ACK_S_MAX = 10.0
SILENCE_S_MAX = 30.0


class JournalError(Exception):
    """The journal could not be read or written."""


class KafkaJournal:
    def __init__(self, producer: KafkaProducer, topic: str, cluster: str) -> None:
        self._producer = producer
        self._topic = topic
        self._cluster = cluster
        self._seq = 0

    def recover(self, consumer: KafkaConsumer) -> Memory:
        """What we remembered when we last wrote; an empty memory in a new journal.

        Raises:
            JournalError: it cannot be read whole, or its memory cannot be understood.
        """
        memory = Memory()
        for key, value in read_all(consumer, self._topic):
            if value is None:
                continue
            if key == memory_key(self._cluster):
                try:
                    memory = decode_memory(value)
                except ValueError as error:
                    raise JournalError(
                        f"the memory in {self._topic} cannot be read ({error}): run the version of rheostat that wrote it"
                    ) from error
            elif key.startswith(b"entry|" + self._cluster.encode() + b"|"):
                entry = decode_entry(value)
                self._seq = max(self._seq, entry.seq if entry is not None else 0)
        return memory

    def append(self, entry: Entry) -> None:
        """
        Raises:
            JournalError: not acknowledged by all in-sync replicas in time.
        """
        self._seq += 1
        self._send(entry_key(self._cluster, self._seq), encode_entry(replace(entry, seq=self._seq)))

    def save(self, memory: Memory) -> None:
        """As ``append``."""
        self._send(memory_key(self._cluster), encode_memory(memory))

    def _send(self, key: bytes, value: bytes) -> None:
        try:
            self._producer.send(self._topic, key=key, value=value).get(timeout=ACK_S_MAX)
        except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
            raise JournalError(f"{self._topic} did not take the record: {type(error).__name__}: {error}") from error


def read_all(consumer: KafkaConsumer, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Every record from the beginning to the end as it is now, in the order of its partition."""
    try:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise JournalError(f"topic {topic} is not there")
        partitions = [TopicPartition(topic, p) for p in sorted(numbers)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        deadline = time.monotonic() + SILENCE_S_MAX
        while any((consumer.position(p) or 0) < ends[p] for p in partitions):
            if time.monotonic() > deadline:
                raise JournalError(f"{topic}: nothing came for {SILENCE_S_MAX:.0f} s, and its end was not reached")
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    deadline = time.monotonic() + SILENCE_S_MAX
                    yield record.key or b"", record.value
    except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
        raise JournalError(f"{topic} cannot be read: {type(error).__name__}: {error}") from error
