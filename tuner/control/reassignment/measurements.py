"""Measures the sizes and write rates of a plan's partitions from the sizes of their logs.

Each new replica has to copy as many bytes as the leader's log has. The growth of the leader's log is the write rate, which uses a
part of the throttle. When retention or compaction shrinks a log, its write rate cannot be measured, so the previous value stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tuner.core.reassignment_plan import PlanPartition, ReassignmentSnapshot, TopicPartition

# Weight of a new write rate in the mean: high enough to follow changes within minutes, low enough to smooth a single burst.
_NEW_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class PartitionMeasurements:
    """Measurements by partition; a partition without an entry was not measured yet.

    Attributes:
        size_bytes: size of the leader's log.
        write_bytes_per_s: growth of the leader's log.
        remaining_bytes: bytes that all replicas being added still have to copy.
        at_ms: time of the last full measurement.
    """

    size_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    write_bytes_per_s: Mapping[TopicPartition, float] = field(default_factory=dict)
    remaining_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    at_ms: int = 0

    def size(self, key: TopicPartition, partition: PlanPartition) -> float:
        """Returns the measured size, or the size at the start of the plan."""
        return self.size_bytes.get(key, partition.size_bytes)

    def write_rate(self, key: TopicPartition, partition: PlanPartition) -> float:
        """Returns the measured write rate (bytes/s), or the rate at the start of the plan."""
        return self.write_bytes_per_s.get(key, partition.write_bytes_per_s)


def update_measurements(
    previous: PartitionMeasurements, snapshot: ReassignmentSnapshot, at_ms: int, *, has_all_sizes: bool = True
) -> PartitionMeasurements:
    """Returns the measurements after a snapshot; unchanged if it has no log sizes.

    Args:
        has_all_sizes: whether the snapshot has the log sizes of all partitions; False: only of partitions that copy now.
    """
    if not snapshot.log_bytes:
        return previous
    sizes = dict[TopicPartition, float]()
    rates = dict[TopicPartition, float](previous.write_bytes_per_s)
    remaining: dict[TopicPartition, float] = {}
    elapsed_s = (at_ms - previous.at_ms) / 1000
    for key, current in snapshot.partitions.items():
        size = snapshot.log_bytes.get(current.leader, {}).get(key)
        if size is None:
            continue
        sizes[key] = float(size)
        if current.adding:
            destinations = [broker for broker in current.adding if broker != current.leader]
            copied = [snapshot.log_bytes.get(broker, {}).get(key, 0) for broker in destinations]
            remaining[key] = float(sum(max(0, size - copied_bytes) for copied_bytes in copied))
        previous_size = previous.size_bytes.get(key)
        if has_all_sizes and previous_size is not None and elapsed_s > 0 and size >= previous_size:
            rate = (size - previous_size) / elapsed_s
            rates[key] = rate if key not in rates else (1 - _NEW_WEIGHT) * rates[key] + _NEW_WEIGHT * rate
    if not has_all_sizes:
        return replace(previous, remaining_bytes=remaining)
    return PartitionMeasurements(sizes, rates, remaining, at_ms)
