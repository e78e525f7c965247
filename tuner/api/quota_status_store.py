"""The mutation quotas of the last cycle, for the API and the metrics. The loop writes them, the server reads them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.control.mutation_quota.decision import HoldQuota, TotalRateReport, action_of
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import ControllerObjective

# Limits the number of series, as clients may use a new client-id for each request.
TENANTS_NAMED_MAX = 50
_TOKENS_MAX = 1e15  # Kafka reports about 1e20 tokens for a tenant without a quota.


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """One cycle of the mutation quota controller."""

    view: QuotaView
    step: QuotaStep
    memory: MutationMemory

    @property
    def total(self) -> TotalRateReport | None:
        return next((d for d in self.step.decisions if isinstance(d, TotalRateReport)), None)


class QuotaStatusStore:
    """Holds the newest quota snapshot and the counters. Thread-safe."""

    def __init__(self, cluster: str, objective: ControllerObjective | None = None) -> None:
        """
        Args:
            objective: the limits of the Kafka controller's load, exported next to the measured values.
        """
        self.cluster = cluster
        self.objective = objective
        self._lock = threading.Lock()
        self._snapshot: QuotaSnapshot | None = None
        self._failures = 0
        self.has_failed = False  # The last cycle ended with an unexpected error.
        self.number = 0  # Changes with each update.
        self._decisions: Counter[tuple[str, str]] = Counter()

    def publish(self, view: QuotaView, step: QuotaStep, memory: MutationMemory) -> None:
        with self._lock:
            self._snapshot, self.has_failed = QuotaSnapshot(view, step, memory), False
            self.number += 1
            for decision in step.decisions:
                self._decisions[(action_of(decision), decision.reason.value)] += 1

    def record_failures(self, count: int) -> None:
        """Counts failed writes of quotas, over all leadership terms of this process."""
        with self._lock:
            self._failures += count

    def cycle_failed(self) -> None:
        """Drops the snapshot after an unexpected error, as the controller pauses and the last values become outdated."""
        with self._lock:
            self._snapshot, self.has_failed = None, True
            self.number += 1

    def clear(self) -> None:
        """Drops the snapshot, because this tuner has become a standby."""
        with self._lock:
            self._snapshot, self.has_failed = None, False
            self.number += 1

    def snapshot(self) -> QuotaSnapshot | None:
        """Returns the newest snapshot; None if there is none, or it is outdated."""
        return self._snapshot

    @property
    def failures(self) -> int:
        """The number of failed writes."""
        return self._failures

    def decision_counts(self) -> dict[tuple[str, str], int]:
        """Returns the number of decisions by action and reason."""
        with self._lock:
            return dict(self._decisions)

    def as_json(self) -> dict[str, Any] | None:
        """Returns the quotas as JSON values; None if this tuner controls no quotas."""
        snapshot = self.snapshot()
        return None if snapshot is None else quotas_json(snapshot)


def quotas_json(snapshot: QuotaSnapshot) -> dict[str, Any]:
    total, view, memory = snapshot.total, snapshot.view, snapshot.memory
    tokens = _tokens(view)
    return {
        "total_per_s": memory.total.rate_per_s if memory.total is not None else None,
        "pressure": total.pressure if total is not None else None,
        "total_text": total.text if total is not None else None,
        "holds": [d.text for d in snapshot.step.decisions if isinstance(d, HoldQuota)],
        "observed_at_ms": view.now_ms,
        # None means that no tenant was evaluated; ``holds`` says why. An empty list means that there is no tenant.
        "tenants": None
        if total is None and not snapshot.step.shares
        else [
            {
                "user": row.tenant.user,
                "client_id": row.tenant.client_id,
                "demand_per_s": row.rate_per_s,
                "quota_per_s": row.current_per_s,
                "quota_setpoint_per_s": row.setpoint_per_s,
                "tokens": tokens.get((row.tenant.user, row.tenant.client_id)),
                "throttled": row.backlogged,
                "managed": row.tenant.entity in memory.owned,
                "rule": row.rule,
                "reason": row.reason.value,
            }
            for row in snapshot.step.shares
        ],
    }


class QuotaCollector(Collector):
    """Collects the metrics of mutation quotas, tenants and the Kafka controller."""

    def __init__(self, store: QuotaStatusStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        snapshot, decisions = self._store.snapshot(), self._store.decision_counts()
        labels = (self._store.cluster,)
        if decisions:
            yield metric_family(
                TunerMetric.QUOTA_DECISIONS, {(*labels, *key): float(n) for key, n in decisions.items()}
            )
            yield metric_family(TunerMetric.QUOTA_FAILURES, {labels: float(self._store.failures)})
        if self._store.has_failed:
            yield metric_family(TunerMetric.QUOTAS_READABLE, {labels: 0.0})
        if snapshot is None:
            return
        total, memory = snapshot.total, snapshot.memory
        yield metric_family(
            TunerMetric.QUOTAS_READABLE, {labels: float(not isinstance(snapshot.view.quotas, ClusterUnreadable))}
        )
        if total is not None:
            yield metric_family(TunerMetric.CONTROLLER_PRESSURE, {labels: total.pressure})
        if memory.total is not None:
            yield metric_family(TunerMetric.MUTATION_TOTAL, {labels: memory.total.rate_per_s})
        rows = snapshot.step.shares
        yield metric_family(TunerMetric.TENANTS_THROTTLED, {labels: float(sum(row.backlogged for row in rows))})
        yield metric_family(TunerMetric.QUOTAS_OWNED, {labels: float(len(memory.owned))})
        yield from _controller_families(snapshot.view, self._store.objective, labels)
        yield from _tenant_families(snapshot, labels)


def _controller_families(view: QuotaView, objective: ControllerObjective | None, labels: Labels) -> Iterator[Metric]:
    """Yields the measures that only the mutation quota controller has, and the objectives. mutation_families.py has the rest."""
    probe_ms = view.cluster_wide.create_probe_p90_ms
    yield metric_family(
        TunerMetric.CREATE_PROBE_P90_SECONDS, {labels: round(probe_ms / 1000, 6)} if probe_ms is not None else {}
    )
    if objective is not None:
        busy_max = objective.forwarding_busy_ratio_max
        yield metric_family(TunerMetric.FORWARDING_BUSY_OBJECTIVE, {labels: busy_max} if busy_max is not None else {})
        queue_ms_max, idle_min = objective.queue_ms_max, objective.idle_ratio_min
        probe_ms_max = objective.create_probe_p90_ms_max
        yield metric_family(
            TunerMetric.CREATE_PROBE_P90_OBJECTIVE, {labels: probe_ms_max / 1000} if probe_ms_max is not None else {}
        )
        yield metric_family(
            TunerMetric.CONTROLLER_QUEUE_OBJECTIVE, {labels: queue_ms_max / 1000} if queue_ms_max is not None else {}
        )
        yield metric_family(TunerMetric.CONTROLLER_IDLE_OBJECTIVE, {labels: idle_min} if idle_min is not None else {})


def _tenant_families(snapshot: QuotaSnapshot, labels: Labels) -> Iterator[Metric]:
    """Yields the tenants' series: throttled tenants first, then the tenants with the highest demand."""
    by_demand = sorted(snapshot.step.shares, key=lambda row: (-row.rate_per_s, row.tenant.key))
    throttled = [row for row in by_demand if row.backlogged]
    rows = [*throttled, *(row for row in by_demand if not row.backlogged)][:TENANTS_NAMED_MAX]
    tenant_labels = {row: (*labels, row.tenant.user or "", row.tenant.client_id or "") for row in rows}
    tokens = _tokens(snapshot.view)
    yield metric_family(TunerMetric.TENANT_EXHAUSTED, {tenant_labels[row]: 1.0 for row in rows if row.backlogged})
    yield metric_family(TunerMetric.TENANT_RATE, {tenant_labels[row]: round(row.rate_per_s, 3) for row in rows})
    yield metric_family(
        TunerMetric.TENANT_QUOTA,
        {tenant_labels[row]: row.current_per_s for row in rows if row.current_per_s is not None},
    )
    left = {tenant_labels[row]: tokens.get((row.tenant.user, row.tenant.client_id)) for row in rows}
    yield metric_family(
        TunerMetric.TENANT_TOKENS, {tenant: n for tenant, n in left.items() if n is not None and n < _TOKENS_MAX}
    )


def _tokens(view: QuotaView) -> dict[tuple[str | None, str | None], float | None]:
    """Returns the tokens of each tenant (user, client-id), from the newest signal of all nodes."""
    return {(s.user, s.client_id): s.tokens for s in sorted(view.tenants, key=lambda s: s.sampled_at_ms)}
