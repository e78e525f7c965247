"""What a metric is, and those that every process of rheostat has. The others stand where they are made: collector/metrics.py,
stream_metrics.py, and the tuner's own in its api/metric_defs.py. Units are the last word of a name, as Prometheus asks.
"""

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


def defined_in(names: Mapping[str, Any]) -> tuple[MetricDef, ...]:
    """
    Args:
        names: a module's ``globals()``.
    """
    return tuple(value for value in list(names.values()) if isinstance(value, MetricDef))


_PART = ("cluster", "part")

BUILD_INFO = MetricDef(
    "rheostat_build_info", "gauge", Unit.TRUTH, ("version", "part"),
    "1, labelled with the running version and what runs: collect, stream or tune.",
)  # fmt: skip
CONFIG_GOOD = MetricDef(
    "rheostat_config_last_reload_successful", "gauge", Unit.TRUTH, _PART,
    "1 while the settings file is in order as it stands on disk now, 0 when the next start would refuse it. "
    "What runs goes on with what it has.",
)  # fmt: skip
CONFIG_GOOD_AT = MetricDef(
    "rheostat_config_last_reload_success_timestamp_seconds", "gauge", Unit.SINCE_1970, _PART,
    "When the settings file was last read and found in order.",
)  # fmt: skip
CONFIG_IN_FORCE = MetricDef(
    "rheostat_config_in_force", "gauge", Unit.TRUTH, _PART,
    "1 while this process runs with what the settings file says now, 0 when a reload or a restart would change that.",
)  # fmt: skip
CONFIG_RELOADS = MetricDef(
    "rheostat_config_reloads_total", "counter", Unit.COUNT, (*_PART, "result"),
    "Times this process was asked (SIGHUP) to take up its settings file anew: taken, or refused as it has a fault or changes what "
    "needs a restart. Only the tuner can be asked.",
)  # fmt: skip
CPU_SECONDS = MetricDef(
    "rheostat_process_cpu_seconds_total", "counter", Unit.SECONDS, _PART,
    "CPU time of this process since its start, Spark's JVM left out.",
)  # fmt: skip
RESIDENT_BYTES = MetricDef(
    "rheostat_process_resident_memory_bytes", "gauge", Unit.BYTES, _PART,
    "Memory of this process, Spark's JVM left out; absent where the system has no /proc.",
)  # fmt: skip
STARTED_AT = MetricDef(
    "rheostat_process_start_timestamp_seconds",
    "gauge",
    Unit.SINCE_1970,
    _PART,
    "When this process began to tell of itself.",
)

ALL = defined_in(globals())
