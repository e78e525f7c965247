"""Types that define a metric: name, kind, unit, labels and meaning. The definitions themselves are in metric_defs.py.

A name ends with its unit, as Prometheus recommends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal


class Unit(StrEnum):
    """Prometheus' base units as readers see them; ``SUFFIXES`` holds the suffixes of metric names."""

    SECONDS = "s"
    SINCE_1970 = "s since 1970"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    PARTITIONS_PER_SECOND = "partitions/s"
    MESSAGES = "messages"
    MESSAGES_PER_SECOND = "messages/s"
    PER_SECOND = "1/s"
    RATIO = "ratio"
    TRUTH = "0 or 1"
    COUNT = "count"


# Suffix of a name by unit (before a counter's _total). Counts and truth values have none.
SUFFIXES = {
    Unit.SINCE_1970: "_timestamp_seconds",
    Unit.PARTITIONS_PER_SECOND: "_partitions_per_second",
    Unit.BYTES_PER_SECOND: "_bytes_per_second",
    Unit.MESSAGES_PER_SECOND: "_messages_per_second",
    Unit.PER_SECOND: "_per_second",
    Unit.SECONDS: "_seconds",
    Unit.BYTES: "_bytes",
    Unit.RATIO: "_ratio",
    Unit.MESSAGES: "_messages",
}


@dataclass(frozen=True, slots=True)
class MetricDef:
    name: str
    kind: Literal["gauge", "counter", "histogram"]
    unit: Unit
    labels: tuple[str, ...]
    meaning: str


def metric_defs_in(names: Mapping[str, Any]) -> tuple[MetricDef, ...]:
    """Returns the metric definitions among ``names``, for example the ``vars`` of a class."""
    return tuple(value for value in list(names.values()) if isinstance(value, MetricDef))
