"""After an outage: the present first, then the past, newest first.

Intuition: whoever turns throttles needs what is measured now. A query that comes back an hour late and reads in order
would show the present last. So it begins near the end, in a new folder; what it skips is written down, and worked off
beside it in chunks, from the newest to the oldest, by the same functions on batches instead of a stream.

Windows are cut by time, and time is what the work is divided by. Every window belongs to exactly one: to the live query
when it ends after ``whole_from_ms``, otherwise to the one chunk it ends in. Whoever owns a window reads a whole window
back from it, and lets go of no other:

    read       |--- window ---|---------- ends owned ----------|- lateness -|
               t0 - window    t0                               t1
    the live query reads from live_from_ms = whole_from_ms - window, and leaves nothing up to whole_from_ms

So no window is made from half of its records, and none is overwritten by a worse one, in whatever order things happen or
are repeated. Records need not lie in the order of their times (message.timestamp.type=CreateTime): reading begins at the
first one that is not older than ``t0 - window`` and ends after the lateness that the live query would have granted.

The oldest chunk ends where the query before stopped, so it makes some of that query's last windows again, whole now.

Invariant: what is skipped is on record before anything else knows of it, and leaves the record after it was written. A
crash repeats a chunk at most, and its keys with it.

Vocabulary:
    skipped    a stretch of time whose windows are not made; two outages make two.
    chunk      the newest part of it, about ``backlog_records_per_chunk`` records but never less than a window long, since
               as much again is read before it.
    lost       records that retention deleted before their turn came.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import kafka.errors
from kafka import KafkaConsumer, TopicPartition
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming import checkpoint
from streaming.checkpoint import CheckpointRecord, FailingChunk, Skipped
from streaming.errors import StreamError
from streaming.failure_causes import first_line
from streaming.session import BACKLOG_POOL, ran_out_of_memory
from streaming.settings import StreamSettings
from streaming.shared.kafka.clients import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.unpacking import RefusedBatch
from streaming.sources import Feed, Offsets

_CLIENT = "rheostat-backlog"
_PEEK_MS = 5000
_RETRY_S_MAX = 60.0
_STOP_S_MAX = 10.0
_POLL_S = 0.2
_FAILURES_MAX = 2  # Of one chunk that ends the JVM; the second is as small as can be.

# Chunk → its records, written. Made by the pipeline, which knows how.
Work = Callable[["Chunk"], None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Windows that end after ``from_ms`` and not after ``to_ms``, and for each feed what they are made from."""

    from_ms: int
    to_ms: int
    reads: tuple[tuple[Offsets, Offsets], ...]  # First, and first not; in the order of the feeds.


@dataclass(frozen=True, slots=True)
class State:
    """How far the backlog is."""

    records: int
    remaining_records: int
    lost_records: int

    @property
    def done_percent(self) -> int:
        return 100 * (self.records - self.remaining_records) // self.records if self.records else 100


class Timeline(Protocol):
    """Where in the topics of one feed which time is."""

    def begin(self) -> Offsets: ...

    def at(self, time_ms: int) -> Offsets:
        """The first offsets that are not before this time; where there is none, the end."""

    def time_of(self, topic: str, partition: int, offset: int) -> int | None:
        """When Kafka took the record, or the next one that is still there."""


