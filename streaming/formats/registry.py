"""Maps the format names of the settings to the formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column

from streaming.formats import (
    cruise_control,
    otlp_json,
    otlp_proto,
    prometheus_json,
    rheostat_json,
    telegraf_influx,
    telegraf_json,
)
from streaming.formats.common import Format
from streaming.kernel import entities_of_json
from streaming.settings import FormatName

FORMATS: Mapping[FormatName, Format] = MappingProxyType(
    {
        "rheostat_json": rheostat_json.scrapes,
        "telegraf_json": telegraf_json.scrapes,
        "telegraf_influx": telegraf_influx.scrapes,
        "prometheus_json": prometheus_json.scrapes,
        "otlp_json": otlp_json.scrapes,
        "otlp_proto": otlp_proto.scrapes,
        "cruise_control": cruise_control.scrapes,
    }
)

# Formats that bring all of a scrape in one record.
WHOLE_SCRAPE_FORMATS: frozenset[FormatName] = frozenset({"rheostat_json"})

# Formats that the Java kernel parses itself; a record that the kernel does not accept goes to the format's expression.
KERNEL_PARSED_FORMATS: Mapping[FormatName, Callable[..., Column]] = MappingProxyType(
    {"rheostat_json": entities_of_json}
)
