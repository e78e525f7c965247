"""How many replicas brokers host beside how many they may, as their own signals tell it: what is shown and alerted on.

A broker counts those of internal topics as well, which KIP-578 leaves out: a hundred or so more, on the careful side. Who places
partitions counts them exactly (partition_limits.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streaming.shared.contract import BrokerSignal
from tuner.core.partition_limits import PartitionLimits, limit_or_none


@dataclass(frozen=True, slots=True)
class PartitionFill:
    broker: int | None  # None: the cluster.
    partitions: float
    limit: int | None  # None: nobody set one.

    @property
    def headroom(self) -> float | None:
        return None if self.limit is None else max(0.0, self.limit - self.partitions)

    @property
    def share(self) -> float | None:
        if self.limit is None:
            return None
        return self.partitions / self.limit if self.limit else 1.0


def partition_fills(
    brokers: Mapping[int, BrokerSignal], limits: PartitionLimits, now_ms: int, age_s_max: float
) -> tuple[PartitionFill, ...]:
    """The cluster first, then brokers by id; nothing where none tells its count.

    Args:
        brokers: the newest signal of each, also those that have been silent for a while: they count for the cluster.
        age_s_max: older signals have no row of their own.
    """
    told = {b: s for b, s in sorted(brokers.items()) if s.partitions is not None}
    if not told:
        return ()
    oldest_ms = now_ms - round(age_s_max * 1000)
    whole = PartitionFill(None, sum(s.partitions or 0.0 for s in told.values()), limits.cluster_max)
    rows = (
        PartitionFill(b, s.partitions or 0.0, limit_or_none(limits.for_broker(b)))
        for b, s in told.items()
        if s.sampled_at_ms >= oldest_ms
    )
    return (whole, *rows)
