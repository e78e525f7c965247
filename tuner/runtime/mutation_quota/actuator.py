"""The controller's mutation quotas, as a port with two ends: the cluster, and a dry run that writes nothing.

A broker shows a change some time after the controller took it, so whoever writes looks again later. Kafka keeps a quota as a
double and says it in full, so what is read is what was written, bit for bit.
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

Rates = Mapping[QuotaEntity, float | None]  # Partitions/s; None: no quota under that name.
Outcome = dict[QuotaEntity, Failure | None]
# A request is one record an entity in the controller's log, and it takes ten thousand of them at once.
ENTITIES_PER_REQUEST = 500


class QuotaActuator(Protocol):
    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        """All that stand now."""

    def write(self, rates: Rates) -> Outcome:
        """Sets, or removes (None); a Failure says why Kafka did not take it."""


class KafkaQuotaActuator:
    def __init__(self, client: QuotaClient, *, proved: Callable[[], bool] = lambda: True) -> None:
        """
        Args:
            proved: whether it was certain a moment ago that this tuner may; asked before each request, from any thread.
        """
        self._client = client
        self._proved = proved
        self._ended = threading.Event()

    def end(self) -> None:
        """From now on nothing is written, also of a write that is under way in another thread."""
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
            some = {entity: rates[entity] for entity in entities[first : first + ENTITIES_PER_REQUEST]}
            if self._ended.is_set() or not self._proved():
                outcome |= dict.fromkeys(some, f"not written: {refusal_text(ended=self._ended.is_set())}")
                continue
            try:
                answers = self._client.alter_mutation_quotas(some)
            except ClusterError as error:
                outcome |= dict.fromkeys(some, str(error))
                continue
            for entity in some:
                refused = answers.get(entity, ClusterError("Kafka's answer leaves it out"))
                outcome[entity] = None if refused is None else str(refused)
        return outcome


class DryRunQuotaActuator:
    """Reads the real thing, writes nothing, and reports success."""

    def __init__(self, real: QuotaActuator) -> None:
        self._real = real

    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        return self._real.read()

    def write(self, rates: Rates) -> Outcome:
        return dict.fromkeys(rates)
