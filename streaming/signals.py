"""Turns entity rows into output records, through the pipeline's only stateful operator.

Every measurement uses one window of an entity's rows. The state keeps rows in spans. A span is twice as long as a window, and a new
span begins every window length, so each window lies completely in one span. Each row is therefore stored twice; Spark's sliding
windows would store it six times. The trend of lags over five minutes needs no longer spans, because scrapes contain earlier sums
(streaming/collector/lag_history.py).

Vocabulary:
    span      the unit of state: the rows of one entity over two windows, unordered.
    window    ends at a multiple of the slide. A span produces the windows that end in its second half.
    due       a window with a row within its last slide. Other windows produce nothing, because an earlier, due window has all of
              their rows.
    touched   a window that contains a row of the current batch. Only touched windows are produced, so that a row yields one record
              and not one for each window that the span still holds.

Invariants: a window's record depends only on the set of rows that have arrived. Duplicate rows, the order of arrival and the
division into batches change nothing. So after a crash the last record of a key is the same as in an uninterrupted run.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming import kernel
from streaming.entities import KEYS, REJECT
from streaming.shared.contract import Topics

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


def signals(entities: DataFrame, shape: WindowShape, topics: Topics, *, backlog: bool = False) -> DataFrame:
    """Returns output records (key, value, topic) for the rows of ``entities``, encoded as the contract says."""
    records = kernel.records(
        span_start_ms=F.unix_millis("span.start"),
        window_ms=shape.window_s * 1000,
        slide_ms=shape.slide_s * 1000,
        backlog=backlog,
    )
    topic = F.when(F.col("kind") == REJECT, topics.rejects).otherwise(topics.signals)
    return spans(entities, shape).select("kind", F.inline(records)).select("key", "value", topic.alias("topic"))


def spans(entities: DataFrame, shape: WindowShape) -> DataFrame:
    """Returns ``span``, ``KEYS``, ``rows`` and ``refused``. This is the only stateful operator."""
    is_refused = F.col("kind") == REJECT
    span = F.window("time", f"{2 * shape.window_s} seconds", f"{shape.window_s} seconds")
    return (
        entities.withWatermark("time", f"{shape.watermark_delay_s} seconds")
        .withColumn("span", span)
        # A refused record is kept in one span only: the span in whose second half it lies.
        .filter(~is_refused | (F.unix_millis("time") >= F.unix_millis("span.start") + F.lit(shape.window_s * 1000)))
        .groupBy("span", *KEYS)
        .agg(
            F.collect_list(F.when(~is_refused, F.col("row"))).alias("rows"),
            # Each slot keeps the last refused record (a row begins with its time), which bounds the state.
            F.max(F.when(is_refused, F.col("row"))).alias("refused"),
        )
    )
