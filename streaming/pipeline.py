"""The pipeline, joined. Read this file first.

    sources.records ─→ formats.*.parse ─→ entities.entities ─┐ one branch a source
                                                            ├─→ signals.signals ─→ signals topic, rejects topic
    sources.records ─→ ...             ─→ ...              ─┘ one state, one query

Everything between source and sink is a function from DataFrame to DataFrame, and runs on a batch as well as on a
stream: the tests use that, and so does the backlog after an outage. State is kept in one place, ``signals.spans``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from math import ceil

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from streaming import backlog, checkpoint, quarantine, sinks, sources
from streaming.backlog import Chunk
from streaming.checkpoint import MadeWith
from streaming.entities import REJECT, entities
from streaming.formats.common import Source
from streaming.kernel import LAYOUT
from streaming.settings import FormatName, StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.signal_fields import ROW_TABLES
from streaming.signals import STATE_TYPE, WindowShape, signals
from streaming.sources import Feed

DEFAULT_SHAPE = WindowShape()
DEFAULT_APART_S = 120  # As long as stream.backfill_after_s by default.
CLIENT = "rheostat-stream"
# In the report of a batch: how many records were refused, and how many of those went to the rejects topic.
REFUSED, WRITTEN = "refused", "refused_written"
# Of 1.4 KB each, twice while one span follows another; a heap of 1 GiB has room for that.
PLACES, PLACES_MIN = 20_000, 500
STOP_S_MAX = 1.5  # With batches longer than the trigger there is no such moment.


@dataclass(frozen=True, slots=True)
class Input:
    """One source: what it is read as."""

    format: FormatName
    source: Source
    every_ms: int = 5000
    kafka: str = ""  # Which Kafka cluster has it.
    places: int = 5000  # In the state, for refused records of each of its partitions.


def build(
    inputs: Sequence[tuple[DataFrame, Input]],
    topics: Topics,
    shape: WindowShape = DEFAULT_SHAPE,
    *,
    apart_s: int = DEFAULT_APART_S,
    backlog: bool = False,
) -> DataFrame:
    """Raw records (``formats.common.RAW``) of every source → records with key, value and topic.

    Args:
        apart_s: how far several sources may be read apart: as far as a query may be behind that goes on in order. A small
            source has caught up in one batch, and a large one, which needs twenty, is not late by that. One alone is read in
            step with itself. Not a watermark for each source, of which Spark would take the least: one that is silent would
            hold everybody's state for as long as it is.
    """
    waited_s = apart_s if len(inputs) > 1 else 0
    rows = [
        entities(
            raw,
            one.format,
            one.source,
            one.every_ms,
            kafka=one.kafka,
            apart_ms=waited_s * 1000,
            places=None if backlog else one.places,
        )
        for raw, one in inputs
    ]
    patient = replace(shape, watermark_delay_s=shape.watermark_delay_s + waited_s)
    all_ = reduce(DataFrame.unionByName, rows)
    if backlog:  # Without state, nothing is left out.
        return signals(all_, patient, topics, backlog=True)
    counted = _counting(REFUSED, all_, F.col("kind") == REJECT)
    return _counting(WRITTEN, signals(counted, patient, topics), F.col("topic") == topics.rejects)


def _counting(name: str, frame: DataFrame, which: Column) -> DataFrame:
    """The same rows; the report of a batch says of how many of them that is true."""
    return frame.observe(name, F.count_if(which).alias("rows"))


def ending_between(records: DataFrame, topics: Topics, after_ms: int | None, until_ms: int | None) -> DataFrame:
    """Signals of the windows that end after the one and not after the other; rejects have no window, and all pass."""
    if after_ms is None and until_ms is None:
        return records
    end_ms = F.substring_index(F.col("key").cast("string"), "|", -1).try_cast("long")
    inside = F.lit(True)
    if after_ms is not None:
        inside = inside & (end_ms > after_ms)
    if until_ms is not None:
        inside = inside & (end_ms <= until_ms)
    return records.filter((F.col("topic") != topics.signals) | inside)


def places(records_max: int, partitions: int) -> int:
    """How many refused records of one partition the state has places for, so that a flood of them cannot fill the heap.

    As many as a batch can bring of it, and all are told. Only of more than a handful of partitions there are fewer: each then
    has but a small part of a batch.

    Args:
        records_max: that a batch can bring of the source.
        partitions: of all sources.
    """
    return min(records_max, max(PLACES_MIN, PLACES // partitions))


def shape_of(settings: StreamSettings) -> WindowShape:
    return WindowShape(settings.window_s, settings.slide_s, settings.watermark_delay_s)


def made_with(
    spark: SparkSession, feeds: Sequence[Feed], settings: StreamSettings, kafka_ids: tuple[str, ...] = ()
) -> MadeWith:
    """What a checkpoint of this very program, with these settings, is made with.

    Args:
        kafka_ids: what ``sources.kafka_ids`` found.
    """
    return MadeWith(
        spark=spark.version,
        # A row's arrays have no names: what stands where is the order of the tables.
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
    """What runs: the query, and beside it whoever works off what it skipped."""

    query: StreamingQuery
    worker: backlog.Worker | None


@contextmanager
def start(
    spark: SparkSession,
    kafka: KafkaSettings,
    topics: Topics,
    feeds: Sequence[Feed],
    settings: StreamSettings,
    on_backlog: Callable[[backlog.State], None],
    on_backlog_failure: Callable[[str, float], None],
    hears: quarantine.RejectListener,
) -> Iterator[RunningQuery]:
    """The running query; stopped when the block is left. The caller holds the checkpoint.

    Args:
        feeds: what ``sources.feeds`` made of the settings.
        on_backlog: hears of every chunk, in another thread; ``on_backlog_failure`` of one that is tried again later.
        hears: of records that are left out because they end the query, and of the search for them.

    Raises:
        StreamError: the checkpoint does not fit or is damaged.
        ClusterError, KafkaError: the topics cannot be asked how far the checkpoint is behind them.
    """
    folder, shape, apart_s = settings.checkpoint_dir, shape_of(settings), ceil(settings.backfill_after_s)
    kafka_ids = sources.kafka_ids(feeds, CLIENT)
    record = checkpoint.opened(folder, made_with(spark, feeds, settings, kafka_ids))
    record = quarantine.resolve(folder, record, kafka, topics, feeds, kafka_ids, hears)
    with backlog.timelines(feeds) as times:
        partitions = sum(one.partitions for one in times)
        positions, now_ms = checkpoint.positions(folder, record), int(time.time() * 1000)
        planned = backlog.record_step(record, positions, times, settings, now_ms)
        if planned != record:
            checkpoint.switched(folder, record, planned)
            positions = None
        waiting = backlog.waiting(planned, positions, times, settings, now_ms)

    begin = settings.start if planned.live_from_ms is None else planned.live_from_ms
    shares = sources.shares(settings.max_records_per_trigger, waiting)
    inputs = [
        Input(feed.format, feed.source, feed.every_ms, kafka_id, places(share, partitions))
        for feed, kafka_id, share in zip(feeds, kafka_ids, shares, strict=True)
    ]
    frames = [
        (sources.live(spark, feed, start=begin, max_records_per_trigger=share), input_)
        for feed, input_, share in zip(feeds, inputs, shares, strict=True)
    ]
    records = ending_between(build(frames, topics, shape, apart_s=apart_s), topics, planned.whole_from_ms, None)

    def work(chunk: Chunk) -> None:
        pieces = [
            # One task a feed: what is left of the cores is the live query's.
            (sources.between(spark, feed, first, end).coalesce(1), input_)
            for feed, input_, (first, end) in zip(feeds, inputs, chunk.reads, strict=True)
        ]
        made = build(pieces, topics, shape, apart_s=apart_s, backlog=True)
        sinks.write_once(ending_between(made, topics, chunk.from_ms, chunk.to_ms), kafka)

    with ExitStack() as teardown:
        writer = sinks.to_kafka(records, kafka, checkpoint_dir=folder / planned.live, trigger_ms=settings.trigger_ms)
        query = writer.start()
        teardown.callback(_stop, query)
        worker = None
        if planned.skipped:
            worker = backlog.Worker(
                spark,
                folder,
                planned,
                feeds,
                settings,
                work,
                lambda: query.lastProgress is not None,
                on_backlog,
                on_backlog_failure,
            )
            worker.start()
            teardown.callback(worker.stop)
        yield RunningQuery(query, worker)


def _stop(query: StreamingQuery) -> None:
    """Stops between two batches if it can: one that is cut short fills the log with errors, and is done again later."""
    deadline = time.monotonic() + STOP_S_MAX
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()
