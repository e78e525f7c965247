"""Prometheus metric families of the mutation rates and of the controller's load. They need no mutation quota."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.api.mutation_store import MutationSnapshot, MutationStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.core.mutation_rates import MutationRates, TenantRate


class MutationCollector(Collector):
    """Collects the metrics of ``MutationStore``.

    This collector exports tenants only while no mutation quota controller runs, because that controller exports the tenants itself.
    """

    def __init__(self, store: MutationStore, quotas: QuotaStatusStore, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._quotas = quotas
        self._now_ms = now_ms

    def collect(self) -> Iterator[Metric]:
        snapshot = self._store.snapshot(self._now_ms())
        if snapshot is None or snapshot.rates is None:
            return
        labels = (self._store.cluster,)
        yield from _rate_families(snapshot.rates, labels)
        yield from _request_families(snapshot.rates, labels)
        yield from _load_families(snapshot, snapshot.rates, labels)
        yield from _storm_families(snapshot, labels)
        if self._quotas.snapshot() is None:
            yield from _tenant_families(snapshot.rates, labels)


def _rate_families(rates: MutationRates, labels: Labels) -> Iterator[Metric]:
    by_change = {"all": rates.mutations, "created": rates.partitions_created, "deleted": rates.partitions_deleted}
    yield metric_family(
        TunerMetric.MUTATIONS,
        {
            (*labels, change, rate.source.value): round(rate.per_s, 3)
            for change, rate in by_change.items()
            if rate is not None
        },
    )
    topics = {"created": rates.topics_created, "deleted": rates.topics_deleted}
    yield metric_family(
        TunerMetric.TOPIC_MUTATIONS,
        {(*labels, change): round(rate.per_s, 3) for change, rate in topics.items() if rate is not None},
    )


def _request_families(rates: MutationRates, labels: Labels) -> Iterator[Metric]:
    requests = {(*labels, kind.value): request for kind, request in rates.requests.items()}
    yield metric_family(
        TunerMetric.MUTATION_REQUESTS, {key: round(request.rate.per_s, 3) for key, request in requests.items()}
    )
    yield metric_family(
        TunerMetric.MUTATION_REQUEST_SECONDS,
        {key: round(request.mean_ms / 1000, 6) for key, request in requests.items() if request.mean_ms is not None},
    )
    yield metric_family(
        TunerMetric.OLD_CLIENT_REQUESTS,
        {key: round(request.old_ratio, 4) for key, request in requests.items() if request.old_ratio is not None},
    )


def _load_families(snapshot: MutationSnapshot, rates: MutationRates, labels: Labels) -> Iterator[Metric]:
    """Yields the load of the active controller."""
    signal, cluster_wide = rates.controller, snapshot.cluster_wide
    for definition, value in (
        (TunerMetric.CONTROLLER_QUEUE_SECONDS, _seconds(signal.event_queue_time_mean_ms)),
        (TunerMetric.CONTROLLER_IDLE, signal.idle_ratio),
        (TunerMetric.CONTROLLER_OPERATIONS, signal.operations_per_s),
        (TunerMetric.MUTATIONS_REJECTED, signal.mutations_rejected_per_s),
        (TunerMetric.METADATA_APPLY_LAG, _seconds(cluster_wide.apply_lag_ms)),
        (TunerMetric.FORWARDING_BUSY, cluster_wide.forwarding_busy_ratio),
    ):
        yield metric_family(definition, {labels: round(value, 6)} if value is not None else {})


def _storm_families(snapshot: MutationSnapshot, labels: Labels) -> Iterator[Metric]:
    storm = snapshot.storm
    if storm is None:
        yield metric_family(TunerMetric.CONTROLLER_STORM, {(*labels, "", ""): 0.0})
        return
    tenants = {_tenant_labels(labels, tenant): 1.0 for tenant in storm.tenants}
    yield metric_family(TunerMetric.CONTROLLER_STORM, tenants or {(*labels, "", ""): 1.0})
    yield metric_family(TunerMetric.STORM_QUOTA, {labels: storm.quota_per_s})


def _tenant_families(rates: MutationRates, labels: Labels) -> Iterator[Metric]:
    """Yields the busiest tenants of Kafka's quota accounts."""
    tenants = {_tenant_labels(labels, tenant): tenant for tenant in rates.tenants}
    yield metric_family(TunerMetric.TENANT_RATE, {key: round(tenant.per_s, 3) for key, tenant in tenants.items()})
    yield metric_family(
        TunerMetric.TENANT_TOKENS,
        {key: tenant.tokens for key, tenant in tenants.items() if tenant.tokens is not None},
    )


def _tenant_labels(labels: Labels, tenant: TenantRate) -> Labels:
    return (*labels, tenant.user or "", tenant.client_id or "")


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000
