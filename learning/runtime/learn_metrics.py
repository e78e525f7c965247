"""Serves the metrics of `rheostat learn` to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from learning.runtime.learn_counts import LearnCounts
from streaming.shared.metric_defs import LearnMetric
from streaming.shared.metric_page import Labels, metric_family


class LearnCollector(Collector):
    """Turns the counts into Prometheus metrics, for prometheus_client's registry."""

    def __init__(self, cluster: str, counts: LearnCounts) -> None:
        self._cluster = cluster
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts, labels = self._counts, (self._cluster,)
        if counts.learned_to_s is not None:
            yield metric_family(LearnMetric.LEARNED_TO, {labels: counts.learned_to_s})
        for definition, value in (
            (LearnMetric.LEARN_SECONDS, counts.learn_s),
            (LearnMetric.BROKERS, counts.brokers),
            (LearnMetric.PERIODS, counts.records),
            (LearnMetric.REFUSED, counts.refused),
            (LearnMetric.WRITTEN, counts.written),
            (LearnMetric.FAILED, counts.failed),
        ):
            yield metric_family(definition, {labels: float(value)})
        ratios: dict[Labels, float] = {
            (self._cluster, f"{hours}h"): ratio for hours, ratio in counts.error_ratios.copy().items()
        }
        yield metric_family(LearnMetric.ERROR, ratios)


def learn_registry(cluster: str, counts: LearnCounts, process_metrics: Collector) -> CollectorRegistry:
    """Returns a Prometheus registry with the metrics of `rheostat learn`.

    Args:
        process_metrics: the metrics that every process has (``ProcessMetricsCollector``).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LearnCollector(cluster, counts))
    registry.register(process_metrics)
    return registry
