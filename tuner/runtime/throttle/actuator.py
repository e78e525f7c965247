"""The throttle settings of a cluster, as a port with two ends: the cluster, and a dry run that writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol, runtime_checkable

from streaming.shared import kafka_names
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.values import Append, Change, InvalidConfig, Subtract
from streaming.shared.throttle_settings import (
    LIST_KEYS,
    RATE_KEYS,
    ThrottledReplicas,
    TopicThrottle,
    replica_list_text,
)
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import CHANGED_SINCE, Failure

CONFIRM_S_MAX = 2.0
# The change, and the empty list it leaves; somebody else may write in between, but not for ever.
_WRITES_WAITED_FOR = 3
CONFIRM_PAUSE_S = 0.02
DOUBT_S_MAX = 0.5  # A broker is 10 to 40 ms behind the controller.
TOPICS_PER_REQUEST = 500


class Throttles(Protocol):
    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        """What is set on the brokers themselves now; None where nothing is."""

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Sets, or removes (None); a Failure says why Kafka did not take it."""

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Reads back until every side is as asked; a Failure says what stands there instead."""

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        """Removes the topic's throttled-replica lists; where ``decided_on`` is given, only if that is what still stands there."""

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        """Puts the pairs on the lists of each topic, beside what stands there; a list that is "*" has them already."""

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        """Takes the pairs off, and a list that is empty then with them. What is not there, or whose topic is not, is no failure."""


@runtime_checkable
class GuardedThrottles(Throttles, Protocol):
    """One of which a call may make many requests; of another it is enough to ask before the call."""

    def guarded(self, refusal: Callable[[], Failure | None]) -> Throttles:
        """The same port, which asks before every request that changes a list, and does not make it where it is refused."""


class KafkaThrottles:
    def __init__(
        self,
        client: ClusterClient,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        refusal: Callable[[], Failure | None] = lambda: None,
    ) -> None:
        """
        Args:
            refusal: why lists may not be written now; None: they may. Asked before every request, as one call may make many.
        """
        self._client = client
        self._refusal = refusal
        self._monotonic = monotonic
        self._pause = pause

    def guarded(self, refusal: Callable[[], Failure | None]) -> KafkaThrottles:
        return KafkaThrottles(self._client, monotonic=self._monotonic, pause=self._pause, refusal=refusal)

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        wanted = list(sides)
        answers = self._client.broker_configs({broker for broker, _ in wanted}, RATE_KEYS.values())
        found: dict[BrokerSide, int | ClusterError | None] = {}
        for broker, side in wanted:
            configs = answers[broker]
            if isinstance(configs, ClusterError):
                found[(broker, side)] = configs
            else:
                config = configs.get(RATE_KEYS[side])
                own = config is not None and config.source == kafka_names.SOURCE_DYNAMIC_BROKER
                found[(broker, side)] = int(config.value) if config is not None and own else None
        return found

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        changes: dict[int, dict[str, str | None]] = {}
        for (broker, side), value in rates.items():
            changes.setdefault(broker, {})[RATE_KEYS[side]] = None if value is None else str(value)
        try:
            answers = self._client.alter_broker_configs(changes)
        except ClusterError as error:
            return dict.fromkeys(rates, str(error))
        return {key: None if (refused := answers[key[0]]) is None else str(refused) for key in rates}

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        # A broker shows a change some 10 to 40 ms after the controller took it: the first look may be too early.
        deadline_s = self._monotonic() + CONFIRM_S_MAX
        while True:
            try:
                stands = self.read_rates(rates)
            except ClusterError as error:
                return dict.fromkeys(rates, f"written, but not read back: {error}")
            wrong = {
                key: found for key, found in stands.items() if isinstance(found, ClusterError) or found != rates[key]
            }
            if not wrong or self._monotonic() >= deadline_s:
                return {
                    key: f"{rates[key]} was written, {wrong[key]} stands there" if key in wrong else None
                    for key in rates
                }
            self._pause(CONFIRM_PAUSE_S)

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        keys = {side: LIST_KEYS[side] for side in sides}
        try:
            if decided_on is not None:
                stands = self._client.topic_configs([topic], keys.values()).get(topic) or {}
                if any(
                    ThrottledReplicas.parse(stands.get(key)) != decided_on.for_side(side) for side, key in keys.items()
                ):
                    return CHANGED_SINCE
            deadline_s = self._monotonic() + CONFIRM_S_MAX
            refused = self._client.alter_topic_configs({topic: dict.fromkeys(keys.values())}).get(topic)
            if refused is not None:
                return str(refused)
            while left := self._client.topic_configs([topic], keys.values()).get(topic):
                if self._monotonic() >= deadline_s:
                    return f"removed, but {sorted(left)} still stand on topic {topic}"
                self._pause(CONFIRM_PAUSE_S)
        except (ClusterError, ValueError) as error:  # A list in a form that we do not know is left as it is.
            return str(error)
        return None

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        return self._edit(pairs, _to_append, lambda stands, asked: stands.all_replicas or stands.pairs >= asked.pairs)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        answers: dict[str, Failure | None] = {}
        for some in _portions(pairs):
            try:
                there = {state.topic for state in self._client.partitions(some)}
            except ClusterError as error:
                answers |= dict.fromkeys(some, str(error))
                continue
            answers |= dict.fromkeys(some)
            answers |= self._edit(
                {topic: throttle for topic, throttle in some.items() if topic in there},
                _to_subtract,
                lambda stands, asked: stands.pairs.isdisjoint(asked.pairs),
            )
        return answers

    def _edit(
        self,
        pairs: Mapping[str, TopicThrottle],
        change: Callable[[str | None, ThrottledReplicas], Change],
        done: Callable[[ThrottledReplicas, ThrottledReplicas], bool],
    ) -> dict[str, Failure | None]:
        answers: dict[str, Failure | None] = {}
        for some in _portions(pairs):
            try:
                answers |= self._edit_portion(some, change, done)
            except (ClusterError, ValueError) as error:  # A list in a form that we do not know is left as it is.
                answers |= dict.fromkeys(some, str(error))
        return answers

    def _edit_portion(
        self,
        pairs: Mapping[str, TopicThrottle],
        change: Callable[[str | None, ThrottledReplicas], Change],
        done: Callable[[ThrottledReplicas, ThrottledReplicas], bool],
    ) -> dict[str, Failure | None]:
        """Reads what stands, writes only what differs, and reads back until it is so and no empty list is left behind."""
        answers: dict[str, Failure | None] = dict.fromkeys(pairs)
        written: dict[str, dict[str, Change]] = {}
        # Kafka found the list wrong with the change in it: what stands was another than was read (somebody made it "*",
        # or the broker asked was behind). It is looked at again, and only what does not come right by itself is a failure.
        doubted: dict[str, Failure] = {}
        read: dict[str, Mapping[str, str]] = {}  # On which a change was made.
        deadline_s, writes = float("inf"), 0
        while True:
            stands = self._client.topic_configs(pairs, LIST_KEYS.values())
            wrong = [
                t for t, asked in pairs.items() if answers[t] is None and not _all_done(stands.get(t), asked, done)
            ]
            if not wrong:
                return answers
            # To read takes as long as it takes; what is waited for is that a write shows.
            patience_s = DOUBT_S_MAX if doubted.keys() >= set(wrong) else CONFIRM_S_MAX
            deadline_s = min(deadline_s, self._monotonic() + patience_s)
            if self._monotonic() >= deadline_s:
                return answers | {t: doubted.get(t) or _not_shown(t, t in written) for t in wrong}
            for topic in doubted.keys() & wrong:
                if stands.get(topic) != read.get(topic):
                    written.pop(topic, None)  # On another list it is another change.
            changes = {
                topic: made
                for topic in wrong
                # Written once; an empty list that this leaves is another change, made when it shows.
                if (made := _changes(stands.get(topic), pairs[topic], change)) and written.get(topic) != made
            }
            # To read what stands may have taken long, of many topics above all.
            if changes and (refusal := self._refusal()) is not None:
                answers |= dict.fromkeys(changes, refusal)
                continue
            written |= changes
            read |= {topic: stands.get(topic, {}) for topic in changes}
            for topic, refused in self._client.alter_topic_configs(changes).items():
                doubted.pop(topic, None)
                if isinstance(refused, InvalidConfig):
                    doubted[topic] = str(refused)
                else:
                    answers[topic] = None if refused is None else str(refused)
            if not changes:
                self._pause(CONFIRM_PAUSE_S)
            elif (writes := writes + 1) <= _WRITES_WAITED_FOR:
                deadline_s = float("inf")


