"""rheostat's own topics: creates missing topics with the right settings, and checks the settings of existing topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streaming.shared.contract import Topics
from streaming.shared.kafka.clients import RECORD_BYTES_MAX
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import TopicCreation

_HOUR_MS = 3_600_000
_SEGMENT_BYTES = 64 * 1024 * 1024
_COMPACT_SOON = {
    "segment.ms": str(_HOUR_MS),
    "segment.bytes": str(_SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.2",
}
_HISTORY_DAYS = 35
# Decision inputs are large, and operators ask for them within days.
_KEEP_A_WEEK_OR_A_GIB = {
    "retention.ms": str(7 * 24 * _HOUR_MS),
    "retention.bytes": str(1024**3),
    "segment.bytes": str(_SEGMENT_BYTES),  # Kafka deletes whole segments.
}
# From this replication factor on, the journal has min.insync.replicas=2, because a write on only one broker could be lost with that
# broker.
_MIN_IN_SYNC_2_FROM_REPLICAS = 3
_DEFAULTS = {"cleanup.policy": "delete", "compression.type": "producer"}  # Kafka's defaults.
# Settings that decide whether records of a topic can be read back.
_READ_BACK = ("cleanup.policy", "compression.type")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    partitions: int
    configs: dict[str, str]
    essential: tuple[str, ...] = ()  # Settings that rheostat needs for correctness, not only for speed.


def topic_specs(topics: Topics) -> list[TopicSpec]:
    """Returns the settings of rheostat's topics."""
    # LogAppendTime: a record's age then depends on the broker's clock, and not on the sender's clock.
    # compression.type=producer: with another value, a broker may recompress records, and rheostat's Python code reads only gzip.
    common = {"message.timestamp.type": "LogAppendTime", "compression.type": "producer"}
    compression = ("compression.type",)
    # Records about thousands of moving partitions exceed Kafka's default of 1 MiB.
    large = {"max.message.bytes": str(RECORD_BYTES_MAX)}
    return [
        TopicSpec(
            topics.metrics,
            partitions=2,
            configs={**common, **large, "retention.ms": str(6 * _HOUR_MS)},
            essential=("message.timestamp.type", *compression),
        ),
        TopicSpec(
            topics.signals,
            partitions=1,
            configs={**common, "retention.ms": str(24 * _HOUR_MS)},
            essential=compression,
        ),
        TopicSpec(
            topics.rejects,
            partitions=1,
            configs={**common, "retention.ms": str(7 * 24 * _HOUR_MS)},
            essential=compression,
        ),
        # Compacted, because rheostat needs the records about its current settings in the cluster, however old the records are.
        # Small segments, because Kafka compacts closed segments only and the tuner reads the whole topic when it starts.
        TopicSpec(
            topics.journal,
            partitions=1,
            configs={**common, **large, "cleanup.policy": "compact", **_COMPACT_SOON},
            essential=_READ_BACK,
        ),
        # Operators' orders have their own topic, so that the right to pause does not include the right to write the journal.
        TopicSpec(
            topics.orders,
            partitions=1,
            configs={**common, "cleanup.policy": "compact", **_COMPACT_SOON},
            essential=_READ_BACK,
        ),
        # Deleted after five weeks; compacted, because a period is written again when late signals arrive.
        TopicSpec(
            topics.history,
            partitions=1,
            configs={
                **common,
                **large,
                "cleanup.policy": "compact,delete",
                "retention.ms": str(_HISTORY_DAYS * 24 * _HOUR_MS),
                "segment.ms": str(24 * _HOUR_MS),
                "segment.bytes": str(_SEGMENT_BYTES),
            },
            essential=_READ_BACK,
        ),
        TopicSpec(
            topics.profiles,
            partitions=1,
            configs={**common, **large, "cleanup.policy": "compact", **_COMPACT_SOON},
            essential=_READ_BACK,
        ),
        # Not compacted: all records of a cluster have the same key.
        TopicSpec(
            topics.inputs,
            partitions=1,
            configs={**common, **large, "cleanup.policy": "delete", **_KEEP_A_WEEK_OR_A_GIB},
            essential=("cleanup.policy", "message.timestamp.type", *compression),
        ),
    ]


