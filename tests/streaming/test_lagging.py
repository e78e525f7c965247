"""The lag of followers, its trends, and the figures of fetcher threads and partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_cases import Logged, Stream, newest, scrape, signals_of

from streaming.shared.contract import (
    Metric,
    ReplicationSignal,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)

WORST = thread_partition_labels(2, 0, "orders", 3)
ORDERS_3 = partition_labels("orders", 3)


def lag_samples_at(at_s: float, *, per_s: float = 100.0, base: float = 0.0) -> dict[Any, float]:
    """A follower of broker 2 whose one partition orders-3 falls behind, while thread 1 is idle."""
    lag = base + per_s * at_s
    return {
        Metric.LAG_SUM: lag,
        Metric.LAG_MAX: lag,
        Metric.LAG_PARTITIONS: 5,
        Metric.LAG_ADDING_SUM: 7,
        Metric.LAG_ADDING_PARTITIONS: 1,
        Metric.LAG_THREADS: 2,
        (Metric.LAG_THREAD_PARTITIONS, thread_labels(2, 0)): 3,
        (Metric.LAG_THREAD_SUM, thread_labels(2, 0)): lag,
        (Metric.LAG_THREAD_MAX, thread_labels(2, 0)): lag,
        (Metric.LAG_THREAD_BYTES, thread_labels(2, 0)): 1000 * at_s,
        (Metric.LAG_THREAD_PARTITIONS, thread_labels(2, 1)): 2,
        (Metric.LAG_THREAD_SUM, thread_labels(2, 1)): 0,
        (Metric.LAG_THREAD_MAX, thread_labels(2, 1)): 0,
        (Metric.LAG_THREAD_ADDING_PARTITIONS, thread_labels(2, 1)): 1,
        (Metric.LAG_THREAD_ADDING_SUM, thread_labels(2, 1)): 7,
        (Metric.LAG_PARTITION, WORST): lag,
        (Metric.LAG_PARTITION_END_OFFSET, ORDERS_3): 1_000 + 200 * at_s,
        (Metric.LAG_PARTITION_SIZE, ORDERS_3): 5_000 + 2_000 * at_s,
    }


def lag_of(spark: SparkSession, *scrapes: Any) -> ReplicationSignal:
    return newest(signals_of(spark, scrapes), ReplicationSignal)


def test_replication_signal_of_a_growing_lag(spark: SparkSession) -> None:
    found = lag_of(spark, *[scrape(at_s, lag_samples_at(at_s)) for at_s in range(5, 35, 5)])
    assert (found.lag_sum_messages, found.lag_max_messages, found.partitions) == (3000, 3000, 5)
    assert (found.adding_lag_sum_messages, found.adding_partitions, found.thread_count) == (7, 1, 2)
    assert found.trend_of == "sum"
    print(found)
