"""Estimates the write rates of partitions if only the write rates of brokers are known."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.reassignment_plan import TopicPartition


def divide_by_size(
    bytes_per_s: Mapping[int, float], leaders: Mapping[TopicPartition, int], size_bytes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, float]:
    """Returns the write rate of each partition, in bytes/s: each leader's rate, divided in proportion to the size of the logs.

    The larger a log is, the faster it usually grows. If all logs of a leader are empty, each partition gets the same rate.

    Args:
        bytes_per_s: for each broker, the rate at which producers write to the partitions that it leads.
        leaders: leader of each partition. If ``bytes_per_s`` lacks a leader, its partitions get the rate 0.
    """
    sizes: dict[int, float] = {}
    counts: dict[int, int] = {}
    for key, leader in leaders.items():
        sizes[leader] = sizes.get(leader, 0.0) + size_bytes.get(key, 0.0)
        counts[leader] = counts.get(leader, 0) + 1
    rates: dict[TopicPartition, float] = {}
    for key, leader in leaders.items():
        share = size_bytes.get(key, 0.0) / sizes[leader] if sizes[leader] > 0 else 1 / counts[leader]
        rates[key] = bytes_per_s.get(leader, 0.0) * share
    return rates
