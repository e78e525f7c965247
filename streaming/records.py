"""The history of one entity in one window → key and value of its record. No state, no windows.

The value is put together from two or three JSON objects, and numbers are written as a map from one literal of names: a
plan with a node for each field would be five times as large, and every batch is planned anew.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming import lag, rates
from streaming.contract import SCHEMA_VERSION, ThrottledBy
from streaming.entities import REJECT
from streaming.formats.common import VALUE_MAX, let
from streaming.wanted import (
    BROKER_COUNTERS,
    BROKER_GAUGES,
    BROKER_MEANS,
    BROKER_TOTALS,
    CONTROLLER_COUNTERS,
    CONTROLLER_GAUGES,
    CONTROLLER_MEANS,
    CONTROLLER_TOTALS,
    SMOOTHED,
    TENANT_GAUGES,
    Totals,
    Wanted,
)

# A gauge is good until the next one is overdue.
_GAUGE_INTERVALS = 1.5


def record(history: Column, end_ms: Column, window_ms: int, backlog: bool) -> Column:
    """A struct of ``key``, text, and ``value``, binary; the value is NULL while nothing tells what kind of node it is.

    Args:
        history: the rows (``entities.ROW_TYPE``) of the window, ascending, one a scrape.
        backlog: marks the signal as history, not for control.
    """
    key = F.when(F.col("kind") == REJECT, F.element_at(history, -1).gauges).otherwise(
        F.concat_ws(
            "|",
            "cluster",
            "kind",
            F.col("node").cast("string"),
            F.nullif(F.col("part"), F.lit("")),
            end_ms.cast("string"),
        )
    )
    value = let(F.element_at(history, -1), lambda newest: _value(history, newest, end_ms, window_ms, backlog))
    return F.struct(key.alias("key"), value.alias("value"))


def _value(history: Column, newest: Column, end_ms: Column, window_ms: int, backlog: bool) -> Column:
    kind = F.col("kind")
    nodes = kind.isin("broker", "controller")
    unsure = nodes & ~F.exists(history, lambda r: F.coalesce(r.sure, F.lit(False)))
    rows = (
        F.when(kind == "broker", _with_totals(history, BROKER_COUNTERS, BROKER_GAUGES, BROKER_TOTALS))
        .when(kind == "controller", _with_totals(history, CONTROLLER_COUNTERS, CONTROLLER_GAUGES, CONTROLLER_TOTALS))
        .otherwise(history)
    )
    counters, totals = (
        F.when(kind == "controller", F.lit(len(of_controllers))).otherwise(F.lit(len(of_brokers)))
        for of_controllers, of_brokers in ((CONTROLLER_COUNTERS, BROKER_COUNTERS), (CONTROLLER_TOTALS, BROKER_TOTALS))
    )
    per_s = F.when(
        nodes,
        let(rows, lambda rows: _finite_all(rates.with_sums(rates.increases_per_s(rows, counters, totals), rows))),
    )
    gauges = _gauges(history, newest)

    def body(per_s: Column, gauges: Column) -> Column:
        return (
            F.when(kind == "broker", _broker(per_s, gauges))
            .when(kind == "controller", _controller(per_s, gauges))
            .otherwise(_tenant(gauges))
        )

    measured = F.when(
        kind != "move",
        let(F.struct(per_s.alias("per_s"), gauges.alias("gauges")), lambda all_: body(all_.per_s, all_.gauges)),
    ).otherwise(_fields(_move(history, newest)))
    return (
        F.when(kind == REJECT, newest.note.cast("binary"))
        .when(unsure, F.lit(None).cast("binary"))
        .otherwise(
            F.concat(
                F.lit(b"{"),
                _listed(_fields(_head(history, newest, end_ms, window_ms, backlog)), measured),
                F.lit(b"}"),
            )
        )
    )


def _fields(*objects: Column) -> Column:
    """The fields of JSON objects, none of them empty, one after the other and without the braces around them.

    Binary, because the length of a text is counted character by character.
    """
    bare = [let(one.cast("binary"), lambda b: F.substring(b, F.lit(2), F.octet_length(b) - 2)) for one in objects]
    return _listed(*bare)


def _listed(*fields: Column) -> Column:
    parts = [part for one in fields for part in (F.lit(b","), one)]
    return F.concat(*parts[1:])


def _gauges(history: Column, newest: Column) -> Column:
    """Of every gauge the last that was measured, while it is good; records that bring one metric each meet here."""
    return let(F.filter(history, lambda r: newest.own_ms - r.own_ms < r.every_ms * _GAUGE_INTERVALS), latest)


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


def _json_of(names: list[str], values: Column) -> Column:
    """An object of numbers: names as one literal, which is one node of the plan instead of one a field."""
    return F.to_json(F.map_from_arrays(F.split(F.lit(",".join(names)), ","), values))


_BROKER_RATES, _CONTROLLER_RATES = [*BROKER_COUNTERS, *BROKER_TOTALS], [*CONTROLLER_COUNTERS, *CONTROLLER_TOTALS]
# Hidden ones are last.
_SHOWN_BROKER_RATES = _BROKER_RATES[: _BROKER_RATES.index("produced_per_s")]
_SHOWN_CONTROLLER_RATES = _CONTROLLER_RATES[: _CONTROLLER_RATES.index("processed_per_s")]
_FIRST_SHOWN, _MEANS = 2, [mean for mean, _ in BROKER_TOTALS.values()]
_SHOWN_GAUGES = [
    field for field in [*BROKER_GAUGES][_FIRST_SHOWN:] if not field.endswith(SMOOTHED) and field not in _MEANS
]
assert [*BROKER_GAUGES][_FIRST_SHOWN : _FIRST_SHOWN + len(_SHOWN_GAUGES)] == _SHOWN_GAUGES


def _broker(per_s: Column, gauges: Column) -> Column:
    """Where no counter is, a source that smooths its rates itself may have one among the gauges."""
    places = list(BROKER_GAUGES)
    smoothed = ",".join(
        str(places.index(field + SMOOTHED)) if field + SMOOTHED in BROKER_GAUGES else "-1"
        for field in _SHOWN_BROKER_RATES
    )
    rated = F.zip_with(
        F.slice(per_s, 1, len(_SHOWN_BROKER_RATES)),
        F.split(F.lit(smoothed), ","),
        lambda rate, place: F.coalesce(rate, F.get(gauges, place.cast("int"))),
    )
    return let(
        _whole(rated),
        lambda rated: let(
            _throttled(rated, gauges),
            lambda throttled: _fields(
                F.to_json(throttled),
                _json_of(
                    [*_SHOWN_BROKER_RATES, *_SHOWN_GAUGES, *BROKER_MEANS],
                    F.concat(
                        rated,
                        F.slice(gauges, 1 + _FIRST_SHOWN, len(_SHOWN_GAUGES)),
                        _means(per_s, _BROKER_RATES, BROKER_MEANS),
                    ),
                ),
            ),
        ),
    )


def _whole(rated: Column) -> Column:
    """All that comes in. A broker's listeners do not see what it fetches as a follower: that comes over connections that it has
    opened itself (287 MB of a move came to a broker whose listeners counted none, Kafka 4.2). What it sends its followers does
    go out through them. Where one of the two is not known, neither is the sum."""

    def known(rated: Column) -> Column:
        at = _SHOWN_BROKER_RATES.index("network_in_bytes_per_s")
        fetched = F.get(rated, F.lit(_SHOWN_BROKER_RATES.index("replication_in_bytes_per_s")))
        rest = len(_SHOWN_BROKER_RATES) - at - 1
        parts = [F.slice(rated, 1, at), F.array(F.get(rated, F.lit(at)) + fetched)]
        return F.concat(*parts, *([F.slice(rated, at + 2, rest)] if rest else []))

    return let(rated, known)


def _throttled(per_s: Column, gauges: Column) -> Column:
    """The two throttled rates as the best there is, and by what.

    LeaderReplication exists from a follower's first fetch on, so a broker that shows it has collectors that read both;
    FollowerReplication exists only where something was throttled, and its absence then is 0.
    """
    counters = list(BROKER_COUNTERS)

    def rate(field: str) -> Column:
        return F.get(per_s, F.lit(counters.index(field)))

    # In the order of BROKER_GAUGES, leader and follower.
    candidates = (
        (ThrottledBy.QUOTA, F.get(gauges, F.lit(0)), F.get(gauges, F.lit(1))),
        (ThrottledBy.REASSIGNMENT, rate("reassignment_out_bytes_per_s"), rate("reassignment_in_bytes_per_s")),
        (ThrottledBy.REPLICATION, rate("replication_out_bytes_per_s"), rate("replication_in_bytes_per_s")),
    )
    zero = F.lit(0.0)
    found = F.lit(None).cast("struct<leader double, follower double, by string>")
    for by, leader, follower in reversed(candidates):
        pair = (F.coalesce(leader, zero), F.coalesce(follower, zero)) if by is ThrottledBy.QUOTA else (leader, follower)
        found = F.when(
            leader.isNotNull() | follower.isNotNull(),
            F.struct(pair[0].alias("leader"), pair[1].alias("follower"), F.lit(by.value).alias("by")),
        ).otherwise(found)
    return let(
        found,
        lambda found: F.struct(
            found.leader.alias("leader_throttled_bytes_per_s"),
            found.follower.alias("follower_throttled_bytes_per_s"),
            found.by.alias("throttled_by"),
            # Never empty, whatever is unknown.
            F.col("node").alias("broker"),
        ),
    )


def _controller(per_s: Column, gauges: Column) -> Column:
    depth = F.get(per_s, F.lit(_CONTROLLER_RATES.index("queued_ms_per_s"))) / F.lit(1000.0)
    gauged = list(CONTROLLER_GAUGES)[: -len(CONTROLLER_TOTALS)]
    numbers = _json_of(
        [*CONTROLLER_MEANS, "queue_depth_mean", *_SHOWN_CONTROLLER_RATES, *gauged],
        F.concat(
            _means(per_s, _CONTROLLER_RATES, CONTROLLER_MEANS),
            F.array(depth),
            F.slice(per_s, 1, len(_SHOWN_CONTROLLER_RATES)),
            F.slice(gauges, 1, len(gauged)),
        ),
    )
    return _fields(_node(), numbers)


def _means(per_s: Column, names: list[str], means: Totals) -> Column:
    """Of what happened in the window; NULL where nothing did."""
    return F.array(
        *[
            F.try_divide(F.get(per_s, F.lit(names.index(total))), F.get(per_s, F.lit(names.index(count))))
            for total, count in means.values()
        ]
    )


def _tenant(gauges: Column) -> Column:
    def label(name: str) -> Column:
        # Kafka has encoded what a label must not hold.
        found = F.regexp_extract("part", f"(?:^|,){name}=([^,]*)", 1)
        return F.try_url_decode(F.nullif(found, F.lit(""))).alias(name)

    who = F.to_json(F.struct(F.col("node"), label("user"), label("client_id")))
    return _fields(who, _json_of(list(TENANT_GAUGES), gauges))


def _node() -> Column:
    return F.to_json(F.struct(F.col("node")))


def _finite_all(numbers: Column) -> Column:
    """JSON has no infinity: what overflowed is unknown."""
    return F.transform(numbers, lambda number: F.when(F.abs(number) < VALUE_MAX, number))


def _with_totals(history: Column, counted: Wanted, gauged: Wanted, wanted: Totals) -> Column:
    """The rows with mean × count as further counters. The means are the last gauges, so that the text is not taken apart whole."""
    counters, means = list(counted), [mean for mean, _ in wanted.values()]
    assert [*gauged][-len(means) :] == means

    def totals(row: Column) -> Column:
        texts = F.split(F.substring_index(F.coalesce(row.gauges, F.lit("")), ",", -len(means)), ",")
        counts = F.array(*[F.get(row.counters, F.lit(counters.index(count))) for _, count in wanted.values()])
        return F.zip_with(texts.try_cast("array<double>"), counts, _total)

    return F.transform(history, lambda r: r.withField("counters", F.concat(r.counters, totals(r))))


def _total(mean: Column, count: Column) -> Column:
    # Kafka sums whole milliseconds: rounding gives the very sum back, and keeps it from falling, a reset.
    return F.when((mean * count).between(0, 1 << 62), F.round(mean * count).cast("long"))


def _move(history: Column, newest: Column) -> Column:
    fields = ("at_ms", "dt_s", "gained_bytes", "written_bytes", "remaining_bytes")

    def body(scrapes: Column, growth: Column, steps: Column) -> Column:
        totals, fit = lag.totals(scrapes, growth), lag.slope(steps)
        return let(
            F.struct(totals.alias("totals"), fit.alias("fit")),
            lambda found: F.to_json(
                F.struct(
                    F.col("node").alias("broker"),
                    F.col("part").alias("side"),
                    found.totals.moving_partitions.alias("moving_partitions"),
                    found.totals.listed_partitions.alias("listed_partitions"),
                    lag.done(scrapes).alias("done_partitions"),
                    _finite(found.totals.remaining_bytes).alias("remaining_bytes"),
                    _finite(found.totals.lag_messages).alias("lag_messages"),
                    _finite(found.fit.slope).alias("remaining_slope_bytes_per_s"),
                    _finite(found.fit.r2).alias("remaining_slope_r2"),
                    _finite(found.totals.keep_up_bytes_per_s).alias("keep_up_bytes_per_s"),
                    _finite(found.totals.write_bytes_per_s).alias("write_bytes_per_s"),
                    lag.progress_age_s(steps, newest.ts).alias("progress_age_s"),
                    F.transform(steps, lambda step: F.struct(*[step[f].alias(f) for f in fields])).alias("steps"),
                    lag.largest(scrapes, growth).alias("largest"),
                )
            ),
        )

    return let(
        lag.scrapes(history),
        lambda scrapes: let(
            F.struct(lag.growth(scrapes).alias("growth"), lag.steps(scrapes).alias("steps")),
            lambda now: body(scrapes, now.growth, now.steps),
        ),
    )


def _finite(number: Column) -> Column:
    return F.when(F.abs(number) < VALUE_MAX, number)


def _head(history: Column, newest: Column, end_ms: Column, window_ms: int, backlog: bool) -> Column:
    def head(samples: Column) -> Column:
        fields = [
            F.lit(SCHEMA_VERSION).alias("v"),
            F.col("kind"),
            F.col("cluster"),
            end_ms.alias("window_end_ms"),
            newest.ts.alias("sampled_at_ms"),
            samples.alias("samples"),
            (samples * newest.every_ms / F.lit(window_ms)).alias("completeness"),
        ]
        return F.to_json(F.struct(*fields, *([F.lit(True).alias("backlog")] if backlog else [])))

    return let(_scrapes(history), head)


def latest(rows: Column) -> Column:
    """Of every gauge the last number."""

    def numbers(row: Column) -> Column:
        # Without a lambda; an empty text is no number.
        return F.split(F.coalesce(row.gauges, F.lit("")), ",").try_cast("array<double>")

    return F.aggregate(
        F.slice(rows, 2, F.size(rows)),
        numbers(F.get(rows, F.lit(0))),
        lambda older, r: F.zip_with(older, numbers(r), lambda before, now: F.coalesce(now, before)),
    )
