"""rheostat's own topics: created with the right settings when absent, checked when present."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streaming.shared.contract import Topics
from streaming.shared.kafka.clients import RECORD_BYTES_MAX
from streaming.shared.kafka.cluster import ClusterClient

_HOUR_MS = 3_600_000
_SEGMENT_BYTES = 64 * 1024 * 1024
_COMPACT_SOON = {
    "segment.ms": str(_HOUR_MS),
    "segment.bytes": str(_SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.2",
}
# What every decision stood on is much, and is asked about within days.
_A_WEEK_OR_A_GIB = {
    "retention.ms": str(7 * 24 * _HOUR_MS),
    "retention.bytes": str(1024**3),
    "segment.bytes": str(_SEGMENT_BYTES),  # What is deleted is deleted by whole segments.
}
# With as many, what a broker has acknowledged alone and lost again is not taken for written.
_REPLICAS_OF_TWO_IN_SYNC = 3
_DEFAULTS = {"cleanup.policy": "delete", "compression.type": "producer"}  # Kafka's own, where no broker has another.
# Settings without which what is written to a topic cannot be read back.
_READ_BACK = ("cleanup.policy", "compression.type")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    partitions: int
    configs: dict[str, str]
    essential: tuple[str, ...] = ()  # Settings without which rheostat goes wrong, not just slower.


def topic_specs(topics: Topics) -> list[TopicSpec]:
    # LogAppendTime: a broker's clock then tells the age of a record, whatever clock its sender has.
    # producer: a broker that has a compression of its own compresses anew, and rheostat in Python reads nothing but gzip.
    appended = {"message.timestamp.type": "LogAppendTime", "compression.type": "producer"}
    as_sent = ("compression.type",)
    # A record of a broker with thousands of moving partitions, or of all that was seen moving, outgrows Kafka's 1 MiB.
    large = {"max.message.bytes": str(RECORD_BYTES_MAX)}
    return [
        TopicSpec(
            topics.metrics,
            2,
            {**appended, **large, "retention.ms": str(6 * _HOUR_MS)},
            ("message.timestamp.type", *as_sent),
        ),
        TopicSpec(topics.signals, 1, {**appended, "retention.ms": str(24 * _HOUR_MS)}, as_sent),
        TopicSpec(topics.rejects, 1, {**appended, "retention.ms": str(7 * 24 * _HOUR_MS)}, as_sent),
        # Compacted: what it says of values that stand in the cluster must outlive any retention.
        # Small segments, because only closed ones are compacted, and the tuner reads all of it when it starts.
        TopicSpec(topics.journal, 1, {**appended, **large, "cleanup.policy": "compact", **_COMPACT_SOON}, _READ_BACK),
        # What people order, apart from what the tuner writes: so the right to pause is not the right to write the journal.
        TopicSpec(topics.orders, 1, {**appended, "cleanup.policy": "compact", **_COMPACT_SOON}, _READ_BACK),
        # One key for all of a cluster: compacted, the last record would be all that is left.
        TopicSpec(
            topics.inputs,
            1,
            {**appended, **large, "cleanup.policy": "delete", **_A_WEEK_OR_A_GIB},
            ("cleanup.policy", "message.timestamp.type", *as_sent),
        ),
    ]


def missing_topics(client: ClusterClient, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
    """Those of the topics that do not exist yet.

    Raises:
        ClusterError: not reachable, or a right is missing.
    """
    present = {state.topic for state in client.partitions([spec.name for spec in specs])}
    return [spec for spec in specs if spec.name not in present]


def create_topics(
    client: ClusterClient, topics: Topics, specs: Sequence[TopicSpec], *, validate_only: bool = False
) -> None:
    """Creates topics on three brokers, or on as many as there are.

    Args:
        validate_only: Kafka checks rights and values, and creates nothing.

    Raises:
        ClusterError: not reachable, or a right is missing.
    """
    factor = _replicas(client)
    for spec in specs:
        configs = spec.configs
        if spec.name == topics.journal and factor >= _REPLICAS_OF_TWO_IN_SYNC:
            configs = configs | {"min.insync.replicas": "2"}
        client.create_topic(spec.name, spec.partitions, factor, configs, validate_only=validate_only)


def ensure_topics(client: ClusterClient, topics: Topics, of: Collection[str] | None = None) -> list[str]:
    """Creates what is missing; returns complaints about what was there before and differs, each naming topic and setting.

    Args:
        of: the names of the topics that the caller uses; of the others it needs no rights. None: all of them.

    Raises:
        ClusterError: not reachable, or a right is missing.
    """
    specs = [spec for spec in topic_specs(topics) if of is None or spec.name in of]
    missing = missing_topics(client, specs)
    create_topics(client, topics, missing)
    return topic_complaints(client, topics, [spec for spec in specs if spec not in missing])


def topic_complaints(client: ClusterClient, topics: Topics, specs: Sequence[TopicSpec]) -> list[str]:
    """What differs on topics that are there from what rheostat needs, each naming topic, setting and the command.

    Raises:
        ClusterError: not reachable, or a right is missing.
    """
    states = client.partitions([spec.name for spec in specs])
    present = [spec for spec in specs if spec.name in {state.topic for state in states}]
    factor = _replicas(client)
    keys = sorted({key for spec in present for key in spec.essential})
    found = _found(client, present, keys)
    thin = [
        f"topic {s.topic} has its {len(s.replicas)} replica(s) on {', '.join(map(str, s.replicas))} only, and it is the one record "
        f"of what is rheostat's: kafka-reassign-partitions --execute with {factor} replicas"
        for s in states
        if s.topic == topics.journal and len(s.replicas) < factor
    ]
    return thin + _complaints(present, found)


def unreadable_topic_complaints(client: ClusterClient, topics: Topics) -> list[str]:
    """Returns complaints about the journal's and the orders' topic where what is written there could not be read back.

    Kafka would delete it (``cleanup.policy``), or compress it in a way that rheostat does not read (``compression.type``).

    Raises:
        ClusterError: not reachable, or a right is missing.
    """
    kept = [replace(s, essential=_READ_BACK) for s in topic_specs(topics) if s.name in (topics.journal, topics.orders)]
    return _complaints(kept, _found(client, kept, _READ_BACK))


def _found(client: ClusterClient, specs: Sequence[TopicSpec], keys: Iterable[str]) -> dict[str, dict[str, str]]:
    effective = client.effective_topic_configs([spec.name for spec in specs], keys)
    return {spec.name: {**_DEFAULTS, **effective.get(spec.name, {})} for spec in specs}


def _complaints(specs: Iterable[TopicSpec], found: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [
        f"topic {spec.name} has {key}={found[spec.name].get(key, 'the default')}, rheostat needs {spec.configs[key]}: "
        f"kafka-configs --alter --entity-type topics --entity-name {spec.name} --add-config {key}={spec.configs[key]}"
        for spec in specs
        for key in spec.essential
        if found[spec.name].get(key) != spec.configs[key]
    ]


def _replicas(client: ClusterClient) -> int:
    return min(3, len(client.brokers()))
