"""Renders metrics as the text page that Prometheus scrapes, faster than prometheus_client does.

The page of a thousand brokers has about twenty thousand lines. prometheus_client builds an object for each line, and then text from
each object, which takes as long as a decision cycle. ``MetricFamily`` writes its lines directly. It still has the interface of a
metric of prometheus_client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from streaming.shared.metric_def import MetricDef

Labels = tuple[str, ...]

_WHOLE_MAX = 1e15  # Below this value, a float holds every whole number exactly.
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class MetricFamily(Metric):
    """One metric and its values by label values, in the order of the definition's labels."""

    def __init__(self, definition: MetricDef, values: Mapping[Labels, float]) -> None:
        self.definition = definition
        self.values = values
        # prometheus_client adds ``_total`` to a counter's name itself.
        super().__init__(definition.name.removesuffix("_total"), definition.meaning, definition.kind)

    @property
    def samples(self) -> list[Sample]:
        labels = self.definition.labels
        return [
            Sample(self.definition.name, dict(zip(labels, label_values, strict=True)), value)
            for label_values, value in self.values.items()
        ]

    @samples.setter
    def samples(self, samples: list[Sample]) -> None:
        """Ignores the empty list that prometheus_client's constructor assigns."""

    def lines(self) -> Iterator[str]:
        name, kind = self.definition.name, self.definition.kind
        yield f"# HELP {name} {self.definition.meaning}\n# TYPE {name} {kind}\n"
        if not self.definition.labels:
            yield from (f"{name} {_number(value)}\n" for value in self.values.values())
            return
        placeholders = ",".join(f'{label}="%s"' for label in self.definition.labels)
        line_format = f"{name}{{{placeholders}}} %s\n"
        for labels, value in self.values.items():
            yield line_format % (*_escaped(labels), _number(value))


def metric_family(definition: MetricDef, values: Mapping[Labels, float]) -> Metric:
    return MetricFamily(definition, values)


def _do_nothing() -> None:
    pass


def render_page(registry: CollectorRegistry, yield_control: Callable[[], None] = _do_nothing) -> bytes:
    """Returns all metrics of the registry in Prometheus' text format.

    Args:
        yield_control: called before each metric, so that other threads can run.
    """
    text: list[str] = []
    for metric in registry.collect():
        yield_control()
        if isinstance(metric, MetricFamily):
            text.extend(metric.lines())
        else:
            text.append(generate_latest(_SingleMetric(metric)).decode())
    return "".join(text).encode()


class _SingleMetric(Collector):
    """A collector of one metric, for ``generate_latest``."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _number(value: float) -> str:
    """Returns the value as text; a whole number without a decimal point, to keep the page small."""
    is_whole = -_WHOLE_MAX < value < _WHOLE_MAX and value == int(value)
    return str(int(value)) if is_whole else str(value)


def _escaped(labels: Labels) -> Labels:
    text = "".join(labels)
    if "\\" in text or '"' in text or "\n" in text:
        return tuple(label.translate(_ESCAPES) for label in labels)
    return labels
