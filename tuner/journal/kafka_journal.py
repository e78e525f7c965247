"""The journal in its topic. A write that is not acknowledged did not happen, and what it announced must not either."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import kafka.errors
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tuner.journal.entries import (
    RINGS,
    Entry,
    decode_entry,
    decode_memory,
    decode_owned,
    encode_entry,
    encode_memory,
    encode_owned,
    entry_key,
    entry_prefix,
    memory_key,
    owned_key,
    owned_prefix,
    ring_of,
)
from tuner.model.cluster import BrokerSide
from tuner.model.memory import Memory, Owned

ACK_S_MAX = 10.0
SILENCE_S_MAX = 30.0


class JournalError(Exception):
    """The journal could not be read or written."""


class KafkaJournal:
    def __init__(self, producer: KafkaProducer, topic: str, cluster: str) -> None:
        self._producer = producer
        self._topic = topic
        self._cluster = cluster
        self._seqs = dict.fromkeys(RINGS, 0)

    def recover(self, consumer: KafkaConsumer) -> Memory:
        """What we remembered when we last wrote; an empty memory in a new journal.

        Raises:
            JournalError: it cannot be read whole, or its memory cannot be understood.
        """
        memory = Memory()
        for key, value in read_all(consumer, self._topic):
            if value is None:
                continue
            try:
                if key == memory_key(self._cluster):
                    memory = decode_memory(value)
                elif key.startswith(owned_prefix(self._cluster)):
                    side, owned = decode_owned(value)
                    memory = replace(memory, owned=memory.with_owned(side, owned))
            except ValueError as error:
                raise JournalError(
                    f"the memory in {self._topic} cannot be read ({error}): run the version of rheostat that wrote it"
                ) from error
            for ring in RINGS:
                if key.startswith(entry_prefix(ring, self._cluster)) and (entry := decode_entry(value)) is not None:
                    self._seqs[ring] = max(self._seqs[ring], entry.seq)
        return memory

    def append(self, entry: Entry) -> None:
        """
        Raises:
            JournalError: not acknowledged by all in-sync replicas in time.
        """
        ring = ring_of(entry)
        self._seqs[ring] += 1
        seq = self._seqs[ring]
        self._send({entry_key(ring, self._cluster, seq): encode_entry(replace(entry, seq=seq))})

    def save(self, memory: Memory) -> None:
        """As ``append``."""
        self._send({memory_key(self._cluster): encode_memory(memory)})

    def save_owned(self, owned: Mapping[BrokerSide, Owned]) -> None:
        """As ``append``."""
        self._send({owned_key(self._cluster, side): encode_owned(side, value) for side, value in owned.items()})

    def _send(self, records: Mapping[bytes, bytes]) -> None:
        try:
            sent = [self._producer.send(self._topic, key=key, value=value) for key, value in records.items()]
            for answer in sent:
                answer.get(timeout=ACK_S_MAX)
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
