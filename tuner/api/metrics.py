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
from tuner.api.decision_families import decision_families
from tuner.api.expected_end import ends_at_ms
from tuner.api.move_families import FetcherCollisions, move_families
from tuner.api.plan_status_store import PlanCollector, PlanSnapshot, PlanStatusStore
from tuner.api.quota_status_store import QuotaCollector, QuotaSnapshot, QuotaStatusStore
from tuner.api.status_store import PLANS, CycleResult, StatusStore
from tuner.core.freshness import age_s


class StatusCollector(Collector):
    """Collects the metrics of throttles, moves, brokers and decisions."""

    def __init__(self, board: StatusStore, quotas: QuotaStatusStore, plans: PlanStatusStore | None) -> None:
        self._board = board
        self._plans = plans
        self._quotas = quotas
        self._collisions = FetcherCollisions()

    def collect(self) -> Iterator[Metric]:
        board = self._board
        snapshot, now_ms = board.snapshot(), board.now_ms()
        c = (board.cluster,)
        yield metric_family(TunerMetric.READY, {c: float(board.ready()[0])})
        yield metric_family(TunerMetric.PLAN_EXECUTOR_FAILED, {c: float(PLANS in board.suspended_controllers)})
        yield metric_family(TunerMetric.ACTING, {c: float(board.acting)})
        yield metric_family(TunerMetric.DRY_RUN, {c: float(board.dry_run)})
        yield metric_family(TunerMetric.CYCLE_SECONDS, {c: round(board.cycle_s, 6)})
        at_s = board.cycled_at_s
        yield metric_family(TunerMetric.CYCLED_AT, {c: round(at_s, 3)} if at_s is not None else {})
        yield metric_family(
            TunerMetric.CYCLE_FAILURES, {(*c, name): float(n) for name, n in board.cycle_failures.items()}
        )
        yield metric_family(
            TunerMetric.RECORDS_REFUSED, {(*c, topic): float(count()) for topic, count in board.refused.items()}
        )
        yield metric_family(TunerMetric.SIGNAL_AGE_MAX, {c: board.limits.signal_age_s_max})
        ages = _input_ages(snapshot, now_ms) | _quota_input_ages(self._quotas.snapshot()[0], now_ms)
        yield metric_family(TunerMetric.INPUT_AGE_SECONDS, {(*c, name): age for name, age in ages.items()})
        yield metric_family(TunerMetric.RATE_MAX, {c: board.limits.rate_bytes_per_s_max})
        yield metric_family(TunerMetric.RATE_MIN, {c: board.limits.rate_bytes_per_s_min})
        yield from decision_families(snapshot, now_ms, c)
        yield from move_families(snapshot, now_ms, self._collisions, board.partitions_named_max, c)
        ends_ms = ends_at_ms(snapshot, self._plans.snapshot() if self._plans is not None else PlanSnapshot())
        yield metric_family(TunerMetric.EXPECTED_END, {c: ends_ms / 1000} if ends_ms is not None else {})
        yield from broker_families(board, snapshot, now_ms, c)


def _input_ages(snapshot: CycleResult, now_ms: int) -> dict[str, float]:
    """Returns the age (s) of the newest input of each kind; kinds without input are absent."""
    seen, ages = snapshot.observation, dict[str, float]()
    if snapshot.cluster_seen_at_ms is not None:
        ages["cluster"] = max(0.0, (now_ms - snapshot.cluster_seen_at_ms) / 1000)
    if seen is not None and seen.brokers:
        ages["broker_signals"] = min(age_s(signal, now_ms) for signal in seen.brokers.values())
    if seen is not None and seen.moves:
        ages["move_signals"] = min(age_s(signal, now_ms) for signal in seen.moves.values())
    return ages


def _quota_input_ages(shown: QuotaSnapshot | None, now_ms: int) -> dict[str, float]:
    """Returns the age (s) of the inputs that only the mutation quota controller uses."""
    if shown is None:
        return {}
    signals_by_kind: dict[str, list[ControllerSignal | TenantSignal]] = {
        "controller_signals": [*shown.view.controllers.values()],
        "tenant_signals": [*shown.view.tenants],
    }
    return {
        name: min(age_s(signal, now_ms) for signal in signals) for name, signals in signals_by_kind.items() if signals
    }


def make_registry(
    board: StatusStore, quotas: QuotaStatusStore, own: Collector | None = None, plans: PlanStatusStore | None = None
) -> CollectorRegistry:
    """Returns a registry with the collectors of throttles, mutation quotas and plans.

    Args:
        own: the collector of process metrics.
        plans: None if this tuner executes no plans.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(board, quotas, plans))
    registry.register(QuotaCollector(quotas))
    if plans is not None:
        registry.register(PlanCollector(plans))
    if own is not None:
        registry.register(own)
    return registry
