"""The mutation rates of the cluster and its storm, for the API and the metrics, on a cluster with or without mutation quotas.

The loop's thread updates the store after each cycle, and the server's threads read it. If no cycle runs, the store is not updated,
so readers check the age of the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from streaming.shared.contract import BrokerSignal, ControllerSignal, TenantSignal
from tuner.control.mutation_quota.storm import Storm, StormState, watch_storm
from tuner.core.controller import ClusterWideMeasures, cluster_wide_measures
from tuner.core.controller_pressure import IdleBaselines, learn_idle_baselines
from tuner.core.mutation_rates import SIGNAL_AGE_S_MAX, MutationRates, mutation_rates


class AllSignals(Protocol):
    """The newest signals, by broker, controller and tenant."""

    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def controllers(self) -> Mapping[int, ControllerSignal]: ...

    @property
    def tenants(self) -> Mapping[Any, TenantSignal]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationSnapshot:
    """The rates after one cycle.

    Attributes:
        rates: None if no active controller has a fresh signal.
        storm: None if there is no storm.
    """

    at_ms: int
    rates: MutationRates | None
    cluster_wide: ClusterWideMeasures
    storm: Storm | None


class MutationStore:
    """Holds the newest mutation rates, and watches for a storm."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.number = 0  # Changes with each update.
        self._snapshot: MutationSnapshot | None = None
        self._storm = StormState()
        self._baselines: IdleBaselines = {}
        # Node and time of the last signal that the baselines have learned.
        self._newest_sample: tuple[int, int] | None = None

    def update(self, signals: AllSignals, now_ms: int) -> None:
        """Recomputes the rates. Only the loop's thread calls it."""
        controllers, brokers = dict(signals.controllers), dict(signals.brokers)
        rates = mutation_rates(controllers, brokers, list(signals.tenants.values()), now_ms)
        cluster_wide = cluster_wide_measures(controllers, brokers, now_ms, SIGNAL_AGE_S_MAX)
        if (
            rates is not None
            and (sample := (rates.controller.node, rates.controller.sampled_at_ms)) != self._newest_sample
        ):
            self._newest_sample = sample
            self._baselines = learn_idle_baselines(cluster_wide, self._baselines)
        self._storm = watch_storm(self._storm, rates, cluster_wide, self._baselines, now_ms)
        self._snapshot = MutationSnapshot(at_ms=now_ms, rates=rates, cluster_wide=cluster_wide, storm=self._storm.storm)
        self.number += 1

    def snapshot(self, now_ms: int) -> MutationSnapshot | None:
        """Returns the newest snapshot; None if there is none, or it is out of date, as in a standby tuner."""
        snapshot = self._snapshot
        is_fresh = snapshot is not None and abs(now_ms - snapshot.at_ms) <= SIGNAL_AGE_S_MAX * 1000
        return snapshot if is_fresh else None
