"""Estimates the write rates of partitions if only those of brokers are known."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.reassignment_plan import TopicPartition


def divide_by_size(
    bytes_per_s: Mapping[int, float], leaders: Mapping[TopicPartition, int], size_bytes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, float]:
    """Returns bytes/s by partition: the rate of each leader, divided in proportion to the size of the logs.

    A log that grew large usually still grows fast. If all logs of a leader are empty, each partition gets the same rate.

    Args:
        bytes_per_s: by broker, the rate written to the partitions that it leads.
        leaders: by partition; partitions of other leaders get nothing.
    """
    sizes: dict[int, float] = {}
    counts: dict[int, int] = {}
    for key, leader in leaders.items():
        sizes[leader] = sizes.get(leader, 0.0) + size_bytes.get(key, 0.0)
        counts[leader] = counts.get(leader, 0) + 1
    return {
        key: rate * (size_bytes.get(key, 0.0) / sizes[leader] if sizes[leader] > 0 else 1 / counts[leader])
        for key, leader in leaders.items()
        for rate in (bytes_per_s.get(leader, 0.0),)
    }
