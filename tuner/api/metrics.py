"""The tuner's Prometheus metrics, built from the last cycle at each scrape, so that removed brokers leave no stale series.

Ages are computed at the time of the scrape. If cycles hang, the ages grow.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.contract import ControllerSignal, TenantSignal
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import metric_family
from tuner.api.broker_families import broker_families
from tuner.api.cordon_status_store import CordonCollector, CordonStatusStore
from tuner.api.cruise_control_status_store import CruiseControlCollector, CruiseControlStatusStore
from tuner.api.decision_families import decision_families
from tuner.api.expected_end import ends_at_ms
from tuner.api.external_status_store import ExternalCollector, ExternalStatusStore
from tuner.api.lag_families import lag_families
from tuner.api.lag_status_store import LagCollector, LagStatusStore
from tuner.api.leadership_status_store import LeadershipCollector, LeadershipStatusStore
from tuner.api.log_dir_status_store import LogDirCollector, LogDirStatusStore
from tuner.api.move_families import FetcherCollisions, move_families
from tuner.api.mutation_families import MutationCollector
from tuner.api.mutation_store import MutationStore
from tuner.api.plan_status_store import PlanCollector, PlanSnapshot, PlanStatusStore
from tuner.api.quota_status_store import QuotaCollector, QuotaSnapshot, QuotaStatusStore
from tuner.api.status_store import PLANS, CycleResult, StatusStore
from tuner.core.freshness import age_s


class StatusCollector(Collector):
    """Collects the metrics of throttles, moves, brokers and decisions."""

    def __init__(self, store: StatusStore, quotas: QuotaStatusStore, plans: PlanStatusStore | None) -> None:
        self._store = store
        self._plans = plans
        self._quotas = quotas
        self._collisions = FetcherCollisions()

    def collect(self) -> Iterator[Metric]:
        store = self._store
        result, now_ms = store.snapshot(), store.now_ms()
        labels = (store.cluster,)
        yield metric_family(TunerMetric.READY, {labels: float(store.ready()[0])})
        yield metric_family(TunerMetric.PLAN_EXECUTOR_FAILED, {labels: float(PLANS in store.suspended_controllers)})
        yield metric_family(TunerMetric.ACTIVE, {labels: float(store.active)})
        yield metric_family(TunerMetric.DRY_RUN, {labels: float(store.dry_run)})
        yield metric_family(TunerMetric.CYCLE_SECONDS, {labels: round(store.cycle_s, 6)})
        at_s = store.cycled_at_s
        yield metric_family(TunerMetric.CYCLED_AT, {labels: round(at_s, 3)} if at_s is not None else {})
        yield metric_family(
            TunerMetric.CYCLE_FAILURES, {(*labels, name): float(n) for name, n in store.cycle_failures.items()}
        )
        yield metric_family(
            TunerMetric.RECORDS_REFUSED, {(*labels, topic): float(count()) for topic, count in store.refused.items()}
        )
        yield metric_family(TunerMetric.SIGNAL_AGE_MAX, {labels: store.limits.signal_age_s_max})
        ages = _input_ages(result, now_ms) | _quota_input_ages(self._quotas.snapshot(), now_ms)
        yield metric_family(TunerMetric.INPUT_AGE_SECONDS, {(*labels, name): age for name, age in ages.items()})
        yield metric_family(TunerMetric.RATE_MAX, {labels: store.limits.rate_bytes_per_s_max})
        yield metric_family(TunerMetric.RATE_MIN, {labels: store.limits.rate_bytes_per_s_min})
        yield from decision_families(result, now_ms, labels)
        yield from move_families(result, now_ms, self._collisions, store.partitions_named_max, labels)
        ends_ms = ends_at_ms(result, self._plans.snapshot() if self._plans is not None else PlanSnapshot())
        yield metric_family(TunerMetric.EXPECTED_END, {labels: ends_ms / 1000} if ends_ms is not None else {})
        yield from broker_families(store, result, now_ms, labels)
        yield from lag_families(result, now_ms, labels)


def _input_ages(result: CycleResult, now_ms: int) -> dict[str, float]:
    """Returns the age (s) of the newest input of each kind; kinds without input are absent."""
    observation, ages = result.observation, dict[str, float]()
    if result.cluster_seen_at_ms is not None:
        ages["cluster"] = max(0.0, (now_ms - result.cluster_seen_at_ms) / 1000)
    if observation is not None and observation.broker_signals:
        ages["broker_signals"] = min(age_s(signal, now_ms) for signal in observation.broker_signals.values())
    if observation is not None and observation.move_signals:
        ages["move_signals"] = min(age_s(signal, now_ms) for signal in observation.move_signals.values())
    if observation is not None and observation.replication_signals:
        ages["replication_signals"] = min(age_s(s, now_ms) for s in observation.replication_signals.values())
    return ages


def _quota_input_ages(snapshot: QuotaSnapshot | None, now_ms: int) -> dict[str, float]:
    """Returns the age (s) of the inputs that only the mutation quota controller uses."""
    if snapshot is None:
        return {}
    signals_by_kind: dict[str, list[ControllerSignal | TenantSignal]] = {
        "controller_signals": [*snapshot.view.controllers.values()],
        "tenant_signals": [*snapshot.view.tenants],
    }
    return {
        name: min(age_s(signal, now_ms) for signal in signals) for name, signals in signals_by_kind.items() if signals
    }


def make_registry(
    store: StatusStore,
    quotas: QuotaStatusStore,
    process_metrics: Collector | None = None,
    plans: PlanStatusStore | None = None,
    mutations: MutationStore | None = None,
    log_dirs: LogDirStatusStore | None = None,
    lag: LagStatusStore | None = None,
    external: ExternalStatusStore | None = None,
    cruise_control: CruiseControlStatusStore | None = None,
    leadership: LeadershipStatusStore | None = None,
    cordons: CordonStatusStore | None = None,
) -> CollectorRegistry:
    """Returns a registry with the collectors of throttles, mutation quotas, plans, log directories and lag.

    Args:
        process_metrics: the collector of this process's metrics; None if not registered.
        plans: None if this tuner executes no plans.
        mutations: None if this tuner reads no signals of controllers.
        log_dirs: None if this tuner does not watch log directories.
        lag: None if this tuner explains no lag.
        external: None if this tuner asks no checks and has no webhooks.
        cruise_control: None if this tuner does not ask Cruise Control.
        leadership: None if this tuner does not watch preferred leaders.
        cordons: None if this tuner does not watch cordons.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(store, quotas, plans))
    registry.register(QuotaCollector(quotas))
    if mutations is not None:
        registry.register(MutationCollector(mutations, quotas, store.now_ms))
    if plans is not None:
        registry.register(PlanCollector(plans))
    if log_dirs is not None:
        registry.register(LogDirCollector(log_dirs))
    if lag is not None:
        registry.register(LagCollector(lag))
    if external is not None:
        registry.register(ExternalCollector(external))
    if cruise_control is not None:
        registry.register(CruiseControlCollector(cruise_control))
    if leadership is not None:
        registry.register(LeadershipCollector(leadership))
    if cordons is not None:
        registry.register(CordonCollector(cordons, store.cluster))
    if process_metrics is not None:
        registry.register(process_metrics)
    return registry
