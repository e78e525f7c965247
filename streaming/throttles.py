"""The settings of KIP-73 by side: rates of brokers, and the lists that say which replicas of a topic they count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from streaming import words
from streaming.contract import Side

RATE_KEYS = {Side.LEADER: words.LEADER_RATE, Side.FOLLOWER: words.FOLLOWER_RATE}
LIST_KEYS = {Side.LEADER: words.LEADER_REPLICAS, Side.FOLLOWER: words.FOLLOWER_REPLICAS}

# The same few thousand ids stand in the lists of a large cluster hundreds of times each: one object for each of them.
_number = cache(int)


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The value of ``leader|follower.replication.throttled.replicas`` on one topic."""

    every: bool = False  # The literal "*".
    pairs: frozenset[tuple[int, int]] = frozenset()  # (partition, broker)

    @classmethod
    def parse(cls, text: str | None) -> ThrottledReplicas:
        """Kafka has checked the form when it took the value; what does not parse here is a form we do not know.

        Raises:
            ValueError: with the entry that is neither ``*`` nor ``partition:broker``.
        """
        if not text or not text.strip():
            return cls()
        if text.strip() == words.ALL_REPLICAS:
            return cls(every=True)
        pairs = set()
        for entry in text.split(","):
            partition, colon, broker = entry.strip().partition(":")
            if not colon or not partition.isdigit() or not broker.isdigit():
                raise ValueError(f"{entry!r} in a throttled replica list is neither '*' nor 'partition:broker'")
            pairs.add((_number(partition), _number(broker)))
        return cls(pairs=frozenset(pairs))

    def __bool__(self) -> bool:
        return self.every or bool(self.pairs)

    def lists(self, partition: int, broker: int) -> bool:
        return self.every or (partition, broker) in self.pairs


@dataclass(frozen=True, slots=True)
class TopicThrottle:
    """Both lists of one topic."""

    leader: ThrottledReplicas = ThrottledReplicas()
    follower: ThrottledReplicas = ThrottledReplicas()

    @classmethod
    def from_configs(cls, configs: dict[str, str]) -> TopicThrottle:
        return cls(
            ThrottledReplicas.parse(configs.get(words.LEADER_REPLICAS)),
            ThrottledReplicas.parse(configs.get(words.FOLLOWER_REPLICAS)),
        )