class KafkaTimeline:
    """``Timeline`` of a real cluster."""

    def __init__(self, feed: Feed) -> None:
        # Not the consumer's own look-up, which asks for every topic there is, and takes a missing right for a missing topic.
        with ClusterClient(feed.kafka, _CLIENT) as client:
            found = client.partitions(feed.topics)
        for topic in feed.topics:
            if not any(one.topic == topic for one in found):
                raise kafka.errors.UnknownTopicOrPartitionError(topic)
        self._partitions = [TopicPartition(one.topic, one.partition) for one in found]
        self._refused: list[
            RefusedBatch
        ] = []  # Compressed in a way that Spark reads and kafka-python does not, for one.
        self._consumer: KafkaConsumer = consumer(
            feed.kafka, _CLIENT, max_poll_records=1, on_refused=self._refused.append
        )

    def close(self) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    def begin(self) -> Offsets:
        return _by_topic(self._consumer.beginning_offsets(self._partitions))

    def at(self, time_ms: int) -> Offsets:
        # First the ends: what comes in between is then at or after them, and not lost between the two answers.
        found: dict[TopicPartition, int] = self._consumer.end_offsets(self._partitions)
        # Below zero are not times but requests: the end, the beginning.
        answers = self._consumer.offsets_for_times(dict.fromkeys(self._partitions, max(0, time_ms)))
        for partition, answer in answers.items():
            if answer is not None and answer.offset >= 0:
                found[partition] = min(answer.offset, found[partition])
        return _by_topic(found)

    def time_of(self, topic: str, partition: int, offset: int) -> int | None:
        one = TopicPartition(topic, partition)
        self._refused.clear()
        self._consumer.assign([one])
        self._consumer.seek(one, offset)
        polled = self._consumer.poll(timeout_ms=_PEEK_MS, max_records=1)
        self._consumer.assign([])
        if self._refused:  # Its header has the time.
            return self._refused[0].timestamp_ms
        return next((int(record.timestamp) for records in polled.values() for record in records), None)


def _by_topic(offsets: Mapping[TopicPartition, int]) -> Offsets:
    found: dict[str, dict[int, int]] = {}
    for one, offset in offsets.items():
        found.setdefault(one.topic, {})[one.partition] = int(offset)
    return found


@contextmanager
def timelines(feeds: Sequence[Feed]) -> Iterator[list[KafkaTimeline]]:
    made: list[KafkaTimeline] = []
    try:
        for feed in feeds:
            made.append(KafkaTimeline(feed))
        yield made
    finally:
        for one in made:
            one.close()


# -- what to skip ------------------------------------------------------------------------------------------------------


def record_step(
    record: CheckpointRecord,
    positions: Sequence[Offsets] | None,
    times: Sequence[Timeline],
    settings: StreamSettings,
    now_ms: int,
) -> CheckpointRecord:
    """The record to start with: the same, or, when it is too far behind, one that begins near the end in a new folder.

    Args:
        positions: of every feed, what ``checkpoint.positions`` found.
    """
    if positions is None and record.live_from_ms is None and settings.start == "latest":
        return record
    unread = [_unread(i, record, positions, one) for i, one in enumerate(times)]
    patient_until_ms = now_ms - int(settings.backfill_after_s * 1000)
    if not any(_count(first, one.at(patient_until_ms)) for first, one in zip(unread, times, strict=True)):
        return record
    hop_ms, window_ms = settings.slide_s * 1000, settings.window_s * 1000
    live_from_ms = _down(now_ms - 2 * window_ms - settings.watermark_delay_s * 1000, hop_ms)
    whole_from_ms = live_from_ms + window_ms
    oldest_ms = [
        found
        for first, one in zip(unread, times, strict=True)
        for topic, partition in _behind(first, one.at(live_from_ms))
        if (found := one.time_of(topic, partition, first[topic][partition])) is not None
    ]
    # Those behind the first may be older than it, within the lateness.
    from_ms = max(0, _down(min(oldest_ms, default=live_from_ms) - settings.watermark_delay_s * 1000, hop_ms))
    # A query that had not passed a stretch yet, when it ended in its turn: the two are one.
    apart = tuple(one for one in record.skipped if one.to_ms <= from_ms)
    joined = record.skipped[len(apart) :]
    skipped = Skipped(min([from_ms, *(one.from_ms for one in joined)]), whole_from_ms, 0)
    skipped = replace(skipped, records=_records_in(skipped, times))
    lost = sum(_count(first, one.begin()) for first, one in zip(positions or (), times, strict=False))
    before = state(record) if record.skipped else State(0, 0, 0)
    return replace(
        record,
        live=record.next_live(),
        live_from_ms=live_from_ms,
        whole_from_ms=whole_from_ms,
        skipped=(*apart, skipped),
        skipped_records=before.records - sum(one.records for one in joined) + skipped.records + lost,
        lost_records=before.lost_records + lost,
    )


def waiting(
    record: CheckpointRecord,
    positions: Sequence[Offsets] | None,
    times: Sequence[Timeline],
    settings: StreamSettings,
    now_ms: int,
) -> list[int]:
    """For every feed the records that a live query of this record has before it when it starts."""
    if positions is None and record.live_from_ms is None and settings.start == "latest":
        return [0] * len(times)
    return [_count(_unread(i, record, positions, one), one.at(now_ms)) for i, one in enumerate(times)]


