"""Observes the settings of the cluster several times a second during a whole test."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from streaming.shared import kafka_names
from streaming.shared.contract import Side
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from tuner.core.cluster import BrokerSide

_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Look:
    """One observation. ``rates`` has None where no rate is set, and no entry for a broker that does not answer."""

    at_s: float  # Monotonic, when the rates were asked for ...
    at_ms: int  # ... and the wall clock when they had come.
    rates: dict[BrokerSide, int | None]
    listed: frozenset[Side]  # Sides whose list stood on the topic both before and after.
    moving: bool


@dataclass
class Watcher:
    settings: KafkaSettings
    topic: str
    brokers: tuple[int, ...]
    looks: list[Look] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        with ClusterClient(self.settings.model_copy(update={"request_timeout_s": 2.0}), "faults-watcher") as client:
            while not self._stop.wait(_EVERY_S):
                try:
                    self.looks.append(self._look(client))
                except ClusterError:
                    continue

    def _look(self, client: ClusterClient) -> Look:
        before = self._lists(client)
        at_s = time.monotonic()
        moving = any(m.topic == self.topic for m in client.reassignments())
        rates = rates_of(client, self.brokers)
        at_ms = round(time.time() * 1000)
        return Look(at_s, at_ms, rates, before & self._lists(client), moving)

    def _lists(self, client: ClusterClient) -> frozenset[Side]:
        found = client.topic_configs([self.topic], LIST_KEYS.values()).get(self.topic, {})
        return frozenset(side for side, key in LIST_KEYS.items() if found.get(key))


def rates_of(client: ClusterClient, brokers: tuple[int, ...]) -> dict[BrokerSide, int | None]:
    """Returns the rates that are set on the brokers themselves."""
    rates: dict[BrokerSide, int | None] = {}
    for broker, configs in client.broker_configs(brokers, RATE_KEYS.values()).items():
        if isinstance(configs, ClusterError):
            continue
        for side, key in RATE_KEYS.items():
            setting = configs.get(key)
            own = setting is not None and setting.source == kafka_names.SOURCE_DYNAMIC_BROKER
            rates[broker, side] = int(setting.value) if setting is not None and own else None
    return rates
