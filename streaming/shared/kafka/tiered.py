"""Reads how much of tiered partitions (KIP-405) each follower has copied; see copied_bytes.py.

Kafka reports the sizes of the local logs. ``with_copied_bytes`` replaces the sizes of followers. With the new sizes, the
leader's size minus a follower's size equals the bytes that the follower still has to copy, as for other topics. Without tiered
topics, ``with_copied_bytes`` sends no request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from streaming.shared import kafka_names
from streaming.shared.contract import TopicPartition
from streaming.shared.copied_bytes import FollowerLog, LocalLog, awaits_remote_state, copied_bytes
from streaming.shared.kafka.values import ClusterError, ConfigValue, PartitionState

_TOPICS_PER_REQUEST = 200

_ByReplica = Mapping[int, Mapping[TopicPartition, int] | ClusterError]
_Replicas = dict[int, list[TopicPartition]]


class TieredClient(Protocol):
    """The calls of ``ClusterClient`` that this module needs."""

    def topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]: ...

    def broker_configs(
        self, brokers: Iterable[int], keys: Iterable[str]
    ) -> dict[int, dict[str, ConfigValue] | ClusterError]: ...

    def replica_end_offsets(self, replicas: Mapping[int, Iterable[TopicPartition]]) -> _ByReplica: ...

    def local_start_offsets(self, replicas: Mapping[int, Iterable[TopicPartition]]) -> _ByReplica: ...

    def pending_upload_offsets(self, led: Mapping[int, Iterable[TopicPartition]]) -> _ByReplica: ...


@dataclass(frozen=True, slots=True)
class CopiedSizes:
    """Log sizes by broker. For a follower of a tiered partition: the bytes that it has already, or does not have to copy.

    Attributes:
        waiting: by partition, the brokers whose replica has to read the state of the remote log before its first byte.
    """

    by_broker: _ByReplica
    waiting: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)


def tiered_topics(client: TieredClient, topics: Iterable[str]) -> frozenset[str]:
    """Returns the topics that use remote storage.

    Raises:
        MissingPermission: DescribeConfigs on Topic.
    """
    rest = iter(sorted(set(topics)))
    tiered: set[str] = set()
    while chunk := list(islice(rest, _TOPICS_PER_REQUEST)):
        configs = client.topic_configs(chunk, [kafka_names.REMOTE_STORAGE])
        tiered |= {topic for topic, values in configs.items() if is_tiered(values)}
    return frozenset(tiered)


def is_tiered(configs: Mapping[str, str]) -> bool:
    """Returns whether a topic with these settings uses remote storage."""
    return configs.get(kafka_names.REMOTE_STORAGE) == "true"


def with_copied_bytes(
    client: TieredClient, sizes: _ByReplica, states: Iterable[PartitionState], tiered: Collection[str]
) -> CopiedSizes:
    """Returns the sizes with the followers of tiered partitions adjusted.

    If a broker's offsets cannot be read, the error replaces its sizes, because the sizes are useless without the offsets. If
    only the offset of one partition is missing, the size of this partition stays.

    Args:
        sizes: log sizes by broker, as Kafka reports them.
        states: partitions; their ``replicas`` may include replicas that a plan will add.
        tiered: the topics that use remote storage.
    """
    tiered_states = {(s.topic, s.partition): s for s in states if s.topic in tiered and s.leader >= 0}
    if not tiered_states:
        return CopiedSizes(sizes)
    led: _Replicas = {}
    followed: _Replicas = {}
    for key, state in tiered_states.items():
        led.setdefault(state.leader, []).append(key)
        for broker in state.replicas:
            if broker != state.leader:
                followed.setdefault(broker, []).append(key)
    # The followers are read first, because a follower is never ahead of its leader.
    follower_ends = client.replica_end_offsets(followed)
    follower_starts = _answered(client.local_start_offsets(followed))
    starts, leader_ends = client.local_start_offsets(led), client.replica_end_offsets(led)
    ends, logs = _answered(follower_ends), _local_logs(sizes, led, starts, leader_ends)
    logs_for_empty = _with_pending_uploads(client, logs, tiered_states, ends)
    adjusted = {b: answer if isinstance(answer, ClusterError) else dict(answer) for b, answer in sizes.items()}
    for offsets in (follower_ends, starts, leader_ends):
        adjusted |= {b: answer for b, answer in offsets.items() if isinstance(answer, ClusterError) and b in sizes}
    waiting: dict[TopicPartition, frozenset[int]] = {}
    for broker, keys in followed.items():
        own = adjusted.get(broker)
        if own is None or isinstance(own, ClusterError):
            continue
        for key in keys:
            log, end = logs.get(key), ends.get(broker, {}).get(key)
            # A replica with a log but without an offset is on a failed disk, or its broker is starting.
            if log is None or (end is None and own.get(key, 0) > 0):
                continue
            if end is not None and awaits_remote_state(log, end, own.get(key, 0)):
                waiting[key] = waiting.get(key, frozenset()) | {broker}
            follower = FollowerLog(own.get(key, 0), follower_starts.get(broker, {}).get(key), end)
            own[key] = copied_bytes(log if end else logs_for_empty.get(key, log), follower)
    return CopiedSizes(adjusted, waiting)


def new_replica_bytes(
    client: TieredClient, sizes: Mapping[TopicPartition, int], leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns the bytes that a new replica of each partition copies: the leader's size, or less with KIP-1023.

    Args:
        sizes: size of each partition's log on its leader.
        leaders: leader of each partition. The setting of KIP-1023 is read on the leaders, because all brokers should have the same.

    Raises:
        MissingPermission: DescribeConfigs on Topic.
    """
    tiered = tiered_topics(client, {topic for topic, _ in sizes})
    led: _Replicas = {}
    for key in sizes:
        if key[0] in tiered and leaders[key] >= 0:
            led.setdefault(leaders[key], []).append(key)
    if not led:
        return dict(sizes)
    by_broker = {broker: {key: sizes[key] for key in keys} for broker, keys in led.items()}
    logs = _local_logs(by_broker, led, client.local_start_offsets(led), client.replica_end_offsets(led))
    skipping = _skipping(client, led)
    logs |= _pending_uploads(client, logs, {broker: keys for broker, keys in led.items() if broker in skipping})
    return dict(sizes) | {key: log.size_bytes - copied_bytes(log, FollowerLog()) for key, log in logs.items()}


