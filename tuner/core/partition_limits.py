"""How many partitions brokers and the cluster may have (KIP-578), and how many they have.

Intuition: every partition costs a broker files, memory and fetch requests, also one that nobody writes to. From some number
on a broker is so busy with them that not even their deletion gets through. The limits keep a cluster from going there; they
never take away what it has.

Vocabulary:
    partitions   replicas: what a broker hosts, the followers as much as the leaders. The KIP's broker "hosts 8 partitions",
                 and of the cluster it counts those "that exist across all brokers". Those of internal topics are no part of it.
    excess       what a broker or the cluster has above its limit: it goes on working, and gets no more.
    headroom     what may be added. Each limit is asked on its own, so the stricter one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

UNLIMITED = 2**63 - 1  # The KIP's default.
WARN_SHARE = 0.8


def limit_or_none(limit: int) -> int | None:
    """None: nobody set it; what is so large, also after something was taken off it, comes from the default."""
    return None if limit >= UNLIMITED // 2 else limit


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    broker_partitions_max: int = UNLIMITED  # max.broker.partitions.
    partitions_max: int = UNLIMITED  # max.partitions.
    by_broker: Mapping[int, int] = field(
        default_factory=dict
    )  # For brokers that are larger or smaller than the others.

    def __post_init__(self) -> None:
        assert min(self.broker_partitions_max, self.partitions_max, *self.by_broker.values()) >= 0

    def for_broker(self, broker: int) -> int:
        return self.by_broker.get(broker, self.broker_partitions_max)

    @property
    def cluster_max(self) -> int | None:
        """None where there is no such limit."""
        return limit_or_none(self.partitions_max)


@dataclass(frozen=True, slots=True)
class Preset:
    """Numbers that others have found; a broker of theirs is not one of yours."""

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
    """What there is, internal topics left out. Brokers that are dead count for the cluster: what they host comes back."""

    by_broker: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.by_broker.values())

    def on_broker(self, broker: int) -> int:
        return self.by_broker.get(broker, 0)

    def headroom(self, broker: int, limits: PartitionLimits) -> int:
        """Of this broker alone; the cluster's may be less."""
        return max(0, limits.for_broker(broker) - self.on_broker(broker))

    def cluster_headroom(self, limits: PartitionLimits) -> int:
        return max(0, limits.partitions_max - self.total)


def count_partitions(
    replicas: Iterable[tuple[tuple[str, int], Iterable[int]]], brokers: Iterable[int]
) -> PartitionCounts:
    """
    Args:
        replicas: of each (topic, partition), with those that are being added or removed: a broker hosts both.
        brokers: those that are alive, so that one that hosts nothing is counted too.
    """
    found = dict.fromkeys(brokers, 0)
    for (topic, _), hosts in replicas:
        if topic not in INTERNAL_TOPICS:
            for broker in hosts:
                found[broker] = found.get(broker, 0) + 1
    return PartitionCounts(found)


def brokers_above_limit(before: PartitionCounts, added: Mapping[int, int], limits: PartitionLimits) -> dict[int, int]:
    """Brokers that adding so many replicas (fewer than 0: they go) takes above their limit, with what they would have.

    An old excess that stays or shrinks is none of them. The cluster's limit isn't asked: the KIP lets a reassignment pass it
    ("any reassignment … should work fine"), whatever its copies come to meanwhile; a plan that ends with more than there were is
    held against it as a whole, before it begins.
    """
    after = {broker: before.on_broker(broker) + count for broker, count in added.items() if count > 0}
    return {broker: count for broker, count in after.items() if count > limits.for_broker(broker)}
