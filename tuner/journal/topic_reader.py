"""Reads rheostat's own topics from beginning to end: one topic, or the journal and then its orders topic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

from streaming.shared.kafka.read_to_end import READ_POLL_MS
from streaming.shared.kafka.unpacking import UnreadableBatch, unreadable_batches
from tuner.journal.orders_topic import is_order, orders_topic_of
from tuner.journal.transactions import TRANSACTION_S_MAX

# A killed tuner can leave a transaction open. Kafka aborts it after TRANSACTION_S_MAX, and checks every 10 s
# (transaction.abort.timed.out.transaction.cleanup.interval.ms). A reader waits a little longer than that.
SILENCE_S_MAX = TRANSACTION_S_MAX + 15.0


class JournalError(Exception):
    """The journal could not be read or written."""


class UnreadableBatchError(JournalError):
    """A batch of the journal or the orders topic cannot be decompressed, so its records are not known."""

    def __init__(self, batch: UnreadableBatch) -> None:
        super().__init__(
            f"{batch.text}. Its records are not known, so no tuner acts. Set compression.type=producer on {batch.topic}, and "
            'copy its records to a new topic: docs/how-to/repair-the-journal.md, "Records that cannot be unpacked"'
        )


class JournalRecord(NamedTuple):
    """A record of the journal or the orders topic; ``at_ms`` is its timestamp."""

    key: bytes
    value: bytes | None
    offset: int
    topic: str
    at_ms: int


def journal_record_of(record: Any) -> JournalRecord:
    """Returns a record of the Kafka client as a ``JournalRecord``."""
    return JournalRecord(
        key=record.key or b"",
        value=record.value,
        offset=record.offset,
        topic=record.topic,
        at_ms=record.timestamp,
    )


def is_in_its_topic(record: JournalRecord, journal: str) -> bool:
    """Returns whether a record is in a topic where its kind counts: the orders topic holds only orders and plans.

    A client that may write orders must not be able to claim that rheostat manages something in the cluster.
    """
    return record.topic == journal or is_order(record.key)


def read_journal(
    consumer: KafkaConsumer,
    journal: str,
    start_offsets: Mapping[int, int] | None = None,
    *,
    required: bool = False,
    ends: dict[str, dict[int, int]] | None = None,
) -> Iterator[JournalRecord]:
    """Yields every record of the journal's topic, then every order of the orders topic, up to their current ends.

    The orders topic is read last, so that each order that the journal acknowledges is found, or a newer order.

    Args:
        journal: the name of the journal's topic.
        start_offsets: as in ``read_records``, for the journal's topic only.
        required: raise if one of the topics does not exist. Otherwise such a topic has no records.
        ends: receives the end offset of each existing topic, by topic and partition.

    Raises:
        UnreadableBatchError, JournalError: as ``read_records``.
    """
    for topic in (journal, orders_topic_of(journal)):
        if not required and not _exists(consumer, topic):
            continue
        records = read_records(consumer, topic, start_offsets if topic == journal else None)
        yield from (record for record in records if is_in_its_topic(record, journal))
        if ends is not None:
            ends[topic] = {p.partition: consumer.position(p) or 0 for p in consumer.assignment()}


def read_records(
    consumer: KafkaConsumer, topic: str, start_offsets: Mapping[int, int] | None = None
) -> Iterator[JournalRecord]:
    """Yields every committed record from the beginning to the current end, in the order of each partition.

    A consumer of committed records stops before the first open transaction of any producer, without an error. So this reader takes
    the end of the uncommitted records, and waits until it is reached.

    Args:
        start_offsets: by partition, the offset to begin at instead of the beginning.

    Raises:
        UnreadableBatchError: a batch cannot be decompressed.
        JournalError: the end is not reached, for example because a killed tuner has left a transaction open.
    """
    with unreadable_batches(consumer) as unreadable:
        yield from _records(consumer, topic, start_offsets, unreadable)


def _records(
    consumer: KafkaConsumer, topic: str, start_offsets: Mapping[int, int] | None, unreadable: Sequence[UnreadableBatch]
) -> Iterator[JournalRecord]:
    try:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise JournalError(f"topic {topic} does not exist")
        partitions = [TopicPartition(topic, p) for p in sorted(numbers)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        for p in partitions:
            if start_offsets is not None and p.partition in start_offsets:
                consumer.seek(p, start_offsets[p.partition])
        deadline = time.monotonic() + SILENCE_S_MAX
        # The high watermark of the first fetch of each partition. ``ends`` may lie before it, at the first open transaction.
        highwaters: dict[TopicPartition, int] = {}

        def is_complete(p: TopicPartition) -> bool:
            if p not in highwaters and (highwater := consumer.highwater(p)) is not None:
                highwaters[p] = highwater
            return p in highwaters and (consumer.position(p) or 0) >= max(ends[p], highwaters[p])

        while not all(is_complete(p) for p in partitions):
            if time.monotonic() > deadline:
                raise JournalError(
                    f"{topic}: no record came for {SILENCE_S_MAX:.0f} s before the end of the topic: a transaction is open in it, "
                    "or its leader does not answer"
                )
            for records in consumer.poll(timeout_ms=READ_POLL_MS).values():
                for record in records:
                    deadline = time.monotonic() + SILENCE_S_MAX
                    yield journal_record_of(record)
            if unreadable:
                raise UnreadableBatchError(unreadable[0])
    except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
        raise JournalError(f"{topic} cannot be read: {type(error).__name__}: {error}") from error


def _exists(consumer: KafkaConsumer, topic: str) -> bool:
    """Returns whether a topic exists.

    Raises:
        JournalError: the cluster does not answer.
    """
    try:
        return bool(consumer.partitions_for_topic(topic))
    except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
        raise JournalError(f"{topic} cannot be read: {type(error).__name__}: {error}") from error
