"""How far a move is, from the log sizes of its partitions in the successive scrapes of one window.

Intuition: everything is measured partition by partition and summed last, so that a partition which joins or leaves
between two scrapes does not look like bytes that were moved or lost.

Invariants: a partition counts in a step only when both scrapes have it. An unknown size is NULL and makes no growth.
A log that shrank (retention) has grown by an unknown amount: its step adds 0 bytes to ``MoveStep``, and neither bytes
nor time to the write rate.

Vocabulary (with contract.py's and partitions.py's):
    history   array of structs ``ts`` (epoch ms, to show), ``own_ms`` (the sender's clock, to measure), ``at_ms``
              (Kafka's) and ``partitions``, ascending.
    scrapes   the same with the partitions of each as a map, and nothing twice; see ``scrapes``.

All of it is linear in the number of partitions: ``map_zip_with`` hashes, while element access of a map scans.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats.common import let
from streaming.partitions import excess
from streaming.rates import STEP_S_MAX, same_clock

LARGEST = 5


def scrapes(history: Column) -> Column:
    """The history with maps, which state cannot hold because they have no order.

    Without what was delivered twice or overtaken: a scrape whose own time is not after one that stands before it.
    """
    fresh = F.filter(
        history,
        lambda s, i: (
            ~F.exists(F.slice(history, 1, i), lambda before: (before.own_ms - s.own_ms).between(0, STEP_S_MAX * 1000))
        ),
    )
    return F.transform(
        fresh,
        lambda s: F.struct(
            s.ts.alias("ts"),
            s.own_ms.alias("own_ms"),
            s.at_ms.alias("at_ms"),
            F.map_from_entries(s.partitions).alias("partitions"),
        ),
    )


def steps(scrapes: Column) -> Column:
    """``MoveStep`` and ``closed_bytes`` (change of the remaining bytes) of every step in which something was moving.

    ``remaining_bytes`` is of the partitions that the step counts.
    """
    count = F.size(scrapes)
    pairs = F.zip_with(F.slice(scrapes, 1, F.greatest(count - 1, F.lit(0))), F.slice(scrapes, 2, count), _step)
    # A longer or a backward step is a clock that was set, or a gap.
    return F.filter(
        pairs, lambda step: (step.moving > 0) & (step.dt_s > 0) & (step.dt_s <= STEP_S_MAX) & step.same_clock
    )


def _step(before: Column, after: Column) -> Column:
    changes = F.map_zip_with(
        before.partitions,
        after.partitions,
        # A partition that has just arrived counts as moving too: its last bytes came in this step.
        lambda _, p, q: F.when(
            p.isNotNull() & q.isNotNull() & (p.adding | q.adding),
            F.struct(
                excess(q.own_bytes, p.own_bytes).alias("gained"),
                excess(q.leader_bytes, p.leader_bytes).alias("written"),
                q.remaining_bytes.alias("remaining"),
                F.when(p.adding, q.remaining_bytes - p.remaining_bytes).alias("closed"),
            ),
        ),
    )
    sums = _sums(
        F.filter(F.map_values(changes), lambda change: change.isNotNull()),
        moving=lambda _: F.lit(1.0),
        gained=lambda change: change.gained,
        written=lambda change: change.written,
        remaining=lambda change: change.remaining,
        closed=lambda change: change.closed,
    )
    return let(
        sums,
        lambda sums: F.struct(
            after.ts.alias("at_ms"),
            ((after.own_ms - before.own_ms) / F.lit(1000.0)).alias("dt_s"),
            sums.gained.alias("gained_bytes"),
            sums.written.alias("written_bytes"),
            sums.remaining.alias("remaining_bytes"),
            sums.closed.alias("closed_bytes"),
            sums.moving.alias("moving"),
            same_clock(before, after).alias("same_clock"),
        ),
    )


def totals(scrapes: Column, growth: Column) -> Column:
    """Sums over the partitions of the newest scrape, with write rates over the time each was seen in the window.

    ``keep_up_bytes_per_s`` and ``write_bytes_per_s`` are of the partitions whose rate is known; NULL when there are
    partitions but no rate. ``remaining_bytes`` is NULL when a single part of it is unknown: too small a number would
    look like the end of the move.
    """
    newest = F.element_at(scrapes, -1)
    rated = F.map_zip_with(
        growth,
        newest.partitions,
        lambda _, seen, partition: F.when(
            partition.isNotNull(),
            F.struct(F.try_divide(seen.grown, seen.seconds).alias("rate"), partition.alias("now")),
        ),
    )
    sums = _sums(
        F.filter(F.map_values(rated), lambda p: p.isNotNull()),
        listed=lambda p: _one_if(p.now.counted > 0),
        listed_rated=lambda p: _one_if((p.now.counted > 0) & p.rate.isNotNull()),
        keep_up=lambda p: p.rate * p.now.counted,
        moving=lambda p: _one_if(p.now.adding),
        moving_rated=lambda p: _one_if(p.now.adding & p.rate.isNotNull()),
        write=lambda p: F.when(p.now.adding, p.rate),
        remaining=lambda p: p.now.remaining_bytes,
        remaining_unknown=lambda p: _one_if(p.now.remaining_bytes.isNull()),
        lag=lambda p: p.now.lag_messages,
        lag_known=lambda p: _one_if(p.now.lag_messages.isNotNull()),
    )
    return let(
        sums,
        lambda s: F.struct(
            s.moving.cast("int").alias("moving_partitions"),
            s.listed.cast("int").alias("listed_partitions"),
            F.when(s.remaining_unknown == 0, s.remaining).alias("remaining_bytes"),
            F.when((s.listed == 0) | (s.listed_rated > 0), s.keep_up).alias("keep_up_bytes_per_s"),
            F.when((s.moving == 0) | (s.moving_rated > 0), s.write).alias("write_bytes_per_s"),
            F.when(s.lag_known > 0, s.lag).alias("lag_messages"),
        ),
    )


def largest(scrapes: Column, growth: Column) -> Column:
    """Of the moving partitions of the newest scrape the ``LARGEST`` by remaining bytes, largest first.

    Labels that name no partition, whoever wrote them, are of none.
    """

    def partition(key: Column) -> Column:
        return F.substring_index(F.substring_index(key, ",", 1), "partition=", -1).try_cast("int")

    moving = F.filter(
        F.map_entries(F.element_at(scrapes, -1).partitions),
        lambda p: p.value.adding & p.key.startswith("partition=") & partition(p.key).isNotNull(),
    )
    ranked = F.slice(
        F.sort_array(F.transform(moving, lambda p: F.struct(p.value.remaining_bytes, p.key)), asc=False), 1, LARGEST
    )
    return F.transform(
        ranked,
        lambda p: let(
            F.element_at(growth, p.key),
            lambda seen: F.struct(
                F.substring_index(p.key, "topic=", -1).alias("topic"),
                partition(p.key).alias("partition"),
                p.remaining_bytes.alias("remaining_bytes"),
                F.try_divide(seen.grown, seen.seconds).alias("write_bytes_per_s"),
            ),
        ),
    )


def done(scrapes: Column) -> Column:
    """How many partitions were moving in this window and are not any more in its newest scrape."""

    def moving(scrape: Column) -> Column:
        return F.map_keys(F.map_filter(scrape.partitions, lambda _, p: p.adding))

    ever = F.flatten(F.transform(scrapes, moving))
    return F.size(F.array_except(ever, moving(F.element_at(scrapes, -1))))


def growth(scrapes: Column) -> Column:
    """Per partition: what its leader's log grew by, and in how many seconds, over the steps where that is known."""
    nothing = F.create_map().cast(
        "map<string, struct<bytes double, own_ms long, at_ms long, grown double, seconds double>>"
    )

    def add(seen: Column, scrape: Column) -> Column:
        def one(_: Column, before: Column, now: Column) -> Column:
            grown = now.leader_bytes - before["bytes"]  # NULL when either scrape lacks the partition.
            seconds = (scrape.own_ms - before.own_ms) / F.lit(1000.0)
            known = (grown >= 0) & (seconds > 0) & (seconds <= STEP_S_MAX) & same_clock(before, scrape)
            return F.struct(
                now.leader_bytes.alias("bytes"),
                scrape.own_ms.alias("own_ms"),
                scrape.at_ms.alias("at_ms"),
                (F.coalesce(before.grown, F.lit(0.0)) + F.when(known, grown).otherwise(0.0)).alias("grown"),
                (F.coalesce(before.seconds, F.lit(0.0)) + F.when(known, seconds).otherwise(0.0)).alias("seconds"),
            )

        return F.map_zip_with(seen, scrape.partitions, one)

    return F.aggregate(scrapes, nothing, add)


