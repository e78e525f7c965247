"""Reads and writes the controller mutation quotas in Kafka. In a dry run it only reads.

A broker shows a change some time after the controller has accepted it, so the caller confirms a write with a later read. Kafka
stores a quota as a double and returns it exactly, so the value read equals the value written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.quotas import QuotaClient
from tuner.core.outcome import Failure
from tuner.runtime.background_call import refusal_text

Rates = Mapping[QuotaEntity, float | None]  # Partitions/s; None removes the quota.
Outcome = dict[QuotaEntity, Failure | None]
# Each entity is one record in the controller's log. The controller accepts up to 10,000 records at once.
ENTITIES_PER_REQUEST = 500


class QuotaActuator(Protocol):
    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        """Returns all quotas in Kafka, in partitions/s, or the error."""

    def write(self, rates: Rates) -> Outcome:
        """Sets or removes quotas. Returns a Failure with the cause for each entity that Kafka refused, else None."""


class KafkaQuotaActuator:
    def __init__(self, client: QuotaClient, *, is_leadership_proved: Callable[[], bool] = lambda: True) -> None:
        """
        Args:
            is_leadership_proved: returns whether this tuner held the leadership a moment ago. It is called before each request,
                from any thread.
        """
        self._client = client
        self._is_leadership_proved = is_leadership_proved
        self._ended = threading.Event()

    def end(self) -> None:
        """Stops all writes, including the remaining requests of a write that runs in another thread."""
        self._ended.set()

    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        try:
            return self._client.mutation_quotas()
        except ClusterError as error:
            return error

    def write(self, rates: Rates) -> Outcome:
        outcome: Outcome = {}
        entities = list(rates)
        for first in range(0, len(entities), ENTITIES_PER_REQUEST):
            batch = {entity: rates[entity] for entity in entities[first : first + ENTITIES_PER_REQUEST]}
            if self._ended.is_set() or not self._is_leadership_proved():
                outcome |= dict.fromkeys(batch, f"not written: {refusal_text(ended=self._ended.is_set())}")
                continue
            try:
                answers = self._client.alter_mutation_quotas(batch)
            except ClusterError as error:
                outcome |= dict.fromkeys(batch, str(error))
                continue
            for entity in batch:
                error_of_entity = answers.get(entity, ClusterError("Kafka's answer leaves it out"))
                outcome[entity] = None if error_of_entity is None else str(error_of_entity)
        return outcome


class DryRunQuotaActuator:
    """Reads from Kafka, writes nothing, and reports success."""

    def __init__(self, real: QuotaActuator) -> None:
        self._real = real

    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        return self._real.read()

    def write(self, rates: Rates) -> Outcome:
        return dict.fromkeys(rates)