def _unread(i: int, record: CheckpointRecord, positions: Sequence[Offsets] | None, times: Timeline) -> Offsets:
    begin = times.begin()
    if positions is not None:
        known = positions[i]
    elif record.live_from_ms is not None:
        known = times.at(record.live_from_ms)
    else:
        known = {}
    return {
        topic: {p: max(first, known.get(topic, {}).get(p, first)) for p, first in of_topic.items()}
        for topic, of_topic in begin.items()
    }


def _behind(first: Offsets, end: Offsets) -> list[tuple[str, int]]:
    return [(topic, p) for topic, of_topic in first.items() for p, offset in of_topic.items() if offset < end[topic][p]]


def _count(first: Offsets, end: Offsets) -> int:
    """Records from ``first`` to before ``end``, of the partitions that both know."""
    return sum(
        max(0, end[topic][p] - offset)
        for topic, of_topic in first.items()
        for p, offset in of_topic.items()
        if p in end.get(topic, {})
    )


def _down(time_ms: int, step_ms: int) -> int:
    return time_ms - time_ms % step_ms


# -- working it off ----------------------------------------------------------------------------------------------------


def next_chunk(
    skipped: Skipped, times: Sequence[Timeline], settings: StreamSettings, *, smallest: bool = False
) -> Chunk:
    """Returns the newest part of a stretch: a window long if ``smallest``, else with about as many records as are set."""
    records_max = 0 if smallest else settings.backlog_records_per_chunk
    hop_ms, window_ms = settings.slide_s * 1000, settings.window_s * 1000
    ends = [one.at(skipped.to_ms) for one in times]

    def fits(from_ms: int) -> bool:
        records = sum(_count(one.at(from_ms), end) for one, end in zip(times, ends, strict=True))
        return records <= records_max

    latest_ms = max(skipped.from_ms, skipped.to_ms - window_ms)
    starts = range(skipped.from_ms, latest_ms, hop_ms)
    earliest = bisect_left(starts, True, key=fits)  # The later it begins, the fewer records: False …, True …
    from_ms = starts[earliest] if earliest < len(starts) else latest_ms
    late_ms = skipped.to_ms + settings.watermark_delay_s * 1000
    return Chunk(from_ms, skipped.to_ms, tuple((one.at(from_ms - window_ms), one.at(late_ms)) for one in times))


def failures_of_newest(record: CheckpointRecord) -> int:
    """Returns how often in a row the chunk that comes next has ended Spark's JVM."""
    known = record.failing_chunk
    return known.times if known is not None and known.to_ms == record.skipped[-1].to_ms else 0


def is_suspect(record: CheckpointRecord, settings: StreamSettings) -> bool:
    """Returns whether the chunk that comes next may read a record that has ended Spark's JVM."""
    known, late_ms = record.failing_chunk, settings.watermark_delay_s * 1000
    return known is not None and record.skipped[-1].to_ms + late_ms > known.suspect_from_ms


def with_failure(record: CheckpointRecord, chunk: Chunk, settings: StreamSettings) -> CheckpointRecord:
    """Returns the record that knows of one failure more of this chunk."""
    suspect_from_ms = chunk.from_ms - settings.window_s * 1000
    return replace(record, failing_chunk=FailingChunk(chunk.to_ms, failures_of_newest(record) + 1, suspect_from_ms))


def given_up(record: CheckpointRecord, chunk: Chunk, times: Sequence[Timeline]) -> CheckpointRecord:
    """Returns the record without the chunk, whose records are lost."""
    before, after = state(record).remaining_records, shortened(record, chunk, times)
    return replace(after, lost_records=record.lost_records + max(0, before - state(after).remaining_records))


def counted(record: CheckpointRecord, times: Sequence[Timeline]) -> CheckpointRecord:
    """The newest stretch with the records it has now; those that are gone since they were last counted are lost."""
    newest = record.skipped[-1]
    now = _records_in(newest, times)
    return replace(
        record,
        skipped=(*record.skipped[:-1], replace(newest, records=now)),
        lost_records=record.lost_records + max(0, newest.records - now),
    )


