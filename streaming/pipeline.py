"""Assembles and starts the pipeline. Read this file first.

    sources.live ─→ formats.*.scrapes ─→ entities.entities ─┐ one branch per source
                                                            ├─→ signals.signals ─→ signals topic, rejects topic
    sources.live ─→ ...                ─→ ...              ─┘ one state, one query

    signals topic ─→ history.periods ─→ history topic         a batch job every ten minutes (streaming/history)

Every step between source and sink is a function from DataFrame to DataFrame, so it runs on a batch as well as on a stream; tests
and the backlog use that. State is kept in one place, ``signals.spans``.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import ceil
from pathlib import Path
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from streaming import backlog, checkpoint, quarantine, seam, sinks, sources
from streaming.backlog import Chunk
from streaming.checkpoint import CheckpointRecord, MadeWith
from streaming.checkpoint_files import CheckpointPath, open_checkpoint
from streaming.entities import REJECT, entities
from streaming.formats.common import Source
from streaming.history.passes import HistoryMaker
from streaming.history.signal_log import open_signal_log
from streaming.history.worker import HistoryListener, HistoryWorker
from streaming.kernel import LAYOUT
from streaming.local_notes import notes_folder, take_notes
from streaming.settings import FormatName, StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.signal_fields import ROW_TABLES
from streaming.signals import STATE_TYPE, WindowShape, signals
from streaming.sources import Feed

DEFAULT_SHAPE = WindowShape()
DEFAULT_SOURCE_SKEW_S = 120  # The default of stream.backfill_after_s.
CLIENT = "rheostat-stream"
# Counters in Spark's batch report: refused records, and refused records that were written to the rejects topic.
REFUSED, WRITTEN = "refused", "refused_written"
# Slots for refused records in the state: for all partitions together, and the least for one partition. Each slot takes 1.4 KB, or
# twice as much while two spans overlap, which fits a heap of 1 GiB.
REJECT_SLOTS, REJECT_SLOTS_MIN = 20_000, 500
# Time for all workers together to stop. With the times for the query and for Spark, it is less than the time after which the
# supervisor kills the stream.
WORKERS_STOP_S_MAX = 8.0
_WARM_UP_POLL_S, _WARM_UP_MS_MAX = 0.2, 60_000  # Without scrapes in the topic there is no batch to wait for.
STOP_S_MAX = 1.5  # Longest wait for a pause between batches; without a pause the query is interrupted.


@dataclass(frozen=True, slots=True)
class Input:
    """The format and the reading parameters of one source."""

    format: FormatName
    source: Source
    every_ms: int = 5000
    kafka: str = ""  # Id of its Kafka cluster.
    reject_slots: int = 5000  # Slots in the state for refused records, per partition.


def build(
    inputs: Sequence[tuple[DataFrame, Input]],
    topics: Topics,
    shape: WindowShape = DEFAULT_SHAPE,
    *,
    source_skew_s: int = DEFAULT_SOURCE_SKEW_S,
    backlog: bool = False,
) -> DataFrame:
    """Returns output records (key, value, topic) for the raw records (``formats.common.RAW``) of all sources.

    Args:
        source_skew_s: how far the event times of two sources may be apart in one batch. After an outage, a small source catches up
            in one batch and a large source in twenty batches, but the records of the large source must not count as late. One
            watermark per source is no alternative: Spark uses the lowest watermark, so it would keep all state while one source is
            silent.
    """
    extra_delay_s = _extra_delay_s(inputs, source_skew_s)
    rows = [
        entities(
            raw,
            input_.format,
            input_.source,
            input_.every_ms,
            kafka=input_.kafka,
            extra_delay_ms=extra_delay_s * 1000,
            reject_slots=None if backlog else input_.reject_slots,
        )
        for raw, input_ in inputs
    ]
    delayed = replace(shape, watermark_delay_s=shape.watermark_delay_s + extra_delay_s)
    all_rows = reduce(DataFrame.unionByName, rows)
    if backlog:  # A batch has no state, so every refused record is written and counting is not needed.
        return signals(all_rows, delayed, topics, backlog=True)
    counted = _counting(REFUSED, all_rows, F.col("kind") == REJECT)
    return _counting(WRITTEN, signals(counted, delayed, topics), F.col("topic") == topics.rejects)


def _extra_delay_s(sources_: Sized, source_skew_s: int) -> int:
    return source_skew_s if len(sources_) > 1 else 0


def _counting(name: str, frame: DataFrame, condition: Column) -> DataFrame:
    """Returns the same rows, and counts the rows that meet the condition in Spark's batch report under ``name``."""
    return frame.observe(name, F.count_if(condition).alias("rows"))


