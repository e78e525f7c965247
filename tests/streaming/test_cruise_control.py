"""Records of Cruise Control's reporter: exact doubles, rates under their own names, and reasons for refused records."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from streaming.formats import cruise_control
from streaming.formats.common import RAW, SCRAPE_TYPE, Source, table
from streaming.shared.contract import BrokerSignal, Metric

AT_MS = 1_700_000_010_123
TOPIC = "orders-ü".encode()


def of_broker(
    type_: int, value: float, *, broker: int = 7, at_ms: int = AT_MS, class_: int = 0, version: int = 0
) -> bytes:
    return struct.pack(">BBBqid", class_, version, type_, at_ms, broker, value)


def of_topic(type_: int, name: bytes = TOPIC) -> bytes:
    return struct.pack(f">BBBqii{len(name)}sd", 1, 0, type_, AT_MS, 7, len(name), name, 5.0)


def of_partition(type_: int, name: bytes = TOPIC) -> bytes:
    return struct.pack(f">BBBqii{len(name)}sid", 2, 0, type_, AT_MS, 7, len(name), name, 3, 5.0)


def parsed(spark: SparkSession, values: Mapping[str, bytes | None]) -> dict[str, list[Row]]:
    logged = datetime.fromtimestamp(AT_MS / 1000, UTC)
    raw = spark.createDataFrame(
        [(v, "__CruiseControlMetrics", 0, n, logged) for n, v in enumerate(values.values())], RAW
    )
    rows = table(raw, cruise_control.scrapes, Source("main", {"kafka-7": 9})).collect()
    return {name: [row for row in rows if row.offset == n] for n, name in enumerate(values)}


def test_scrapes_broker_metric_becomes_one_sample(spark: SparkSession) -> None:
    values = {name: of_broker(type_, 1e6 + type_) for type_, name in cruise_control.TYPES.items()}
    rows = {name: found[0] for name, found in parsed(spark, values).items()}
    assert {name: [(s.n, s.l, s.v) for s in row.samples] for name, row in rows.items()} == {
        name: [(name, "", 1e6 + type_)] for type_, name in cruise_control.TYPES.items()
    }
    assert {(r.reason, r.cluster, r.node, r.role, r.ts) for r in rows.values()} == {(None, "main", 7, "broker", AT_MS)}


def test_rates_have_distinct_names_and_a_signal_field() -> None:
    assert set(cruise_control.RATES.values()) <= {field.name for field in fields(BrokerSignal)}
    known = {value for key, value in vars(Metric).items() if not key.startswith("_")}
    assert set(cruise_control.RATES).isdisjoint(known)
    assert set(cruise_control.TYPES.values()) == {*cruise_control.RATES, Metric.HANDLER_IDLE}


def test_scrapes_foreign_record_is_skipped_without_reject(spark: SparkSession) -> None:
    values = {
        "cpu": of_broker(5, 0.4),
        "99.9th percentile": of_broker(51, 3.0),
        "of a newer reporter": of_broker(200, 3.0),
        "type of a broker in a topic's record": of_topic(0),
        "topic": of_topic(2),
        "topic without a name": of_topic(2, b""),
        "partition": of_partition(4),
        "NaN": of_broker(0, math.nan),
        "infinite": of_broker(0, -math.inf),
    }
    assert {name: rows for name, rows in parsed(spark, values).items() if rows} == {}


REFUSED: dict[str, tuple[bytes | None, str]] = {
    "tombstone": (None, "empty record"),
    "empty": (b"", "empty record"),
    "text": (b"hello", "unknown class 104: not a record of Cruise Control"),
    "class 3": (of_broker(0, 1.0, class_=3), "unknown class 3: not a record of Cruise Control"),
    "class 255": (b"\xff", "unknown class 255: not a record of Cruise Control"),
    "version 2": (of_broker(0, 1.0, version=2), "version 2, this program reads 0"),
    "one byte": (b"\x00", "1 bytes, 23 expected"),
    "truncated": (of_broker(0, 1.0)[:-1], "22 bytes, 23 expected"),
    "too long": (of_broker(0, 1.0) + b"x", "24 bytes, 23 expected"),
    "topic ends before its name": (of_topic(2)[:17], "17 bytes: the record ends before the topic's name"),
    "topic truncated": (of_topic(2)[:-1], "35 bytes, 36 expected"),
    "partition without its number": (b"\x02" + of_topic(2)[1:], "36 bytes, 40 expected"),
    "name of 4 GB": (of_topic(2)[:15] + b"\xff" * 4, "19 bytes, 4294967322 expected"),
    "a megabyte": (of_broker(0, 1.0) + b"x" * 1_000_000, "1000023 bytes, 23 expected"),
    "before 1970": (of_broker(0, 1.0, at_ms=-1), "time is negative"),
    "negative broker": (of_broker(0, 1.0, broker=-1), "broker is negative"),
}


def test_scrapes_malformed_record_is_refused_with_reason(spark: SparkSession) -> None:
    rows = parsed(spark, {name: value for name, (value, _) in REFUSED.items()})
    assert {name: [row.reason for row in found] for name, found in rows.items()} == {
        name: [reason] for name, (_, reason) in REFUSED.items()
    }


EDGES = (
    [0.0, -0.0, 1.0, -1.0, 0.1, 1e300, 5e-324, -5e-324, math.inf, -math.inf, math.nan, math.pi]
    + [2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308, 9007199254740993.0]
    + [2.0**exponent for exponent in range(-1074, 1024)]
    + [math.nextafter(2.0**exponent, 0.0) for exponent in range(-1022, 1024)]
)


def test_scrapes_double_is_decoded_bit_for_bit(spark: SparkSession) -> None:
    drawn: list[float] = []

    @settings(max_examples=2000, database=None)
    @given(st.one_of(st.floats(), st.integers(0, 2**64 - 1).map(_of_bits)))
    def draw(value: float) -> None:
        drawn.append(value)

    draw()  # One Spark action for all that is drawn, instead of one each.
    values = [*EDGES, *drawn]
    assert len(drawn) >= 1000

    packed = spark.createDataFrame([(n, struct.pack(">d", v)) for n, v in enumerate(values)], "n int, value binary")
    decoded = packed.select("n", cruise_control.double_of(F.hex("value")).alias("v")).collect()
    wrong = [
        (values[row.n], row.v)
        for row in decoded
        if (
            row.v is not None
            if math.isnan(values[row.n])
            else struct.pack(">d", row.v) != struct.pack(">d", values[row.n])
        )
    ]
    assert wrong == []
    assert len(decoded) == len(values)


def _of_bits(bits: int) -> float:
    (value,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert isinstance(value, float)
    return value


def test_scrapes_have_the_common_type(spark: SparkSession) -> None:
    found = spark.createDataFrame([], RAW).select(cruise_control.scrapes(Source("c")).alias("s")).schema["s"].dataType
    wanted = spark.createDataFrame([], f"s array<{SCRAPE_TYPE}>").schema["s"].dataType
    assert found.simpleString() == wanted.simpleString()
