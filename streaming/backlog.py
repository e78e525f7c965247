"""Works off the backlog after an outage: live signals first, then the skipped time, newest first.

The tuner needs current signals. A query that restarts an hour late and reads in order would produce the current signals last. So
the live query begins near the end of the topics, in a new checkpoint folder. The skipped time is recorded and worked off in the
background in chunks, by the same functions on batches instead of a stream.

Every window has exactly one owner, the live query or a chunk. A window that ends after ``whole_from_ms`` belongs to the live query;
any other window belongs to the chunk in which the window ends. An owner reads one extra window before its range, so that each of
its windows is complete, and writes only its own windows:

    read       |--- window ---|---------- ends owned ----------|- watermark delay -|
               t0 - window    t0                               t1
    the live query reads from live_from_ms = whole_from_ms - window, and writes nothing for windows that end by whole_from_ms

So no signal is computed from half of a window's records, and no worse signal overwrites a better signal, in whatever order
chunks run or are repeated. Records may be out of time order (message.timestamp.type=CreateTime): reading begins at the first record
not older than ``t0 - window`` and ends one watermark delay after ``t1``. The oldest chunk begins where the previous query stopped,
so that query's last windows are computed again.

Invariant: skipped time is recorded before anything else uses it, and removed from the record after its signals are written. A crash
repeats at most one chunk, with the same keys.

Vocabulary:
    skipped    a stretch of time whose windows are not computed yet; two outages leave two stretches.
    chunk      the newest part of a stretch: about ``backlog_records_per_chunk`` records, but at least one window long, because
               one window of records is read before it.
    lost       records that retention deleted before they were read.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

import kafka.errors
from kafka import KafkaConsumer, TopicPartition
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming import checkpoint
from streaming.checkpoint import CheckpointRecord, FailingChunk, Skipped
from streaming.checkpoint_files import CheckpointPath
from streaming.errors import StreamError
from streaming.failure_causes import first_line
from streaming.hadoop_path import HadoopPath
from streaming.local_notes import note_failing_chunk, notes_folder
from streaming.session import BACKLOG_POOL, ran_out_of_memory
from streaming.settings import StreamSettings
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.clients import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.unpacking import UnreadableBatch
from streaming.sources import Feed, Offsets

_CLIENT = "rheostat-backlog"
_PEEK_MS = 5000  # Longest wait for a record of which only the timestamp is needed.
_RETRY_S_MAX = 60.0
_POLL_S = 0.2
_FAILURES_MAX = 2  # Failures of one chunk that end the JVM; the second attempt uses the smallest chunk.

# Computes and writes the signals of a chunk; pipeline.py provides it.
Work = Callable[["Chunk"], None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The windows that end after ``from_ms`` and not after ``to_ms``, and the offsets to read for them."""

    from_ms: int
    to_ms: int
    reads: tuple[tuple[Offsets, Offsets], ...]  # Start and end (exclusive) for each feed, in order.


@dataclass(frozen=True, slots=True)
class BacklogProgress:
    """Progress of the backlog."""

    records: int  # All records of all stretches: processed, remaining and lost records together.
    remaining_records: int
    lost_records: int

    @property
    def done_percent(self) -> int:
        return 100 * (self.records - self.remaining_records) // self.records if self.records else 100


class Timeline(Protocol):
    """Maps times to offsets in the topics of one feed."""

    def begin(self) -> Offsets: ...

    def at(self, time_ms: int) -> Offsets:
        """Returns, for each partition, the first offset that is not before this time; the end offset if there is none."""

    def time_of(self, topic: str, partition: int, offset: int) -> int | None:
        """Returns the timestamp of the record, or of the next record that still exists."""