def missing_topics(client: ClusterClient, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
    """Returns the topics that do not exist yet.

    Raises:
        ClusterError: the cluster is unreachable, or a right is missing.
    """
    present = {state.topic for state in client.partitions([spec.name for spec in specs])}
    return [spec for spec in specs if spec.name not in present]


def create_topics(
    client: ClusterClient, topics: Topics, specs: Sequence[TopicSpec], *, validate_only: bool = False
) -> None:
    """Creates topics with three replicas, or with one per broker if there are fewer than three brokers.

    Args:
        validate_only: Kafka checks rights and values and creates nothing.

    Raises:
        ClusterError: the cluster is unreachable, or a right is missing.
    """
    factor = _replication_factor(client)
    new = []
    for spec in specs:
        configs = spec.configs
        if spec.name == topics.journal and factor >= _MIN_IN_SYNC_2_FROM_REPLICAS:
            configs = configs | {"min.insync.replicas": "2"}
        new.append(TopicCreation(spec.name, spec.partitions, factor, configs))
    client.create_topics(new, validate_only=validate_only)


def ensure_topics(client: ClusterClient, topics: Topics, names: Collection[str] | None = None) -> list[str]:
    """Creates missing topics. Returns complaints about existing topics with wrong settings, each naming topic and setting.

    Args:
        names: the topics that the caller uses (None means all). The caller needs no rights on other topics.

    Raises:
        ClusterError: the cluster is unreachable, or a right is missing.
    """
    specs = [spec for spec in topic_specs(topics) if names is None or spec.name in names]
    missing = missing_topics(client, specs)
    create_topics(client, topics, missing)
    return topic_complaints(client, topics, [spec for spec in specs if spec not in missing])


def topic_complaints(client: ClusterClient, topics: Topics, specs: Sequence[TopicSpec]) -> list[str]:
    """Returns complaints about existing topics whose settings differ from what rheostat needs.

    Each complaint names the topic, the setting and the command that corrects the setting.

    Raises:
        ClusterError: the cluster is unreachable, or a right is missing.
    """
    states = client.partitions([spec.name for spec in specs])
    present = [spec for spec in specs if spec.name in {state.topic for state in states}]
    factor = _replication_factor(client)
    keys = sorted({key for spec in present for key in spec.essential})
    values = _current_configs(client, present, keys)
    under_replicated = [
        f"topic {s.topic} has its {len(s.replicas)} replica(s) on {', '.join(map(str, s.replicas))} only, and this topic is the "
        f"only record of rheostat's own settings in the cluster: give it {factor} replicas with kafka-reassign-partitions --execute"
        for s in states
        if s.topic == topics.journal and len(s.replicas) < factor
    ]
    return under_replicated + _complaints(present, values)


def unreadable_topic_complaints(client: ClusterClient, topics: Topics) -> list[str]:
    """Returns complaints about the journal and orders topics if records written there could not be read back.

    Kafka would delete the records (``cleanup.policy``) or compress them with a codec that rheostat does not read
    (``compression.type``).

    Raises:
        ClusterError: the cluster is unreachable, or a right is missing.
    """
    specs = [replace(s, essential=_READ_BACK) for s in topic_specs(topics) if s.name in (topics.journal, topics.orders)]
    return _complaints(specs, _current_configs(client, specs, _READ_BACK))


def _current_configs(
    client: ClusterClient, specs: Sequence[TopicSpec], keys: Iterable[str]
) -> dict[str, dict[str, str]]:
    effective = client.effective_topic_configs([spec.name for spec in specs], keys)
    return {spec.name: {**_DEFAULTS, **effective.get(spec.name, {})} for spec in specs}


def _complaints(specs: Iterable[TopicSpec], values: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [
        f"topic {spec.name} has {key}={values[spec.name].get(key, 'the default')}, rheostat needs {spec.configs[key]}: "
        f"kafka-configs --alter --entity-type topics --entity-name {spec.name} --add-config {key}={spec.configs[key]}"
        for spec in specs
        for key in spec.essential
        if values[spec.name].get(key) != spec.configs[key]
    ]


def _replication_factor(client: ClusterClient) -> int:
    return min(3, len(client.brokers()))
