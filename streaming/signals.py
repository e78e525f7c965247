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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming import kernel
from streaming.entities import KEYS, REJECT
from streaming.shared.contract import Topics

# What ``spans`` yields, and so what a checkpoint holds. Asking Spark would take seconds of every start; a test does.
STATE_TYPE = (
    "struct<span:struct<start:timestamp,end:timestamp>,cluster:string,kind:string,node:int,part:string,"
    "rows:array<binary>,refused:binary>"
)


@dataclass(frozen=True, slots=True)
class WindowShape:
    """How time is cut. Part of what a checkpoint was made with."""

    window_s: int = 30
    slide_s: int = 5
    watermark_delay_s: int = 10


def signals(entities: DataFrame, shape: WindowShape, topics: Topics, *, backlog: bool = False) -> DataFrame:
    """Rows of ``entities`` → records with key, value and topic, as contract.py's functions write them."""
    records = kernel.records(
        span_start_ms=F.unix_millis("span.start"),
        window_ms=shape.window_s * 1000,
        hop_ms=shape.slide_s * 1000,
        backlog=backlog,
    )
    topic = F.when(F.col("kind") == REJECT, topics.rejects).otherwise(topics.signals)
    return spans(entities, shape).select("kind", F.inline(records)).select("key", "value", topic.alias("topic"))


def spans(entities: DataFrame, shape: WindowShape) -> DataFrame:
    """``span``, ``KEYS``, ``rows`` and ``refused``. The one operator with state."""
    is_refused = F.col("kind") == REJECT
    span = F.window("time", f"{2 * shape.window_s} seconds", f"{shape.window_s} seconds")
    return (
        entities.withWatermark("time", f"{shape.watermark_delay_s} seconds")
        .withColumn("span", span)
        # A refused record has no history to be looked back on.
        .filter(~is_refused | (F.unix_millis("time") >= F.unix_millis("span.start") + F.lit(shape.window_s * 1000)))
        .groupBy("span", *KEYS)
        .agg(
            F.collect_list(F.when(~is_refused, F.col("row"))).alias("rows"),
            # Of refused records each place keeps one, the last (a row begins with when it was seen): the state of a flood of
            # them has an end.
            F.max(F.when(is_refused, F.col("row"))).alias("refused"),
        )
    )
