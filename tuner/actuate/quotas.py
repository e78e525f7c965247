"""The controller's mutation quotas, as a port with two ends: the cluster, and a dry run that writes nothing.

A broker shows a change some time after the controller took it, so what was written is read back until it is there. Kafka keeps a
quota as a double and says it in full, so what is read is what was written, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from streaming.contract.quotas import QuotaEntity
from streaming.kafka.cluster import ClusterError
from streaming.kafka.quotas import QuotaClient
from tuner.actuate.fenced import Fence, refusal
from tuner.actuate.throttles import CONFIRM_PAUSE_S, CONFIRM_S_MAX, Failure

Rates = Mapping[QuotaEntity, float | None]  # Partitions/s; None: no quota under that name.
Outcome = dict[QuotaEntity, Failure | None]
# A request is one record an entity in the controller's log, and it takes ten thousand of them at once.
ENTITIES_PER_REQUEST = 500


class Quotas(Protocol):
    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        """All that stand now."""

    def write(self, rates: Rates) -> Outcome:
        """Sets, or removes (None); a Failure says why Kafka did not take it."""

    def confirm(self, rates: Rates) -> Outcome:
        """Reads back until every quota is as asked; a Failure says what stands there instead."""


class KafkaQuotas:
    def __init__(
        self,
        client: QuotaClient,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        self._pause = pause

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
            try:
                answers = self._client.alter_mutation_quotas(some)
            except ClusterError as error:
                outcome |= dict.fromkeys(some, str(error))
                continue
            for entity in some:
                refused = answers.get(entity, ClusterError("Kafka's answer leaves it out"))
                outcome[entity] = None if refused is None else str(refused)
        return outcome

    def confirm(self, rates: Rates) -> Outcome:
        deadline_s = self._monotonic() + CONFIRM_S_MAX
        while True:
            stands = self.read()
            if isinstance(stands, ClusterError):
                return dict.fromkeys(rates, f"written, but not read back: {stands}")
            wrong = {entity for entity, rate in rates.items() if stands.get(entity) != rate}
            if not wrong or self._monotonic() >= deadline_s:
                return {entity: _differs(rates[entity], stands.get(entity)) for entity in rates}
            self._pause(CONFIRM_PAUSE_S)


def _differs(written: float | None, found: float | None) -> Failure | None:
    return None if found == written else f"{_said(written)} was written, {_said(found)} stands there"


def _said(rate: float | None) -> str:
    return "nothing" if rate is None else f"{rate:g}/s"


class FencedQuotas:
    """As FencedThrottles: nothing is written unless the journal was ours a moment ago."""

    def __init__(self, real: Quotas, fence: Fence) -> None:
        self._real = real
        self._fence = fence

    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        return self._real.read()

    def write(self, rates: Rates) -> Outcome:
        refused = refusal(self._fence)
        return self._real.write(rates) if refused is None else dict.fromkeys(rates, refused)

    def confirm(self, rates: Rates) -> Outcome:
        return self._real.confirm(rates)


class DryRunQuotas:
    """Reads the real thing, writes nothing, and reports success."""

    def __init__(self, real: Quotas) -> None:
        self._real = real

    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        return self._real.read()

    def write(self, rates: Rates) -> Outcome:
        return dict.fromkeys(rates)

    def confirm(self, rates: Rates) -> Outcome:
        return dict.fromkeys(rates)
