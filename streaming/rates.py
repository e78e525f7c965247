"""Rates from counters over the sorted scrapes of a window.

Invariant: a rate is an increase that was seen, over the time between the samples that showed it. Not over the window,
which may be half empty; and a window with fewer than two samples of a counter has no rate: NULL, never 0.

A counter that falls was reset: what it shows now is what it gained since.

All counters go through one expression, side by side: one each would be planned, shipped and compiled with every batch.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def increases_per_s(history: Column, counters: int) -> Column:
    """Array of the rates of that many counters.

    Args:
        history: array of structs with ``ts`` (epoch ms), ascending and without duplicates, and ``counters``, an array of
            doubles; NULL where the scrape does not have the counter.
    """
    nothing = F.struct(
        F.lit(None).cast("double").alias("count"),
        F.lit(None).cast("long").alias("first_ms"),
        F.lit(None).cast("long").alias("last_ms"),
        F.lit(0.0).alias("increase"),
    )
    return F.aggregate(
        history,
        F.array_repeat(nothing, counters),
        lambda seen, scrape: F.zip_with(seen, scrape.counters, lambda one, count: _add(one, count, scrape.ts)),
        lambda seen: F.transform(
            seen, lambda one: F.try_divide(one.increase, (one.last_ms - one.first_ms) / F.lit(1000.0))
        ),
    )


def _add(seen: Column, count: Column, at_ms: Column) -> Column:
    gained = F.when(count >= seen["count"], count - seen["count"]).otherwise(count)
    return F.when(count.isNull(), seen).otherwise(
        F.struct(
            count.alias("count"),
            F.coalesce(seen.first_ms, at_ms).alias("first_ms"),
            at_ms.alias("last_ms"),
            (seen.increase + F.when(seen["count"].isNull(), 0.0).otherwise(gained)).alias("increase"),
        )
    )
