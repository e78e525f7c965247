"""Serves the metrics of `rheostat learn` to Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from learning.runtime.learn_counts import LearnCounts
from streaming.shared.contract.profiles import HORIZONS_H, BrokerProfile, ChangeEvent
from streaming.shared.metric_def import MetricDef
from streaming.shared.metric_defs import LearnMetric
from streaming.shared.metric_page import Labels, metric_family

_SHOWN_HORIZONS_H = (1, 12, 24, 168)
_CHANGE_SHOWN_MS = 24 * 3_600_000  # A lasting change has a series for this time after it was found.
# An unusual value has a series until this time after the end of its hour. The hour is learned some ten minutes after its end.
_UNUSUAL_SHOWN_MS = 2 * 3_600_000

Values = dict[Labels, float]


class LearnCollector(Collector):
    """Turns counts, profiles and events into Prometheus metrics, for prometheus_client's registry."""

    def __init__(self, counts: Mapping[str, LearnCounts], wall_clock: Callable[[], float] = time.time) -> None:
        """
        Args:
            counts: by cluster.
        """
        self._counts = counts
        self._wall_clock = wall_clock

    def collect(self) -> Iterator[Metric]:
        learned_to_s: Values = {
            (cluster,): counts.learned_to_s
            for cluster, counts in self._counts.items()
            if counts.learned_to_s is not None
        }
        if learned_to_s:
            yield metric_family(LearnMetric.LEARNED_TO, learned_to_s)
        for definition, value in _VALUES:
            yield metric_family(
                definition, {(cluster,): float(value(counts)) for cluster, counts in self._counts.items()}
            )
        left_out: Values = {}
        for cluster, counts in self._counts.items():
            left_out[cluster, "broker"] = float(counts.brokers_left_out)
            left_out[cluster, "tenant"] = float(counts.tenants_left_out)
        yield metric_family(LearnMetric.LEFT_OUT, left_out)
        now_ms = round(self._wall_clock() * 1000)
        yield from _profile_families(tuple(p for counts in self._counts.values() for p in counts.profiles), now_ms)
        yield from _event_families(tuple(e for counts in self._counts.values() for e in counts.events), now_ms)


_VALUES: tuple[tuple[MetricDef, Callable[[LearnCounts], float]], ...] = (
    (LearnMetric.LEARN_SECONDS, lambda counts: counts.learn_s),
    (LearnMetric.BROKERS, lambda counts: len(counts.profiles)),
    (LearnMetric.PERIODS, lambda counts: counts.records),
    (LearnMetric.REFUSED, lambda counts: counts.refused),
    (LearnMetric.WRITTEN, lambda counts: counts.written),
    (LearnMetric.FAILED, lambda counts: counts.failed),
)


def learn_registry(counts: Mapping[str, LearnCounts], process_metrics: Collector) -> CollectorRegistry:
    """Returns a Prometheus registry with the metrics of `rheostat learn`.

    Args:
        counts: by cluster.
        process_metrics: the metrics that every process has (``ProcessMetricsCollector``).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LearnCollector(counts))
    registry.register(process_metrics)
    return registry


def _profile_families(profiles: tuple[BrokerProfile, ...], now_ms: int) -> Iterator[Metric]:
    forecasts: Values = {}
    errors: Values = {}
    baselines: Values = {}
    capacities: Values = {}
    ages: Values = {}
    for profile in profiles:
        broker = (profile.cluster, str(profile.broker))
        step = profile.step_at(now_ms)
        for direction, load, capacity in (
            ("in", profile.client_in, profile.capacity_in),
            ("out", profile.client_out, profile.capacity_out),
        ):
            for horizon in _SHOWN_HORIZONS_H:
                labels = (*broker, direction, f"{horizon}h")
                _put(forecasts, labels, load.bytes_per_s, None if step is None else step + horizon)
                _put(errors, labels, load.error_bytes_per_s, HORIZONS_H.index(horizon))
            if capacity is not None:
                capacities[*broker, direction] = capacity.bytes_per_s
                ages[*broker, direction] = max(0.0, (now_ms - capacity.seen_at_ms) / 1000)
        _put(baselines, broker, profile.quiet_p99_ms, step, scale=1e-3)
    yield metric_family(LearnMetric.FORECAST, forecasts)
    yield metric_family(LearnMetric.FORECAST_ERROR, errors)
    yield metric_family(LearnMetric.BASELINE, baselines)
    yield metric_family(LearnMetric.CAPACITY, capacities)
    yield metric_family(LearnMetric.CAPACITY_AGE, ages)


def _put(
    values: Values, labels: Labels, steps: tuple[float | None, ...], index: int | None, scale: float = 1.0
) -> None:
    value = steps[index] if index is not None and index < len(steps) else None
    if value is not None:
        values[labels] = scale * value


def _event_families(events: tuple[ChangeEvent, ...], now_ms: int) -> Iterator[Metric]:
    for definition, is_unusual, shown_ms in (
        (LearnMetric.CHANGE_POINT, False, _CHANGE_SHOWN_MS),
        (LearnMetric.UNUSUAL, True, _UNUSUAL_SHOWN_MS),
    ):
        yield metric_family(
            definition,
            {
                (
                    event.cluster,
                    event.measure.value,
                    "" if event.broker is None else str(event.broker),
                    event.user or "",
                    event.client_id or "",
                ): 1.0
                for event in events
                if event.is_unusual == is_unusual and now_ms - event.found_at_ms < shown_ms
            },
        )
