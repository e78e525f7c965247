"""Compares the number of replicas that brokers report in their signals with the limits of KIP-578, for display and alerts.

A broker's signal also counts internal topics, which KIP-578 leaves out. The caller reads the replicas of internal topics from the
cluster, so that they can be subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streaming.shared.contract import BrokerSignal
from tuner.core.partition_limits import NO_INTERNAL, InternalPartitions, PartitionLimits, limit_or_none


@dataclass(frozen=True, slots=True)
class PartitionFill:
    """The number of partitions of one broker or of the cluster, and its limit."""

    broker: int | None  # None: the cluster.
    partitions: float
    limit: int | None  # None: no limit is set.

    @property
    def headroom(self) -> float | None:
        return None if self.limit is None else max(0.0, self.limit - self.partitions)

    @property
    def share(self) -> float | None:
        """Used share of the limit, where 1 is full; None without a limit."""
        if self.limit is None:
            return None
        return self.partitions / self.limit if self.limit else 1.0


def partition_fills(
    brokers: Mapping[int, BrokerSignal],
    limits: PartitionLimits,
    now_ms: int,
    age_s_max: float,
    internal: InternalPartitions = NO_INTERNAL,
) -> tuple[PartitionFill, ...]:
    """Returns the fill of the cluster, then of each broker by id; empty if no signal has a partition count.

    Args:
        brokers: the newest signal of each broker.
        age_s_max: a broker with an older signal has no fill of its own. It still counts for the cluster.
        internal: the partitions that are subtracted.
    """
    counted = {
        b: internal.subtract_replicas(b, s.partitions) for b, s in sorted(brokers.items()) if s.partitions is not None
    }
    if not counted:
        return ()
    oldest_ms = now_ms - round(age_s_max * 1000)
    cluster = PartitionFill(broker=None, partitions=sum(counted.values()), limit=limits.cluster_max)
    by_broker = (
        PartitionFill(broker=b, partitions=count, limit=limit_or_none(limits.for_broker(b)))
        for b, count in counted.items()
        if brokers[b].sampled_at_ms >= oldest_ms
    )
    return (cluster, *by_broker)
