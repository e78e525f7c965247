"""Entity rows in, output records out, through the pipeline's one stateful operator.

Every measurement uses the last window of an entity's rows, except the long trend of lags, which uses the last ``TREND_S``. The
state keeps rows in spans, and one span begins with every window. A span is as long as the trend and one window. Rows are stored in
the two spans whose last two windows they are in, so each window lies whole in one span; Spark's sliding windows would store a row
six times. In the earlier spans, which need only points of the trend, a small row of kind ``HISTORY`` is stored instead. So one
operator serves both lengths. A second operator for the trend would read and parse the topics a second time.

Vocabulary:
    span      the unit of state: the rows of one entity over two windows, unordered, and before them points of the long trend.
    window    ends at a multiple of the slide. A span produces the windows that end in its last window's time.
    due       a window with a row within its last slide. Other windows produce nothing, because an earlier, due window has all of
              their rows.
    touched   a window that contains a row of the current batch, or whose long trend does. Only touched windows are produced, so
              that a row yields one record and not one for each window that the span still holds.

Invariants: a window's record depends only on the set of rows that have arrived. Duplicate rows, the order of arrival and the
division into batches change nothing. So after a crash the last record of a key equals that of an uninterrupted run.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming import kernel
from streaming.entities import KEYS, REJECT
from streaming.shared.contract import Topics

TREND_S = 300  # Length of the long trend of lags, ``ReplicationSignal.trend_5min``.
REPLICATION, HISTORY = (
    "replication",
    "replication_history",
)  # Kinds of entities: lags, and their points of the long trend.

# Schema of the rows of ``spans``, part of the checkpoint. It is written out, because asking Spark for it would delay each start; a
# test compares both.
STATE_TYPE = (
    "struct<span:struct<start:timestamp,end:timestamp>,cluster:string,kind:string,node:int,part:string,"
    "rows:array<binary>,refused:binary>"
)


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Window length, slide and watermark delay. A checkpoint fits one shape only."""

    window_s: int = 30
    slide_s: int = 5
    watermark_delay_s: int = 10

    @property
    def span_s(self) -> int:
        return max(TREND_S, self.window_s) + self.window_s

    @property
    def last_windows_s(self) -> int:
        """Seconds from the start of a span to its last two windows."""
        return self.span_s - 2 * self.window_s


def signals(entities: DataFrame, shape: WindowShape, topics: Topics, *, backlog: bool = False) -> DataFrame:
    """Returns output records (key, value, topic) for the rows of ``entities``, encoded as the contract says."""
    records = kernel.records(
        first_window_ms=F.unix_millis("span.start") + F.lit(shape.last_windows_s * 1000),
        window_ms=shape.window_s * 1000,
        slide_ms=shape.slide_s * 1000,
        trend_ms=TREND_S * 1000,
        backlog=backlog,
    )
    topic = F.when(F.col("kind") == REJECT, topics.rejects).otherwise(topics.signals)
    return spans(entities, shape).select("kind", F.inline(records)).select("key", "value", topic.alias("topic"))


def spans(entities: DataFrame, shape: WindowShape) -> DataFrame:
    """Returns ``span``, ``KEYS``, ``rows`` and ``refused``. This is the only stateful operator."""
    is_refused = F.col("kind") == REJECT
    span = F.window("time", f"{shape.span_s} seconds", f"{shape.window_s} seconds")
    in_span_s = (F.unix_millis("time") - F.unix_millis("span.start")) / 1000
    in_last_windows = in_span_s >= shape.last_windows_s
    # A refused record is kept in one span only: the span in whose last window it lies.
    kept = (
        F.when(is_refused, in_span_s >= shape.last_windows_s + shape.window_s)
        .when(F.col("kind") == HISTORY, ~in_last_windows)
        .otherwise(in_last_windows)
    )
    return (
        entities.withWatermark("time", f"{shape.watermark_delay_s} seconds")
        .withColumn("span", span)
        .filter(kept)
        .withColumn("kind", F.when(F.col("kind") == HISTORY, REPLICATION).otherwise(F.col("kind")))
        .groupBy("span", *KEYS)
        .agg(
            F.collect_list(F.when(~is_refused, F.col("row"))).alias("rows"),
            # Each slot keeps the last refused record (a row begins with its time), which bounds the state.
            F.max(F.when(is_refused, F.col("row"))).alias("refused"),
        )
    )
