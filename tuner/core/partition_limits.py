"""Defines the limits on the number of partitions of a broker and of the cluster (KIP-578), and counts the partitions.

Every partition costs a broker files, memory and fetch requests, even without writes. With too many partitions a broker is too busy
even to delete partitions. The limits prevent this state; they never remove existing partitions.

Vocabulary:
    partitions   replicas that a broker hosts, as leader or follower, without internal topics. As in the KIP, each replica of a
                 partition counts, also for the limit of the cluster.
    excess       partitions above a limit. They keep working, but the broker or the cluster gets no further partitions.
    headroom     partitions that may still be added below a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# The topics that Kafka itself creates. The KIP names the first two; Kafka 4 has added the third.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

UNLIMITED = 2**63 - 1  # The KIP's default, which means no limit.
WARN_SHARE = 0.8


def limit_or_none(limit: int) -> int | None:
    """Returns the limit, or None if no limit is set. Half of ``UNLIMITED`` or more counts as no limit."""
    return None if limit >= UNLIMITED // 2 else limit


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """The limits of KIP-578 for one cluster."""

    broker_partitions_max: int = UNLIMITED  # max.broker.partitions.
    partitions_max: int = UNLIMITED  # max.partitions.
    by_broker: Mapping[int, int] = field(default_factory=dict)  # Exceptions to broker_partitions_max.

    def __post_init__(self) -> None:
        assert min(self.broker_partitions_max, self.partitions_max, *self.by_broker.values()) >= 0

    def for_broker(self, broker: int) -> int:
        return self.by_broker.get(broker, self.broker_partitions_max)

    @property
    def cluster_max(self) -> int | None:
        """The limit of the cluster; None: no limit."""
        return limit_or_none(self.partitions_max)


@dataclass(frozen=True, slots=True)
class Preset:
    """Published recommendations for the limits. The right limits depend on the hardware of the brokers."""

    limits: PartitionLimits
    source: str


def _msk(broker_partitions_max: int) -> Preset:
    return Preset(PartitionLimits(broker_partitions_max), "Amazon MSK's recommendation for a broker of this size")


PRESETS: Mapping[str, Preset] = {
    "kafka": Preset(PartitionLimits(4000, 200_000), "the Kafka project's recommendation, which KIP-578 cites"),
    "msk.t3.small": _msk(300),
    "msk.large": _msk(1000),
    "msk.xlarge": _msk(1000),
    "msk.2xlarge": _msk(2000),
    "msk.4xlarge": _msk(4000),
    "msk.express": _msk(20_000),
}


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """Existing partitions without internal topics. Dead brokers count for the cluster, because their replicas come back."""

    by_broker: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.by_broker.values())

    def on_broker(self, broker: int) -> int:
        return self.by_broker.get(broker, 0)

    def headroom(self, broker: int, limits: PartitionLimits) -> int:
        """Returns the headroom of this broker alone; the headroom of the cluster may be smaller."""
        return max(0, limits.for_broker(broker) - self.on_broker(broker))

    def cluster_headroom(self, limits: PartitionLimits) -> int:
        return max(0, limits.partitions_max - self.total)


@dataclass(frozen=True, slots=True)
class InternalPartitions:
    """Existing partitions of internal topics, which Kafka's own metrics include and the limits do not.

    Attributes:
        partitions: partitions, each counted once.
        replicas: replicas by broker.
    """

    partitions: int = 0
    replicas: Mapping[int, int] = field(default_factory=dict)

    def subtract_replicas(self, broker: int, count: float) -> float:
        """Returns the number of replicas on a broker without internal topics."""
        return max(0.0, count - self.replicas.get(broker, 0))


NO_INTERNAL = InternalPartitions()


def count_internal(replicas: Iterable[tuple[tuple[str, int], Iterable[int]]]) -> InternalPartitions:
    """Returns the partitions of internal topics.

    Args:
        replicas: as for ``count_partitions``.
    """
    partitions, by_broker = 0, dict[int, int]()
    for (topic, _), hosts in replicas:
        if topic in INTERNAL_TOPICS:
            partitions += 1
            for broker in hosts:
                by_broker[broker] = by_broker.get(broker, 0) + 1
    return InternalPartitions(partitions, by_broker)


def count_partitions(
    replicas: Iterable[tuple[tuple[str, int], Iterable[int]]], brokers: Iterable[int]
) -> PartitionCounts:
    """Returns the number of partitions on each broker.

    Args:
        replicas: replicas of each (topic, partition), including replicas that are being added or removed.
        brokers: brokers that are alive. A broker without partitions is counted with 0.
    """
    counts = dict.fromkeys(brokers, 0)
    for (topic, _), hosts in replicas:
        if topic not in INTERNAL_TOPICS:
            for broker in hosts:
                counts[broker] = counts.get(broker, 0) + 1
    return PartitionCounts(counts)


def brokers_above_limit(before: PartitionCounts, added: Mapping[int, int], limits: PartitionLimits) -> dict[int, int]:
    """Returns the brokers that the change takes above their limit, with the count that they would have.

    A broker that gets no partitions is not returned, even if it is above its limit. The limit of the cluster is not checked here,
    because the KIP allows a reassignment to exceed it temporarily ("any reassignment … should work fine"). A plan that ends with
    more partitions than before is checked against the cluster's limit before it starts.

    Args:
        added: change of the number of partitions, by broker; negative: removed.
    """
    after = {broker: before.on_broker(broker) + count for broker, count in added.items() if count > 0}
    return {broker: count for broker, count in after.items() if count > limits.for_broker(broker)}
