"""What the partitions of plans weigh and how fast they are written to, from the sizes of their logs.

Intuition: what a log holds on its leader is what each new replica has to copy, and what it grows by is what keeping up takes.
Both are read with one call. Retention and compaction make a log smaller; then it is not known what was written, and what was
known before holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tuner.core.reassignment_plan import PlanPartition, ReassignmentSnapshot, TopicPartition

_NEW_SHARE = 0.5  # Of a new measure: what is written changes within minutes, and a clump is no rate.


@dataclass(frozen=True, slots=True)
class PartitionMeasurements:
    """By partition; one that isn't named was not measured yet."""

    size_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    write_bytes_per_s: Mapping[TopicPartition, float] = field(default_factory=dict)
    remaining_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)  # Of all replicas being added.
    at_ms: int = 0

    def size(self, key: TopicPartition, part: PlanPartition) -> float:
        return self.size_bytes.get(key, part.size_bytes)

    def write_rate(self, key: TopicPartition, part: PlanPartition) -> float:
        return self.write_bytes_per_s.get(key, part.write_bytes_per_s)


def update_measurements(
    before: PartitionMeasurements, look: ReassignmentSnapshot, at_ms: int, *, whole: bool = True
) -> PartitionMeasurements:
    """What is known after a look; the same as before where nothing was measured.

    Args:
        whole: all was measured that has not arrived; otherwise only what is under way.
    """
    if not look.log_bytes:
        return before
    sizes = dict[TopicPartition, float]()
    rates = dict[TopicPartition, float](before.write_bytes_per_s)
    remaining: dict[TopicPartition, float] = {}
    took_s = (at_ms - before.at_ms) / 1000
    for key, now in look.partitions.items():
        size = look.log_bytes.get(now.leader, {}).get(key)
        if size is None:
            continue
        sizes[key] = float(size)
        if now.adding:
            held = [look.log_bytes.get(b, {}).get(key, 0) for b in now.adding if b != now.leader]
            remaining[key] = float(sum(max(0, size - h) for h in held))
        known = before.size_bytes.get(key)
        if whole and known is not None and took_s > 0 and size >= known:
            rate = (size - known) / took_s
            rates[key] = rate if key not in rates else (1 - _NEW_SHARE) * rates[key] + _NEW_SHARE * rate
    if not whole:
        return replace(before, remaining_bytes=remaining)
    return PartitionMeasurements(sizes, rates, remaining, at_ms)
