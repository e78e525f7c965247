"""OpenTelemetry metrics in JSON: a batch is split by node and time, deltas are not used as counters, and the shipped rules cover every
metric that rheostat reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import Row, SparkSession

from streaming.formats import otlp_json
from streaming.formats.common import NO_NODE, RAW, SCRAPE_TYPE, Source, table
from streaming.shared.contract import Metric

AT_MS = 1_700_000_010_123
AT = str(AT_MS * 1_000_000 + 456_789)
SOURCE = Source("main", {"kafka-2.example.com": 2, "10.0.0.9:7071": 3})
COLLECTORS = Path(__file__).parents[2] / "conf" / "collectors"
NOT_JSON = "not JSON: one object and nothing else is expected"
PROTOBUF = "protobuf instead of JSON: set the format otlp_proto, or the writer's encoding otlp_json"


def attributes(named: Mapping[str, Any]) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue", bool: "boolValue", list: "arrayValue"}
    return [{"key": key, "value": {kinds[type(value)]: value}} for key, value in named.items()]


def gauge(name: str, value: Any = 5.0, labels: Mapping[str, Any] = {}, at: Any = AT, **other: Any) -> dict[str, Any]:
    point = {"attributes": attributes(labels), "timeUnixNano": at, "asDouble": value, **other}
    return {"name": name, "gauge": {"dataPoints": [point]}}


def total(name: str, value: Any = "5", labels: Mapping[str, Any] = {}, temporality: Any = 2) -> dict[str, Any]:
    point = {"attributes": attributes(labels), "startTimeUnixNano": "1", "timeUnixNano": AT, "asInt": value}
    return {"name": name, "sum": {"aggregationTemporality": temporality, "isMonotonic": True, "dataPoints": [point]}}


def resource(named: Mapping[str, Any], *metrics: Any) -> dict[str, Any]:
    scope = {"scope": {"name": "io.opentelemetry.jmx", "version": "2"}, "metrics": list(metrics)}
    return {"resource": {"attributes": attributes(named)}, "scopeMetrics": [scope], "schemaUrl": "x"}


def batch(*resources: Any) -> dict[str, Any]:
    return {"resourceMetrics": list(resources)}


def batch_of_node_7(*metrics: Any) -> dict[str, Any]:
    return batch(resource({"broker_id": "7", "host.name": "kafka-7"}, *metrics))


GOOD = batch_of_node_7(total(Metric.CLIENT_IN))
TEXT = json.dumps(GOOD).encode()


def parsed(spark: SparkSession, values: Mapping[str, Any], source: Source = SOURCE) -> dict[str, list[Row]]:
    """Returns the rows of each record from one query; values other than bytes and None are written as JSON."""
    written = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for v in values.values()]
    logged = datetime.fromtimestamp(AT_MS / 1000, UTC)
    raw = spark.createDataFrame([(v, "otlp", 0, n, logged) for n, v in enumerate(written)], RAW)
    rows = table(raw, otlp_json.scrapes, source).collect()
    return {name: [row for row in rows if row.offset == n] for n, name in enumerate(values)}


def samples(row: Row) -> dict[tuple[str, str], float]:
    return {(s.n, s.l): s.v for s in row.samples}


def samples_of_only_row(rows: list[Row]) -> dict[tuple[str, str], float]:
    assert [row.reason for row in rows] == [None]
    return samples(rows[0])


# -- what a batch becomes ---------------------------------------------------------------------------------------------


def test_scrapes_batch_splits_by_node_and_time_with_one_refusal(spark: SparkSession) -> None:
    later = str(int(AT) + 5_000_000_000)
    record = batch(
        resource(
            {"broker_id": 7, "cluster": "blue", "role": "broker"},
            gauge(Metric.LEADER_COUNT, 3),
            total(Metric.CLIENT_IN),
        ),
        resource(
            {"host.name": "kafka-2.example.com"}, gauge(Metric.LEADER_COUNT, 4), gauge(Metric.LEADER_COUNT, 6, at=later)
        ),
        resource({"host.name": "elsewhere"}, gauge(Metric.LEADER_COUNT, 1), gauge(Metric.PARTITION_COUNT, 2)),
        resource({"host.name": "elsewhere, too"}, gauge(Metric.LEADER_COUNT, 1)),
        resource({"host.name": "a database"}, gauge("db.connections", 1)),
    )
    rows = parsed(spark, {"batch": record})["batch"]
    assert [(r.reason, r.cluster, r.node, r.role, r.ts, samples(r)) for r in rows if r.reason is None] == [
        (None, "blue", 7, "broker", AT_MS, {(Metric.LEADER_COUNT, ""): 3.0, (Metric.CLIENT_IN, ""): 5.0}),
        (None, "main", 2, None, AT_MS, {(Metric.LEADER_COUNT, ""): 4.0}),
        (None, "main", 2, None, AT_MS + 5_000, {(Metric.LEADER_COUNT, ""): 6.0}),
    ]
    assert [r.reason for r in rows if r.reason] == [NO_NODE.replace("{}", "elsewhere")]


SAMPLES: dict[str, tuple[Any, tuple[str, str, float]]] = {
    "ours": (gauge(Metric.FOLLOWER_THROTTLED), (Metric.FOLLOWER_THROTTLED, "", 5.0)),
    "whole number": (total(Metric.CLIENT_OUT, 5), (Metric.CLIENT_OUT, "", 5.0)),
    "64 bits as text": (total(Metric.CLIENT_OUT, "9007199254740992"), (Metric.CLIENT_OUT, "", 9007199254740992.0)),
    "temporality by name": (
        total(Metric.CLIENT_OUT, temporality="AGGREGATION_TEMPORALITY_CUMULATIVE"),
        (Metric.CLIENT_OUT, "", 5.0),
    ),
    "request": (
        gauge(Metric.TOTAL_TIME_P99, labels={"request": "FetchFollower"}),
        (Metric.TOTAL_TIME_P99, "request=FetchFollower", 5.0),
    ),
    "tenant": (
        gauge(Metric.MUTATION_TOKENS, -2.5, {"user": '"alice"', "client_id": "app"}),
        (Metric.MUTATION_TOKENS, "client_id=app,user=alice", -2.5),
    ),
    "network": (
        total(Metric.NETWORK_IN, labels={"listener": "PLAIN", "networkprocessor": "1"}),
        (Metric.NETWORK_IN, "listener=PLAIN,networkprocessor=1", 5.0),
    ),
    "stock bytes": (total("kafka.network.io", labels={"direction": "in"}), (Metric.CLIENT_IN, "", 5.0)),
    "stock bytes, older": (total("kafka.network.io", labels={"state": "out"}), (Metric.CLIENT_OUT, "", 5.0)),
    "stock ISR": (total("kafka.isr.operation.count", labels={"operation": "shrink"}), (Metric.ISR_SHRINKS, "", 5.0)),
    "stock lag": (gauge("kafka.max.lag"), (Metric.REPLICA_LAG_MAX, "", 5.0)),
    "stock p99": (
        gauge("kafka.request.time.99p", labels={"type": "fetchconsumer"}) | {"unit": "ms"},
        (Metric.TOTAL_TIME_P99, "request=FetchConsumer", 5.0),
    ),
    "stock mean": (
        gauge("kafka.request.time.avg", labels={"type": "Produce"}) | {"unit": "ms"},
        (Metric.TOTAL_TIME_MEAN, "request=Produce", 5.0),
    ),
    "stock mean in seconds": (
        gauge("kafka.request.time.avg", 0.25, {"type": "Produce"}) | {"unit": "s"},
        (Metric.TOTAL_TIME_MEAN, "request=Produce", 250.0),
    ),
    "stock count, called a time": (
        total("kafka.request.time.total", labels={"type": "Produce"}) | {"unit": "ms"},
        (Metric.TOTAL_TIME_COUNT, "request=Produce", 5.0),
    ),
    "stock p99 in seconds": (
        gauge("kafka.request.total.time.99p", 0.25, {"type": "Produce"}) | {"unit": "s"},
        (Metric.TOTAL_TIME_P99, "request=Produce", 250.0),
    ),
    "Prometheus receiver": (
        gauge("kafka_network_requestmetrics_totaltimems", labels={"request": "Produce", "quantile": "0.99"}),
        (Metric.TOTAL_TIME_P99, "request=Produce", 5.0),
    ),
}

NOT_OURS: dict[str, Any] = {
    "no resources": batch(),
    "no metrics": batch(resource({"host.name": "elsewhere"})),
    "nothing but a resource": batch({"resource": {}}),
    "somebody else's": batch(resource({"host.name": "elsewhere"}, gauge("jvm.memory.used"))),
    "somebody else's wrong value": batch(resource({}, gauge("jvm.memory.used", "x"))),
    "a topic's": batch_of_node_7(total(Metric.CLIENT_IN, labels={"topic": "orders"})),
    "delta": batch_of_node_7(total(Metric.CLIENT_IN, temporality=1)),
    "delta by name": batch_of_node_7(total(Metric.CLIENT_IN, temporality="AGGREGATION_TEMPORALITY_DELTA")),
    "no temporality": batch_of_node_7(total(Metric.CLIENT_IN, temporality=None)),
    "histogram": batch_of_node_7(
        {"name": Metric.TOTAL_TIME_P99, "histogram": {"dataPoints": [{"count": "4", "sum": 3.0}]}}
    ),
    "not a number": batch_of_node_7(gauge(Metric.LEADER_COUNT, "NaN")),
    "infinite": batch_of_node_7(gauge(Metric.LEADER_COUNT, "-Infinity")),
    "nothing measured": batch_of_node_7(gauge(Metric.LEADER_COUNT, flags=1)),
    "stock bytes of no direction": batch_of_node_7(total("kafka.network.io")),
    "no value": batch_of_node_7(gauge(Metric.LEADER_COUNT, None)),
}


def test_scrapes_sample_has_contract_name_and_labels(spark: SparkSession) -> None:
    rows = parsed(spark, {case: batch_of_node_7(metric) for case, (metric, _) in SAMPLES.items()})
    assert {case: samples_of_only_row(found) for case, found in rows.items()} == {
        case: {(name, labels): value} for case, (_, (name, labels, value)) in SAMPLES.items()
    }


def test_scrapes_foreign_record_is_skipped_without_reject(spark: SparkSession) -> None:
    assert {case: rows for case, rows in parsed(spark, NOT_OURS).items() if rows} == {}


def test_scrapes_node_comes_from_id_or_host_attributes(spark: SparkSession) -> None:
    metric = gauge(Metric.LEADER_COUNT)
    of_point = gauge(Metric.LEADER_COUNT, labels={"node_id": 8})
    values = {
        "text": batch(resource({"broker_id": "7"}, metric)),
        "number": batch(resource({"kafka.broker.id": 7}, metric)),
        "instance": batch(resource({"service.instance.id": "7"}, metric)),
        "instance is a UUID": batch(
            resource({"service.instance.id": "8d5b-x", "server.address": "kafka-2.example.com"}, metric)
        ),
        "container and host": batch(resource({"host.name": "f00d", "instance": "10.0.0.9:7071"}, metric)),
        "point": batch(resource({"broker_id": "7"}, of_point)),
        "time as a number": batch_of_node_7(gauge(Metric.LEADER_COUNT, at=int(AT))),
        "no time": batch_of_node_7(gauge(Metric.LEADER_COUNT, at="0")),
    }
    rows = {case: (found[0].node, found[0].ts) for case, found in parsed(spark, values).items()}
    assert rows == {
        **dict.fromkeys(("text", "number", "instance", "time as a number"), (7, AT_MS)),
        "instance is a UUID": (2, AT_MS),
        "container and host": (3, AT_MS),
        "point": (8, AT_MS),
        "no time": (7, None),
    }


# -- malformed --------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "tombstone": (None, "empty record"),
    "empty": (b"", "empty record"),
    "protobuf": (b"\n\x8a\x01\n\x10", PROTOBUF),
    "protobuf that is ASCII": (b"\n\x04\n\x02\n\x00", PROTOBUF),
    "line feeds and text": (b"\n\n{hello", NOT_JSON),
    "text": (b"hello", NOT_JSON),
    "array": (b"[" + TEXT + b"]", NOT_JSON),
    "truncated": (TEXT[:-5], NOT_JSON),
    "trailing garbage": (TEXT + b" x", NOT_JSON),
    "two objects": (TEXT + TEXT, NOT_JSON),
    "2,000 levels": (TEXT[:-1] + b',"z":' + b"[" * 2000 + b"]" * 2000 + b"}", NOT_JSON),
    "invalid UTF-8": (TEXT.replace(b"kafka-7", b"\xff\xfe"), "invalid UTF-8"),
    "traces": ({"resourceSpans": []}, "no resourceMetrics: not OTLP, or not as JSON"),
    "resources an object": ({"resourceMetrics": {}}, "a field has the wrong type"),
    "points a number": (
        batch_of_node_7({"name": Metric.CLIENT_IN, "gauge": {"dataPoints": 5}}),
        "a field has the wrong type",
    ),
    "value in words": (batch_of_node_7(gauge(Metric.CLIENT_IN, "five")), "a data point's value is not a number: five"),
    "time in words": (
        batch_of_node_7(gauge(Metric.CLIENT_IN, at="now")),
        "a data point's timeUnixNano is not a whole number: now",
    ),
    "stranger": (
        batch(resource({"host.name": "elsewhere"}, gauge(Metric.CLIENT_IN))),
        NO_NODE.replace("{}", "elsewhere"),
    ),
    "nobody": (batch(resource({}, gauge(Metric.CLIENT_IN))), NO_NODE.replace("{}", "(no host)")),
}


def test_scrapes_malformed_record_is_refused_with_reason(spark: SparkSession) -> None:
    rows = parsed(spark, {name: value for name, (value, _) in REFUSED.items()} | {"good": GOOD})
    assert samples_of_only_row(rows.pop("good")) == {(Metric.CLIENT_IN, ""): 5.0}
    assert {name: [row.reason for row in found] for name, found in rows.items()} == {
        name: [reason] for name, (_, reason) in REFUSED.items()
    }


def test_scrapes_record_of_one_megabyte_is_read(spark: SparkSession) -> None:
    others = [gauge(f"jvm.thing.{n}", labels={"pool": "x" * 50}) for n in range(5_000)]
    assert samples_of_only_row(
        parsed(spark, {"large": batch_of_node_7(*others, total(Metric.CLIENT_IN))})["large"]
    ) == {(Metric.CLIENT_IN, ""): 5.0}


def test_scrapes_without_hosts_have_the_common_type(spark: SparkSession) -> None:
    found = spark.createDataFrame([], RAW).select(otlp_json.scrapes(Source("c")).alias("s")).schema["s"].dataType
    wanted = spark.createDataFrame([], f"s array<{SCRAPE_TYPE}>").schema["s"].dataType
    assert found.simpleString() == wanted.simpleString()
    assert samples_of_only_row(parsed(spark, {"good": GOOD}, Source("c"))["good"]) == {(Metric.CLIENT_IN, ""): 5.0}


# -- what we ask users to load ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rules() -> Any:
    return yaml.safe_load((COLLECTORS / "otel-jmx-rules.yaml").read_text())["rules"]


def mappings(rules: Any) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """(MBean, attribute, metric, rule) of every rule."""
    for rule in rules:
        for bean in rule.get("beans") or [rule["bean"]]:
            for attribute, mapping in rule["mapping"].items():
                yield bean, attribute, mapping["metric"], rule


def test_jmx_rules_cover_every_kafka_metric_of_the_contract(rules: Any) -> None:
    ours = {v for k, v in vars(Metric).items() if not k.startswith("_") and v.startswith("kafka_")}
    assert {metric for _, _, metric, _ in mappings(rules)} == ours


def test_jmx_rules_map_each_metric_to_its_mbean(rules: Any) -> None:
    for bean, attribute, metric, rule in mappings(rules):
        domain, keys = bean.split(":", 1)
        key = dict(pair.split("=", 1) for pair in keys.split(","))
        said = re.sub("[^a-z0-9]", "", f"{domain}{key['type']}{key.get('name', '')}{attribute}".lower())
        spelled = re.sub("[^a-z0-9]", "", metric)
        if "throttling_quota" in metric:
            assert key["error"] == "THROTTLING_QUOTA_EXCEEDED"
            continue
        # PerSec, Value, OneMinuteRate and 99thPercentile are what a name does without, or says otherwise.
        short = said.replace("perseccount", "total").removesuffix("value").removesuffix("oneminuterate")
        short += "total" if metric.endswith("_count_total") else ""
        assert spelled in (short, short.replace("99thpercentile", "p99")), metric
        assert rule["type"] == ("counter" if metric.endswith("_total") else "gauge")
        assert rule["unit"]


def test_jmx_rules_map_every_mbean_wildcard_to_a_label(rules: Any) -> None:
    """Otherwise several MBeans would become one series and overwrite each other."""
    for bean, _, _, rule in mappings(rules):
        wild = {pair.split("=")[0] for pair in bean.split(":")[1].split(",") if pair.endswith("=*")}
        taken = {re.fullmatch(r"param\((.+)\)", text)[1] for text in rule.get("metricAttribute", {}).values()}  # type: ignore[index]
        assert wild <= taken, bean


def test_otel_collector_exports_otlp_proto() -> None:
    collector = yaml.safe_load((COLLECTORS / "otel-collector.yaml").read_text())
    assert collector["exporters"]["kafka"]["metrics"]["encoding"] == "otlp_proto"
    assert collector["service"]["pipelines"]["metrics"] == {
        "receivers": list(collector["receivers"]),
        "processors": list(collector["processors"]),
        "exporters": list(collector["exporters"]),
    }
