"""The collector's own metrics, built from its counts at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from streaming.collector.counts import SCRAPE_S_BUCKETS, Counts
from streaming.shared.metric_def import MetricDef
from streaming.shared.metric_defs import CollectorMetric
from streaming.shared.metric_page import metric_family


class CountsCollector(Collector):
    """Turns the counts into Prometheus metrics, for prometheus_client's registry."""

    def __init__(self, counts: Mapping[str, Counts]) -> None:
        """
        Args:
            counts: by cluster.
        """
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        yield self._scrape_seconds()
        # The copies are iterated, because other threads change the counts.
        yield metric_family(
            CollectorMetric.SCRAPE_FAILURES,
            {
                (cluster, str(node), cause.value): count
                for cluster, counts in self._counts.items()
                for (node, cause), count in counts.scrape_failures_by_cause.copy().items()
            },
        )
        yield metric_family(
            CollectorMetric.SCRAPED_AT,
            {
                (cluster, str(node)): at_s
                for cluster, counts in self._counts.items()
                for node, at_s in counts.scraped_at_s.copy().items()
            },
        )
        for definition, value in _VALUES:
            yield metric_family(
                definition, {(cluster,): float(value(counts)) for cluster, counts in self._counts.items()}
            )

    def _scrape_seconds(self) -> Metric:
        family = HistogramMetricFamily(
            CollectorMetric.SCRAPE_SECONDS.name,
            CollectorMetric.SCRAPE_SECONDS.meaning,
            labels=CollectorMetric.SCRAPE_SECONDS.labels,
        )
        bounds = [*(str(bound) for bound in SCRAPE_S_BUCKETS), "+Inf"]
        for cluster, counts in self._counts.items():
            cumulative = accumulate(counts.scrape_s_counts)
            buckets = list(zip(bounds, map(float, cumulative), strict=True))
            family.add_metric((cluster,), buckets, counts.scrape_s_sum)
        return family


_VALUES: tuple[tuple[MetricDef, Callable[[Counts], float]], ...] = (
    (CollectorMetric.ACTIVE, lambda counts: counts.active),
    (CollectorMetric.ROUNDS, lambda counts: counts.rounds),
    (CollectorMetric.LATE_ROUNDS, lambda counts: counts.late_rounds),
    (CollectorMetric.ROUND_SECONDS, lambda counts: counts.round_s),
    (CollectorMetric.RECORDS, lambda counts: counts.records),
    (CollectorMetric.RECORDS_FAILED, lambda counts: counts.records_failed),
    (CollectorMetric.ADMIN_FAILURES, lambda counts: counts.admin_failures),
    (CollectorMetric.FULL_SCANS, lambda counts: counts.full_scans),
    (CollectorMetric.FULL_SCAN_SECONDS, lambda counts: counts.full_scan_s),
    (CollectorMetric.ACCESS_RELOAD_SUCCESSFUL, lambda counts: counts.access_valid),
)


def registry_of(counts: Mapping[str, Counts], process_metrics: Collector | None = None) -> CollectorRegistry:
    """Returns a Prometheus registry with the collector's metrics.

    Args:
        counts: by cluster.
        process_metrics: the metrics that every process has (``ProcessMetricsCollector``).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CountsCollector(counts))
    if process_metrics is not None:
        registry.register(process_metrics)
    return registry
