"""The collector's own metrics, built from its counts at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from streaming.collector.counts import SCRAPE_S_BUCKETS, Counts
from streaming.shared.metric_defs import CollectorMetric
from streaming.shared.metric_page import metric_family


class CountsCollector(Collector):
    """Turns the counts into Prometheus metrics, for prometheus_client's registry."""

    def __init__(self, cluster: str, counts: Counts) -> None:
        self._cluster = cluster
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts, cluster = self._counts, self._cluster
        yield self._scrape_seconds()
        # The copies are iterated, because other threads change the counts.
        failures = counts.scrape_failures_by_cause.copy()
        yield metric_family(
            CollectorMetric.SCRAPE_FAILURES,
            {(cluster, str(node), cause.value): count for (node, cause), count in failures.items()},
        )
        yield metric_family(
            CollectorMetric.SCRAPED_AT,
            {(cluster, str(node)): at_s for node, at_s in counts.scraped_at_s.copy().items()},
        )
        for definition, value in (
            (CollectorMetric.ACTIVE, float(counts.active)),
            (CollectorMetric.ROUNDS, counts.rounds),
            (CollectorMetric.LATE_ROUNDS, counts.late_rounds),
            (CollectorMetric.ROUND_SECONDS, counts.round_s),
            (CollectorMetric.RECORDS, counts.records),
            (CollectorMetric.RECORDS_FAILED, counts.records_failed),
            (CollectorMetric.ADMIN_FAILURES, counts.admin_failures),
            (CollectorMetric.FULL_SCANS, counts.full_scans),
            (CollectorMetric.FULL_SCAN_SECONDS, counts.full_scan_s),
            (CollectorMetric.ACCESS_RELOAD_SUCCESSFUL, float(counts.access_valid)),
        ):
            yield metric_family(definition, {(cluster,): value})

    def _scrape_seconds(self) -> Metric:
        family = HistogramMetricFamily(
            CollectorMetric.SCRAPE_SECONDS.name,
            CollectorMetric.SCRAPE_SECONDS.meaning,
            labels=CollectorMetric.SCRAPE_SECONDS.labels,
        )
        bounds = [*(str(bound) for bound in SCRAPE_S_BUCKETS), "+Inf"]
        cumulative = accumulate(self._counts.scrape_s_counts)
        buckets = list(zip(bounds, map(float, cumulative), strict=True))
        family.add_metric((self._cluster,), buckets, self._counts.scrape_s_sum)
        return family


def registry_of(cluster: str, counts: Counts, process_metrics: Collector | None = None) -> CollectorRegistry:
    """Returns a Prometheus registry with the collector's metrics.

    Args:
        process_metrics: the metrics that every process has (``ProcessMetricsCollector``).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CountsCollector(cluster, counts))
    if process_metrics is not None:
        registry.register(process_metrics)
    return registry
