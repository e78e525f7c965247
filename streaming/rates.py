"""Rates from counters over the sorted scrapes of a window.

Invariant: a rate is an increase that was seen, over the time between the samples that showed it. Not over the window,
which may be half empty; and a window with fewer than two samples of a counter has no rate: NULL, never 0.

A counter that falls was reset: what it shows now is what it gained since.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def increase_per_s(history: Column, counter: Callable[[Column], Column]) -> Column:
    """Rate of one counter.

    Args:
        history: array of structs with ``ts`` (epoch ms), ascending and without duplicates.
        counter: the counter in one of these structs; NULL where the scrape does not have it.
    """
    nothing = F.struct(
        F.lit(None).cast("double").alias("count"),
        F.lit(None).cast("long").alias("first_ms"),
        F.lit(None).cast("long").alias("last_ms"),
        F.lit(0.0).alias("increase"),
    )

    def add(seen: Column, scrape: Column) -> Column:
        count = counter(scrape)
        gained = F.when(count >= seen["count"], count - seen["count"]).otherwise(count)
        return F.when(count.isNull(), seen).otherwise(
            F.struct(
                count.alias("count"),
                F.coalesce(seen.first_ms, scrape.ts).alias("first_ms"),
                scrape.ts.alias("last_ms"),
                (seen.increase + F.when(seen["count"].isNull(), 0.0).otherwise(gained)).alias("increase"),
            )
        )

    return F.aggregate(
        history,
        nothing,
        add,
        lambda seen: F.try_divide(seen.increase, (seen.last_ms - seen.first_ms) / F.lit(1000.0)),
    )
