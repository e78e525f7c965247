"""Reads the copies between log directories and their limits, and writes the limits. In a dry run it only reads.

Kafka answers which partitions a broker copies only together with all partitions of the broker. So each cycle asks the brokers that
are known to copy, and a few others in turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka_names import LOG_DIR_RATE, SOURCE_DYNAMIC_BROKER
from tuner.control.log_dir.decision import LogDirWrite
from tuner.control.log_dir.model import BrokerLogDirs
from tuner.core.cluster import ClusterUnreadable, RateSetting
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure
from tuner.runtime.background_call import refusal_text

# Brokers that are not known to copy: how many one cycle asks, and how long until the same broker is asked again.
SCANNED_MAX = 4
SCAN_AGAIN_S = 60.0
CONFIRM_S_MAX = 2.0
_CONFIRM_PAUSE_S = 0.02

ReadLogDirs = Mapping[int, BrokerLogDirs | ClusterUnreadable]
WriteOutcomes = dict[int, Failure | None]


class LogDirActuator(Protocol):
    def read(self, watched: Collection[int]) -> ReadLogDirs:
        """Returns the copies and the limits of these brokers, and of some others.

        Raises:
            ClusterError: the cluster does not answer.
        """

    def write(self, changes: Sequence[LogDirWrite]) -> WriteOutcomes:
        """Sets or removes the limits. Returns a Failure with the cause for each broker whose limit was not changed, else None."""


class KafkaLogDirs:
    """The log directories of a real cluster."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        is_leadership_proved: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            client: used by no other thread.
            is_leadership_proved: returns whether this tuner held the leadership a moment ago. Called before the request, from any
                thread.
        """
        self._client = client
        self._is_leadership_proved = is_leadership_proved
        self._monotonic = monotonic
        self._asked_at_s: dict[int, float] = {}
        self._ended = threading.Event()
        self._pause = threading.Event()

    def end(self) -> None:
        """Stops all writes."""
        self._ended.set()

    def read(self, watched: Collection[int]) -> ReadLogDirs:
        alive = {endpoint.node for endpoint in self._client.brokers()}
        brokers_to_ask = alive & {*watched, *self._next_scan(alive.difference(watched))}
        self._asked_at_s |= dict.fromkeys(brokers_to_ask, self._monotonic())
        copies = self._client.log_dir_copies(brokers_to_ask)
        with_limit = [broker for broker in brokers_to_ask if broker in watched or copies[broker]]
        configs = self._client.broker_configs(with_limit, [LOG_DIR_RATE])
        results: dict[int, BrokerLogDirs | ClusterUnreadable] = {
            broker: ClusterUnreadable(f"broker {broker} is not alive") for broker in set(watched) - alive
        }
        for broker in brokers_to_ask:
            copied, settings = copies[broker], configs.get(broker, {})
            if isinstance(copied, ClusterError) or isinstance(settings, ClusterError):
                results[broker] = ClusterUnreadable(str(copied if isinstance(copied, ClusterError) else settings))
                continue
            config = settings.get(LOG_DIR_RATE)
            rate = None if config is None else RateSetting(int(config.value), config.source == SOURCE_DYNAMIC_BROKER)
            results[broker] = BrokerLogDirs(copied, rate)
        return results

    def write(self, changes: Sequence[LogDirWrite]) -> WriteOutcomes:
        try:
            current = self._rates([change.broker for change in changes])
            outcomes: WriteOutcomes = {}
            rates: dict[int, int | None] = {}
            for change in changes:
                rate = current[change.broker]
                if isinstance(rate, ClusterError):
                    outcomes[change.broker] = str(rate)
                elif rate == change.value_bytes_per_s:
                    outcomes[change.broker] = None
                elif rate != change.found_bytes_per_s:
                    outcomes[change.broker] = CHANGED_EXTERNALLY
                else:
                    rates[change.broker] = change.value_bytes_per_s
            if rates and (self._ended.is_set() or not self._is_leadership_proved()):
                refusal = f"not written: {refusal_text(ended=self._ended.is_set())}"
                return outcomes | dict.fromkeys(rates, refusal)
            texts = {b: {LOG_DIR_RATE: None if rate is None else str(rate)} for b, rate in rates.items()}
            for broker, error in self._client.alter_broker_configs(texts).items():
                outcomes[broker] = None if error is None else str(error)
            written = {broker: rate for broker, rate in rates.items() if outcomes[broker] is None}
            return outcomes | self._confirm(written)
        except ClusterError as error:
            return {change.broker: str(error) for change in changes}

    def _next_scan(self, brokers: Collection[int]) -> list[int]:
        """Returns the further brokers to ask in this cycle: the brokers whose last answer is the oldest."""
        now_s = self._monotonic()
        since = {broker: now_s - self._asked_at_s.get(broker, float("-inf")) for broker in brokers}
        due = [broker for broker in sorted(since, key=since.__getitem__, reverse=True) if since[broker] >= SCAN_AGAIN_S]
        return due[:SCANNED_MAX]

    def _rates(self, brokers: Collection[int]) -> dict[int, int | ClusterError | None]:
        """Returns the limit that is set on each broker itself, in bytes/s; None if there is none."""
        rates: dict[int, int | ClusterError | None] = {}
        for broker, configs in self._client.broker_configs(brokers, [LOG_DIR_RATE]).items():
            if isinstance(configs, ClusterError):
                rates[broker] = configs
                continue
            config = configs.get(LOG_DIR_RATE)
            is_set = config is not None and config.source == SOURCE_DYNAMIC_BROKER
            rates[broker] = int(config.value) if config is not None and is_set else None
        return rates

    def _confirm(self, written: Mapping[int, int | None]) -> WriteOutcomes:
        """Waits until each broker shows the written limit; a broker usually does so within 40 ms."""
        deadline_s = self._monotonic() + CONFIRM_S_MAX
        while True:
            current = self._rates(written)
            differing = {broker: current[broker] for broker, rate in written.items() if current[broker] != rate}
            if not differing or self._monotonic() >= deadline_s:
                return {
                    broker: f"{rate} was written, but the broker has {differing[broker]}"
                    if broker in differing
                    else None
                    for broker, rate in written.items()
                }
            self._pause.wait(_CONFIRM_PAUSE_S)


class DryRunLogDirs:
    """Reads from Kafka, writes nothing, and reports success."""

    def __init__(self, real: LogDirActuator) -> None:
        self._real = real

    def read(self, watched: Collection[int]) -> ReadLogDirs:
        return self._real.read(watched)

    def write(self, changes: Sequence[LogDirWrite]) -> WriteOutcomes:
        return {change.broker: None for change in changes}
