"""Reads and writes replication throttles: broker rates and throttled-replica lists. A dry run reads and writes nothing.

Kafka's controller accepts a change before brokers show it, usually 10 to 40 ms later. So each write is read back for a while.
"""

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
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure

CONFIRM_S_MAX = 2.0
# The change itself, the removal of an emptied list, and one more in case another tool writes in between.
_WRITES_AWAITED_MAX = 3
CONFIRM_PAUSE_S = 0.02
DOUBT_S_MAX = 0.5  # How long Kafka may call a change invalid before that counts; brokers are 10 to 40 ms behind.
TOPICS_PER_REQUEST = 500


class Throttles(Protocol):
    """Port to the replication throttles of a cluster. A Failure is the reason of an error; None means success."""

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        """Returns the rate (bytes/s) that is set on each broker itself; None: none.

        Raises:
            ClusterError: the cluster does not answer.
        """

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Sets rates on brokers, or removes them (None)."""

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Waits until every side has the given rate. A Failure names the rate it has instead."""

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        """Removes throttled-replica lists of a topic.

        Args:
            decided_on: remove them only if they still are as here; None: in any case.
        """

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        """Adds replicas to the lists of each topic. A list that is "*" contains them already."""

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        """Removes replicas from the lists of each topic, and lists that are then empty. A missing replica is no failure."""


@runtime_checkable
class GuardedThrottles(Throttles, Protocol):
    """Throttles of which one call may send many requests, so that leadership has to be proved before each of them."""

    def guarded(self, write_refusal: Callable[[], Failure | None]) -> Throttles:
        """Returns a port that asks ``write_refusal`` before each request that changes a list, and does not send it if refused."""


