"""The two inner loops of the pipeline, in Java: a scrape → its entities, and a span of an entity → its records.

Why not in Spark's expressions: those that look into arrays are interpreted, element by element, and are planned anew with
every batch. Written in them the two took three quarters of the pipeline's time (docs/performance.md). Spark keeps what it is
for: reading, disorder, state, restarts, more machines.

What is here is called like any other function of Spark (a catalog of functions, Spark's public interface for that), on a
stream as on a batch, and executors get it in a jar. ``rheostat/jvm/kernel.py`` makes the jar of the sources in this folder.

    Catalog, KernelFunction       how Spark finds the functions
    EntitiesFunction, Fold        the scrapes of a record, as any format reads them → entities
    EntitiesOfJsonFunction        the same at once from a record of our own format that is as it should be
    RecordsFunction, Signal       a span → windows that are due, and of each key and value
    Rates, Moving, Partition      what is measured: counters, and moves
    Row, Bytes, Json, Tables      what the state keeps, how it is written, and which sample goes where
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.kernel.tables import TABLES

_CATALOG = "rheostat"
# For the session that calls these functions.
SETTINGS = {
    f"spark.sql.catalog.{_CATALOG}": "rheostat.stream.Catalog",
    f"spark.sql.catalog.{_CATALOG}.tables": TABLES,
}
# Of the rows (Row.java) that a checkpoint holds. Another layout is another number; test_kernel.py holds the two together.
LAYOUT = 1


def entities(
    scrapes: Column, *, taken_ms: Column, every_ms: int, whole: bool, kafka: str, apart_ms: int, places: int | None
) -> Column:
    """Array of structs ``cluster, kind, node, part, time, row``, of a record (``formats.common.RAW``) and its scrapes."""
    return F.call_function(
        f"{_CATALOG}.entities",
        scrapes,
        F.col("value"),
        F.col("topic"),
        F.col("partition"),
        F.col("offset"),
        taken_ms,
        _now_ms(),
        _long(every_ms),
        F.lit(whole),
        F.lit(kafka),
        _long(apart_ms),
        _long(places or 0),
    )


def entities_of_json(*, taken_ms: Column, every_ms: int) -> Column:
    """The same straight from a record of our own format; NULL when anything in it is not as the contract says."""
    return F.call_function(f"{_CATALOG}.entities_of_json", F.col("value"), taken_ms, _now_ms(), _long(every_ms))


def records(*, span_start_ms: Column, window_ms: int, hop_ms: int, backlog: bool) -> Column:
    """Array of structs ``key, value``, both binary, of a span (``signals.spans``)."""
    return F.call_function(
        f"{_CATALOG}.records",
        F.col("cluster"),
        F.col("kind"),
        F.col("node"),
        F.col("part"),
        F.col("rows"),
        F.col("refused"),
        span_start_ms,
        _now_ms(),
        _long(window_ms),
        _long(hop_ms),
        F.lit(backlog),
    )


def _now_ms() -> Column:
    """The time of the batch, the same in all of it."""
    return F.unix_millis(F.current_timestamp())


def _long(value: int) -> Column:
    return F.lit(value).cast("long")