def copies_that_cannot_begin(
    client: TieredClient, brokers: Iterable[int], leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, frozenset[int]]:
    """Returns the brokers on which a new replica cannot begin to copy, by partition.

    A broker with KIP-1023 asks the leader for the first offset that is not uploaded yet. A leader before Kafka 4.2 does not know
    this request, so the broker repeats the request without end. If no part of the log is only in the remote storage, the broker
    does not ask.

    Args:
        brokers: brokers that may get replicas.
        leaders: leader of each partition; only partitions of tiered topics.
    """
    skipping = frozenset(_skipping(client, brokers)) if leaders else frozenset()
    led: _Replicas = {}
    for key, leader in leaders.items():
        if skipping and leader >= 0:
            led.setdefault(leader, []).append(key)
    answers = client.pending_upload_offsets(led) if led else {}
    refusing = {leader: led[leader] for leader, answer in answers.items() if isinstance(answer, ClusterError)}
    starts = _known(client.local_start_offsets(refusing)) if refusing else {}
    return {key: skipping for keys in refusing.values() for key in keys if starts.get(key, 0) > 0}


def _local_logs(
    sizes: _ByReplica, led: _Replicas, start_answers: _ByReplica, end_answers: _ByReplica
) -> dict[TopicPartition, LocalLog]:
    """Returns the local logs of the leaders that answer."""
    starts, ends, own = _known(start_answers), _known(end_answers), _answered(sizes)
    return {
        key: LocalLog(own[broker][key], starts[key], ends[key])
        for broker, keys in led.items()
        for key in keys
        if key in own.get(broker, {}) and key in starts and key in ends
    }


def _with_pending_uploads(
    client: TieredClient,
    logs: Mapping[TopicPartition, LocalLog],
    states: Mapping[TopicPartition, PartitionState],
    ends: Mapping[int, Mapping[TopicPartition, int]],
) -> dict[TopicPartition, LocalLog]:
    """Returns the logs that empty followers copy from the first offset that is not in the remote storage yet (KIP-1023).

    Args:
        ends: log end offsets of the followers, by broker.
    """
    empty: dict[TopicPartition, set[int]] = {}
    for key, log in logs.items():
        followers = set(states[key].replicas) - {states[key].leader}
        brokers = {b for b in followers if b in ends and not ends[b].get(key)}
        if brokers and log.start > 0:
            empty[key] = brokers
    if not empty:
        return {}
    skipping = _skipping(client, {broker for brokers in empty.values() for broker in brokers})
    led: _Replicas = {}
    for key, brokers in empty.items():
        if brokers <= skipping:
            led.setdefault(states[key].leader, []).append(key)
    return _pending_uploads(client, logs, led)


def _pending_uploads(
    client: TieredClient, logs: Mapping[TopicPartition, LocalLog], led: _Replicas
) -> dict[TopicPartition, LocalLog]:
    """Returns the logs of ``led`` with their first offset that is not in the remote storage yet, where the leader knows it."""
    offsets = _known(client.pending_upload_offsets(led)) if led else {}
    return {key: replace(logs[key], pending_upload=offset) for key, offset in offsets.items() if key in logs}


def _skipping(client: TieredClient, brokers: Iterable[int]) -> set[int]:
    """Returns the brokers whose new replicas skip the part of the log that is in the remote storage."""
    return {
        broker
        for broker, configs in client.broker_configs(brokers, [kafka_names.FETCH_LAST_TIERED]).items()
        if not isinstance(configs, ClusterError)
        and (setting := configs.get(kafka_names.FETCH_LAST_TIERED)) is not None
        and setting.value == "true"
    }


def _answered(answers: _ByReplica) -> dict[int, Mapping[TopicPartition, int]]:
    """Returns the offsets of the brokers that answered, by broker."""
    return {broker: answer for broker, answer in answers.items() if not isinstance(answer, ClusterError)}


def _known(answers: _ByReplica) -> dict[TopicPartition, int]:
    """Returns the offsets of all brokers that answered. Each partition has one leader."""
    return {key: offset for answer in _answered(answers).values() for key, offset in answer.items()}
