"""Reads and writes replication throttles: broker rates and throttled-replica lists. In a dry run it only reads.

Kafka's controller accepts a change first, and brokers show it usually 10 to 40 ms later. So after each write, the value is read
back until the broker shows it.
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
# How many writes of one list may restart the deadline: the change itself, the removal of a list that became empty, and one more
# write after another tool has written the list.
_WRITES_AWAITED_MAX = 3
CONFIRM_PAUSE_S = 0.02
# Kafka may reject a change as invalid while a broker lags 10 to 40 ms behind. After this time the rejection is treated as a
# failure.
INVALID_S_MAX = 0.5
TOPICS_PER_REQUEST = 500


class Throttles(Protocol):
    """Port to the replication throttles of a cluster. A Failure is the reason of an error; None means success."""

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        """Returns the rate (bytes/s) that is set on each broker itself, not inherited; None if no rate is set there.

        Raises:
            ClusterError: the cluster does not answer.
        """

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Sets rates on brokers, or removes them (None)."""

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Waits until every side has the given rate. A Failure names the rate that the side has instead."""

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        """Removes throttled-replica lists of a topic.

        Args:
            decided_on: remove the lists only if they are still equal to these lists; None means to remove them in any case.
        """

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        """Adds replicas to the lists of each topic. A list with the value "*" already contains all replicas."""

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        """Removes replicas from the lists of each topic. A list that becomes empty is removed. A missing replica is no failure."""


@runtime_checkable
class GuardedThrottles(Throttles, Protocol):
    """Throttles where one call may send many requests, so that leadership has to be proved before each request."""

    def guarded(self, write_refusal: Callable[[], Failure | None]) -> Throttles:
        """Returns a port that calls ``write_refusal`` before each request that changes a list, and sends no refused request."""


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
            write_refusal: returns why lists must not be written now; None if writes are allowed. It is called before every request.
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
                is_set_on_broker = config is not None and config.source == kafka_names.SOURCE_DYNAMIC_BROKER
                rates[(broker, side)] = int(config.value) if config is not None and is_set_on_broker else None
        return rates

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        changes: dict[int, dict[str, str | None]] = {}
        for (broker, side), value in rates.items():
            changes.setdefault(broker, {})[RATE_KEYS[side]] = None if value is None else str(value)
        try:
            answers = self._client.alter_broker_configs(changes)
        except ClusterError as error:
            return dict.fromkeys(rates, str(error))
        errors = {(broker, side): answers[broker] for broker, side in rates}
        return {side: None if error is None else str(error) for side, error in errors.items()}

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        deadline_s = self._monotonic() + CONFIRM_S_MAX
        while True:
            try:
                current = self.read_rates(rates)
            except ClusterError as error:
                return dict.fromkeys(rates, f"written, but not read back: {error}")
            differing = {
                side: rate for side, rate in current.items() if isinstance(rate, ClusterError) or rate != rates[side]
            }
            if not differing or self._monotonic() >= deadline_s:
                return {
                    side: f"{rates[side]} was written, but the broker has {differing[side]}"
                    if side in differing
                    else None
                    for side in rates
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
            while remaining := self._client.topic_configs([topic], keys.values()).get(topic):
                if self._monotonic() >= deadline_s:
                    return f"removed, but topic {topic} still has {sorted(remaining)}"
                self._pause(CONFIRM_PAUSE_S)
        except (ClusterError, ValueError) as error:  # A list in an unknown format is left as it is.
            return str(error)
        return None

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        return self._edit(
            pairs, _to_append, lambda current, requested: current.all_replicas or current.pairs >= requested.pairs
        )

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        answers: dict[str, Failure | None] = {}
        for portion in _portions(pairs):
            try:
                existing = {state.topic for state in self._client.partitions(portion)}
            except ClusterError as error:
                answers |= dict.fromkeys(portion, str(error))
                continue
            answers |= dict.fromkeys(portion)  # A topic that was deleted has no lists, so its removal succeeds.
            answers |= self._edit(
                {topic: throttle for topic, throttle in portion.items() if topic in existing},
                _to_subtract,
                lambda current, requested: current.pairs.isdisjoint(requested.pairs),
            )
        return answers

    def _edit(
        self,
        pairs: Mapping[str, TopicThrottle],
        change: Callable[[str | None, ThrottledReplicas], Change],
        is_done: Callable[[ThrottledReplicas, ThrottledReplicas], bool],
    ) -> dict[str, Failure | None]:
        """Edits the lists of each topic.

        Args:
            change: returns the change of a list, from its current text and the requested replicas; None if the list stays as it is.
            is_done: returns whether a list is as requested, from its current and the requested replicas.
        """
        answers: dict[str, Failure | None] = {}
        for portion in _portions(pairs):
            try:
                answers |= self._edit_portion(portion, change, is_done)
            except (ClusterError, ValueError) as error:  # A list in an unknown format is left as it is.
                answers |= dict.fromkeys(portion, str(error))
        return answers

    def _edit_portion(
        self,
        pairs: Mapping[str, TopicThrottle],
        change: Callable[[str | None, ThrottledReplicas], Change],
        is_done: Callable[[ThrottledReplicas, ThrottledReplicas], bool],
    ) -> dict[str, Failure | None]:
        """Reads the current lists, writes only differences, and reads back until all lists are as requested and none is empty."""
        answers: dict[str, Failure | None] = dict.fromkeys(pairs)
        written: dict[str, dict[str, Change]] = {}
        # Changes that Kafka rejected as invalid, because the list in Kafka differs from the list that was read: another tool
        # has set it to "*", or the broker that answered lags behind. The list is read again. Only a rejection that persists is
        # a failure.
        called_invalid: dict[str, Failure] = {}
        based_on: dict[str, Mapping[str, str]] = {}  # The lists of a topic on which its last change was based.
        deadline_s, writes = float("inf"), 0
        while True:
            current = self._client.topic_configs(pairs, LIST_KEYS.values())
            unfinished = [
                t
                for t, requested in pairs.items()
                if answers[t] is None and not _all_done(current.get(t), requested, is_done)
            ]
            if not unfinished:
                return answers
            # The deadline starts only after the read, because the read itself may take longer than a broker needs to show a write.
            patience_s = INVALID_S_MAX if called_invalid.keys() >= set(unfinished) else CONFIRM_S_MAX
            deadline_s = min(deadline_s, self._monotonic() + patience_s)
            if self._monotonic() >= deadline_s:
                return answers | {t: called_invalid.get(t) or _not_shown_text(t, t in written) for t in unfinished}
            for topic in called_invalid.keys() & unfinished:
                if current.get(topic) != based_on.get(topic):
                    # The list has changed since the change was made, so the change may be written once more.
                    written.pop(topic, None)
            changes = {
                topic: new
                for topic in unfinished
                # Each change is written once. If it leaves an empty list, the removal of this list is a further change.
                if (new := _changes(current.get(topic), pairs[topic], change)) and written.get(topic) != new
            }
            # Reading the lists of many topics takes long, so leadership is checked again before the write.
            if changes and (write_refusal := self._write_refusal()) is not None:
                answers |= dict.fromkeys(changes, write_refusal)
                continue
            written |= changes
            based_on |= {topic: current.get(topic, {}) for topic in changes}
            for topic, refused in self._client.alter_topic_configs(changes).items():
                called_invalid.pop(topic, None)
                if isinstance(refused, InvalidConfig):
                    called_invalid[topic] = str(refused)
                else:
                    answers[topic] = None if refused is None else str(refused)
            if not changes:
                self._pause(CONFIRM_PAUSE_S)
            elif (writes := writes + 1) <= _WRITES_AWAITED_MAX:
                deadline_s = float("inf")  # The next read sets a new deadline.


def _not_shown_text(topic: str, written: bool) -> Failure:
    return (
        f"the lists were written, but topic {topic} does not show them"
        if written
        else f"topic {topic} does not show the requested lists, although the tuner has nothing more to write"
    )


def _portions(pairs: Mapping[str, TopicThrottle]) -> Iterator[dict[str, TopicThrottle]]:
    """Splits the topics into portions that Kafka's controller accepts in one request."""
    remaining = iter(pairs.items())
    while portion := dict(islice(remaining, TOPICS_PER_REQUEST)):
        yield portion


