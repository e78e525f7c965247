"""The names of the OpenTelemetry metrics that the stream reads."""

from __future__ import annotations

from types import MappingProxyType

from streaming.formats.prometheus_names import METRICS, METRICS_OF_MACHINES
from streaming.shared.contract import Metric

# Names of opentelemetry-java-contrib's jmx-scraper, the Java agent and the older gatherer. Keys include the selector.
OTEL_NAMES = MappingProxyType(
    {
        "kafka.network.io/in": Metric.CLIENT_IN,
        "kafka.network.io/out": Metric.CLIENT_OUT,
        "kafka.partition.count": Metric.PARTITION_COUNT,
        "kafka.leader.count": Metric.LEADER_COUNT,
        "kafka.isr.operation.count/shrink": Metric.ISR_SHRINKS,
        "kafka.isr.operation.count/expand": Metric.ISR_EXPANDS,
        "kafka.max.lag": Metric.REPLICA_LAG_MAX,
        "kafka.lag.max": Metric.REPLICA_LAG_MAX,
        "kafka.controller.active.count": Metric.ACTIVE_CONTROLLER,
        "kafka.request.handler.idle.1m": Metric.HANDLER_IDLE,
        "kafka.request.time.99p": Metric.TOTAL_TIME_P99,
        "kafka.request.total.time.99p": Metric.TOTAL_TIME_P99,
        "kafka.request.time.avg": Metric.TOTAL_TIME_MEAN,
        "kafka.request.time.total": Metric.TOTAL_TIME_COUNT,  # In spite of its name, this is the histogram's Count.
    }
)
# As in ``prometheus_names.METRICS``: the keys include the selector.
NAMES = {key: metric for key, metric in METRICS.items() if metric not in METRICS_OF_MACHINES} | OTEL_NAMES
METRIC_NAMES = sorted({key.split("/")[0] for key in NAMES})