class KafkaTimeline:
    """A ``Timeline`` that asks a Kafka cluster."""

    def __init__(self, settings: KafkaSettings, topics: Sequence[str], client_id: str) -> None:
        # The consumer's own look-up asks for every topic and reports a missing right as a missing topic.
        with ClusterClient(settings, client_id) as client:
            states = client.partitions(topics)
        for topic in topics:
            if not any(state.topic == topic for state in states):
                raise kafka.errors.UnknownTopicOrPartitionError(topic)
        self._partitions = [TopicPartition(state.topic, state.partition) for state in states]
        # Batches that kafka-python does not read, for example in a codec that only Spark reads.
        self._unreadable: list[UnreadableBatch] = []
        self._consumer: KafkaConsumer = consumer(
            settings, client_id, max_poll_records=1, on_unreadable_batch=self._unreadable.append
        )

    def close(self) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    def begin(self) -> Offsets:
        return _by_topic(self._consumer.beginning_offsets(self._partitions))

    def end(self) -> Offsets:
        return _by_topic(self._consumer.end_offsets(self._partitions))

    def at(self, time_ms: int) -> Offsets:
        # The end offsets are read first. So a record that arrives between the two requests is not before the end, and not skipped.
        offsets: dict[TopicPartition, int] = self._consumer.end_offsets(self._partitions)
        # Kafka reads negative times as special requests (latest, earliest).
        answers = self._consumer.offsets_for_times(dict.fromkeys(self._partitions, max(0, time_ms)))
        for partition, answer in answers.items():
            if answer is not None and answer.offset >= 0:
                offsets[partition] = min(answer.offset, offsets[partition])
        return _by_topic(offsets)

    def time_of(self, topic: str, partition: int, offset: int) -> int | None:
        topic_partition = TopicPartition(topic, partition)
        self._unreadable.clear()
        self._consumer.assign([topic_partition])
        self._consumer.seek(topic_partition, offset)
        polled = self._consumer.poll(timeout_ms=_PEEK_MS, max_records=1)
        self._consumer.assign([])
        if self._unreadable:  # The header of an unreadable batch has the time.
            return self._unreadable[0].timestamp_ms
        return next((int(record.timestamp) for records in polled.values() for record in records), None)


def _by_topic(offsets: Mapping[TopicPartition, int]) -> Offsets:
    by_topic: dict[str, dict[int, int]] = {}
    for partition, offset in offsets.items():
        by_topic.setdefault(partition.topic, {})[partition.partition] = int(offset)
    return by_topic


@contextmanager
def open_timelines(feeds: Sequence[Feed]) -> Iterator[list[KafkaTimeline]]:
    """Opens a timeline for each feed and closes them on exit."""
    opened: list[KafkaTimeline] = []
    try:
        for feed in feeds:
            opened.append(KafkaTimeline(feed.kafka, feed.topics, _CLIENT))
        yield opened
    finally:
        for timeline in opened:
            timeline.close()


# -- planning the start ------------------------------------------------------------------------------------------------