def ending_between(records: DataFrame, topics: Topics, after_ms: int | None, until_ms: int | None) -> DataFrame:
    """Returns the signals whose window ends after ``after_ms`` and not after ``until_ms``. All rejects pass."""
    if after_ms is None and until_ms is None:
        return records
    end_ms = F.substring_index(F.col("key").cast("string"), "|", -1).try_cast("long")
    inside = F.lit(True)
    if after_ms is not None:
        inside = inside & (end_ms > after_ms)
    if until_ms is not None:
        inside = inside & (end_ms <= until_ms)
    return records.filter((F.col("topic") != topics.signals) | inside)


def reject_slots(records_max: int, partitions: int) -> int:
    """Returns the number of slots for refused records of one partition, which bounds the state when many records are refused.

    With few partitions there is a slot for every record of a batch, so all refused records are reported. With many partitions each
    partition has only a small part of a batch, so it gets fewer slots.

    Args:
        records_max: maximum number of records of the source in one batch.
        partitions: number of partitions of all sources.
    """
    return min(records_max, max(REJECT_SLOTS_MIN, REJECT_SLOTS // partitions))


def shape_of(settings: StreamSettings) -> WindowShape:
    return WindowShape(
        window_s=settings.window_s, slide_s=settings.slide_s, watermark_delay_s=settings.watermark_delay_s
    )


def made_with(
    spark: SparkSession, feeds: Sequence[Feed], settings: StreamSettings, kafka_ids: tuple[str, ...] = ()
) -> MadeWith:
    """Returns the values that a checkpoint of this program with these settings depends on.

    Args:
        kafka_ids: cluster id of each feed, from ``sources.kafka_ids``.
    """
    return MadeWith(
        spark=spark.version,
        # A row's arrays have no field names: the order of the tables defines the meaning of each position.
        state=f"{STATE_TYPE} {LAYOUT} {' '.join(field for table in ROW_TABLES for field in table)}",
        window_s=settings.window_s,
        slide_s=settings.slide_s,
        watermark_delay_s=settings.watermark_delay_s,
        shuffle_partitions=settings.shuffle_partitions,
        sources=tuple(f"{'+'.join(f.topics)} as {f.format} from {f.kafka.bootstrap_servers}" for f in feeds),
        kafka_ids=kafka_ids,
    )


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """The running query and, if there is a backlog, the worker for it."""

    query: StreamingQuery
    worker: backlog.Worker | None


@contextmanager
def start(
    spark: SparkSession,
    kafka: KafkaSettings,
    topics: Topics,
    feeds: Sequence[Feed],
    settings: StreamSettings,
    *,
    on_backlog: Callable[[backlog.BacklogProgress], None],
    on_backlog_failure: Callable[[str, float], None],
    on_reject: quarantine.RejectListener,
    on_history: HistoryListener,
    follows_another: bool = False,
) -> Iterator[RunningQuery]:
    """Starts the query, and the worker that makes the history. Yields the query; stops it on exit.

    The caller holds the checkpoint's lock.

    Args:
        feeds: the sources, from ``sources.feeds``.
        on_backlog: called in another thread after each chunk.
        on_backlog_failure: called in another thread when a chunk fails and will be retried.
        on_reject: called for records that are skipped because they end the query, and while the search for such records runs.
        follows_another: another stream has written signals since this checkpoint was last used; the query continues after them.

    Raises:
        StreamError: the checkpoint does not fit or is damaged.
        ClusterError, KafkaError: the topics' offsets cannot be read.
    """
    shape, source_skew_s = shape_of(settings), ceil(settings.backfill_after_s)
    folder, state_dir = open_checkpoint(spark, settings.checkpoint_dir), notes_folder(settings.checkpoint_dir)
    kafka_ids = sources.kafka_ids(feeds, CLIENT)
    record = checkpoint.open_record(folder, made_with(spark, feeds, settings, kafka_ids))
    known = record = take_notes(state_dir, folder, record)
    end_ms = seam.newest_window_end_ms(kafka, topics.signals, settings.slide_s) if follows_another else None
    if end_ms is None or quarantine.must_repeat(folder, record, end_ms):
        known = record = quarantine.resolve(folder, record, kafka, topics, feeds, kafka_ids, on_reject)
    else:
        record = seam.following(record, end_ms, shape, _extra_delay_s(feeds, source_skew_s))
    planned, unread, partitions = _planned(folder, known, record, feeds, settings)
    begin = settings.start if planned.live_from_ms is None else planned.live_from_ms
    shares = sources.feed_shares(settings.max_records_per_trigger, unread)
    live_frames = _live_frames(spark, feeds, kafka_ids, shares, start=begin, partitions=partitions)
    made = build(live_frames, topics, shape, source_skew_s=source_skew_s)
    records = ending_between(made, topics, after_ms=planned.whole_from_ms, until_ms=None)
    # One background job at a time: Spark does not preempt a task, and the query needs a core.
    background = threading.Lock()

    def write_chunk(chunk: Chunk) -> None:
        frames = _chunk_frames(spark, feeds, [input_ for _, input_ in live_frames], chunk)
        signals_ = build(frames, topics, shape, source_skew_s=source_skew_s, backlog=True)
        with background:
            sinks.write_once(ending_between(signals_, topics, after_ms=chunk.from_ms, until_ms=chunk.to_ms), kafka)

    with ExitStack() as teardown:
        writer = sinks.to_kafka(records, kafka, checkpoint_dir=folder / planned.live, trigger_ms=settings.trigger_ms)
        query = writer.start()
        teardown.callback(_stop, query)
        live_query_runs = partial(_has_run_a_batch, query)
        history = _history_worker(spark, kafka, topics, state_dir, background, live_query_runs, on_history)
        history.start()
        workers: list[BackgroundWorker] = [history]
        teardown.callback(stop_workers, workers)
        worker = None
        if planned.skipped:
            parts = (spark, folder, planned, feeds, settings)
            worker = backlog.Worker(
                *parts,
                work=write_chunk,
                live_query_runs=live_query_runs,
                on_progress=on_backlog,
                on_failure=on_backlog_failure,
            )
            worker.start()
            workers.append(worker)
        yield RunningQuery(query, worker)


def _planned(
    folder: CheckpointPath,
    known: CheckpointRecord,
    record: CheckpointRecord,
    feeds: Sequence[Feed],
    settings: StreamSettings,
) -> tuple[CheckpointRecord, list[int], int]:
    """Decides where the live query starts, and switches to another live folder if it does not continue.

    Args:
        known: the record of the checkpoint as it is stored.
        record: ``known``, or the record with which this stream continues after another stream.

    Returns:
        The stored record, the number of unread records by feed, and the number of partitions of all feeds.
    """
    with backlog.open_timelines(feeds) as timelines:
        partitions = sum(timeline.partitions for timeline in timelines)
        positions, now_ms = checkpoint.positions(folder, record), int(time.time() * 1000)
        planned = backlog.plan_start(record, positions, timelines, settings, now_ms)
        if planned != known:
            checkpoint.switch_live_folder(folder, known, planned)
            positions = None
        return planned, backlog.unread_records(planned, positions, timelines, settings, now_ms), partitions


def warm_up(
    spark: SparkSession,
    kafka: KafkaSettings,
    topics: Topics,
    feeds: Sequence[Feed],
    settings: StreamSettings,
    scratch: Path,
    is_over: Callable[[], bool],
) -> None:
    """Runs the query of a standby for one batch, without output, so that a later ``start`` finds its classes loaded.

    Args:
        scratch: a folder for the query's checkpoint, which is removed.
        is_over: ends the warm-up early.

    Raises:
        ClusterError, KafkaError, PySparkException, Py4JError, StreamError: as for ``start``.
    """
    began_ms = int(time.time() * 1000)
    with backlog.open_timelines(feeds) as timelines:
        partitions = sum(timeline.partitions for timeline in timelines)
    shares = sources.feed_shares(settings.max_records_per_trigger, [0] * len(feeds))
    frames = _live_frames(
        spark,
        feeds,
        sources.kafka_ids(feeds, CLIENT),
        shares,
        start=began_ms - 2 * settings.window_s * 1000,
        partitions=partitions,
    )
    made = build(frames, topics, shape_of(settings), source_skew_s=ceil(settings.backfill_after_s))
    no_records = made.filter(F.octet_length("key") < 0)  # Spark does not see that this is never true.
    folder = scratch / "warm-up"
    query = sinks.to_kafka(no_records, kafka, checkpoint_dir=folder, trigger_ms=settings.trigger_ms).start()
    try:
        while query.isActive and not is_over() and not _has_run_a_batch(query):
            if time.time() * 1000 - began_ms > _WARM_UP_MS_MAX:
                break
            time.sleep(_WARM_UP_POLL_S)
        if (error := query.exception()) is not None:
            raise error
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _has_run_a_batch(query: StreamingQuery) -> bool:
    return query.lastProgress is not None


def _live_frames(
    spark: SparkSession,
    feeds: Sequence[Feed],
    kafka_ids: Sequence[str],
    shares: Sequence[int],
    *,
    start: str | int,
    partitions: int,
) -> list[tuple[DataFrame, Input]]:
    """Returns the raw records of each feed as a stream, with the input that they belong to.

    Args:
        shares: maximum number of records in one batch, by feed.
        start: ``stream.start``, or epoch ms of the first record.
        partitions: number of partitions of all feeds.
    """
    return [
        (
            sources.live(spark, feed, start=start, max_records_per_trigger=share),
            Input(
                feed.format, feed.source, feed.every_ms, kafka=kafka_id, reject_slots=reject_slots(share, partitions)
            ),
        )
        for feed, kafka_id, share in zip(feeds, kafka_ids, shares, strict=True)
    ]


def _chunk_frames(
    spark: SparkSession, feeds: Sequence[Feed], inputs: Sequence[Input], chunk: Chunk
) -> list[tuple[DataFrame, Input]]:
    """Returns the raw records of a part of the backlog, by feed, with their inputs."""
    return [
        # One task per feed; the other cores stay free for the live query.
        (sources.between(spark, feed, first, end).coalesce(1), input_)
        for feed, input_, (first, end) in zip(feeds, inputs, chunk.reads, strict=True)
    ]


def _history_worker(
    spark: SparkSession,
    kafka: KafkaSettings,
    topics: Topics,
    state_dir: Path,
    job_lock: threading.Lock,
    live_query_runs: Callable[[], bool],
    on_history: HistoryListener,
) -> HistoryWorker:
    """Returns the worker that makes the history; it is not started yet.

    Args:
        job_lock: a lock that the worker holds during each job.
    """
    maker = HistoryMaker(
        lambda: open_signal_log(spark, kafka, topics), topics.history, job_lock=job_lock, on_job=on_history.job
    )
    return HistoryWorker(spark, state_dir, maker, live_query_runs=live_query_runs, on_failure=on_history.failed)


class BackgroundWorker(Protocol):
    """A thread that runs Spark jobs beside the query."""

    def cancel(self) -> None: ...

    def join(self, timeout_s: float) -> None: ...


def stop_workers(workers: Sequence[BackgroundWorker], timeout_s: float = WORKERS_STOP_S_MAX) -> None:
    """Stops the workers at the same time, and waits ``timeout_s`` for all of them together."""
    for worker in workers:
        worker.cancel()
    until_s = time.monotonic() + timeout_s
    for worker in workers:
        worker.join(max(0.0, until_s - time.monotonic()))


def _stop(query: StreamingQuery) -> None:
    """Stops the query, if possible between two batches. An interrupted batch logs many errors and is repeated later."""
    deadline = time.monotonic() + STOP_S_MAX
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()