class KafkaThrottles:
    """Throttles of a real cluster."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        write_refusal: Callable[[], Failure | None] = lambda: None,
    ) -> None:
        """
        Args:
            write_refusal: why lists may not be written now; None: they may. It is asked before every request.
        """
        self._client = client
        self._write_refusal = write_refusal
        self._monotonic = monotonic
        self._pause = pause

    def guarded(self, write_refusal: Callable[[], Failure | None]) -> KafkaThrottles:
        return KafkaThrottles(self._client, monotonic=self._monotonic, pause=self._pause, write_refusal=write_refusal)

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        requested = list(sides)
        answers = self._client.broker_configs({broker for broker, _ in requested}, RATE_KEYS.values())
        rates: dict[BrokerSide, int | ClusterError | None] = {}
        for broker, side in requested:
            configs = answers[broker]
            if isinstance(configs, ClusterError):
                rates[(broker, side)] = configs
            else:
                config = configs.get(RATE_KEYS[side])
                own = config is not None and config.source == kafka_names.SOURCE_DYNAMIC_BROKER
                rates[(broker, side)] = int(config.value) if config is not None and own else None
        return rates

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
        deadline_s = self._monotonic() + CONFIRM_S_MAX
        while True:
            try:
                current = self.read_rates(rates)
            except ClusterError as error:
                return dict.fromkeys(rates, f"written, but not read back: {error}")
            wrong = {key: rate for key, rate in current.items() if isinstance(rate, ClusterError) or rate != rates[key]}
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
                current = self._client.topic_configs([topic], keys.values()).get(topic) or {}
                if any(
                    ThrottledReplicas.parse(current.get(key)) != decided_on.for_side(side) for side, key in keys.items()
                ):
                    return CHANGED_EXTERNALLY
            deadline_s = self._monotonic() + CONFIRM_S_MAX
            refused = self._client.alter_topic_configs({topic: dict.fromkeys(keys.values())}).get(topic)
            if refused is not None:
                return str(refused)
            while left := self._client.topic_configs([topic], keys.values()).get(topic):
                if self._monotonic() >= deadline_s:
                    return f"removed, but {sorted(left)} still stand on topic {topic}"
                self._pause(CONFIRM_PAUSE_S)
        except (ClusterError, ValueError) as error:  # A list in an unknown format is left as it is.
            return str(error)
        return None

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        return self._edit(
            pairs, _to_append, lambda current, asked: current.all_replicas or current.pairs >= asked.pairs
        )

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
                lambda current, asked: current.pairs.isdisjoint(asked.pairs),
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
            except (ClusterError, ValueError) as error:  # A list in an unknown format is left as it is.
                answers |= dict.fromkeys(some, str(error))
        return answers

    def _edit_portion(
        self,
        pairs: Mapping[str, TopicThrottle],
        change: Callable[[str | None, ThrottledReplicas], Change],
        done: Callable[[ThrottledReplicas, ThrottledReplicas], bool],
    ) -> dict[str, Failure | None]:
        """Reads the current lists, writes only differences, and reads back until they are done and no empty list is left."""
        answers: dict[str, Failure | None] = dict.fromkeys(pairs)
        written: dict[str, dict[str, Change]] = {}
        # Changes that Kafka called invalid. The list has changed since it was read (another tool new it "*", or the broker
        # that was read is behind). It is read again, and only a list that stays invalid is a failure.
        doubted: dict[str, Failure] = {}
        read: dict[str, Mapping[str, str]] = {}  # The lists that each change was based on.
        deadline_s, writes = float("inf"), 0
        while True:
            current = self._client.topic_configs(pairs, LIST_KEYS.values())
            wrong = [
                t for t, asked in pairs.items() if answers[t] is None and not _all_done(current.get(t), asked, done)
            ]
            if not wrong:
                return answers
            # The deadline is for a write to be shown; reading itself may take longer.
            patience_s = DOUBT_S_MAX if doubted.keys() >= set(wrong) else CONFIRM_S_MAX
            deadline_s = min(deadline_s, self._monotonic() + patience_s)
            if self._monotonic() >= deadline_s:
                return answers | {t: doubted.get(t) or _not_shown(t, t in written) for t in wrong}
            for topic in doubted.keys() & wrong:
                if current.get(topic) != read.get(topic):
                    written.pop(topic, None)  # The list has changed, so the change is another one.
            changes = {
                topic: new
                for topic in wrong
                # Each change is written once. The removal of a list that it empties is another change, new once it is shown.
                if (new := _changes(current.get(topic), pairs[topic], change)) and written.get(topic) != new
            }
            # Reading the lists of many topics may have taken long, so leadership is checked again.
            if changes and (write_refusal := self._write_refusal()) is not None:
                answers |= dict.fromkeys(changes, write_refusal)
                continue
            written |= changes
            read |= {topic: current.get(topic, {}) for topic in changes}
            for topic, refused in self._client.alter_topic_configs(changes).items():
                doubted.pop(topic, None)
                if isinstance(refused, InvalidConfig):
                    doubted[topic] = str(refused)
                else:
                    answers[topic] = None if refused is None else str(refused)
            if not changes:
                self._pause(CONFIRM_PAUSE_S)
            elif (writes := writes + 1) <= _WRITES_AWAITED_MAX:
                deadline_s = float("inf")


def _not_shown(topic: str, written: bool) -> Failure:
    return (
        f"written, but topic {topic} does not show it"
        if written
        else f"not as asked, and there is nothing to write to topic {topic}"
    )


def _portions(pairs: Mapping[str, TopicThrottle]) -> Iterator[dict[str, TopicThrottle]]:
    """Splits the topics so that each request is within what Kafka's controller accepts."""
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
            new = change(text, asked.for_side(side))
            if new is not None or text == "":
                found[key] = new
    return found


def _to_append(text: str | None, asked: ThrottledReplicas) -> Change:
    current = ThrottledReplicas.parse(text)
    missing = asked.pairs - current.pairs
    return Append(replica_list_text(missing)) if missing and not current.all_replicas else None


def _to_subtract(text: str | None, asked: ThrottledReplicas) -> Change:
    listed = asked.pairs & ThrottledReplicas.parse(text).pairs
    return Subtract(replica_list_text(listed)) if listed else None


class DryRunThrottles:
    """Throttles of a dry run: reads the cluster, writes nothing, and reports success. The journal has the decisions."""

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
