"""Thousands of lags become few samples: sums, fetcher threads, and the partitions that lag most."""

from __future__ import annotations

import pytest

from streaming.collector.exposition import Reading
from streaming.collector.lags import (
    LEADER_LOGS_MAX,
    PARTITIONS_MAX,
    THREADS_MAX,
    LaggingReplica,
    LeaderLog,
    lag_samples,
    lagging_replicas,
    leader_logs_to_read,
    sum_samples,
)
from streaming.shared.contract import Metric, Sample, thread_labels, thread_partition_labels
from streaming.shared.fetcher_threads import client_id

LABELS = "partition=0,topic=orders"
LEADS_ALL = [Sample(Metric.PARTITION_COUNT, "", 10), Sample(Metric.LEADER_COUNT, "", 10)]


def values(samples: list[Sample], labels: str = "") -> dict[str, float]:
    return {s.name: s.value for s in samples if s.labels == labels}


def test_sum_samples_are_sum_and_moving_partitions() -> None:
    lags = {("orders", 0): (7.0, ""), ("orders", 1): (5.0, ""), ("other", 0): (0.0, "")}
    assert sum_samples(Reading([], lags), [("orders", 0), ("orders", 9)]) == [
        Sample(Metric.FOLLOWED_LAG, LABELS, 7.0),
        Sample(Metric.REPLICA_LAG_SUM, "", 12.0),
    ]


def test_lag_samples_missing_lag_is_not_zero() -> None:
    counts = [Sample(Metric.PARTITION_COUNT, "", 10), Sample(Metric.LEADER_COUNT, "", 4)]
    for reading in (Reading(counts, {}), Reading([], {})):
        assert sum_samples(reading, [("orders", 0)]) == lag_samples(reading, (), {}) == []


def test_lag_samples_node_that_follows_nothing_has_lag_zero() -> None:
    assert sum_samples(Reading(LEADS_ALL, {}), []) == [Sample(Metric.REPLICA_LAG_SUM, "", 0)]
    found = values(lag_samples(Reading(LEADS_ALL, {}), (), {}))
    assert found == {
        Metric.LAG_PARTITIONS: 0, Metric.LAG_SUM: 0, Metric.LAG_MAX: 0, Metric.LAG_ADDING_PARTITIONS: 0, Metric.LAG_ADDING_SUM: 0,
        Metric.LAG_THREADS: 0,
    }  # fmt: skip


def test_lag_samples_steady_lag_excludes_adding_replicas() -> None:
    lags = {
        ("orders", 0): (7.0, client_id(0, 2)), ("orders", 1): (1000.0, client_id(0, 2)), ("orders", 2): (0.0, client_id(1, 2)),
    }  # fmt: skip
    found = lag_samples(Reading([], lags, {client_id(0, 2): 9e6}), {("orders", 1)}, {})
    assert values(found) == {
        Metric.LAG_PARTITIONS: 2, Metric.LAG_SUM: 7, Metric.LAG_MAX: 7, Metric.LAG_ADDING_PARTITIONS: 1,
        Metric.LAG_ADDING_SUM: 1000, Metric.LAG_THREADS: 2,
    }  # fmt: skip
    assert values(found, thread_labels(2, 0)) == {
        Metric.LAG_THREAD_PARTITIONS: 1, Metric.LAG_THREAD_SUM: 7, Metric.LAG_THREAD_MAX: 7,
        Metric.LAG_THREAD_ADDING_PARTITIONS: 1, Metric.LAG_THREAD_ADDING_SUM: 1000, Metric.LAG_THREAD_BYTES: 9e6,
    }  # fmt: skip
    assert values(found, thread_labels(2, 1)) == {
        Metric.LAG_THREAD_PARTITIONS: 1, Metric.LAG_THREAD_SUM: 0, Metric.LAG_THREAD_MAX: 0,
    }  # fmt: skip
    worst = [s for s in found if s.name == Metric.LAG_PARTITION]
    assert worst == [Sample(Metric.LAG_PARTITION, thread_partition_labels(2, 0, "orders", 0), 7)]


def test_lag_samples_without_client_id_have_no_threads() -> None:
    found = lag_samples(Reading([], {("orders", 0): (7.0, "")}), (), {("orders", 0): LeaderLog(70, 700)})
    assert values(found) == {
        Metric.LAG_PARTITIONS: 1, Metric.LAG_SUM: 7, Metric.LAG_MAX: 7, Metric.LAG_ADDING_PARTITIONS: 0, Metric.LAG_ADDING_SUM: 0,
    }  # fmt: skip
    assert values(found, LABELS) == {
        Metric.LAG_PARTITION: 7, Metric.LAG_PARTITION_END_OFFSET: 70, Metric.LAG_PARTITION_SIZE: 700,
    }  # fmt: skip
    assert lagging_replicas(found) == []


@pytest.mark.parametrize("brokers", [30, 400])
def test_lag_samples_are_bounded_and_keep_siblings_together(brokers: int) -> None:
    lags = {
        (f"t{i % 7}", i): (float(i if i % 40 == 39 else 0), client_id(i % 2, i // 2 % brokers))
        for i in range(40 * brokers)
    }
    found = lag_samples(Reading([], lags, dict.fromkeys({name for _, name in lags.values()}, 1.0)), (), {})
    threads = [s.labels for s in found if s.name == Metric.LAG_THREAD_SUM]
    assert len(threads) == THREADS_MAX
    sources = [labels.split("source=")[1] for labels in threads]
    assert all(sources.count(source) == 2 for source in sources)
    most = max((lag, key, name) for key, (lag, name) in lags.items())
    assert f"source={most[2].rsplit('-', 1)[1]}" in threads[0]
    worst = [s.value for s in found if s.name == Metric.LAG_PARTITION]
    assert worst == sorted((lag for lag, _ in lags.values()), reverse=True)[:PARTITIONS_MAX]
    assert len(found) <= 6 + 6 * THREADS_MAX + 3 * PARTITIONS_MAX


def test_lagging_replicas_are_read_back_from_samples() -> None:
    found = lag_samples(Reading([], {("a.b-c", 12): (5.0, client_id(3, 1001))}), (), {})
    assert lagging_replicas(found) == [LaggingReplica("a.b-c", 12, leader=1001, lag_messages=5.0)]


def test_leader_logs_to_read_are_the_worst_of_brokers_that_may_be_asked() -> None:
    replicas = [LaggingReplica("t", i, leader=i % 3, lag_messages=float(i)) for i in range(200)]
    found = leader_logs_to_read([*replicas, LaggingReplica("t", 1, leader=1, lag_messages=1e6)], {1, 2})
    assert len(found) == LEADER_LOGS_MAX
    assert set(found.values()) == {1, 2}
    assert found[("t", 1)] == 1
    assert ("t", 199) in found
    assert ("t", 198) not in found
