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
    def __init__(self, cluster: str, counts: Counts) -> None:
        self._cluster = cluster
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts, c = self._counts, (self._cluster,)
        yield self._scrape_seconds()
        yield metric_family(
            CollectorMetric.SCRAPE_FAILURES,
            {(*c, str(node), cause.value): n for (node, cause), n in counts.scrape_failures_by_cause.copy().items()},
        )
        yield metric_family(
            CollectorMetric.SCRAPED_AT, {(*c, str(node)): at_s for node, at_s in counts.scraped_at_s.copy().items()}
        )
        for definition, value in (
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
            yield metric_family(definition, {c: value})

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


def registry_of(cluster: str, counts: Counts, own: Collector | None = None) -> CollectorRegistry:
    """Returns a registry with the collector's metrics.

    Args:
        own: the collector of the metrics that every process has.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CountsCollector(cluster, counts))
    if own is not None:
        registry.register(own)
    return registry