def plan_start(
    record: CheckpointRecord,
    positions: Sequence[Offsets] | None,
    timelines: Sequence[Timeline],
    settings: StreamSettings,
    now_ms: int,
) -> CheckpointRecord:
    """Returns the checkpoint record to start with.

    If the query is too far behind, the returned record begins near the end of the topics in a new folder. Otherwise it is
    ``record``.

    Args:
        positions: read positions of each feed, from ``checkpoint.positions``.
        timelines: timeline of each feed.
    """
    if positions is None and record.live_from_ms is None and settings.start == "latest":
        return record  # A query that begins at the end of the topics is not behind.
    unread = [_unread(i, record, positions, timeline) for i, timeline in enumerate(timelines)]
    catch_up_from_ms = now_ms - int(settings.backfill_after_s * 1000)
    if not any(
        _records_between(first, timeline.at(catch_up_from_ms))
        for first, timeline in zip(unread, timelines, strict=True)
    ):
        return record
    slide_ms, window_ms = settings.slide_s * 1000, settings.window_s * 1000
    # The live query owns the windows of about the last window length and watermark delay, and reads one more window before them.
    live_from_ms = _round_down(now_ms - 2 * window_ms - settings.watermark_delay_s * 1000, slide_ms)
    whole_from_ms = live_from_ms + window_ms
    # For each partition: the time of the first unread record that the live query would not read.
    oldest_ms = []
    for first, timeline in zip(unread, timelines, strict=True):
        for topic, partition in _unfinished_partitions(first, timeline.at(live_from_ms)):
            time_ms = timeline.time_of(topic, partition, first[topic][partition])
            if time_ms is not None:
                oldest_ms.append(time_ms)
    # Later records may be older than the first unread record, by up to the watermark delay.
    from_ms = max(0, _round_down(min(oldest_ms, default=live_from_ms) - settings.watermark_delay_s * 1000, slide_ms))
    # If the previous query had not yet read beyond an older stretch, the two stretches overlap and are joined.
    separate = tuple(stretch for stretch in record.skipped if stretch.to_ms <= from_ms)
    joined = record.skipped[len(separate) :]
    skipped_from_ms = min([from_ms, *(stretch.from_ms for stretch in joined)])
    skipped = Skipped(from_ms=skipped_from_ms, to_ms=whole_from_ms, records=0)
    skipped = replace(skipped, records=_records_in(skipped, timelines))
    # Records that retention deleted before they were read.
    lost = sum(
        _records_between(first, timeline.begin()) for first, timeline in zip(positions or (), timelines, strict=False)
    )
    earlier = progress_of(record) if record.skipped else BacklogProgress(records=0, remaining_records=0, lost_records=0)
    return replace(
        record,
        live=record.next_live(),
        live_from_ms=live_from_ms,
        whole_from_ms=whole_from_ms,
        skipped=(*separate, skipped),
        skipped_records=earlier.records - sum(stretch.records for stretch in joined) + skipped.records + lost,
        lost_records=earlier.lost_records + lost,
    )


def unread_records(
    record: CheckpointRecord,
    positions: Sequence[Offsets] | None,
    timelines: Sequence[Timeline],
    settings: StreamSettings,
    now_ms: int,
) -> list[int]:
    """Returns for each feed the number of unread records when a live query starts with this checkpoint record."""
    if positions is None and record.live_from_ms is None and settings.start == "latest":
        return [0] * len(timelines)
    return [
        _records_between(_unread(i, record, positions, timeline), timeline.at(now_ms))
        for i, timeline in enumerate(timelines)
    ]


def _unread(i: int, record: CheckpointRecord, positions: Sequence[Offsets] | None, timeline: Timeline) -> Offsets:
    """Returns the first unread offset of each partition of feed ``i`` that still exists."""
    begin = timeline.begin()
    if positions is not None:
        start = positions[i]
    elif record.live_from_ms is not None:
        start = timeline.at(record.live_from_ms)
    else:
        start = {}
    return {
        topic: {p: max(first, start.get(topic, {}).get(p, first)) for p, first in by_partition.items()}
        for topic, by_partition in begin.items()
    }


def _unfinished_partitions(first: Offsets, end: Offsets) -> list[tuple[str, int]]:
    """Returns the partitions with records from ``first`` to before ``end``, as (topic, partition)."""
    return [
        (topic, p)
        for topic, by_partition in first.items()
        for p, offset in by_partition.items()
        if offset < end[topic][p]
    ]


def _records_between(first: Offsets, end: Offsets) -> int:
    """Returns the number of records from ``first`` to before ``end``, over the partitions in both."""
    return sum(
        max(0, end[topic][p] - offset)
        for topic, by_partition in first.items()
        for p, offset in by_partition.items()
        if p in end.get(topic, {})
    )


def _round_down(time_ms: int, step_ms: int) -> int:
    return time_ms - time_ms % step_ms


# -- working off the backlog -------------------------------------------------------------------------------------------


