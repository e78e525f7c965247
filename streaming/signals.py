"""Entity rows in, records out, through the one stateful operator of the pipeline.

Intuition: every measurement is taken from the last WINDOW seconds of an entity's rows. The state keeps them in spans twice as
long as a window, one beginning with every window: whichever window one asks for lies whole in one span. So a row is kept
twice, where sliding windows would keep it once for each of the six it is in.

Vocabulary:
    span      what the state keeps: the rows of one entity over two windows, in no order.
    window    ends at a multiple of the hop. A span answers for the windows that end in its second half.
    due       a window with a row within its last hop. Others leave nothing: their rows are all in one that is.
    touched   a window that a row of this very batch is in. Only those leave, so that a row yields one record and not one
              for each window that the span still remembers.

Invariants: a row that arrives twice changes nothing, nor does the order of arrival. What leaves for a window is a
function of the rows that have come, not of how they were cut into batches; after a crash the last record of a key is
the one of an uninterrupted run.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming.contract import Topics
from streaming.entities import KEYS, REJECT, ROW_TYPE
from streaming.formats.common import let
from streaming.rates import CLOCK_STEP_S_MAX
from streaming.records import latest, record

# What ``spans`` yields, and so what a checkpoint holds. Asking Spark would take seconds of every start; a test does.
STATE_TYPE = (
    "struct<span:struct<start:timestamp,end:timestamp>,cluster:string,kind:string,node:int,part:string,"
    "rows:array<string>,refused:string,newest_at_ms:bigint>"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How time is cut. Part of what a checkpoint was made with."""

    window_s: int = 30
    hop_s: int = 5
    lateness_s: int = 10


def signals(entities: DataFrame, shape: Shape, topics: Topics, *, backlog: bool = False) -> DataFrame:
    """Rows of ``entities`` → records with key, value and topic, as contract.py's functions write them."""
    # Without this most spans would be read only to find that they have nothing to say: the later one of every row's two.
    speaking = spans(entities, shape).filter(_end_after(F.col("newest_at_ms"), shape) > _half_ms(shape))
    # One expression, and not a stage for each thing it computes: see formats/common.py.
    texts = F.when(F.col("kind") == REJECT, F.array("refused")).otherwise(F.col("rows"))
    rows = F.from_json(F.concat(F.lit("["), F.array_join(texts, ","), F.lit("]")), f"array<{ROW_TYPE}>")
    records = let(
        rows,
        lambda rows: F.transform(
            _due(rows, shape),
            lambda end: let(
                _history(rows, end, shape), lambda history: record(history, end, shape.window_s * 1000, backlog)
            ),
        ),
    )
    topic = F.when(F.col("kind") == REJECT, topics.rejects).otherwise(topics.signals)
    # A value that is NULL is of a node of which nothing tells yet whether it is a broker or a controller.
    return speaking.select("kind", F.inline(F.filter(records, lambda record: record["value"].isNotNull()))).select(
        F.col("key").cast("binary"), "value", topic.alias("topic")
    )


def spans(entities: DataFrame, shape: Shape) -> DataFrame:
    """``span``, ``KEYS``, ``rows``, ``refused`` and ``newest_at_ms``. The one operator with state."""
    is_refused = F.col("kind") == REJECT
    span = F.window("time", f"{2 * shape.window_s} seconds", f"{shape.window_s} seconds")
    return (
        entities.withWatermark("time", f"{shape.lateness_s} seconds")
        .withColumn("span", span)
        # A refused record has no history to be looked back on.
        .filter(~is_refused | (F.col("at_ms") >= _half_ms(shape)))
        .groupBy("span", *KEYS)
        .agg(
            F.collect_list(F.when(~is_refused, F.col("row"))).alias("rows"),
            # Of refused records each place keeps one, the last: the state of a flood of them has an end.
            F.max(F.when(is_refused, F.col("row"))).alias("refused"),
            F.max("at_ms").alias("newest_at_ms"),
        )
    )


def _half_ms(shape: Shape) -> Column:
    return F.unix_millis("span.start") + F.lit(shape.window_s * 1000)


def _end_after(at_ms: Column, shape: Shape) -> Column:
    hop_ms = shape.hop_s * 1000
    return at_ms - at_ms % hop_ms + hop_ms


def _due(rows: Column, shape: Shape) -> Column:
    """The ends of the windows that are due and touched."""
    window_ms, hop_ms, half_ms = shape.window_s * 1000, shape.hop_s * 1000, _half_ms(shape)
    now_ms = F.unix_millis(F.current_timestamp())

    def ends(first: Column, newest: Column) -> Column:
        return F.when(first <= newest, F.sequence(first, newest, F.lit(hop_ms).cast("long"))).otherwise(
            F.array().cast("array<long>")
        )

    touched = F.flatten(
        F.transform(
            F.filter(rows, lambda r: r.seen_ms == now_ms),
            lambda r: let(
                _end_after(r.at_ms, shape),
                lambda first: ends(
                    F.greatest(first, _end_after(half_ms, shape)),
                    F.least(first + F.lit(window_ms - hop_ms), half_ms + F.lit(window_ms)),
                ),
            ),
        )
    )
    return F.filter(
        F.array_distinct(touched), lambda end: F.exists(rows, lambda r: (r.at_ms >= end - hop_ms) & (r.at_ms < end))
    )


def _history(rows: Column, end: Column, shape: Shape) -> Column:
    inside = F.filter(rows, lambda r: (r.at_ms >= end - shape.window_s * 1000) & (r.at_ms < end))
    return let(
        F.sort_array(inside),
        lambda sorted_: F.when(
            (F.col("kind") == "move") | (F.size(F.array_distinct(sorted_.own_ms)) == F.size(sorted_)), sorted_
        ).otherwise(_put_together(sorted_)),
    )


def _put_together(rows: Column) -> Column:
    """One row a scrape, where a format brings one record a metric; also what was delivered twice is one again."""

    def one(parts: Column) -> Column:
        newest = F.element_at(parts, -1)
        none = F.array().cast("array<long>")
        return F.struct(
            newest.own_ms.alias("own_ms"),
            newest.ts.alias("ts"),
            # The first: what is delivered again later was measured then all the same.
            F.array_min(parts.at_ms).alias("at_ms"),
            newest.every_ms.alias("every_ms"),
            F.exists(parts, lambda r: r.sure).alias("sure"),
            F.aggregate(
                parts,
                none,
                lambda older, r: F.zip_with(
                    older, F.coalesce(r.counters, none), lambda before, now: F.coalesce(now, before)
                ),
            ).alias("counters"),
            F.array_join(latest(parts).cast("array<string>"), ",", "").alias("gauges"),
            F.when(
                F.exists(parts, lambda r: r.sums.isNotNull()),
                F.flatten(F.filter(parts.sums, lambda sums: sums.isNotNull())),
            ).alias("sums"),
            newest.partitions.alias("partitions"),
            newest.note.alias("note"),
            F.array_max(parts.seen_ms).alias("seen_ms"),
        )

    def when(row: Column) -> Column:
        # A clock that was set back shows the same time twice; Kafka's tells the two apart.
        return F.struct(row.own_ms.alias("own_ms"), F.floor(row.at_ms / (CLOCK_STEP_S_MAX * 1000)).alias("about"))

    return F.transform(
        F.array_distinct(F.transform(rows, when)), lambda time: let(F.filter(rows, lambda r: when(r) == time), one)
    )
