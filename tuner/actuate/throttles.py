"""The throttle settings of a cluster, as a port with two ends: the cluster, and a dry run that writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from streaming import words
from streaming.contract import Side
from streaming.kafka.cluster import ClusterClient, ClusterError
from streaming.throttles import LIST_KEYS, RATE_KEYS
from tuner.model.cluster import BrokerSide

CONFIRM_S_MAX = 2.0
CONFIRM_PAUSE_S = 0.02

Failure = str


class Throttles(Protocol):
    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        """What is set on the brokers themselves now; None where nothing is."""

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Sets, or removes (None); a Failure says why Kafka did not take it."""

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Reads back until every side is as asked; a Failure says what stands there instead."""

    def clear_lists(self, topic: str, sides: Iterable[Side]) -> Failure | None:
        """Removes the topic's throttled-replica lists."""


class KafkaThrottles:
    def __init__(
        self,
        client: ClusterClient,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        self._pause = pause

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
                own = config is not None and config.source == words.SOURCE_DYNAMIC_BROKER
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

    def clear_lists(self, topic: str, sides: Iterable[Side]) -> Failure | None:
        keys = [LIST_KEYS[side] for side in sides]
        deadline_s = self._monotonic() + CONFIRM_S_MAX
        try:
            refused = self._client.alter_topic_configs({topic: dict.fromkeys(keys)}).get(topic)
            if refused is not None:
                return str(refused)
            while left := self._client.topic_configs([topic], keys).get(topic):
                if self._monotonic() >= deadline_s:
                    return f"removed, but {sorted(left)} still stand on topic {topic}"
                self._pause(CONFIRM_PAUSE_S)
        except ClusterError as error:
            return str(error)
        return None


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

    def clear_lists(self, topic: str, sides: Iterable[Side]) -> Failure | None:  # noqa: ARG002 - the port's shape
        return None
