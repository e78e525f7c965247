"""Prometheus metric families of replication lag: by follower, and by fetcher thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from streaming.shared.contract import FetcherThreadLag, LagTrend, ReplicationSignal
from streaming.shared.metric_def import MetricDef
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.api.lag_status_store import BROKERS_NAMED_MAX
from tuner.api.series_limit import largest_values, nonzero_values
from tuner.api.status_store import CycleResult
from tuner.core.freshness import age_s


def lag_families(result: CycleResult, now_ms: int, labels: Labels) -> Iterator[Metric]:
    """Yields the families of followers with fresh signals; the last values of others may no longer be true."""
    signals = result.observation.replication_signals.values() if result.observation is not None else ()
    age_s_max = result.limits.signal_age_s_max
    fresh = [signal for signal in signals if age_s(signal, now_ms) <= age_s_max]

    def by_broker(field: Callable[[ReplicationSignal], float | None]) -> dict[Labels, float]:
        return {(*labels, str(signal.broker)): value for signal in fresh if (value := field(signal)) is not None}

    yield metric_family(TunerMetric.REPLICATION_LAG, nonzero_values(by_broker(lambda s: s.lag_sum_messages)))
    for metric, field in _BY_BROKER:
        yield metric_family(metric, largest_values(by_broker(field), BROKERS_NAMED_MAX))
    yield from _trend_families(fresh, labels)
    yield from _thread_families(fresh, labels)


_BY_BROKER: tuple[tuple[MetricDef, Callable[[ReplicationSignal], float | None]], ...] = (
    (TunerMetric.REPLICATION_LAG_MAX, lambda signal: signal.lag_max_messages),
    (TunerMetric.REPLICATION_LAG_SECONDS, lambda signal: signal.lag_max_s),
    (TunerMetric.REPLICATION_LAG_BYTES, lambda signal: signal.lag_sum_bytes),
    (TunerMetric.REPLICATION_LAG_ADDING, lambda signal: signal.adding_lag_sum_messages),
)


def _trend_families(fresh: list[ReplicationSignal], labels: Labels) -> Iterator[Metric]:
    slopes: dict[Labels, float] = {}
    fits: dict[Labels, float] = {}
    for span, trend_of in _SPANS:
        trends = {
            (*labels, str(signal.broker), span): trend for signal in fresh if (trend := trend_of(signal)) is not None
        }
        largest = largest_values({key: trend.slope_messages_per_s for key, trend in trends.items()}, BROKERS_NAMED_MAX)
        slopes |= largest
        if span == _LONG:  # A window of 30 s has too few samples for a useful fit.
            fits = {key: r2 for key in largest if (r2 := trends[key].r2) is not None}
    yield metric_family(TunerMetric.REPLICATION_LAG_SLOPE, slopes)
    yield metric_family(TunerMetric.REPLICATION_LAG_FIT, fits)


_LONG = "5min"
_SPANS: tuple[tuple[str, Callable[[ReplicationSignal], LagTrend | None]], ...] = (
    ("window", lambda signal: signal.trend),
    (_LONG, lambda signal: signal.trend_5min),
)


def _thread_families(fresh: list[ReplicationSignal], labels: Labels) -> Iterator[Metric]:
    threads: dict[Labels, FetcherThreadLag] = {
        (*labels, str(signal.broker), str(thread.source), str(thread.fetcher)): thread
        for signal in fresh
        for thread in signal.threads
    }
    lags = largest_values(
        {key: t.lag_sum_messages for key, t in threads.items() if t.lag_sum_messages is not None}, BROKERS_NAMED_MAX
    )
    yield metric_family(TunerMetric.FETCHER_LAG, lags)
    rates = {key: threads[key].fetched_bytes_per_s for key in lags}
    yield metric_family(TunerMetric.FETCHER_BYTES, {key: rate for key, rate in rates.items() if rate is not None})
