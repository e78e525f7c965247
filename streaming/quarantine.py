"""Finds records that end the query whenever they are read, by halving the batch; skips and reports them.

A record of 0.7 MB that unpacks to 700 MB ends Spark's JVM, and the next query reads the same record again. So the runner records
the failed batch in the checkpoint. From the batch's second failure on, each start halves the batch until the failing half is one
record. That record is skipped, together with the rest of its Kafka batch if the Kafka batch is compressed, because its records
cannot be read separately. Other records are not lost: a half that does not fail is finished in order.

Only failures that a record can cause are counted (``failure_causes.may_be_caused_by_record``). An unreachable Kafka or a killed
process does not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import structlog
from kafka import TopicPartition

from streaming import checkpoint
from streaming.begun_batch import BegunBatch, Slice, begun_batch, write_begun_batch
from streaming.checkpoint import CheckpointRecord, Failing, UnknownFormatError
from streaming.checkpoint_files import CheckpointPath
from streaming.shared.contract import SCRAPE_VERSION, Topics
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.clients import close_producer, consumer, producer
from streaming.shared.kafka.unpacking import UnreadableBatch, limit_unpacking
from streaming.sources import Feed

log = structlog.get_logger("stream")

FAILURES_MIN = 2
REASON = "the record ended the stream whenever it was read, and is left out"
_CLIENT = "rheostat-quarantine"
_READ_MS, _SEND_S, _CLOSE_S = 8000, 10.0, 5.0
# Largest assumed difference between the clocks of this host, the other stream's host and the brokers.
_CLOCK_SKEW_MS = 60_000


@dataclass(frozen=True, slots=True)
class Quarantined:
    """The skipped records from ``first_offset`` to ``last_offset``, both included."""

    kafka_id: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int

    @property
    def records(self) -> int:
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class RejectListener:
    """Callbacks of the search.

    Attributes:
        halved: gets the number of the batch's records before and after it was halved.
        quarantined: gets the skipped records.
    """

    halved: Callable[[int, int], None]
    quarantined: Callable[[Quarantined], None]


def note_failure(checkpoint_dir: CheckpointPath) -> None:
    """Records that the unfinished batch failed for a reason that a record can cause. No query may run.

    Raises:
        StreamError: the checkpoint is damaged.
        OSError: the checkpoint cannot be read or written.
    """
    record = checkpoint.read(checkpoint_dir)
    batch = _begun_batch(checkpoint_dir, record)
    if batch is None:
        return
    failing = record.failing
    times = 0
    # Failures of an earlier live query, in another folder of Spark's files, say nothing about this one.
    if failing is not None and failing.live == record.live:
        # Suspects are halved, and the first half runs as a batch of its own. If the first half succeeded, this batch is the second
        # half: it contains the record, and the earlier failures still count.
        is_second_half = failing.times >= FAILURES_MIN and failing.batch == batch.number - 1
        if is_second_half or failing.batch == batch.number:
            times, batch = failing.times, _suspects(batch, failing)
    ends = tuple((s.source, s.topic, s.partition, s.end) for s in batch.slices)
    checkpoint.write(checkpoint_dir, replace(record, failing=Failing(record.live, batch.number, times + 1, ends)))


def must_repeat(checkpoint_dir: CheckpointPath, record: CheckpointRecord, newest_end_ms: int) -> bool:
    """Returns whether a stream that follows another stream must nevertheless repeat its own failed batch.

    A record that ends Spark's JVM ends the streams of all hosts in turn. Each stream finds the record only if it continues its own
    search. If the signals topic has windows that end after the failed batch began, another stream has read beyond that batch.

    Args:
        newest_end_ms: end of the newest window in the signals topic.

    Raises:
        StreamError: the checkpoint is damaged.
    """
    failing = record.failing
    if failing is None or failing.live != record.live:
        return False
    batch = _begun_batch(checkpoint_dir, record)
    if batch is None:
        return False
    began_s = (checkpoint_dir / record.live / "offsets" / str(batch.number)).stat().st_mtime
    return newest_end_ms <= began_s * 1000 + _CLOCK_SKEW_MS


def resolve(
    checkpoint_dir: CheckpointPath,
    record: CheckpointRecord,
    kafka_: KafkaSettings,
    topics: Topics,
    feeds: Sequence[Feed],
    kafka_ids: Sequence[str],
    listener: RejectListener,
) -> CheckpointRecord:
    """Halves an unfinished batch that has failed before, or skips the record found. Returns the new record. No query may run.

    Raises:
        KafkaError: the record's Kafka batch cannot be read, or the reject cannot be written.
        StreamError: the checkpoint is damaged.
    """
    failing = record.failing
    batch = _begun_batch(checkpoint_dir, record) if failing is not None else None
    if batch is None or failing is None or failing.times < FAILURES_MIN or batch.records == 0:
        return record
    if (failing.live, failing.batch) != (record.live, batch.number):
        return record
    suspects = _suspects(batch, failing)
    if suspects.records > 1:
        first_half = halved(suspects)
        listener.halved(suspects.records, first_half.records)
        write_begun_batch(checkpoint_dir, record, first_half)
        return record
    suspect = next(part for part in suspects.slices if part.records)
    feed, kafka_id = feeds[suspect.source], kafka_ids[suspect.source]
    last_offset = _last_offset_of_batch(feed.kafka, suspect)
    skipped = Quarantined(
        kafka_id, suspect.topic, suspect.partition, first_offset=suspect.start, last_offset=last_offset
    )
    listener.quarantined(skipped)
    _write_reject(kafka_, topics.rejects, skipped)
    record = replace(record, failing=None)
    checkpoint.write(checkpoint_dir, record)
    write_begun_batch(checkpoint_dir, record, without(suspects, suspect, skipped.last_offset))
    return record


def _begun_batch(checkpoint_dir: CheckpointPath, record: CheckpointRecord) -> BegunBatch | None:
    """Returns the unfinished batch; None if there is none, or if Spark wrote it in a format that must not be rewritten."""
    try:
        return begun_batch(checkpoint_dir, record)
    except UnknownFormatError as error:
        log.warning(
            "a record ends the stream whenever the stream reads it; the stream cannot find this record, and so cannot leave it out",
            reason=str(error),
        )
        return None


def halved(batch: BegunBatch) -> BegunBatch:
    """Returns the batch with the first half of its records, counted partition after partition."""
    slices = []
    remaining = batch.records // 2
    for part in batch.slices:
        taken = min(part.records, remaining)
        remaining -= taken
        slices.append(replace(part, end=part.start + taken))
    return replace(batch, slices=tuple(slices))


def _suspects(batch: BegunBatch, failing: Failing) -> BegunBatch:
    """Returns the part of the batch that the failed batch had as well; the whole batch if the two batches share no record.

    The slice of a partition that the failed batch had not read becomes empty, because that partition cannot hold the record.
    """
    ends = {(source, topic, partition): end_ for source, topic, partition, end_ in failing.ends}
    slices = [replace(s, end=min(s.end, ends.get((s.source, s.topic, s.partition), s.start))) for s in batch.slices]
    part = replace(batch, slices=tuple(slices))
    return part if part.records else batch


def without(batch: BegunBatch, part: Slice, last_offset: int) -> BegunBatch:
    """Returns the batch with the slice ``part`` starting after ``last_offset``."""
    next_offset = last_offset + 1
    slices = [replace(s, start=next_offset, end=max(s.end, next_offset)) if s == part else s for s in batch.slices]
    return replace(batch, slices=tuple(slices))


def _last_offset_of_batch(kafka_: KafkaSettings, suspect: Slice) -> int:
    """Returns the last offset of the Kafka batch with the record if the batch is compressed, else the record's own offset."""
    unreadable: list[UnreadableBatch] = []
    partition = TopicPartition(suspect.topic, suspect.partition)
    with closing(consumer(kafka_, _CLIENT)) as reader:
        # Every compressed batch is unreadable; its header has the offsets.
        limit_unpacking(reader, unreadable.append, batch_bytes_max=0)
        reader.assign([partition])
        reader.seek(partition, suspect.start)
        reader.poll(timeout_ms=_READ_MS, max_records=1)
    return next((b.last_offset for b in unreadable if b.first_offset <= suspect.start <= b.last_offset), suspect.start)


def _write_reject(kafka_: KafkaSettings, topic: str, skipped: Quarantined) -> None:
    key = f"{skipped.kafka_id}|{skipped.topic}-{skipped.partition}-{skipped.first_offset}"
    reject = {
        "v": SCRAPE_VERSION,
        "kafka": skipped.kafka_id,
        "topic": skipped.topic,
        "partition": skipped.partition,
        "offset": skipped.first_offset,
        "reason": f"{REASON} (offsets {skipped.first_offset} to {skipped.last_offset})",
        "head": "",
    }
    writer = producer(kafka_, _CLIENT)
    try:
        writer.send(topic, key=key.encode(), value=json.dumps(reject).encode()).get(timeout=_SEND_S)
    finally:
        close_producer(writer, _CLOSE_S)


__all__ = [
    "FAILURES_MIN",
    "Quarantined",
    "RejectListener",
    "halved",
    "must_repeat",
    "note_failure",
    "resolve",
    "without",
]
