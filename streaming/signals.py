"""Scrapes in, signals out, through the one stateful operator of the pipeline.

Intuition: state is what a stream processor pays for. So a scrape is folded to a few small rows before any state, one
per entity, and the state holds those rows and nothing else; every measurement is taken from the six or seven rows of
a window, without state, by native expressions.

Vocabulary:
    entity    what a signal is about: a broker, or one side of a broker that moves or throttles replicas.
    history   the rows of one entity in one window, by time, one per scrape.
    due       a window whose end is less than one hop past the entity's newest scrape. Only those leave: an earlier
              look at a window shows a beginning that an older window already shows whole. So every scrape yields one
              record per entity, not one for each of the six windows it is in.

Invariant: a record that arrives twice changes nothing, and neither does the order within a window.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from streaming import lag, partitions, rates
from streaming.contract import HOP_S, SCHEMA_VERSION, WATERMARK_S, WINDOW_S, Metric, Role, Side

# Field of BrokerSignal → sample name and labels.
COUNTERS = {
    "replication_in_bytes_per_s": (Metric.REPLICATION_IN, ""),
    "replication_out_bytes_per_s": (Metric.REPLICATION_OUT, ""),
    "reassignment_in_bytes_per_s": (Metric.REASSIGNMENT_IN, ""),
    "reassignment_out_bytes_per_s": (Metric.REASSIGNMENT_OUT, ""),
    "client_in_bytes_per_s": (Metric.CLIENT_IN, ""),
    "client_out_bytes_per_s": (Metric.CLIENT_OUT, ""),
    "isr_shrinks_per_s": (Metric.ISR_SHRINKS, ""),
}
GAUGES = {
    "leader_throttled_bytes_per_s": (Metric.LEADER_THROTTLED, ""),
    "follower_throttled_bytes_per_s": (Metric.FOLLOWER_THROTTLED, ""),
    "leader_rate_bytes_per_s": (Metric.LEADER_RATE, ""),
    "follower_rate_bytes_per_s": (Metric.FOLLOWER_RATE, ""),
    "produce_p99_ms": (Metric.TOTAL_TIME_P99, "request=Produce"),
    # Consumers only: a throttled follower's fetches wait long on purpose.
    "fetch_p99_ms": (Metric.TOTAL_TIME_P99, "request=FetchConsumer"),
    "request_handler_idle_ratio": (Metric.HANDLER_IDLE, ""),
    "under_min_isr_partitions": (Metric.UNDER_MIN_ISR, ""),
    "partitions": (Metric.PARTITION_COUNT, ""),
    "leaders": (Metric.LEADER_COUNT, ""),
}
_KEYS = ("cluster", "kind", "broker", "side")


def entities(scrapes: DataFrame) -> DataFrame:
    """A good scrape (formats' common schema) → one row per entity. Controllers have none yet."""
    named = scrapes.select(
        "cluster",
        F.col("node").alias("broker"),
        "ts",
        F.timestamp_millis("ts").alias("time"),
        _broker_samples(F.col("samples")).alias("measured"),
        partitions.samples(F.col("samples")).alias("moves"),
        (F.col("role") == Role.BROKER.value).alias("is_broker"),
    ).withColumns({"led": partitions.led(F.col("moves")), "followed": partitions.followed(F.col("moves"))})
    rows = F.array(
        F.when(F.col("is_broker"), _entity("broker", None, COUNTERS, GAUGES, F.array())),
        F.when(F.col("is_broker") & (F.size("led") > 0), _entity("move", Side.LEADER, {}, {}, F.col("led"))),
        F.when(
            F.col("is_broker") & (F.size("followed") > 0), _entity("move", Side.FOLLOWER, {}, {}, F.col("followed"))
        ),
    )
    return named.select("cluster", "broker", "ts", "time", F.inline(F.array_compact(rows)))


def signals(entities: DataFrame, topic: str) -> DataFrame:
    """Rows of ``entities`` → records with key, value and topic, as contract.py's functions write them."""
    windows = (
        entities.withWatermark("time", f"{WATERMARK_S} seconds")
        .groupBy(F.window("time", f"{WINDOW_S} seconds", f"{HOP_S} seconds").alias("window"), *_KEYS)
        .agg(F.sort_array(F.collect_list(F.struct("ts", "counters", "gauges", "partitions"))).alias("sorted"))
    )
    due = (
        windows.select(*_KEYS, F.unix_millis("window.end").alias("window_end_ms"), "sorted")
        .filter(F.col("window_end_ms") - F.element_at("sorted", -1).ts <= HOP_S * 1000)
        .withColumn("history", _one_per_time(F.col("sorted")))
        .withColumn("newest", F.element_at("history", -1))
        .withColumn("scrapes", lag.scrapes(F.col("history")))
        .withColumn("steps", lag.steps(F.col("scrapes")))
        .withColumn("totals", lag.totals(F.col("scrapes")))
        .withColumn("fit", lag.slope(F.col("steps")))
        .withColumn("rates", rates.increases_per_s(F.col("history"), len(COUNTERS)))
    )
    is_move = F.col("kind") == "move"
    identity = (F.col("cluster"), F.col("kind"), F.col("broker").cast("string"))
    return due.select(
        F.concat_ws("|", *identity, "side", F.col("window_end_ms").cast("string")).cast("binary").alias("key"),
        F.when(is_move, F.to_json(_move_signal())).otherwise(F.to_json(_broker_signal())).cast("binary").alias("value"),
        F.lit(topic).alias("topic"),
    )


def _broker_samples(samples: Column) -> Column:
    """The few samples of the broker itself by "name labels"; thousands of others would make each look-up slow."""
    wanted = [f"{name} {labels}" for name, labels in (COUNTERS | GAUGES).values()]
    names = [name for name, _ in (COUNTERS | GAUGES).values()]
    own = F.transform(
        F.filter(samples, lambda s: s.n.isin(names)), lambda s: F.struct(F.concat_ws(" ", s.n, s.l).alias("k"), s.v)
    )
    return F.map_from_entries(F.filter(own, lambda s: s.k.isin(wanted)))


def _entity(
    kind: str,
    side: Side | None,
    counters: dict[str, tuple[str, str]],
    gauges: dict[str, tuple[str, str]],
    moved: Column,
) -> Column:
    def pick(wanted: dict[str, tuple[str, str]]) -> Column:
        found = [F.element_at("measured", F.lit(f"{name} {labels}")) for name, labels in wanted.values()]
        return F.array(*found).cast("array<double>")

    return F.struct(
        F.lit(kind).alias("kind"),
        F.lit(side.value if side else None).cast("string").alias("side"),
        pick(counters).alias("counters"),
        pick(gauges).alias("gauges"),
        moved.cast(partitions.PARTITIONS_TYPE).alias("partitions"),
    )


def _one_per_time(history: Column) -> Column:
    """Drops a scrape that was delivered twice. Of two that claim the same time, the same one stays in any order."""
    return F.filter(history, lambda s, i: (i == 0) | (s.ts != F.element_at(history, F.greatest(i, F.lit(1))).ts))


def _broker_signal() -> Column:
    per_s, gauges = F.col("rates"), F.col("newest").gauges
    measured = [_finite(F.get(per_s, F.lit(i))).alias(field) for i, field in enumerate(COUNTERS)]
    measured += [F.get(gauges, F.lit(i)).alias(field) for i, field in enumerate(GAUGES)]
    return F.struct(*_head(), *measured)


def _move_signal() -> Column:
    totals, fit, newest = F.col("totals"), F.col("fit"), F.col("newest")
    fields = ("at_ms", "dt_s", "gained_bytes", "written_bytes", "remaining_bytes")
    return F.struct(
        *_head(),
        F.col("side"),
        totals.moving_partitions.alias("moving_partitions"),
        totals.listed_partitions.alias("listed_partitions"),
        _finite(totals.remaining_bytes).alias("remaining_bytes"),
        _finite(fit.slope).alias("remaining_slope_bytes_per_s"),
        _finite(fit.r2).alias("remaining_slope_r2"),
        _finite(totals.keep_up_bytes_per_s).alias("keep_up_bytes_per_s"),
        _finite(totals.write_bytes_per_s).alias("write_bytes_per_s"),
        lag.progress_age_s(F.col("steps"), newest.ts).alias("progress_age_s"),
        F.transform("steps", lambda step: F.struct(*[step[field].alias(field) for field in fields])).alias("steps"),
    )


def _head() -> tuple[Column, ...]:
    samples = F.size("history")
    return (
        F.lit(SCHEMA_VERSION).alias("v"),
        F.col("kind"),
        F.col("cluster"),
        F.col("broker"),
        F.col("window_end_ms"),
        F.col("newest").ts.alias("sampled_at_ms"),
        samples.alias("samples"),
        (samples / F.lit(WINDOW_S / HOP_S)).alias("completeness"),
    )


def _finite(number: Column) -> Column:
    """JSON has no infinity: what overflowed is unknown."""
    return F.when(F.abs(number) < 1e300, number)