def slope(steps: Column) -> Column:
    """Least squares through the remaining bytes: ``slope`` in bytes/s and ``r2``.

    Through the running sum of ``closed_bytes``, that is, without the jumps of partitions that join. A flat line fits
    exactly; so do any two points, which says nothing: ``r2`` is NULL for them.
    """
    names = ("n", "x", "y", "sx", "sy", "sxx", "sxy", "syy")
    start = F.struct(*[F.lit(1.0 if name == "n" else 0.0).alias(name) for name in names])  # The point (0, 0).

    def add(s: Column, step: Column) -> Column:
        def with_point(x: Column, y: Column) -> Column:
            values = (s.n + 1, x, y, s.sx + x, s.sy + y, s.sxx + x * x, s.sxy + x * y, s.syy + y * y)
            return F.struct(*[value.alias(name) for name, value in zip(names, values, strict=True)])

        point = F.struct((s.x + step.dt_s).alias("x"), (s.y + step.closed_bytes).alias("y"))
        return let(point, lambda p: with_point(p.x, p.y))

    def fit(s: Column) -> Column:
        def line(m: Column) -> Column:
            r2 = F.when(m.yy <= 0, 1.0).otherwise(F.least(F.try_divide(m.xy * m.xy, m.xx * m.yy), F.lit(1.0)))
            return F.struct(F.try_divide(m.xy, m.xx).alias("slope"), F.when(s.n > 2, r2).alias("r2"))

        moments = F.struct(
            (s.n * s.sxx - s.sx * s.sx).alias("xx"),
            (s.n * s.sxy - s.sx * s.sy).alias("xy"),
            (s.n * s.syy - s.sy * s.sy).alias("yy"),
        )
        return let(moments, line)

    return F.aggregate(steps, start, add, fit)


def progress_age_s(steps: Column, newest_ms: Column) -> Column:
    """From the end of the last step that gained bytes; NULL when none did."""
    gains = F.filter(steps, lambda step: step.gained_bytes > 0)
    return (newest_ms - F.array_max(F.transform(gains, lambda step: step.at_ms))) / F.lit(1000.0)


def _sums(items: Column, **terms: Callable[[Column], Column]) -> Column:
    """A struct with the sum of every term over the items, in one pass; a NULL term adds nothing."""
    zeros = F.struct(*[F.lit(0.0).alias(name) for name in terms])
    return F.aggregate(
        items,
        zeros,
        lambda sums, item: F.struct(
            *[(sums[name] + F.coalesce(term(item), F.lit(0.0))).alias(name) for name, term in terms.items()]
        ),
    )


def _one_if(condition: Column) -> Column:
    return F.when(condition, 1.0).otherwise(0.0)
