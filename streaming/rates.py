"""Rates from counters over the sorted rows of a window.

Invariant: a rate is an increase that was seen, over the time between the samples that showed it. Not over the window,
which may be half empty; and a window with fewer than two samples of a counter has no rate: NULL, never 0.

A counter that falls was reset: what it shows now is what it gained since. A total, mean × count, has to fall by half for that:
mean and count are read one after the other, and what is counted between makes their product too large, for one scrape.
Taken for a reset its fall would bring everything since the start of the JVM into one window.

Time is the sender's own (``own_ms``): a constant error of its clock cancels out. What does not look like the next
sample of the same clock is not counted:
    same time or up to STEP_S_MAX back    delivered twice, or an older scrape that was overtaken: ignored.
    further back, or more than STEP_S_MAX ahead    the clock was set, or there is a gap: counting begins anew there.
    by CLOCK_STEP_S_MAX more or less than by Kafka's clock    the clock was set by little, or the record waited: the same.

All counters go through one expression, side by side: one each would be planned, shipped and compiled with every batch.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats.common import let

STEP_S_MAX = 60  # Twice a window: no two neighbours in one are further apart by a clock that runs evenly.
_STEP_MS_MAX = STEP_S_MAX * 1000
TOTAL_RESET_RATIO_MAX = 0.5  # Of itself. An event more or less is less than that from the third on.
CLOCK_STEP_S_MAX = 10  # Collectors write what they have measured at once, or within seconds.


def same_clock(before: Column, after: Column) -> Column:
    """Whether between two rows the sender's clock went on as Kafka's did."""
    drift_ms = (after.own_ms - before.own_ms) - (after.at_ms - before.at_ms)
    return drift_ms.between(-CLOCK_STEP_S_MAX * 1000, CLOCK_STEP_S_MAX * 1000)


def increases_per_s(history: Column, counters: int | Column, totals: int | Column) -> Column:
    """Array of the rates of that many counters, and of the totals that follow them.

    Args:
        history: array of structs with ``own_ms``, ascending, ``at_ms`` (Kafka's clock) and ``counters``, an array of
            longs from 0 to 2^62; NULL where the row does not have the counter, and for a row without any.
    """
    first, newest = F.element_at(history, 1), F.element_at(history, -1)
    # Nearly always nothing was reset and nothing is missing: then the ends say it all, at a tenth of the cost.
    return F.when(
        (F.size(history) > 1) & _even(history),
        F.zip_with(
            first.counters,
            newest.counters,
            lambda p, q: (q - p).cast("double") / ((newest.own_ms - first.own_ms) / F.lit(1000.0)),
        ),
    ).otherwise(
        _stepwise(
            history,
            F.concat(F.array_repeat(F.lit(1.0), counters), F.array_repeat(F.lit(TOTAL_RESET_RATIO_MAX), totals)),
        )
    )


def _even(history: Column) -> Column:
    """No counter is reset or missing in a part of the rows, and the clock runs evenly."""

    def grew(p: Column, q: Column) -> Column:
        return F.coalesce(q >= p, p.isNull() & q.isNull())

    def follows(row: Column, before: Column) -> Column:
        step_ms = row.own_ms - before.own_ms
        runs = (step_ms > 0) & (step_ms <= _STEP_MS_MAX) & same_clock(before, row)
        return runs & _all(F.zip_with(before.counters, row.counters, grew))

    return _all(
        F.transform(history, lambda row, i: (i == 0) | follows(row, F.element_at(history, F.greatest(i, F.lit(1)))))
    )


def _all(conditions: Column) -> Column:
    return F.forall(conditions, lambda condition: condition)


def _stepwise(history: Column, kept: Column) -> Column:
    """
    Args:
        kept: for each counter the share of itself that it must fall to, or below, to have been reset.
    """
    nothing = F.transform(
        kept,
        lambda kept: F.struct(
            kept.alias("kept"),
            F.lit(None).cast("long").alias("count"),
            F.lit(None).cast("long").alias("own_ms"),
            F.lit(None).cast("long").alias("at_ms"),
            F.lit(0.0).alias("increase"),
            F.lit(0).cast("long").alias("ms"),
        ),
    )
    none = F.array().cast("array<long>")
    return F.aggregate(
        history,
        nothing,
        lambda seen, row: F.zip_with(seen, F.coalesce(row.counters, none), lambda one, count: _add(one, count, row)),
        lambda seen: F.transform(seen, lambda one: F.try_divide(one.increase, one.ms / F.lit(1000.0))),
    )


def _add(seen: Column, count: Column, row: Column) -> Column:
    step_ms = row.own_ms - seen.own_ms
    gained = (
        F.when(count >= seen["count"], count - seen["count"])
        .when(count > seen["count"] * seen.kept, F.lit(0))
        .otherwise(count)
    )
    counts = (step_ms <= _STEP_MS_MAX) & same_clock(seen, row)
    return F.when(count.isNull() | step_ms.between(-_STEP_MS_MAX, 0), seen).otherwise(
        F.struct(
            seen.kept.alias("kept"),
            count.alias("count"),
            row.own_ms.alias("own_ms"),
            row.at_ms.alias("at_ms"),
            (seen.increase + F.when((step_ms > 0) & counts, gained.cast("double")).otherwise(0.0)).alias("increase"),
            (seen.ms + F.when((step_ms > 0) & counts, step_ms).otherwise(F.lit(0))).alias("ms"),
        )
    )


def with_sums(rates: Column, history: Column) -> Column:
    """``rates``, and for counters that are summed over labels the sum of the rates of each, one by one.

    Summed first and rated then, a label that is missing once would look like a counter that was reset.

    Args:
        history: as above, with ``sums``: array of structs ``i`` (which of the counters), ``l`` (labels) and ``v``; or NULL.
    """
    some = F.filter(history, lambda row: row.sums.isNotNull())
    labels = F.array_distinct(
        F.flatten(
            F.transform(some, lambda row: F.transform(row.sums, lambda s: F.struct(s.i.alias("i"), s.l.alias("l"))))
        )
    )

    def value(row: Column, label: Column) -> Column:
        return F.get(F.filter(row.sums, lambda s: (s.i == label.i) & (s.l == label.l)), F.lit(0)).v

    def rated(labels: Column) -> Column:
        apart = F.transform(
            some,
            lambda row: F.struct(
                row.own_ms.alias("own_ms"),
                row.at_ms.alias("at_ms"),
                F.transform(labels, lambda label: value(row, label)).alias("counters"),
            ),
        )
        return F.zip_with(
            labels,
            _stepwise(apart, F.array_repeat(F.lit(1.0), F.size(labels))),
            lambda label, rate: F.struct(label.i.alias("i"), rate.alias("rate")),
        )

    def total(parts: Column, i: Column) -> Column:
        return F.aggregate(
            F.filter(parts, lambda part: (part.i == i) & part.rate.isNotNull()),
            F.lit(None).cast("double"),
            lambda sum_, part: F.coalesce(sum_, F.lit(0.0)) + part.rate,
        )

    return F.when(F.size(some) == 0, rates).otherwise(
        let(
            let(labels, rated),
            lambda parts: F.transform(rates, lambda rate, i: F.coalesce(rate, total(parts, i))),
        )
    )
