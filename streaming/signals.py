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

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from streaming import lag, rates
from streaming.contract import SCHEMA_VERSION, ThrottledBy, Topics
from streaming.entities import (
    BROKER_COUNTERS,
    BROKER_GAUGES,
    CONTROLLER_COUNTERS,
    CONTROLLER_GAUGES,
    CONTROLLER_TOTALS,
    KEYS,
    REJECT,
    ROW_TYPE,
    SMOOTHED,
    TENANT_GAUGES,
)
from streaming.formats.common import let
from streaming.rates import CLOCK_ERROR_S_MAX

# A gauge is good until the next one is overdue.
_GAUGE_INTERVALS = 1.5


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
    rows = F.from_json(F.concat(F.lit("["), F.array_join("rows", ","), F.lit("]")), f"array<{ROW_TYPE}>")
    records = let(
        rows,
        lambda rows: F.transform(
            _due(rows, shape),
            lambda end: let(_history(rows, end, shape), lambda history: _record(history, end, shape, backlog)),
        ),
    )
    topic = F.when(F.col("kind") == REJECT, topics.rejects).otherwise(topics.signals)
    # A value that is NULL is of a node of which nothing tells yet whether it is a broker or a controller.
    return speaking.select("kind", F.inline(F.filter(records, lambda record: record["value"].isNotNull()))).select(
        F.col("key").cast("binary"), F.col("value").cast("binary"), topic.alias("topic")
    )


