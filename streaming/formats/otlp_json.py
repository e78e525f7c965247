"""Parses OpenTelemetry metrics in JSON, as the Collector's kafka exporter writes them with ``encoding: otlp_json``.

    {"resourceMetrics": [{"resource": {"attributes": […]}, "scopeMetrics": [{"metrics": [
        {"name": "kafka_server_leaderreplication_byte_rate", "gauge": {"dataPoints": [
            {"attributes": […], "timeUnixNano": "1700000010000000000", "asDouble": 4.2e6}]}}]}]}]}

Numbers follow protobuf's JSON: 64-bit integers may be text, enums are numbers or names, NaN and Infinity are words.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats import otlp
from streaming.formats.common import NOT_JSON, Source, envelope_or, let

_POINTS = f"array<struct<attributes {otlp.ATTRIBUTES_TYPE}, timeUnixNano string, asDouble string, asInt string, flags string>>"
_METRIC = (
    f"struct<name string, unit string, gauge struct<dataPoints {_POINTS}>,"
    f" sum struct<aggregationTemporality string, dataPoints {_POINTS}>>"
)
_SCHEMA = (
    f"record struct<resourceMetrics array<struct<resource struct<attributes {otlp.ATTRIBUTES_TYPE}>,"
    f" scopeMetrics array<struct<metrics array<{_METRIC}>>>>>>, whole boolean, _corrupt_record string"
)
_PROTOBUF = "protobuf instead of JSON: set the format otlp_proto, or the writer's encoding otlp_json"
_OPTIONS = {"columnNameOfCorruptRecord": "_corrupt_record", "allowSingleQuotes": "false"}


def scrapes(source: Source) -> Column:
    """Implements ``common.Format``: returns a scrape for each node and time."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    json = F.from_json(wrapped, _SCHEMA, _OPTIONS)
    return let(json, lambda parsed: otlp.scrapes(_reason(text, parsed), parsed.record, source))


def _reason(text: Column, json: Column) -> Column:
    """Returns why the record is refused, or NULL. Each check may rely on the checks before it."""
    # An ExportMetricsServiceRequest begins with the tag of its first field, which is a line feed as text.
    is_protobuf = F.startswith(text, F.lit("\n")) & ~text.rlike(r"^\s*+[\[{]")
    return (
        # A tombstone parses to NULL and would vanish without this check.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~F.is_valid_utf8(text), F.when(is_protobuf, _PROTOBUF).otherwise(envelope_or("invalid UTF-8")))
        .when(
            json.record.isNull() | json.whole.isNull(), F.when(is_protobuf, _PROTOBUF).otherwise(envelope_or(NOT_JSON))
        )
        .when(json["_corrupt_record"].isNotNull(), "a field has the wrong type")
        .when(json.record.resourceMetrics.isNull(), "no resourceMetrics: not OTLP, or not as JSON")
    )