def shortened(record: CheckpointRecord, done: Chunk, times: Sequence[Timeline]) -> CheckpointRecord:
    """The record without the chunk."""
    newest = record.skipped[-1]
    rest = replace(newest, to_ms=done.from_ms)
    if rest.from_ms >= rest.to_ms:
        return replace(record, skipped=record.skipped[:-1])
    return replace(record, skipped=(*record.skipped[:-1], replace(rest, records=_records_in(rest, times))))


def _records_in(skipped: Skipped, times: Sequence[Timeline]) -> int:
    return sum(_count(one.at(skipped.from_ms), one.at(skipped.to_ms)) for one in times)


def state(record: CheckpointRecord) -> State:
    return State(record.skipped_records, sum(one.records for one in record.skipped), record.lost_records)


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Worker:
    """Works the backlog off, in a thread of its own, one chunk at a time, one task at a time."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint_dir: Path,
        record: CheckpointRecord,
        feeds: Sequence[Feed],
        settings: StreamSettings,
        work: Work,
        present_is_served: Callable[[], bool],
        on_state: Callable[[State], None],
        on_failure: Callable[[str, float], None],
    ) -> None:
        self._spark = spark
        self._checkpoint_dir = checkpoint_dir
        self._record = record
        self._feeds = feeds
        self._settings = settings
        self._work = work
        self._present_is_served = present_is_served
        self._on_state = on_state
        self._on_failure = on_failure
        self._chunk: Chunk | None = None  # That is worked off now.
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backlog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """A chunk under way is given up: it is done again later."""
        self._stop.set()
        if not self._thread.is_alive():
            return
        self._spark.sparkContext.cancelJobGroup(BACKLOG_POOL)
        self._thread.join(_STOP_S_MAX)

    def state(self) -> State:
        return state(self._record)

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", BACKLOG_POOL)
        context.setJobGroup(BACKLOG_POOL, "what was skipped", interruptOnCancel=True)
        # A JVM that has just started is slow enough with one query.
        while not self._present_is_served() and not self._stop.wait(_POLL_S):
            pass
        wait_s = 1.0
        while self._record.skipped and not self._stop.is_set():
            try:
                with timelines(self._feeds) as times:
                    self._on_state(self.state())
                    while self._record.skipped and not self._stop.is_set():
                        self._one_chunk(times)
                        wait_s = 1.0
            # Py4J's: a write that fails, or is cut short, is told by no other.
            except (PySparkException, Py4JError, kafka.errors.KafkaError, ClusterError, StreamError, OSError) as error:
                if self._stop.is_set():
                    return
                if isinstance(error, Py4JNetworkError) and ran_out_of_memory():
                    if self._chunk is not None:
                        self._record = with_failure(self._record, self._chunk, self._settings)
                    checkpoint.write(self._checkpoint_dir, self._record)
                    return  # The process ends with the JVM, and its successor goes on.
                # The live query does not depend on it; whatever is wrong, the next try is cheap, and it is said each time.
                self._on_failure(first_line(error), wait_s)
                self._stop.wait(wait_s)
                wait_s = min(_RETRY_S_MAX, wait_s * 2)

    def _one_chunk(self, times: Sequence[Timeline]) -> None:
        self._record = counted(self._record, times)
        failures = failures_of_newest(self._record)
        smallest = is_suspect(self._record, self._settings)
        chunk = self._chunk = next_chunk(self._record.skipped[-1], times, self._settings, smallest=smallest)
        if failures >= _FAILURES_MAX:
            self._record = given_up(self._record, chunk, times)
            checkpoint.write(self._checkpoint_dir, self._record)
            self._on_failure(
                f"a record that windows from {_utc(chunk.from_ms)} to {_utc(chunk.to_ms)} are made from has ended the stream "
                f"{failures} times: these windows are not made. Find the sender of a record that unpacks to more than the heap",
                0.0,
            )
            return
        if any(_count(first, end) for first, end in chunk.reads):
            self._work(chunk)
        if self._stop.is_set():
            return
        self._record = shortened(self._record, chunk, times)
        checkpoint.write(self._checkpoint_dir, self._record)
        self._on_state(self.state())
