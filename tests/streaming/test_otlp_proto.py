"""OpenTelemetry metrics in protobuf: they yield what the same metrics in JSON yield, and hostile records are refused by name."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from otlp_wire import fixed64, nested, number, request, text, varint
from pyspark.sql import Row, SparkSession
from test_otlp_json import (
    AT_MS,
    GOOD,
    NOT_OURS,
    SAMPLES,
    SOURCE,
    batch,
    batch_of_node_7,
    gauge,
    resource,
    samples_of_only_row,
    total,
)
from test_otlp_json import parsed as parsed_json

from streaming.formats import otlp_proto
from streaming.formats.common import NO_NODE, RAW, SCRAPE_TYPE, Source, table
from streaming.shared.contract import Metric

PROTO = request(GOOD)
ENDS = "not OTLP in protobuf: the record ends within a field"
PARTS = "not OTLP in protobuf: the record has more than 200000 data points, attributes and other parts"
REGISTRY = " with a schema registry's prefix (magic byte 0, schema id 42): let the writer send JSON or OTLP without a schema registry"


def parsed(spark: SparkSession, values: Mapping[str, bytes | None], source: Source = SOURCE) -> dict[str, list[Row]]:
    """Returns the rows of each record from one query."""
    logged = datetime.fromtimestamp(AT_MS / 1000, UTC)
    raw = spark.createDataFrame([(v, "otlp", 0, n, logged) for n, v in enumerate(values.values())], RAW)
    rows = table(raw, otlp_proto.scrapes, source).collect()
    return {name: [row for row in rows if row.offset == n] for n, name in enumerate(values)}


# -- as in JSON -------------------------------------------------------------------------------------------------------


def test_proto_sample_has_contract_name_and_labels(spark: SparkSession) -> None:
    rows = parsed(spark, {case: request(batch_of_node_7(metric)) for case, (metric, _) in SAMPLES.items()})
    assert {case: samples_of_only_row(found) for case, found in rows.items()} == {
        case: {(name, labels): value} for case, (_, (name, labels, value)) in SAMPLES.items()
    }


def test_proto_foreign_record_is_skipped_without_reject(spark: SparkSession) -> None:
    # Neither is protobuf: an empty batch has no bytes, and a value cannot be a word.
    cases = {k: v for k, v in NOT_OURS.items() if k not in ("no resources", "somebody else's wrong value")}
    assert len(cases) > 10
    assert {k: rows for k, rows in parsed(spark, {k: request(v) for k, v in cases.items()}).items() if rows} == {}


def test_proto_batch_yields_the_rows_of_the_same_json(spark: SparkSession) -> None:
    later = AT_MS * 1_000_000 + 5_000_000_000
    record = batch(
        resource({"broker_id": 7, "cluster": "blue", "role": "broker"}, gauge(Metric.LEADER_COUNT, 3)),
        resource(
            {"host.name": "kafka-2.example.com"},
            gauge(Metric.LEADER_COUNT, 4),
            gauge(Metric.LEADER_COUNT, 6, at=later),
            gauge(Metric.PARTITION_COUNT, 8, {"node_id": 9}),
        ),
        resource({"host.name": "elsewhere"}, gauge(Metric.LEADER_COUNT, 1)),
        resource({"instance": "10.0.0.9:7071"}, total(Metric.CLIENT_IN, at := 7), total(Metric.CLIENT_OUT, -at)),
    )
    rows = parsed(spark, {"batch": request(record)})["batch"]
    assert len(rows) == 6
    assert rows == parsed_json(spark, {"batch": record})["batch"]


def test_proto_fields_in_other_orders_and_unknown_fields_are_read(spark: SparkSession) -> None:
    point = nested(7, nested(2, text(1, "Produce")), text(1, "request")) + fixed64(6, (9).to_bytes(8, "little"))
    unknown = (
        number(99, 2**63) + fixed64(100, b"8 bytes.") + nested(101, b"\xff" * 300) + varint(102 << 3 | 5) + b"four"
    )
    metric = nested(7, number(2, 2), unknown, nested(1, unknown, point)) + unknown + text(1, Metric.TOTAL_TIME_COUNT)
    node = nested(1, unknown, nested(1, text(1, "broker_id"), nested(2, unknown, number(3, 7))))
    record = unknown + nested(1, nested(2, unknown, nested(2, metric)), unknown, node)
    assert samples_of_only_row(parsed(spark, {"mixed": record})["mixed"]) == {
        (Metric.TOTAL_TIME_COUNT, "request=Produce"): 9.0
    }


# -- malformed --------------------------------------------------------------------------------------------------------


def of_gauge(*points: bytes) -> bytes:
    """Returns a record with data points of one known metric of node 7."""
    node = nested(1, nested(1, text(1, "broker_id"), nested(2, number(3, 7))))
    return nested(1, node, nested(2, nested(2, text(1, Metric.LEADER_COUNT), nested(5, *points))))


REFUSED: dict[str, tuple[bytes | None, str]] = {
    "tombstone": (None, "empty record"),
    "empty": (b"", "empty record"),
    "truncated": (PROTO[:-1], ENDS),
    "truncated length": (PROTO[:1], ENDS),
    "two records, the second truncated": (PROTO + PROTO[:20], ENDS),
    "text": (b"hello", "not OTLP in protobuf: a field has the wire type 4"),
    "only unknown fields": (nested(4, b"x"), "no resourceMetrics: not OTLP's metrics"),
    "JSON": (b' {"resourceMetrics": []}', "JSON instead of protobuf: set the format otlp_json, or the writer's encoding otlp_proto"),
    "length of 2 GB": (b"\x0a\xff\xff\xff\xff\x07", ENDS),
    "negative length": (b"\x0a" + varint(-5), ENDS),
    "length of 2^63": (b"\x0a" + varint(2**63), ENDS),
    "number without an end": (b"\x0a" + b"\xff" * 11, "not OTLP in protobuf: a number has more than ten bytes"),
    "group": (b"\x0b\x0c", "not OTLP in protobuf: a field has the wire type 3"),
    "wire type 7": (b"\x0f", "not OTLP in protobuf: a field has the wire type 7"),
    "field 0": (b"\x02\x01x", "not OTLP in protobuf: a field has an invalid number"),
    "field 2^32": (varint(2**40) + b"\x01", "not OTLP in protobuf: a field has an invalid number"),
    "name not UTF-8": (PROTO.replace(b"kafka-7", b"kafka-\xff"), "not OTLP in protobuf: a text is not valid UTF-8"),
    "a million points": (of_gauge(nested(1) * 1_000_000), PARTS),
    "a million attributes": (of_gauge(nested(1, nested(7) * 1_000_000)), PARTS),
    "a million resources": (nested(1) * 1_000_000, PARTS),
    "stranger": (request(batch(resource({"host.name": "elsewhere"}, gauge(Metric.CLIENT_IN)))), NO_NODE.replace("{}", "elsewhere")),
    "gzip": (gzip.compress(PROTO), "gzip data: the writer compresses each value itself; switch this off, and let its Kafka producer compress"),
    "schema registry, Protobuf": (b"\0\0\0\0\x2a\0" + PROTO, f"Protobuf{REGISTRY}"),
    "schema registry, Avro": (b"\0\0\0\0\x2a\x06abc", f"Avro or Protobuf{REGISTRY}"),
}  # fmt: skip


def test_proto_malformed_record_is_refused_with_reason(spark: SparkSession) -> None:
    rows = parsed(spark, {name: value for name, (value, _) in REFUSED.items()} | {"good": PROTO})
    assert samples_of_only_row(rows.pop("good")) == {(Metric.CLIENT_IN, ""): 5.0}
    assert {name: [row.reason for row in found] for name, found in rows.items()} == {
        name: [reason] for name, (_, reason) in REFUSED.items()
    }


def test_proto_deep_nesting_in_attribute_is_skipped(spark: SparkSession) -> None:
    value = number(3, 1)
    for _ in range(10_000):
        value = nested(5, nested(1, value))
    record = of_gauge(nested(1, nested(7, text(1, "deep"), nested(2, value)), fixed64(6, b"\x05" + bytes(7))))
    assert len(record) > 50_000
    assert samples_of_only_row(parsed(spark, {"deep": record})["deep"]) == {(Metric.LEADER_COUNT, ""): 5.0}


def test_proto_points_of_many_times_are_grouped_fast(spark: SparkSession) -> None:
    """A record of 1 MB may have a data point of its own for each of 45,000 times. Comparing each with each takes many minutes."""
    points = [
        nested(1, fixed64(3, (n * 1_000_000).to_bytes(8, "little")), fixed64(4, bytes(8))) for n in range(1, 45_000)
    ]
    record = of_gauge(*points)
    assert len(record) < 1_000_000
    began_s = time.monotonic()
    rows = parsed(spark, {"times": record})["times"]
    assert time.monotonic() - began_s < 60
    assert len(rows) == len(points)


def test_proto_long_name_of_a_resource_is_not_copied_for_each_point(spark: SparkSession) -> None:
    """Spark copies the names of a resource for each point: 0.5 MB for each of 20,000 points would need 10 GB."""
    names = {"broker_id": 7, "cluster": "c" * 500_000, "role": "r" * 10_000, "host.name": "h" * 10_000}
    (row,) = parsed(spark, {"long": request(batch(resource(names, gauge(Metric.LEADER_COUNT, 3))))})["long"]
    assert (row.cluster, row.role, row.node) == ("c" * 256, None, 7)


def test_proto_any_damaged_record_is_read_or_refused(spark: SparkSession) -> None:
    chance = random.Random(4711)
    damaged: dict[str, bytes] = {}
    for n in range(400):
        at, cut = chance.randrange(len(PROTO)), chance.randrange(4)
        damaged[str(n)] = PROTO[:at] + chance.randbytes(chance.randrange(4)) + PROTO[at + cut :]
    rows = parsed(spark, damaged)
    reasons = {row.reason for found in rows.values() for row in found}
    assert ENDS in reasons
    assert all(reason is None or len(reason) < 200 for reason in reasons)


def test_proto_without_hosts_has_the_common_type(spark: SparkSession) -> None:
    found = spark.createDataFrame([], RAW).select(otlp_proto.scrapes(Source("c")).alias("s")).schema["s"].dataType
    expected = spark.createDataFrame([], f"s array<{SCRAPE_TYPE}>").schema["s"].dataType
    assert found.simpleString() == expected.simpleString()
    assert samples_of_only_row(parsed(spark, {"good": PROTO}, Source("c"))["good"]) == {(Metric.CLIENT_IN, ""): 5.0}