def _not_shown(topic: str, written: bool) -> Failure:
    return (
        f"written, but topic {topic} does not show it"
        if written
        else f"not as asked, and there is nothing to write to topic {topic}"
    )


def _portions(pairs: Mapping[str, TopicThrottle]) -> Iterator[dict[str, TopicThrottle]]:
    """As many topics as Kafka's controller takes in one request, and some to spare."""
    left = iter(pairs.items())
    while some := dict(islice(left, TOPICS_PER_REQUEST)):
        yield some


def _all_done(
    configs: Mapping[str, str] | None,
    asked: TopicThrottle,
    done: Callable[[ThrottledReplicas, ThrottledReplicas], bool],
) -> bool:
    texts = {side: (configs or {}).get(key) for side, key in LIST_KEYS.items()}
    return all(
        done(ThrottledReplicas.parse(text), asked.for_side(side)) and (text != "" or not asked.for_side(side))
        for side, text in texts.items()
    )


def _changes(
    configs: Mapping[str, str] | None,
    asked: TopicThrottle,
    change: Callable[[str | None, ThrottledReplicas], Change],
) -> dict[str, Change]:
    found: dict[str, Change] = {}
    for side, key in LIST_KEYS.items():
        text = (configs or {}).get(key)
        if asked.for_side(side):
            made = change(text, asked.for_side(side))
            if made is not None or text == "":
                found[key] = made
    return found


def _to_append(text: str | None, asked: ThrottledReplicas) -> Change:
    stands = ThrottledReplicas.parse(text)
    missing = asked.pairs - stands.pairs
    return Append(replica_list_text(missing)) if missing and not stands.all_replicas else None


def _to_subtract(text: str | None, asked: ThrottledReplicas) -> Change:
    listed = asked.pairs & ThrottledReplicas.parse(text).pairs
    return Subtract(replica_list_text(listed)) if listed else None


class DryRunThrottles:
    """Reads the real thing, writes nothing, and reports success: what would have been done is in the journal."""

    def __init__(self, real: Throttles) -> None:
        self._real = real

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        return self._real.read_rates(sides)

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        return dict.fromkeys(rates)

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        return dict.fromkeys(rates)

    def clear_lists(
        self,
        topic: str,  # noqa: ARG002 - the port's shape
        sides: Iterable[Side],  # noqa: ARG002 - the port's shape
        decided_on: TopicThrottle | None = None,  # noqa: ARG002 - the port's shape
    ) -> Failure | None:
        return None

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        return dict.fromkeys(pairs)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        return dict.fromkeys(pairs)