def _all_done(
    configs: Mapping[str, str] | None,
    requested: TopicThrottle,
    is_done: Callable[[ThrottledReplicas, ThrottledReplicas], bool],
) -> bool:
    """Returns whether both lists of a topic are as requested, and none that had to be edited is left empty."""
    texts = {side: (configs or {}).get(key) for side, key in LIST_KEYS.items()}
    return all(
        is_done(ThrottledReplicas.parse(text), requested.for_side(side))
        and (text != "" or not requested.for_side(side))
        for side, text in texts.items()
    )


def _changes(
    configs: Mapping[str, str] | None,
    requested: TopicThrottle,
    change: Callable[[str | None, ThrottledReplicas], Change],
) -> dict[str, Change]:
    """Returns the changes of a topic's lists, by key. The change None removes a list that is empty."""
    changes: dict[str, Change] = {}
    for side, key in LIST_KEYS.items():
        text = (configs or {}).get(key)
        if requested.for_side(side):
            new = change(text, requested.for_side(side))
            if new is not None or text == "":
                changes[key] = new
    return changes


def _to_append(text: str | None, requested: ThrottledReplicas) -> Change:
    current = ThrottledReplicas.parse(text)
    missing = requested.pairs - current.pairs
    return Append(replica_list_text(missing)) if missing and not current.all_replicas else None


def _to_subtract(text: str | None, requested: ThrottledReplicas) -> Change:
    listed = requested.pairs & ThrottledReplicas.parse(text).pairs
    return Subtract(replica_list_text(listed)) if listed else None


class DryRunThrottles:
    """Throttles of a dry run: reads the cluster, writes nothing, and reports each write as successful."""

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
