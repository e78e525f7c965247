"""The two inner loops of the pipeline, in Java: scrapes to entities, and spans of entities to signal records.

An entity is the subject of a signal, for example one broker (``entities.py``). A span is the rows of one entity over two windows
(``signals.py``).

The loops are in Java because Spark interprets expressions on arrays element by element, and plans these expressions again for every
batch. As Spark expressions, the two loops took three quarters of the pipeline's time (docs/explanation/performance.md). Spark still
does the reading, ordering, state, restarts and distribution.

Spark calls these functions through a function catalog, a public interface of Spark, on streams and batches alike. Executors get
the functions in a jar, which ``rheostat/jvm/kernel.py`` builds from the sources in this folder.

    Catalog, KernelFunction       registration with Spark
    EntitiesFunction, Fold        scrapes of any format → entities
    EntitiesOfJsonFunction        a valid record of rheostat's own format → entities, without Spark's parser
    OtlpFunction, Wire            a record of OpenTelemetry in protobuf → the struct that Spark's JSON parser makes of OTLP's JSON
    PointsFunction                data points of OpenTelemetry → scrapes
    RecordsFunction, Signal       a span → key and value of each due window
    Rates, Moving, Partition      measurements: rates of counters, and the progress of moves
    Lagging, Lags, LagFold, Line  the lag of followers, and its trends
    Row, Bytes, Json, Tables      the binary form of the state, JSON output, and the position of each sample in a row
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.kernel.tables import TABLES

_CATALOG = "rheostat"
# Spark settings of a session that calls these functions.
SETTINGS = {
    f"spark.sql.catalog.{_CATALOG}": "rheostat.stream.Catalog",
    f"spark.sql.catalog.{_CATALOG}.tables": TABLES,
}
# Version of the row layout (Row.java) in a checkpoint. Change it with the layout; test_kernel.py checks both.
LAYOUT = 3


def entities(
    scrapes: Column,
    *,
    record_ms: Column,
    every_ms: int,
    whole: bool,
    kafka: str,
    extra_delay_ms: int,
    reject_slots: int | None,
) -> Column:
    """Returns an array of structs ``cluster, kind, node, part, time, row`` for a record (``RAW``) and its scrapes.

    Args:
        record_ms: Kafka's timestamp of the record.
        whole: whether the format brings a whole scrape in one record.

    The other arguments are the same as for ``streaming.entities.entities``.
    """
    return F.call_function(
        f"{_CATALOG}.entities",
        scrapes,
        F.col("value"),
        F.col("topic"),
        F.col("partition"),
        F.col("offset"),
        record_ms,
        _now_ms(),
        _long(every_ms),
        F.lit(whole),
        F.lit(kafka),
        _long(extra_delay_ms),
        _long(reject_slots or 0),  # 0 means no limit.
    )


def entities_of_json(*, record_ms: Column, every_ms: int) -> Column:
    """Returns the array of ``entities`` directly from a record of rheostat's own format.

    Returns NULL if the record deviates from the contract; ``entities`` then handles the record.
    """
    return F.call_function(f"{_CATALOG}.entities_of_json", F.col("value"), record_ms, _now_ms(), _long(every_ms))


# Fields of a data point, in the order of PointsFunction.java.
POINT_FIELDS = ("cluster", "role", "node", "ts", "n", "l", "v")


def scrapes_of_points(points: Column) -> Column:
    """Returns an array of scrapes for an array of structs of ``POINT_FIELDS``: one for each cluster, role, node and time.

    Points without node, labels or a number are left out. Returns NULL for NULL.
    """
    return F.call_function(f"{_CATALOG}.scrapes_of_points", points)


def otlp_record() -> Column:
    """Returns the parts of an OTLP record in protobuf that formats/otlp.py reads, or ``problem``; NULL for a NULL value."""
    return F.call_function(f"{_CATALOG}.otlp", F.col("value"))


def records(*, span_start_ms: Column, window_ms: int, slide_ms: int, backlog: bool) -> Column:
    """Returns an array of structs ``key, value``, both binary, for a span (``signals.spans``)."""
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
        _long(slide_ms),
        F.lit(backlog),
    )


def _now_ms() -> Column:
    """Returns the time of the batch, which is the same in all its rows."""
    return F.unix_millis(F.current_timestamp())


def _long(value: int) -> Column:
    return F.lit(value).cast("long")
