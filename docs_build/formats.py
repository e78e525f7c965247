"""Renders the table of the signal fields that each wire format can give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from streaming.formats import cruise_control, otlp_names, telegraf
from streaming.formats.prometheus_names import METRICS
from streaming.shared.contract import Metric
from streaming.signal_fields import (
    BROKER_COUNTERS,
    BROKER_GAUGES,
    BROKER_MEANS,
    BROKER_TOTALS,
    CONTROLLER_COUNTERS,
    CONTROLLER_GAUGES,
    CONTROLLER_MEANS,
    CONTROLLER_TOTALS,
    SMOOTHED,
    TENANT_GAUGES,
    FieldSamples,
    Labels,
    Totals,
)

# The kinds of MBeans, as in ``telegraf.FIELDS``, that Telegraf's own example for Kafka reads.
_TELEGRAF_EXAMPLE = ("topics", "replica_manager", "request", "controller")
# Requests whose times OpenTelemetry's own rules read (opentelemetry-java-contrib, jmx-scraper/src/main/resources/kafka.yaml).
_OTEL_REQUESTS = ("request=Produce", "request=FetchConsumer")
_YES, _NO, _MEAN = "yes", "–", "mean of 1 min"

Sample = tuple[str, Labels]  # Name and labels, as in ``contract.Metric``.
Field = tuple[str, str, list[Sample]]  # Kind of the signal, name of the field, and the samples that the field needs.


def _telegraf_names(kinds: Iterable[str]) -> frozenset[str]:
    return frozenset(name for kind in kinds for name in telegraf.FIELDS[kind].values())


def _has(names: Iterable[str]) -> Callable[[Sample], bool]:
    known_names = frozenset(names)
    return lambda sample: sample[0] in known_names


def _otel_rules_have(sample: Sample) -> bool:
    name, labels = sample
    is_other_request = str(labels).startswith("request=") and labels not in _OTEL_REQUESTS
    return name in otlp_names.OTEL_NAMES.values() and not is_other_request


# Heading of a column → whether the writer of this column sends a sample.
_COLUMNS: Mapping[str, Callable[[Sample], bool]] = {
    "`rheostat_json`": lambda sample: sample[0] != Metric.LINK_SPEED,  # The agents know nothing about the machine.
    "`telegraf_*`": _has(_telegraf_names(telegraf.FIELDS)),
    "Telegraf's own example": _has(_telegraf_names(_TELEGRAF_EXAMPLE)),
    "`prometheus_json`": _has(METRICS.values()),
    "`otlp_*`": _has(otlp_names.NAMES.values()),
    "OpenTelemetry's own rules": _otel_rules_have,
    "`cruise_control`": _has(cruise_control.TYPES.values()),
}


def render_formats() -> str:
    """Returns the table: one row for each field of a signal."""
    lines = [
        f"| signal | field | {' | '.join(_COLUMNS)} |",
        f"|---|---|{'---|' * len(_COLUMNS)}",
    ]
    for signal, field, samples in _fields():
        cells = " | ".join(_cell(field, samples, has) for has in _COLUMNS.values())
        lines.append(f"| {signal} | `{field}` | {cells} |")
    return "\n".join(lines)


def _cell(field: str, samples: list[Sample], has: Callable[[Sample], bool]) -> str:
    """Returns whether a writer gives the field: from its samples, from a mean rate of one minute, or not at all."""
    if all(map(has, samples)):
        return _YES
    minute_rates = [(name, "") for name, rate_field in cruise_control.RATES.items() if rate_field == field]
    return _MEAN if minute_rates and all(map(has, minute_rates)) else _NO


def _fields() -> Iterator[Field]:
    """Yields signal, field, and the samples that the field needs."""
    yield from _fields_of_node("broker", BROKER_COUNTERS, BROKER_GAUGES, BROKER_TOTALS, BROKER_MEANS)
    yield from _fields_of_node(
        "controller", CONTROLLER_COUNTERS, CONTROLLER_GAUGES, CONTROLLER_TOTALS, CONTROLLER_MEANS
    )
    for field, name in TENANT_GAUGES.items():
        yield "tenant", field, [(name, None)]


def _fields_of_node(
    signal: str, counters: FieldSamples, gauges: FieldSamples, totals: Totals, means: Totals
) -> Iterator[Field]:
    # A mean over a window is a total divided by a count. The gauges and counters of both are no fields of a signal.
    gauges_of_totals = {name for pair in totals.values() for name in pair if name in gauges}
    unpublished = gauges_of_totals | {"produced_per_s", "processed_per_s"}
    for field, sample in {**counters, **gauges}.items():
        if field not in unpublished and not field.endswith(SMOOTHED):
            yield signal, field, [sample]
    for field, (total, count) in means.items():
        yield signal, field, [gauges[totals[total][0]], counters[count]]
