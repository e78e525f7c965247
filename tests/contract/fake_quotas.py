"""A cluster's mutation quotas in a dict. The fake passes the same suite as the real port, so unit tests may rely on it."""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka.cluster import ClusterError
from tuner.runtime.mutation_quota.actuator import Outcome, Rates

REFUSED = "Kafka refused to alter client quotas: error 42 InvalidRequestError Quota controller_mutation_rate must be greater than 0"


class FakeQuotas:
    """The quotas are public, so that a test can act as another client."""

    def __init__(self, rates: Mapping[QuotaEntity, float] | None = None) -> None:
        self.rates: dict[QuotaEntity, float] = dict(rates or {})
        self.away = False  # The cluster answers nothing.
        self.forgetful: set[QuotaEntity] = set()  # Takes a write and does not keep it.

    def read(self) -> dict[QuotaEntity, float] | ClusterError:
        return ClusterError("the cluster does not answer") if self.away else dict(self.rates)

    def write(self, rates: Rates) -> Outcome:
        if self.away:
            return dict.fromkeys(rates, "the cluster does not answer")
        outcome: Outcome = {}
        for entity, rate in rates.items():
            outcome[entity] = REFUSED if rate is not None and rate <= 0 else None
            if outcome[entity] is not None or entity in self.forgetful:
                continue
            if rate is None:
                self.rates.pop(entity, None)
            else:
                self.rates[entity] = rate
        return outcome
