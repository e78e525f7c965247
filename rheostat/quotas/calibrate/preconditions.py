"""Checks that a cluster is quiet and free enough for a calibration. Pure, except for the reading of the cluster by the caller."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rheostat.plan.cluster_layout import ClusterLayout
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.units import count_text
from tuner.control.mutation_quota.default_quota import UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import resolve_quota
from tuner.core.partition_limits import PartitionCounts, PartitionLimits

# Kafka's own placement is not exactly even, so a broker may get a little more than the mean.
_EVEN_RATIO = 0.8
ANONYMOUS = "ANONYMOUS"  # Kafka's user of a client without a login.


def unrest_text(layout: ClusterLayout) -> str | None:
    """Returns why the cluster is not quiet, as text; None if the cluster is quiet."""
    states = layout.partitions.values()
    moving = sum(bool(state.adding or state.removing) for state in states)
    if moving:
        return f"{_partitions(moving, 'is', 'are')} being reassigned"
    leaderless = sum(state.leader < 0 for state in states)
    if leaderless:
        return f"{_partitions(leaderless, 'has', 'have')} no leader"
    behind = sum(len(state.isr) < len(state.replicas) for state in states)
    return f"{_partitions(behind, 'is', 'are')} under-replicated" if behind else None


def _partitions(count: int, singular: str, plural: str) -> str:
    return f"{count_text(count, 'partition')} {singular if count == 1 else plural}"


def quota_in_force(
    quotas: Mapping[QuotaEntity, float], kafka: KafkaSettings, client_id: str
) -> tuple[QuotaEntity, float] | None:
    """Returns the quota that would limit the calibration; None if no quota does."""
    quota = resolve_quota(quotas, kafka.sasl_username or ANONYMOUS, client_id)
    if quota is None or quota[2] >= UNLIMITED_PER_S:
        return None
    return quota[0], quota[2]


def partitions_within_limits(
    counts: PartitionCounts, limits: PartitionLimits, brokers: int, replication_factor: int
) -> int:
    """Returns how many further partitions the limits allow, if they are placed evenly; at most 10 million."""
    by_broker = min((counts.headroom(broker, limits) for broker in counts.by_broker), default=0)
    even = _EVEN_RATIO * by_broker * brokers / replication_factor
    return math.floor(min(even, counts.cluster_headroom(limits) / replication_factor, 1e7))
