"""Every format names a wrapped value, and the reason is that of the doctor."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from test_all_formats import NODES, WRITERS

from streaming.formats.common import RAW, Source, table
from streaming.formats.registry import FORMATS
from streaming.settings import FormatName
from streaming.shared.envelopes import PREFIXES, envelope_text

TEXT_FORMATS: tuple[FormatName, ...] = (
    "rheostat_json", "telegraf_json", "telegraf_influx", "prometheus_json", "otlp_json", "otlp_proto",
)  # fmt: skip


def wrapped(good: bytes) -> list[bytes]:
    # None is a line of line protocol, which allows any byte in the name of a measurement.
    registry = [b"\0\0\0\x01\x07\x06abc\x02", b"\0\xff\xff\xff\xff\x06plain", b"\0\0\0\0\x2a\0\x0a\x02\x08\x01"]
    return [gzip.compress(good), *registry, *(prefix + b"\x02rest" for prefix in PREFIXES)]


@pytest.mark.parametrize("format_", TEXT_FORMATS)
def test_wrapped_value_is_refused_by_name(spark: SparkSession, format_: FormatName) -> None:
    good = WRITERS[format_](1, NODES[format_])[0]
    values = wrapped(good)
    raw = spark.createDataFrame([(v, "t", 0, n, datetime.now(UTC)) for n, v in enumerate(values)], RAW)
    rows = sorted(table(raw, FORMATS[format_], Source("c")).collect(), key=lambda row: row.offset)
    reasons = [row.reason for row in rows]
    assert reasons == [envelope_text(value) for value in values]
    assert len(set(reasons)) > 6
    assert None not in reasons


def test_value_that_only_resembles_an_envelope_keeps_its_reason(spark: SparkSession) -> None:
    values = [b"\0\0\0\0\0text", b"\0\0\0\0\x2a", b"\x1f", b"\x03\x01\x02"]
    assert [envelope_text(value) for value in values] == [None] * len(values)
    raw = spark.createDataFrame([(v, "t", 0, n, datetime.now(UTC)) for n, v in enumerate(values)], RAW)
    rows = table(raw, FORMATS["telegraf_json"], Source("c")).collect()
    assert {row.reason for row in rows} == {"not JSON: one object and nothing else is expected"}
