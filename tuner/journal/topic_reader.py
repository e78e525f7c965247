"""Topics of ours read whole, from their beginning to their end: one of them, or the journal with its orders."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

from streaming.shared.kafka.unpacking import RefusedBatch, refused_batches
from tuner.journal.orders_topic import is_order, orders_topic_of
from tuner.journal.transactions import TRANSACTION_S_MAX

# A tuner that was killed can leave a transaction open. Kafka aborts it after TRANSACTION_S_MAX, and looks for such every 10 s
# (transaction.abort.timed.out.transaction.cleanup.interval.ms): a reader waits for that, and a little longer.
SILENCE_S_MAX = TRANSACTION_S_MAX + 15.0


class JournalError(Exception):
    """The journal could not be read or written."""


class UnreadableBatchError(JournalError):
    """Records of the journal or of the orders are there and cannot be unpacked, so what they say is not known."""

    def __init__(self, batch: RefusedBatch) -> None:
        super().__init__(
            f"{batch.text}. What they say is not known, so no tuner acts. Set compression.type=producer on {batch.topic}, and "
            'copy its records to a new topic: docs/operations.md, "Records that cannot be unpacked"'
        )


class JournalRecord(NamedTuple):
    key: bytes
    value: bytes | None
    offset: int
    topic: str
    at_ms: int  # The record's timestamp.


def record_of(record: Any) -> JournalRecord:
    """Converts a record as the Kafka client gives it."""
    return JournalRecord(record.key or b"", record.value, record.offset, record.topic, record.timestamp)


def belongs(record: JournalRecord, journal: str) -> bool:
    """Returns whether a record counts in the topic where it stands: the orders' topic holds nothing but orders.

    A client that may give orders must not be able to say what is rheostat's own in the cluster.
    """
    return record.topic == journal or is_order(record.key)


def read_journal(
    consumer: KafkaConsumer,
    journal: str,
    read_to: Mapping[int, int] | None = None,
    *,
    required: bool = False,
    ends: dict[str, dict[int, int]] | None = None,
) -> Iterator[JournalRecord]:
    """Every record of the journal's topic, then every order of the orders' topic, as far as they are there now.

    The orders come last, so that no order is older than what the journal says of orders.

    Args:
        journal: the name of the journal's topic.
        read_to: as of ``read_records``; of the journal's topic.
        required: both topics must be there. Otherwise a topic that is not there has no records.
        ends: is told where each topic ended that is there, by topic and partition.

    Raises:
        UnreadableBatchError, JournalError: as ``read_records``.
    """
    for topic in (journal, orders_topic_of(journal)):
        if not required and not _is_there(consumer, topic):
            continue
        records = read_records(consumer, topic, read_to if topic == journal else None)
        yield from (record for record in records if belongs(record, journal))
        if ends is not None:
            ends[topic] = {p.partition: consumer.position(p) or 0 for p in consumer.assignment()}


def read_records(
    consumer: KafkaConsumer, topic: str, read_to: Mapping[int, int] | None = None
) -> Iterator[JournalRecord]:
    """Every record from the beginning to the end as it is now, in the order of its partition.

    What is read of committed records ends, to Kafka, before the first transaction that is open, whosoever it is: of all that
    stands behind it nothing would be known, and nobody the wiser. So the end is where uncommitted ones end, and is waited for.

    Args:
        read_to: by partition, where to begin instead: what stands before it is known.

    Raises:
        UnreadableBatchError: records cannot be unpacked.
        JournalError: the end is not reached; as long as somebody who died has left a transaction open, for one.
    """
    with refused_batches(consumer) as refused:
        yield from _records(consumer, topic, read_to, refused)


def _records(
    consumer: KafkaConsumer, topic: str, read_to: Mapping[int, int] | None, refused: Sequence[RefusedBatch]
) -> Iterator[JournalRecord]:
    try:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise JournalError(f"topic {topic} is not there")
        partitions = [TopicPartition(topic, p) for p in sorted(numbers)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        for p in partitions:
            if read_to is not None and p.partition in read_to:
                consumer.seek(p, read_to[p.partition])
        deadline = time.monotonic() + SILENCE_S_MAX
        found: dict[TopicPartition, int] = {}  # The ends that the first answers told of.

        def is_whole(p: TopicPartition) -> bool:
            if p not in found and (end_ := consumer.highwater(p)) is not None:
                found[p] = end_
            return p in found and (consumer.position(p) or 0) >= max(ends[p], found[p])

        while not all(is_whole(p) for p in partitions):
            if time.monotonic() > deadline:
                raise JournalError(
                    f"{topic}: nothing came for {SILENCE_S_MAX:.0f} s, and its end was not reached: a transaction is open in it, "
                    "or its leader does not answer"
                )
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    deadline = time.monotonic() + SILENCE_S_MAX
                    yield record_of(record)
            if refused:
                raise UnreadableBatchError(refused[0])
    except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
        raise JournalError(f"{topic} cannot be read: {type(error).__name__}: {error}") from error


def _is_there(consumer: KafkaConsumer, topic: str) -> bool:
    """
    Raises:
        JournalError: it cannot be told.
    """
    try:
        return bool(consumer.partitions_for_topic(topic))
    except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
        raise JournalError(f"{topic} cannot be read: {type(error).__name__}: {error}") from error
