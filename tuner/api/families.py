"""One metric with all its values, in the shape that prometheus_client writes out."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tuner.api.metric_defs import MetricDef

Labels = tuple[str, ...]


def family(definition: MetricDef, values: dict[Labels, float]) -> Metric:
    make = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    made = make(definition.name, definition.meaning, labels=definition.labels)
    for labels, value in values.items():
        made.add_metric(labels, value)
    return made
