"""Computes the records of history periods from signals, with functions on batch DataFrames.

A period has the signals whose windows end after its start and not after its end. If a signal (cluster, entity and window end) has
several records, only the newest is used.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming.shared.contract import HISTORY_VERSION, SIGNAL_VERSION
from streaming.shared.contract.bounds import ITEMS_MAX, NODE_ID_MAX, NUMBER_MAX

TENANTS_MAX = 200  # For each cluster and period, only the tenants with the highest rates are kept.
_TEXT_CHARS_MAX = 1024  # Shorter than a signal's texts, so that a record with many tenants stays below 16 MiB.
_NUMBER_MAX = NUMBER_MAX / 2  # Readers must accept the sum of two such numbers too.

_BROKER = (
    "client_in_bytes_per_s",
    "client_out_bytes_per_s",
    "replication_in_bytes_per_s",
    "replication_out_bytes_per_s",
    "reassignment_in_bytes_per_s",
    "reassignment_out_bytes_per_s",
    "log_dir_copied_bytes_per_s",
    "produce_mean_ms",
    "produce_p99_ms",
    "request_handler_idle_ratio",
)
_CONTROLLER = (
    "partitions_created_per_s",
    "partitions_deleted_per_s",
    "create_requests_per_s",
    "delete_requests_per_s",
    "addition_requests_per_s",
    "mutations_rejected_per_s",
    "partitions",
    "topics",
)
_OTHERS = ("steady_state_bytes_per_s", "moving_partitions", "lag_sum_messages", "active", "mutation_rate_per_s")
_SLOPE = "lag_slope_messages_per_s"
_NUMBERS = (*_BROKER, *_CONTROLLER, *_OTHERS)
_MEASURED = (*_NUMBERS, _SLOPE)
_FLAW = "_flaw"  # The column in which Spark puts a record that is not of this type.
_TYPE = (
    "v int, kind string, cluster string, broker int, node int, side string, user string, client_id string, window_end_ms long, "
    f"{', '.join(f'{name} double' for name in _NUMBERS)}, trend_5min struct<slope_messages_per_s: double>, {_FLAW} string"
)
# The entity of a signal: its kind, its node, and the side of a move or the tenant.
_ENTITY = ("cluster", "kind", "node", "side", "user", "client_id", "window_end_ms")
_OF_BROKERS = ("broker", "move", "replication")


def window_end_ms(key: Column) -> Column:
    """Returns the window end in a signal's key; null if the key has none."""
    return F.substring_index(key.cast("string"), "|", -1).try_cast("long")


def start_ms(end_ms: Column, period_ms: int) -> Column:
    """Returns the start of the period in which a window ends."""
    last_ms = end_ms - F.lit(1)
    return last_ms - F.pmod(last_ms, F.lit(period_ms))


def touched(records: DataFrame, period_ms: int, since_ms: int, until_ms: int) -> DataFrame:
    """Returns the periods of signals: ``start_ms``, ``partition``, ``records`` and ``end_offset`` (exclusive).

    Signals whose windows do not end between these times, or whose key has no time, are in rows with a ``start_ms`` of null.
    """
    end_ms = window_end_ms(F.col("key"))
    is_plausible = end_ms.between(since_ms, until_ms)
    return (
        records.select(F.when(is_plausible, start_ms(end_ms, period_ms)).alias("start_ms"), "partition", "offset")
        .groupBy("start_ms", "partition")
        .agg(F.count("*").alias("records"), (F.max("offset") + 1).alias("end_offset"))
    )


