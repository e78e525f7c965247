"""A cluster's throttle settings in a dict. The fake passes the same suite as the real port, so unit tests may rely on it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping

from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.throttle_settings import LIST_CHARS_MAX, ThrottledReplicas, TopicThrottle
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure


class FakeThrottles:
    """The settings are public, so that a test can act as another client; ``events`` lists the calls in order."""

    def __init__(
        self,
        brokers: Iterable[int] = (1, 2, 3),
        rates: Mapping[BrokerSide, int] | None = None,
        lists: Mapping[str, TopicThrottle] | None = None,
        *,
        events: list[tuple[object, ...]] | None = None,
    ) -> None:
        self.brokers = set(brokers)
        self.rates: dict[BrokerSide, int] = dict(rates or {})
        self.default_rates: dict[Side, int] = {}
        self.lists: dict[str, TopicThrottle] = dict(lists or {})  # Of every topic that there is.
        self.events: list[tuple[object, ...]] = [] if events is None else events
        self.refusing: dict[object, Failure] = {}  # Broker or topic → what Kafka says to every write there.
        self.forgetful: set[BrokerSide] = set()  # Takes a write and does not keep it.
        self._not_now: Callable[[], Failure | None] = lambda: None

    def guarded(self, write_refusal: Callable[[], Failure | None]) -> FakeThrottles:
        """Returns a port to the same cluster with this guard."""
        other = copy.copy(self)
        other._not_now = write_refusal
        return other

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        return {
            side: self.rates.get(side) if side[0] in self.brokers else ClusterError(f"broker {side[0]} does not answer")
            for side in sides
        }

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        # Kafka takes or refuses all changes of one broker together.
        refused = {broker: self._refusal(broker, rates) for broker, _ in rates}
        for side, value in rates.items():
            self.events.append(("write", side, value))
            if refused[side[0]] is not None or side in self.forgetful:
                continue
            if value is None:
                self.rates.pop(side, None)
            else:
                self.rates[side] = value
        return {side: refused[side[0]] for side in rates}

    def _refusal(self, broker: int, rates: Mapping[BrokerSide, int | None]) -> Failure | None:
        if broker not in self.brokers:
            return f"broker {broker} does not answer"
        if any(b == broker and value is not None and value < 0 for (b, _), value in rates.items()):
            return "Kafka refused to alter broker configs: Value must be at least 0"
        return self.refusing.get(broker)

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        stands = self.read_rates(rates)
        return {
            side: None if stands[side] == value else f"{value} was written, but the broker has {stands[side]}"
            for side, value in rates.items()
        }

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        self.events.append(("clear", topic, tuple(sides)))
        if topic in self.refusing:
            return self.refusing[topic]
        if topic not in self.lists:
            return f"Kafka refused to alter topic configs: topic {topic} is not there"
        now = self.lists[topic]
        if decided_on is not None and any(now.for_side(side) != decided_on.for_side(side) for side in sides):
            return CHANGED_EXTERNALLY
        self.lists[topic] = TopicThrottle(
            ThrottledReplicas() if Side.LEADER in sides else now.leader,
            ThrottledReplicas() if Side.FOLLOWER in sides else now.follower,
        )
        return None

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        return {topic: self._add(topic, asked) for topic, asked in pairs.items()}

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        return {topic: self._remove(topic, asked) for topic, asked in pairs.items()}

    def _add(self, topic: str, asked: TopicThrottle) -> Failure | None:
        if (not_now := self._not_now()) is not None:
            return not_now
        self.events.append(("add", topic, asked))
        if topic in self.refusing:
            return self.refusing[topic]
        if topic not in self.lists:
            return f"Kafka refused to alter topic configs: The topic '{topic}' does not exist."
        now = self.lists[topic]
        leader, follower = (
            stands if stands.all_replicas else ThrottledReplicas(pairs=stands.pairs | more.pairs)
            for stands, more in ((now.leader, asked.leader), (now.follower, asked.follower))
        )
        if len(leader.to_text()) > LIST_CHARS_MAX or len(follower.to_text()) > LIST_CHARS_MAX:
            return "Kafka refused to alter topic configs: it exceeds the maximum value size of 32767 bytes."
        self.lists[topic] = TopicThrottle(leader, follower)
        return None

    def _remove(self, topic: str, asked: TopicThrottle) -> Failure | None:
        if (not_now := self._not_now()) is not None:
            return not_now
        self.events.append(("remove", topic, asked))
        if topic in self.refusing:
            return self.refusing[topic]
        if topic in self.lists:
            self.lists[topic] = self.lists[topic].without(asked)
        return None
