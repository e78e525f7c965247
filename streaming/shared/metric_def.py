"""What a metric is. Units are the last word of a name, as Prometheus asks; the metrics themselves stand in metric_defs.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal


class Unit(StrEnum):
    """Prometheus' base units, in words for people; their suffixes stand in ``SUFFIXES``."""

    SECONDS = "s"
    SINCE_1970 = "s since 1970"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    PARTITIONS_PER_SECOND = "partitions/s"
    PER_SECOND = "1/s"
    RATIO = "ratio"
    TRUTH = "0 or 1"
    COUNT = "count"


# How a name ends before a counter's _total; what is counted, or is so or not, says its name without a unit.
SUFFIXES = {
    Unit.SINCE_1970: "_timestamp_seconds",
    Unit.PARTITIONS_PER_SECOND: "_partitions_per_second",
    Unit.BYTES_PER_SECOND: "_bytes_per_second",
    Unit.PER_SECOND: "_per_second",
    Unit.SECONDS: "_seconds",
    Unit.BYTES: "_bytes",
    Unit.RATIO: "_ratio",
}


@dataclass(frozen=True, slots=True)
class MetricDef:
    name: str
    kind: Literal["gauge", "counter", "histogram"]
    unit: Unit
    labels: tuple[str, ...]
    meaning: str


def metric_defs_in(names: Mapping[str, Any]) -> tuple[MetricDef, ...]:
    """
    Args:
        names: a module's ``globals()``.
    """
    return tuple(value for value in list(names.values()) if isinstance(value, MetricDef))