def signals_in(records: DataFrame, starts_ms: Collection[int], period_ms: int) -> DataFrame:
    """Returns the values of the signals in these periods, with ``is_valid``.

    Args:
        records: ``key``, ``value``, ``timestamp`` and ``offset`` of records of the signals topic.
    """
    end_ms = window_end_ms(F.col("key"))
    inside = records.filter(start_ms(end_ms, period_ms).isin(list(starts_ms)))
    signal = F.from_json(F.col("value").cast("string"), _TYPE, {"columnNameOfCorruptRecord": _FLAW})
    fields = inside.select("timestamp", "offset", end_ms.alias("key_end_ms"), signal.alias("s")).select(
        "timestamp", "offset", "key_end_ms", "s.*"
    )
    named = (
        fields.withColumn(_SLOPE, F.col("trend_5min.slope_messages_per_s"))
        .withColumn("node", F.when(F.col("kind").isin(*_OF_BROKERS), F.col("broker")).otherwise(F.col("node")))
        .withColumn("start_ms", start_ms(F.col("window_end_ms"), period_ms))
    )
    return named.select(
        "timestamp", "offset", "start_ms", *_ENTITY, *_MEASURED, F.coalesce(_is_valid(), F.lit(False)).alias("is_valid")
    )


def _is_valid() -> Column:
    """Returns whether readers would accept the signal, and whether its key belongs to it."""
    is_side_known = F.when(F.col("kind") == "move", F.col("side").isin("leader", "follower")).otherwise(True)
    texts = [F.coalesce(F.length(name), F.lit(0)) <= _TEXT_CHARS_MAX for name in ("cluster", "user", "client_id")]
    # Spark orders NaN above every number.
    numbers = [F.coalesce(F.abs(F.col(name)) <= _NUMBER_MAX, F.lit(True)) for name in _MEASURED]
    conditions = [
        F.col(_FLAW).isNull(),
        F.col("v") == SIGNAL_VERSION,
        F.col("kind").isin(*_OF_BROKERS, "controller", "tenant"),
        F.col("cluster").isNotNull(),
        F.col("node").between(0, NODE_ID_MAX),
        F.col("window_end_ms") == F.col("key_end_ms"),
        is_side_known,
        *texts,
        *numbers,
    ]
    return reduce(Column.__and__, conditions)


def periods(signals: DataFrame, topic: str) -> DataFrame:
    """Returns the history records (key, value, topic) of all clusters and periods in ``signals``.

    One more row has a null key, and the number of invalid signals in its column ``refused``. This row comes from the same read of
    the topic; a second read would cost as much as the first read.

    Args:
        signals: from ``signals_in``.
    """
    # All invalid signals form one group, whose keys are all null.
    keys = [F.when(F.col("is_valid"), F.col(name)).alias(name) for name in ("start_ms", *_ENTITY)]
    newest = (
        signals.groupBy(*keys)
        .agg(
            F.max_by(F.struct(*_MEASURED), F.struct("timestamp", "offset")).alias("m"),
            F.count_if(~F.col("is_valid")).alias("refused"),
        )
        .select("start_ms", *_ENTITY, "m.*", "refused")
    )
    return _records(_subjects(newest), topic)


def _subjects(newest: DataFrame) -> DataFrame:
    """Returns one row per cluster, period and subject: a broker, the active controller of each moment, or a tenant.

    Each row has the columns ``broker``, ``controller`` and ``tenant``. One of them is a struct of the fields of the contract,
    and the other two are null. In the row of the invalid signals, all three are null.
    """
    subject = F.when(F.col("kind").isin(*_OF_BROKERS), "broker").otherwise(F.coalesce("kind", F.lit("refused")))
    # Only one controller is active at a time, and only its values are current.
    rows = newest.withColumn("subject", subject).filter((F.col("subject") != "controller") | (F.col("active") >= 1))
    node = F.when(F.col("subject") == "broker", F.col("node"))
    measured = rows.groupBy(
        "cluster", "start_ms", "subject", node.alias("id"), F.col("user").alias("u"), F.col("client_id").alias("c")
    ).agg(
        _broker_struct().alias("b"),
        F.struct(*[_tidy(F.avg(name)).alias(name) for name in _CONTROLLER]).alias("k"),
        _tenant_struct().alias("t"),
        F.sum("refused").alias("refused"),
    )
    return measured.select(
        "cluster",
        "start_ms",
        "refused",
        F.when(F.col("subject") == "broker", F.struct(F.col("id").alias("broker"), "b.*")).alias("broker"),
        F.when(F.col("subject") == "controller", F.col("k")).alias("controller"),
        F.when(
            F.col("subject") == "tenant",
            F.struct(
                (-F.coalesce("t.mutation_rate_per_s", F.lit(0.0))).alias("rank"),
                F.col("u").alias("user"),
                F.col("c").alias("client_id"),
                "t.*",
            ),
        ).alias("tenant"),
    )


