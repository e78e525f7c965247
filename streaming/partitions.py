"""The partitions of one side of one broker in one scrape, from the samples the collector writes per partition.

Vocabulary (with contract.py's), of the values in ``PARTITIONS_TYPE``; the key is the sample's labels:
    leader_bytes      log size of the leader.
    own_bytes         log size of the follower; NULL on the leader side.
    counted           replicas whose bytes count against this side's quota.
    adding            a replica is being added: on the leader side any, on the follower side this one.
    remaining_bytes   what the adding replicas lack; 0 when nothing is being added, NULL when unknown.
    lag_messages      ConsumerLag of the follower while it is being added; NULL on the leader side and when unknown.

A list and not a map, because state needs an order and maps have none.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.contract import Metric

PARTITIONS_TYPE = (
    "array<struct<key string, value struct<leader_bytes double, own_bytes double, counted double, adding boolean,"
    " remaining_bytes double, lag_messages double>>>"
)


PREFIX = "rheostat_move_"  # Of the names of the samples that are of partitions.


def led(samples: Column) -> Column:
    """Partitions that the scraped broker leads."""
    sizes_and_counts = F.map_zip_with(
        _by_partition(samples, Metric.LED_SIZE),
        _by_partition(samples, Metric.LED_COUNTED),
        lambda _, size, counted: F.struct(size.alias("size"), counted.alias("counted")),
    )
    return F.map_entries(
        F.map_zip_with(
            sizes_and_counts,
            _by_partition(samples, Metric.LED_REMAINING),
            lambda _, led, remaining: _partition(
                leader=led["size"],
                own=F.lit(None).cast("double"),
                counted=led.counted,
                adding=remaining.isNotNull(),
                remaining=remaining,
                lag=F.lit(None).cast("double"),
            ),
        )
    ).cast(PARTITIONS_TYPE)


def followed(samples: Column) -> Column:
    """Partitions that the scraped broker follows."""
    sizes = F.map_zip_with(
        _by_partition(samples, Metric.FOLLOWED_SIZE),
        _by_partition(samples, Metric.FOLLOWED_LEADER_SIZE),
        lambda _, own, leader: F.struct(own.alias("own"), leader.alias("leader")),
    )
    flags = F.map_zip_with(
        F.map_zip_with(
            _by_partition(samples, Metric.FOLLOWED_COUNTED),
            _by_partition(samples, Metric.FOLLOWED_ADDING),
            lambda _, counted, adding: F.struct(counted.alias("counted"), adding.alias("adding")),
        ),
        _by_partition(samples, Metric.FOLLOWED_LAG),
        lambda _, flag, lag: F.struct(flag.counted.alias("counted"), flag.adding.alias("adding"), lag.alias("lag")),
    )
    return F.map_entries(
        F.map_zip_with(
            sizes,
            flags,
            lambda _, size, flag: _partition(
                leader=size.leader,
                own=size.own,
                counted=flag.counted,
                adding=F.coalesce(flag.adding > 0, F.lit(False)),
                remaining=excess(size.leader, size.own),
                lag=flag.lag,
            ),
        )
    ).cast(PARTITIONS_TYPE)


def _by_partition(samples: Column, name: str) -> Column:
    return F.map_from_entries(F.transform(F.filter(samples, lambda s: s.n == name), lambda s: F.struct(s.l, s.v)))


def _partition(
    *, leader: Column, own: Column, counted: Column, adding: Column, remaining: Column, lag: Column
) -> Column:
    return F.struct(
        leader.alias("leader_bytes"),
        own.alias("own_bytes"),
        F.coalesce(counted, F.lit(0.0)).alias("counted"),
        adding.alias("adding"),
        F.when(adding, remaining).otherwise(0.0).alias("remaining_bytes"),
        F.when(adding, lag).alias("lag_messages"),
    )


def excess(more: Column, less: Column) -> Column:
    """``more - less``, at least 0, NULL when either is. ``greatest(x, 0)`` would turn an unknown into 0."""
    return F.when(more >= less, more - less).when(more < less, 0.0)
