"""Names copies of tiered partitions that cannot begin, because the cluster has brokers of two versions of Kafka. Does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streaming.shared import kafka_names
from streaming.shared.contract import TopicPartition
from streaming.shared.short_lists import join_names

_NAMED_MAX = 3


def blocked_copy_texts(
    blocked: Mapping[TopicPartition, frozenset[int]],
    added: Mapping[TopicPartition, Collection[int]],
    leaders: Mapping[TopicPartition, int],
) -> list[str]:
    """Returns a sentence for each leader from which a copy cannot begin.

    Args:
        blocked: the result of ``copies_that_cannot_begin``.
        added: by partition, the brokers that get a replica.
        leaders: the leader of each partition.
    """
    keys_by_leader: dict[int, list[TopicPartition]] = {}
    brokers_by_leader: dict[int, set[int]] = {}
    for key, brokers in sorted(blocked.items()):
        if waiting := brokers.intersection(added.get(key, ())):
            keys_by_leader.setdefault(leaders[key], []).append(key)
            brokers_by_leader.setdefault(leaders[key], set()).update(waiting)
    texts = []
    for leader, keys in keys_by_leader.items():
        partitions = join_names([f"{topic}-{number}" for topic, number in keys], _NAMED_MAX)
        followers = join_names(sorted(brokers_by_leader[leader]), _NAMED_MAX)
        texts.append(
            f"{partitions}: broker {followers} cannot begin to copy from broker {leader}, because {kafka_names.FETCH_LAST_TIERED} "
            f"needs Kafka 4.2 or newer on the leader: upgrade broker {leader}, or remove this setting from broker {followers}"
        )
    return texts