def _broker_struct() -> Column:
    p99_ms = F.col("produce_p99_ms")
    in_ = F.col("client_in_bytes_per_s") + F.col("replication_in_bytes_per_s")
    out = F.col("client_out_bytes_per_s") + F.col("replication_out_bytes_per_s")
    w = F.col("steady_state_bytes_per_s")
    measured = {
        **{name: F.avg(name) for name in _BROKER if name != "produce_p99_ms"},
        "leader_steady_state_bytes_per_s": F.avg(F.when(F.col("side") == "leader", w)),
        "follower_steady_state_bytes_per_s": F.avg(F.when(F.col("side") == "follower", w)),
        "in_bytes_per_s_max": F.max(in_),
        "in_max_p99_ms": F.max_by(p99_ms, in_),
        "out_bytes_per_s_max": F.max(out),
        "out_max_p99_ms": F.max_by(p99_ms, out),
        "produce_p99_ms": F.percentile(p99_ms, F.lit(0.5)),
        "produce_p99_ms_max": F.max(p99_ms),
        "moving_partitions_max": F.max("moving_partitions"),
        "lag_sum_messages": F.avg("lag_sum_messages"),
        _SLOPE: F.avg(_SLOPE),
    }
    signals = F.count_if(F.col("kind") == "broker").alias("signals")
    return F.struct(signals, *[_tidy(value).alias(name) for name, value in measured.items()])


def _tenant_struct() -> Column:
    # Only the active controller counts mutations. So the rate is the sum over the controllers, averaged over the windows.
    rate = F.col("mutation_rate_per_s")
    windows = F.size(F.collect_set(F.when(rate.isNotNull(), F.col("window_end_ms"))))
    mean = F.sum(rate) / F.nullif(windows, F.lit(0))
    return F.struct(
        _tidy(mean).alias("mutation_rate_per_s"),
        _tidy(F.max(rate)).alias("mutation_rate_per_s_max"),
    )


def _tidy(value: Column) -> Column:
    """Returns the number with five significant digits. More digits would be noise, and would double the size of the records."""
    return F.when(value.isNotNull(), F.format_string("%.4e", value).try_cast("double"))


def _records(subjects: DataFrame, topic: str) -> DataFrame:
    brokers = F.slice(F.array_sort(F.collect_list("broker")), 1, ITEMS_MAX)
    tenants = F.slice(F.array_sort(F.collect_list("tenant")), 1, TENANTS_MAX)
    period = subjects.groupBy("cluster", "start_ms").agg(
        brokers.alias("brokers"),
        F.first("controller", ignorenulls=True).alias("controller"),
        F.transform(tenants, lambda tenant: tenant.dropFields("rank")).alias("tenants"),
        F.sum("refused").alias("refused"),
    )
    fields = [name for name in period.columns if name != "refused"]
    value = F.to_json(F.struct(F.lit(HISTORY_VERSION).alias("v"), F.lit("period").alias("kind"), *fields))
    key = F.concat(F.col("cluster"), F.lit("|"), F.col("start_ms").cast("string"))  # Null without a cluster.
    return period.select(
        key.cast("binary").alias("key"), value.cast("binary").alias("value"), F.lit(topic).alias("topic"), "refused"
    )
