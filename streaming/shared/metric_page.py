"""One metric with all its values, and the page that Prometheus reads.

A page of a thousand brokers is some twenty thousand lines. prometheus_client makes an object of each line, and then text of
each object, which takes the time of a decision cycle: here a line is made of its values at once. To whoever asks in
prometheus_client's own way, ``MetricFamily`` is one of its metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from streaming.shared.metric_def import MetricDef

Labels = tuple[str, ...]

_WHOLE_MAX = 1e15
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class MetricFamily(Metric):
    """Values by their labels, in the order of the definition."""

    def __init__(self, definition: MetricDef, values: Mapping[Labels, float]) -> None:
        self.definition = definition
        self.values = values
        # A counter's name is told without its last word, which prometheus_client adds again.
        super().__init__(definition.name.removesuffix("_total"), definition.meaning, definition.kind)

    @property
    def samples(self) -> list[Sample]:
        labels = self.definition.labels
        return [
            Sample(self.definition.name, dict(zip(labels, of, strict=True)), value) for of, value in self.values.items()
        ]

    @samples.setter
    def samples(self, made: list[Sample]) -> None:
        """prometheus_client begins with an empty list."""

    def lines(self) -> Iterator[str]:
        name, kind = self.definition.name, self.definition.kind
        yield f"# HELP {name} {self.definition.meaning}\n# TYPE {name} {kind}\n"
        if not self.definition.labels:
            yield from (f"{name} {_number(value)}\n" for value in self.values.values())
            return
        places = ",".join(f'{label}="%s"' for label in self.definition.labels)
        head = f"{name}{{{places}}} %s\n"
        for labels, value in self.values.items():
            yield head % (*_escaped(labels), _number(value))


def metric_family(definition: MetricDef, values: Mapping[Labels, float]) -> Metric:
    return MetricFamily(definition, values)


def _at_once() -> None:
    pass


def render_page(registry: CollectorRegistry, yield_control: Callable[[], None] = _at_once) -> bytes:
    """All that is registered, in Prometheus' text format.

    Args:
        yield_control: called before each metric.
    """
    text: list[str] = []
    for metric in registry.collect():
        yield_control()
        if isinstance(metric, MetricFamily):
            text.extend(metric.lines())
        else:
            text.append(generate_latest(_Alone(metric)).decode())
    return "".join(text).encode()


class _Alone(Collector):
    """A metric of prometheus_client's own making."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _number(value: float) -> str:
    """Whole numbers, which most are, in as few letters as there are digits."""
    is_whole = -_WHOLE_MAX < value < _WHOLE_MAX and value == int(value)
    return str(int(value)) if is_whole else str(value)


def _escaped(labels: Labels) -> Labels:
    text = "".join(labels)
    if "\\" in text or '"' in text or "\n" in text:
        return tuple(label.translate(_ESCAPES) for label in labels)
    return labels
