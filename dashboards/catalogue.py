"""Every metric of every process, for panels, rules and docs/metrics.md."""

from __future__ import annotations

from streaming import metric_defs as own
from streaming import stream_metrics
from streaming.collector import metrics as collector
from streaming.metric_defs import MetricDef
from tuner.api import metric_defs as tuner

BY_PROCESS: dict[str, tuple[MetricDef, ...]] = {
    "every process": own.ALL,
    "collector": collector.ALL,
    "stream": stream_metrics.ALL,
    "tuner": tuner.ALL,
}
ALL: tuple[MetricDef, ...] = tuple(metric for metrics in BY_PROCESS.values() for metric in metrics)
