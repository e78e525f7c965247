"""Serves the stream's metrics to Prometheus: the age of its signals, its lag, and the records it could not read."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import StreamMetric
from streaming.shared.metric_page import metric_family
from streaming.stream_counts import StreamCounts


class StreamCollector(Collector):
    """Turns the counts into Prometheus metrics, for prometheus_client's registry."""

    def __init__(self, cluster: str, counts: StreamCounts, slide_s: float) -> None:
        self._cluster = cluster
        self._counts = counts
        self._slide_s = slide_s

    def collect(self) -> Iterator[Metric]:
        counts, labels = self._counts, (self._cluster,)
        last = counts.last
        if last is not None:
            for definition, measured in (
                (StreamMetric.BATCH_AT, last.ended_at_s),
                (StreamMetric.BATCH_SECONDS, last.took_s),
                (StreamMetric.NEWEST_INPUT_AT, last.newest_input_at_s),
                (StreamMetric.WATERMARK_AT, last.watermark_at_s),
                (StreamMetric.INPUT_BEHIND, last.behind_records),
                (StreamMetric.STATE_ROWS, last.state_rows),
            ):
                yield metric_family(definition, {labels: measured} if measured is not None else {})
        if counts.history_end_ms is not None and counts.history_job_s is not None:
            yield metric_family(StreamMetric.HISTORY_AT, {labels: counts.history_end_ms / 1000})
            yield metric_family(StreamMetric.HISTORY_SECONDS, {labels: counts.history_job_s})
        for definition, value in (
            (StreamMetric.ACTIVE, float(counts.active)),
            (StreamMetric.BATCH_INTERVAL, self._slide_s),
            (StreamMetric.BATCHES, counts.batches),
            (StreamMetric.INPUT_ROWS, counts.input_rows),
            (StreamMetric.LATE_ROWS, counts.late_rows),
            (StreamMetric.REJECTS, counts.refused),
            (StreamMetric.REJECTS_NOT_WRITTEN, counts.refused_not_written),
            (StreamMetric.QUARANTINED, counts.quarantined),
            (StreamMetric.RESTARTS, counts.restarts),
            (StreamMetric.BACKLOG, counts.backlog_remaining),
            (StreamMetric.BACKLOG_LOST_RECORDS, counts.backlog_lost),
            (StreamMetric.HISTORY_PERIODS, counts.history_periods),
            (StreamMetric.HISTORY_REFUSED, counts.history_refused),
            (StreamMetric.HISTORY_FAILURES, counts.history_failures),
        ):
            yield metric_family(definition, {labels: value})


def registry_of(
    cluster: str, counts: StreamCounts, slide_s: float, process_metrics: Collector | None = None
) -> CollectorRegistry:
    """Returns a Prometheus registry with the stream's metrics.

    Args:
        process_metrics: the metrics that every process has (``ProcessMetricsCollector``).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StreamCollector(cluster, counts, slide_s))
    if process_metrics is not None:
        registry.register(process_metrics)
    return registry
