"""The throttle settings of a cluster, as a port with two ends: the cluster, and a dry run that writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from streaming import words
from streaming.contract import Side
from streaming.kafka.cluster import ClusterClient, ClusterError
from tuner.model.cluster import BrokerSide

RATE_KEYS = {Side.LEADER: words.LEADER_RATE, Side.FOLLOWER: words.FOLLOWER_RATE}
LIST_KEYS = {Side.LEADER: words.LEADER_REPLICAS, Side.FOLLOWER: words.FOLLOWER_REPLICAS}

Failure = str


class Throttles(Protocol):
    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        """What is set on the brokers themselves now; None where nothing is."""

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        """Sets, or removes (None), and reads back; a Failure says why a side is not as asked."""

    def clear_lists(self, topic: str, sides: Iterable[Side]) -> Failure | None:
        """Removes the topic's throttled-replica lists."""


class KafkaThrottles:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client

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
            stands = self.read_rates(rates)
        except ClusterError as error:
            return dict.fromkeys(rates, str(error))
        outcome: dict[BrokerSide, Failure | None] = {}
        for key, value in rates.items():
            refused, found = answers.get(key[0]), stands[key]
            if refused is not None:
                outcome[key] = str(refused)
            elif isinstance(found, ClusterError):
                outcome[key] = f"written, but not read back: {found}"
            else:
                outcome[key] = None if found == value else f"{value} was written, but {found} stands there"
        return outcome

    def clear_lists(self, topic: str, sides: Iterable[Side]) -> Failure | None:
        try:
            failed = self._client.alter_topic_configs({topic: {LIST_KEYS[side]: None for side in sides}})
            if failed.get(topic) is not None:
                return str(failed[topic])
            left = self._client.topic_configs([topic], [LIST_KEYS[side] for side in sides])
        except ClusterError as error:
            return str(error)
        return f"removed, but {sorted(left[topic])} still stand on topic {topic}" if left.get(topic) else None


class DryRunThrottles:
    """Reads the real thing, writes nothing, and reports success: what would have been done is in the journal."""

    def __init__(self, real: Throttles) -> None:
        self._real = real

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        return self._real.read_rates(sides)

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        return dict.fromkeys(rates)

    def clear_lists(self, topic: str, sides: Iterable[Side]) -> Failure | None:  # noqa: ARG002 - the port's shape
        return None