def next_chunk(
    skipped: Skipped, timelines: Sequence[Timeline], settings: StreamSettings, *, smallest: bool = False
) -> Chunk:
    """Returns the newest part of a stretch: one window long if ``smallest``, else about ``backlog_records_per_chunk`` records."""
    records_max = 0 if smallest else settings.backlog_records_per_chunk
    slide_ms, window_ms = settings.slide_s * 1000, settings.window_s * 1000
    ends = [timeline.at(skipped.to_ms) for timeline in timelines]

    def fits(from_ms: int) -> bool:
        records = sum(
            _records_between(timeline.at(from_ms), end) for timeline, end in zip(timelines, ends, strict=True)
        )
        return records <= records_max

    latest_ms = max(skipped.from_ms, skipped.to_ms - window_ms)
    starts = range(skipped.from_ms, latest_ms, slide_ms)
    # The index of the earliest start that fits. Later starts have fewer records, so they fit too.
    index = bisect_left(starts, True, key=fits)
    from_ms = starts[index] if index < len(starts) else latest_ms
    late_ms = skipped.to_ms + settings.watermark_delay_s * 1000
    reads = tuple((timeline.at(from_ms - window_ms), timeline.at(late_ms)) for timeline in timelines)
    return Chunk(from_ms, skipped.to_ms, reads)


def failures_of_newest(record: CheckpointRecord) -> int:
    """Returns how many times in a row the next chunk has ended Spark's JVM."""
    failing = record.failing_chunk
    return failing.times if failing is not None and failing.to_ms == record.skipped[-1].to_ms else 0


def is_suspect(record: CheckpointRecord, settings: StreamSettings) -> bool:
    """Returns whether the next chunk may read a record that has ended Spark's JVM."""
    failing, late_ms = record.failing_chunk, settings.watermark_delay_s * 1000
    return failing is not None and record.skipped[-1].to_ms + late_ms > failing.suspect_from_ms


def with_chunk_failure(record: CheckpointRecord, chunk: Chunk, settings: StreamSettings) -> CheckpointRecord:
    """Returns the record with one more failure of this chunk."""
    failing = FailingChunk(
        to_ms=chunk.to_ms,
        times=failures_of_newest(record) + 1,
        suspect_from_ms=chunk.from_ms - settings.window_s * 1000,
    )
    return replace(record, failing_chunk=failing)


def with_chunk_lost(record: CheckpointRecord, chunk: Chunk, timelines: Sequence[Timeline]) -> CheckpointRecord:
    """Returns the record without the chunk, and with the chunk's records counted as lost."""
    before, after = progress_of(record).remaining_records, without_chunk(record, chunk, timelines)
    return replace(after, lost_records=record.lost_records + max(0, before - progress_of(after).remaining_records))


def with_recount(record: CheckpointRecord, timelines: Sequence[Timeline]) -> CheckpointRecord:
    """Returns the record with the newest stretch counted again; records deleted since the last count are lost."""
    newest = record.skipped[-1]
    now = _records_in(newest, timelines)
    return replace(
        record,
        skipped=(*record.skipped[:-1], replace(newest, records=now)),
        lost_records=record.lost_records + max(0, newest.records - now),
    )


def without_chunk(record: CheckpointRecord, done: Chunk, timelines: Sequence[Timeline]) -> CheckpointRecord:
    """Returns the record without the chunk."""
    newest = record.skipped[-1]
    rest = replace(newest, to_ms=done.from_ms)
    if rest.from_ms >= rest.to_ms:
        return replace(record, skipped=record.skipped[:-1])
    return replace(record, skipped=(*record.skipped[:-1], replace(rest, records=_records_in(rest, timelines))))


def _records_in(skipped: Skipped, timelines: Sequence[Timeline]) -> int:
    return sum(_records_between(timeline.at(skipped.from_ms), timeline.at(skipped.to_ms)) for timeline in timelines)


