"""Hosted replicas and their limits, from signals."""

from __future__ import annotations

from dataclasses import replace

from tuner_cases import NOW_MS, broker_signal

from streaming.shared.contract import BrokerSignal
from tuner.core.partition_fill import PartitionFill, partition_fills
from tuner.core.partition_limits import PartitionLimits, count_internal


def hosting(broker: int, count: float | None, age_s: float = 2.0) -> BrokerSignal:
    return replace(broker_signal(broker, age_s=age_s), partitions=count)


def test_partition_fill_has_cluster_and_each_broker_with_limits() -> None:
    told = {2: hosting(2, 30), 1: hosting(1, 50), 3: hosting(3, None)}
    assert partition_fills(told, PartitionLimits(40, 100, {1: 60}), NOW_MS, 15) == (
        PartitionFill(None, 80, 100), PartitionFill(1, 50, 60), PartitionFill(2, 30, 40),
    )  # fmt: skip
    assert [row.headroom for row in partition_fills(told, PartitionLimits(45), NOW_MS, 15)] == [None, 0, 15]
    assert [row.share for row in partition_fills(told, PartitionLimits(100, 0), NOW_MS, 15)] == [1.0, 0.5, 0.3]
    assert partition_fills(told, PartitionLimits(), NOW_MS, 15)[1] == PartitionFill(1, 50, None)


def test_silent_broker_counts_in_cluster_total_only() -> None:
    told = {1: hosting(1, 50), 2: hosting(2, 30, age_s=60)}
    assert partition_fills(told, PartitionLimits(), NOW_MS, 15) == (
        PartitionFill(None, 80, None),
        PartitionFill(1, 50, None),
    )


def test_partition_fill_without_reports_is_empty() -> None:
    assert partition_fills({}, PartitionLimits(5), NOW_MS, 15) == ()
    assert partition_fills({1: hosting(1, None)}, PartitionLimits(5), NOW_MS, 15) == ()


def test_internal_partitions_do_not_fill_a_broker_or_the_cluster() -> None:
    states = [(("__consumer_offsets", p), (1, 2)) for p in range(10)]
    states += [(("__share_group_state", 0), (2,)), (("orders", 0), (1, 2, 3))]
    internal = count_internal(states)
    assert (internal.partitions, internal.replicas) == (11, {1: 10, 2: 11})
    told = {1: hosting(1, 50), 2: hosting(2, 30), 3: hosting(3, None), 4: hosting(4, 7)}
    assert partition_fills(told, PartitionLimits(40), NOW_MS, 15, internal) == (
        PartitionFill(None, 66, None), PartitionFill(1, 40, 40), PartitionFill(2, 19, 40), PartitionFill(4, 7, 40),
    )  # fmt: skip
    assert internal.subtract_replicas(1, 3.0) == 0.0, "the signal is older than the internal topics"
