"""Reads the cordons of all brokers, and writes the cordons that plans order. In a dry run it only reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from streaming.shared.cordons import BrokerCordon
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.cordons import find_missing, read_cordons
from streaming.shared.kafka_names import CORDONED_LOG_DIRS
from tuner.control.cordon.decision import CordonWrite, SetCordon
from tuner.core.cluster import ClusterUnreadable
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure
from tuner.runtime.background_call import refusal_text

ReadCordons = Mapping[int, BrokerCordon | ClusterUnreadable]
CordonOutcomes = dict[int, Failure | None]

CONFIRM_S_MAX = 2.0
_CONFIRM_PAUSE_S = 0.02


class CordonActuator(Protocol):
    def read(self) -> ReadCordons:
        """Returns the cordons of all living brokers.

        Raises:
            ClusterError: the cluster does not answer.
        """

    def write(self, changes: Sequence[CordonWrite]) -> CordonOutcomes:
        """Changes the setting of each broker. Returns a Failure with the cause for each broker that was not changed, else None."""


class KafkaCordons:
    """The cordons of a real cluster."""

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
        self._ended = threading.Event()
        self._pause = threading.Event()  # Never set, only waited for.

    def end(self) -> None:
        """Stops all writes."""
        self._ended.set()

    def read(self) -> ReadCordons:
        answers = read_cordons(self._client, [endpoint.node for endpoint in self._client.brokers()])
        return {
            broker: ClusterUnreadable(str(answer)) if isinstance(answer, ClusterError) else answer
            for broker, answer in answers.items()
        }

    def write(self, changes: Sequence[CordonWrite]) -> CordonOutcomes:
        outcomes: CordonOutcomes = {}
        try:
            versions = self._client.broker_versions(change.broker for change in changes)
            current = read_cordons(self._client, [change.broker for change in changes])
            to_write: dict[int, CordonWrite] = {}
            for change in changes:
                cordon = current[change.broker]
                if isinstance(cordon, ClusterError):
                    outcomes[change.broker] = str(cordon)
                elif isinstance(change, SetCordon) and (why := find_missing(versions, [change.broker])) is not None:
                    outcomes[change.broker] = why
                elif cordon.entries != change.found:
                    outcomes[change.broker] = CHANGED_EXTERNALLY
                else:
                    to_write[change.broker] = change
            if to_write and (self._ended.is_set() or not self._is_leadership_proved()):
                refusal = f"not written: {refusal_text(ended=self._ended.is_set())}"
                return outcomes | dict.fromkeys(to_write, refusal)
            texts = {
                broker: {CORDONED_LOG_DIRS: None if change.entries is None else ",".join(change.entries)}
                for broker, change in to_write.items()
            }
            for broker, error in self._client.alter_broker_configs(texts).items():
                outcomes[broker] = None if error is None else str(error)
            written = {broker: change for broker, change in to_write.items() if outcomes[broker] is None}
            return outcomes | self._confirm(written)
        except ClusterError as error:
            # A change that was not sent keeps its own cause.
            return {change.broker: outcomes.get(change.broker) or str(error) for change in changes}

    def _confirm(self, written: Mapping[int, CordonWrite]) -> CordonOutcomes:
        """Waits until each broker shows the written entries; a broker usually does so within 40 ms."""
        if not written:
            return {}
        deadline_s = self._monotonic() + CONFIRM_S_MAX
        while True:
            current = read_cordons(self._client, written)
            differing = {
                broker: current[broker] for broker, change in written.items() if not _shows(current[broker], change)
            }
            if not differing or self._monotonic() >= deadline_s:
                return {
                    broker: f"{CORDONED_LOG_DIRS} was written, but the broker does not show it: {differing[broker]}"
                    if broker in differing
                    else None
                    for broker in written
                }
            self._pause.wait(_CONFIRM_PAUSE_S)


class DryRunCordons:
    """Reads from Kafka, writes nothing, and reports success."""

    def __init__(self, real: CordonActuator) -> None:
        self._real = real

    def read(self) -> ReadCordons:
        return self._real.read()

    def write(self, changes: Sequence[CordonWrite]) -> CordonOutcomes:
        return {change.broker: None for change in changes}


def _shows(cordon: BrokerCordon | ClusterError, change: CordonWrite) -> bool:
    """Returns whether the broker shows the change. After a removal, the broker shows its file's value or a default."""
    if isinstance(cordon, ClusterError):
        return False
    return {*cordon.entries} == {*change.entries} if change.entries is not None else cordon.entries != change.found