def progress_of(record: CheckpointRecord) -> BacklogProgress:
    return BacklogProgress(
        records=record.skipped_records,
        remaining_records=sum(stretch.records for stretch in record.skipped),
        lost_records=record.lost_records,
    )


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Worker:
    """Works off the backlog in its own thread, one chunk and one Spark task at a time."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint_dir: CheckpointPath,
        record: CheckpointRecord,
        feeds: Sequence[Feed],
        settings: StreamSettings,
        *,
        work: Work,
        live_query_runs: Callable[[], bool],
        on_progress: Callable[[BacklogProgress], None],
        on_failure: Callable[[str, float], None],
    ) -> None:
        """
        Args:
            work: makes and writes the signals of a chunk.
            live_query_runs: returns whether the live query has finished its first batch.
            on_progress: called with the progress at the start and after each chunk.
            on_failure: called with the cause of a failure, and the seconds until the retry.
        """
        self._spark = spark
        self._checkpoint_dir = checkpoint_dir
        self._record = record
        self._feeds = feeds
        self._settings = settings
        self._work = work
        self._live_query_runs = live_query_runs
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._chunk: Chunk | None = None  # The chunk in progress.
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backlog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Makes the thread end soon. The chunk in progress is abandoned and repeated by a later run."""
        self._stop.set()
        if self._thread.is_alive():
            self._spark.sparkContext.cancelJobGroup(BACKLOG_POOL)

    def join(self, timeout_s: float) -> None:
        """Waits until the thread has ended."""
        self._thread.join(timeout_s)

    def progress(self) -> BacklogProgress:
        return progress_of(self._record)

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", BACKLOG_POOL)
        context.setJobGroup(BACKLOG_POOL, "backlog", interruptOnCancel=True)
        # A JVM that has just started is slow, so the backlog waits for the live query.
        while not self._live_query_runs() and not self._stop.wait(_POLL_S):
            pass
        wait_s = 1.0
        while self._record.skipped and not self._stop.is_set():
            try:
                with open_timelines(self._feeds) as timelines:
                    self._on_progress(self.progress())
                    while self._record.skipped and not self._stop.is_set():
                        self._run_chunk(timelines)
                        wait_s = 1.0
            # A failed or interrupted write raises Py4JError.
            except (PySparkException, Py4JError, kafka.errors.KafkaError, ClusterError, StreamError, OSError) as error:
                if self._stop.is_set():
                    return
                if isinstance(error, Py4JNetworkError) and ran_out_of_memory():
                    self._note_failure()
                    return  # The process ends with the JVM; the next process continues.
                # The live query does not depend on the backlog, so every failure is reported and retried.
                self._on_failure(first_line(error), wait_s)
                self._stop.wait(wait_s)
                wait_s = min(_RETRY_S_MAX, wait_s * 2)

    def _note_failure(self) -> None:
        """Records that the chunk in progress has ended the JVM."""
        if self._chunk is None:
            return
        self._record = with_chunk_failure(self._record, self._chunk, self._settings)
        if not isinstance(self._checkpoint_dir, HadoopPath):
            checkpoint.write(self._checkpoint_dir, self._record)
        elif self._record.failing_chunk is not None:
            note_failing_chunk(notes_folder(self._settings.checkpoint_dir), self._record.failing_chunk)

    def _run_chunk(self, timelines: Sequence[Timeline]) -> None:
        self._record = with_recount(self._record, timelines)
        failures = failures_of_newest(self._record)
        smallest = is_suspect(self._record, self._settings)
        chunk = self._chunk = next_chunk(self._record.skipped[-1], timelines, self._settings, smallest=smallest)
        if failures >= _FAILURES_MAX:
            self._record = with_chunk_lost(self._record, chunk, timelines)
            checkpoint.write(self._checkpoint_dir, self._record)
            self._on_failure(
                f"a record in the windows from {_utc(chunk.from_ms)} to {_utc(chunk.to_ms)} has ended the stream "
                f"{failures} times, so these windows are skipped. Find the sender of a record that unpacks to more than the heap",
                0.0,
            )
            return
        if any(_records_between(first, end) for first, end in chunk.reads):
            self._work(chunk)
        if self._stop.is_set():
            return
        self._record = without_chunk(self._record, chunk, timelines)
        checkpoint.write(self._checkpoint_dir, self._record)
        self._on_progress(self.progress())