def spans(entities: DataFrame, shape: Shape) -> DataFrame:
    """``span``, ``KEYS``, ``rows`` and ``newest_at_ms``. The one operator with state."""
    span = F.window("time", f"{2 * shape.window_s} seconds", f"{shape.window_s} seconds")
    return (
        entities.withWatermark("time", f"{shape.lateness_s} seconds")
        .withColumn("span", span)
        # A refused record has no history to be looked back on.
        .filter((F.col("kind") != REJECT) | (F.col("at_ms") >= _half_ms(shape)))
        .groupBy("span", *KEYS)
        .agg(F.collect_list("row").alias("rows"), F.max("at_ms").alias("newest_at_ms"))
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
    touched = F.flatten(
        F.transform(
            F.filter(rows, lambda r: r.seen_ms == now_ms),
            lambda r: let(
                _end_after(r.at_ms, shape),
                lambda first: F.filter(
                    F.sequence(first, first + F.lit(window_ms - hop_ms), F.lit(hop_ms).cast("long")),
                    lambda end: (end > half_ms) & (end <= half_ms + window_ms),
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
            F.array_join(_latest(parts), ",", "").alias("gauges"),
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
        return F.struct(row.own_ms.alias("own_ms"), F.floor(row.at_ms / (CLOCK_ERROR_S_MAX * 1000)).alias("about"))

    return F.transform(
        F.array_distinct(F.transform(rows, when)), lambda time: let(F.filter(rows, lambda r: when(r) == time), one)
    )


def _latest(rows: Column) -> Column:
    """Of every gauge the last text that is not empty."""
    return F.aggregate(
        rows,
        F.array().cast("array<string>"),
        lambda older, r: F.zip_with(
            older,
            F.split(F.coalesce(r.gauges, F.lit("")), ","),
            lambda before, now: F.coalesce(F.nullif(now, F.lit("")), before),
        ),
    )


def _record(history: Column, end_ms: Column, shape: Shape, backlog: bool) -> Column:
    def value(newest: Column) -> Column:
        def head(kind: str, node: str) -> list[Column]:
            return _head(kind, node, history, newest, end_ms, shape, backlog)

        def gauges(body: Callable[[Column], Column]) -> Column:
            return let(_gauges(history, newest), body)

        def per_s(counters: int, body: Callable[[Column], Column], rows: Column = history) -> Column:
            return let(rates.with_sums(rates.increases_per_s(rows, counters), rows), body)

        kind = F.col("kind")
        return (
            F.when(kind == REJECT, newest.note)
            .when(
                kind.isin("broker", "controller") & ~F.exists(history, lambda r: F.coalesce(r.sure, F.lit(False))),
                F.lit(None).cast("string"),
            )
            .when(
                kind == "broker",
                per_s(
                    len(BROKER_COUNTERS),
                    lambda r: gauges(lambda g: F.to_json(F.struct(*head("broker", "broker"), *_broker(r, g)))),
                ),
            )
            .when(
                kind == "controller",
                per_s(
                    len(CONTROLLER_COUNTERS) + len(CONTROLLER_TOTALS),
                    lambda r: gauges(lambda g: F.to_json(F.struct(*head("controller", "node"), *_controller(r, g)))),
                    _with_totals(history),
                ),
            )
            .when(kind == "tenant", gauges(lambda g: F.to_json(F.struct(*head("tenant", "node"), *_tenant(g)))))
            .otherwise(
                let(
                    lag.scrapes(history),
                    lambda scrapes: let(
                        F.struct(lag.totals(scrapes).alias("totals"), lag.steps(scrapes).alias("steps")),
                        lambda now: let(
                            lag.slope(now.steps),
                            lambda fit: F.to_json(
                                F.struct(*head("move", "broker"), *_move(scrapes, now.steps, now.totals, fit, newest))
                            ),
                        ),
                    ),
                )
            )
        )

    key = F.when(F.col("kind") == REJECT, F.col("part")).otherwise(
        F.concat_ws(
            "|",
            "cluster",
            "kind",
            F.col("node").cast("string"),
            F.nullif(F.col("part"), F.lit("")),
            end_ms.cast("string"),
        )
    )
    return F.struct(key.alias("key"), let(F.element_at(history, -1), value).alias("value"))


def _gauges(history: Column, newest: Column) -> Column:
    """Of every gauge the last that was measured, while it is good; records that bring one metric each meet here."""
    return _latest(F.filter(history, lambda r: newest.own_ms - r.own_ms < r.every_ms * _GAUGE_INTERVALS))


def _gauge(gauges: Column, i: int) -> Column:
    return F.nullif(F.get(gauges, F.lit(i)), F.lit("")).cast("double")


def _scrapes(history: Column) -> Column:
    """How many scrapes the rows are of: those closer together than half an interval are parts of one."""
    return F.size(
        F.filter(
            history,
            lambda r, i: (
                (i == 0) | (r.own_ms - F.element_at(history, F.greatest(i, F.lit(1))).own_ms > r.every_ms / F.lit(2))
            ),
        )
    )


def _broker(per_s: Column, gauges: Column) -> list[Column]:
    counted = {field: F.get(per_s, F.lit(i)) for i, field in enumerate(BROKER_COUNTERS)}
    gauged = {field: _gauge(gauges, i) for i, field in enumerate(BROKER_GAUGES)}
    for field in [field for field in gauged if field.endswith(SMOOTHED)]:
        counter = field.removesuffix(SMOOTHED)
        counted[counter] = F.coalesce(counted[counter], gauged.pop(field))
    return [*_throttled(counted, gauged), *_named(counted | gauged)]


def _throttled(counters: dict[str, Column], gauges: dict[str, Column]) -> list[Column]:
    """Takes the two throttled rates out of the gauges, and puts in their place the best there is.

    LeaderReplication exists from a follower's first fetch on, so a broker that shows it has collectors that read both;
    FollowerReplication exists only where something was throttled, and its absence then is 0.
    """
    own = {side: gauges.pop(f"{side}_throttled_bytes_per_s") for side in ("leader", "follower")}
    way = {"leader": "out", "follower": "in"}
    quota = own["leader"].isNotNull() | own["follower"].isNotNull()
    reassigned = {side: counters[f"reassignment_{way[side]}_bytes_per_s"] for side in own}
    replicated = {side: counters[f"replication_{way[side]}_bytes_per_s"] for side in own}

    def any_known(columns: dict[str, Column]) -> Column:
        return columns["leader"].isNotNull() | columns["follower"].isNotNull()

    found = {
        f"{side}_throttled_bytes_per_s": F.when(quota, F.coalesce(own[side], F.lit(0.0)))
        .when(any_known(reassigned), reassigned[side])
        .otherwise(replicated[side])
        for side in own
    }
    by = (
        F.when(quota, ThrottledBy.QUOTA.value)
        .when(any_known(reassigned), ThrottledBy.REASSIGNMENT.value)
        .when(any_known(replicated), ThrottledBy.REPLICATION.value)
    )
    return [*_named(found), by.alias("throttled_by")]


def _controller(per_s: Column, gauges: Column) -> list[Column]:
    counted = {field: F.get(per_s, F.lit(i)) for i, field in enumerate([*CONTROLLER_COUNTERS, *CONTROLLER_TOTALS])}
    processed_per_s = counted.pop("processed_per_s")
    queued_ms_per_s, processed_ms_per_s = counted.pop("queued_ms_per_s"), counted.pop("processed_ms_per_s")
    derived = {
        "event_queue_time_mean_ms": F.try_divide(queued_ms_per_s, counted["events_per_s"]),
        "event_processing_mean_ms": F.try_divide(processed_ms_per_s, processed_per_s),
        "queue_depth_mean": queued_ms_per_s / F.lit(1000.0),
    }
    means = {mean for mean, _ in CONTROLLER_TOTALS.values()}
    gauged = {field: _gauge(gauges, i) for i, field in enumerate(CONTROLLER_GAUGES) if field not in means}
    return _named(counted | derived | gauged)


def _with_totals(history: Column) -> Column:
    """The rows of a controller with mean × count as further counters."""
    counters, gauges = list(CONTROLLER_COUNTERS), list(CONTROLLER_GAUGES)

    def totals(row: Column, texts: Column) -> Column:
        return F.array(
            *[
                # Kafka sums whole milliseconds: rounding gives the very sum back, and keeps it from falling, a reset.
                F.round(_gauge(texts, gauges.index(mean)) * F.get(row.counters, F.lit(counters.index(count))))
                for mean, count in CONTROLLER_TOTALS.values()
            ]
        )

    return F.transform(
        history,
        lambda r: let(
            F.split(F.coalesce(r.gauges, F.lit("")), ","),
            lambda texts: F.struct(
                r.own_ms.alias("own_ms"),
                r.at_ms.alias("at_ms"),
                F.concat(
                    r.counters, F.transform(totals(r, texts), lambda v: F.when(v.between(0, 1 << 62), v.cast("long")))
                ).alias("counters"),
                r.sums.alias("sums"),
            ),
        ),
    )


def _tenant(gauges: Column) -> list[Column]:
    def label(name: str) -> Column:
        # Kafka has encoded what a label must not hold.
        found = F.regexp_extract("part", f"(?:^|,){name}=([^,]*)", 1)
        return F.try_url_decode(F.nullif(found, F.lit(""))).alias(name)

    gauged = {field: _gauge(gauges, i) for i, field in enumerate(TENANT_GAUGES)}
    return [label("user"), label("client_id"), *_named(gauged)]


def _move(scrapes: Column, steps: Column, totals: Column, fit: Column, newest: Column) -> list[Column]:
    fields = ("at_ms", "dt_s", "gained_bytes", "written_bytes", "remaining_bytes")
    return [
        F.col("part").alias("side"),
        totals.moving_partitions.alias("moving_partitions"),
        totals.listed_partitions.alias("listed_partitions"),
        lag.done(scrapes).alias("done_partitions"),
        *_named(
            {
                "remaining_bytes": totals.remaining_bytes,
                "lag_messages": totals.lag_messages,
                "remaining_slope_bytes_per_s": fit.slope,
                "remaining_slope_r2": fit.r2,
                "keep_up_bytes_per_s": totals.keep_up_bytes_per_s,
                "write_bytes_per_s": totals.write_bytes_per_s,
            }
        ),
        lag.progress_age_s(steps, newest.ts).alias("progress_age_s"),
        F.transform(steps, lambda step: F.struct(*[step[field].alias(field) for field in fields])).alias("steps"),
        lag.largest(scrapes).alias("largest"),
    ]


def _head(
    kind: str, node: str, history: Column, newest: Column, end_ms: Column, shape: Shape, backlog: bool
) -> list[Column]:
    samples = _scrapes(history)
    head = [
        F.lit(SCHEMA_VERSION).alias("v"),
        F.lit(kind).alias("kind"),
        F.col("cluster"),
        F.col("node").alias(node),
        end_ms.alias("window_end_ms"),
        newest.ts.alias("sampled_at_ms"),
        samples.alias("samples"),
        (samples * newest.every_ms / F.lit(shape.window_s * 1000)).alias("completeness"),
    ]
    return [*head, F.lit(True).alias("backlog")] if backlog else head


def _named(numbers: dict[str, Column]) -> list[Column]:
    """JSON has no infinity: what overflowed is unknown."""
    return [F.when(F.abs(number) < 1e300, number).alias(field) for field, number in numbers.items()]
