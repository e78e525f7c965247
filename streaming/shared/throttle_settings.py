"""The throttle settings of KIP-73 by side: rates on brokers, and the lists of throttled replicas on topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from streaming.shared import kafka_names
from streaming.shared.contract import Side

RATE_KEYS = {Side.LEADER: kafka_names.LEADER_RATE, Side.FOLLOWER: kafka_names.FOLLOWER_RATE}
LIST_KEYS = {Side.LEADER: kafka_names.LEADER_REPLICAS, Side.FOLLOWER: kafka_names.FOLLOWER_REPLICAS}

Pair = tuple[int, int]  # (partition, broker)

# Longest value of one setting. Kafka refuses a change after which the setting is longer, and closes a connection that sends a
# longer value.
LIST_CHARS_MAX = 32_767

# The lists of a large cluster repeat the same few thousand ids hundreds of times; the cache keeps one int object for each.
_parse_id = cache(int)


def parse_pair(entry: str) -> Pair:
    """Returns the pair of one entry of a throttled-replica list. Kafka checked the syntax when it accepted the list.

    Raises:
        ValueError: the entry is not ``partition:broker``; the message quotes it.
    """
    partition, colon, broker = entry.strip().partition(":")
    if not colon or not partition.isdigit() or not broker.isdigit():
        raise ValueError(f"{entry!r} in a throttled replica list is neither '*' nor 'partition:broker'")
    return _parse_id(partition), _parse_id(broker)


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The value of ``leader|follower.replication.throttled.replicas`` on one topic."""

    all_replicas: bool = False  # The literal "*".
    pairs: frozenset[Pair] = frozenset()

    @classmethod
    def parse(cls, text: str | None, pair_of: Callable[[str], Pair] = parse_pair) -> ThrottledReplicas:
        """Returns the parsed setting.

        Args:
            pair_of: parses one entry. A caller that parses many lists passes ``cache(parse_pair)``, because the lists of different
                topics repeat the same pairs, and the cache keeps one object for each pair.

        Raises:
            ValueError: an entry is neither ``*`` nor ``partition:broker``; the message quotes it.
        """
        if not text or not text.strip():
            return cls()
        if text.strip() == kafka_names.ALL_REPLICAS:
            return cls(all_replicas=True)
        # Kafka accepts an empty entry, as in "0:1,".
        return cls(pairs=frozenset(pair_of(entry) for entry in text.split(",") if entry.strip()))

    def __bool__(self) -> bool:
        return self.all_replicas or bool(self.pairs)

    def includes(self, partition: int, broker: int) -> bool:
        return self.all_replicas or (partition, broker) in self.pairs

    def without(self, pairs: frozenset[Pair]) -> ThrottledReplicas:
        """Returns the list without these pairs; ``self`` if the list has none of these pairs. "*" stays "*"."""
        if self.pairs.isdisjoint(pairs):
            return self
        # Usually all pairs are removed; the subset test is cheaper than building the difference.
        return ThrottledReplicas(self.all_replicas, frozenset() if self.pairs <= pairs else self.pairs - pairs)

    def to_text(self) -> str:
        """Returns the setting's value as Kafka stores it."""
        return kafka_names.ALL_REPLICAS if self.all_replicas else replica_list_text(self.pairs)


@dataclass(frozen=True, slots=True)
class TopicThrottle:
    """The leader-side and follower-side lists of one topic."""

    leader: ThrottledReplicas = ThrottledReplicas()
    follower: ThrottledReplicas = ThrottledReplicas()

    def for_side(self, side: Side) -> ThrottledReplicas:
        return self.leader if side is Side.LEADER else self.follower

    def __bool__(self) -> bool:
        return bool(self.leader) or bool(self.follower)

    def without(self, other: TopicThrottle) -> TopicThrottle:
        """Returns the lists without the pairs of ``other``; ``self`` if they have no pair of ``other``."""
        leader, follower = self.leader.without(other.leader.pairs), self.follower.without(other.follower.pairs)
        return self if leader is self.leader and follower is self.follower else TopicThrottle(leader, follower)

    def plus(self, other: TopicThrottle) -> TopicThrottle:
        """Returns the union of the pairs; "*" is not kept."""
        return TopicThrottle(
            ThrottledReplicas(pairs=self.leader.pairs | other.leader.pairs),
            ThrottledReplicas(pairs=self.follower.pairs | other.follower.pairs),
        )

    @classmethod
    def from_configs(cls, configs: dict[str, str], pair_of: Callable[[str], Pair] = parse_pair) -> TopicThrottle:
        """Returns the lists of a topic's settings. For ``pair_of`` and errors, see ``ThrottledReplicas.parse``."""
        return cls(
            ThrottledReplicas.parse(configs.get(kafka_names.LEADER_REPLICAS), pair_of),
            ThrottledReplicas.parse(configs.get(kafka_names.FOLLOWER_REPLICAS), pair_of),
        )


def replica_list_text(pairs: Iterable[Pair]) -> str:
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(pairs))
