"""Prometheus samples in JSON: all name families map to the same metrics, unknown ones yield no row, broken ones a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import Row, SparkSession

from streaming.formats import prometheus_json
from streaming.formats.common import NO_NODE, RAW, SCRAPE_TYPE, Source, table
from streaming.formats.prometheus_names import METRICS, METRICS_OF_MACHINES
from streaming.shared.contract import Metric

AT = "2026-11-21T13:00:05Z"
AT_MS = 1_795_266_005_000
SOURCE = Source("main", {"kafka-2.example.com": 2, "10.0.0.9:7071": 3})
BROKER = {"broker_id": "7", "instance": "kafka-7:7071", "job": "kafka"}
COLLECTORS = Path(__file__).parents[2] / "conf" / "collectors"
NOT_JSON = "not JSON: one object and nothing else is expected"


def sample(name: str, value: Any = "5", labels: Mapping[str, Any] = BROKER, timestamp: Any = AT) -> dict[str, Any]:
    """A sample as prometheus-kafka-adapter writes it."""
    return {"timestamp": timestamp, "value": value, "name": name, "labels": {"__name__": name, **labels}}


def vector(name: str, kind: str = "absolute", tags: Mapping[str, Any] = BROKER, **value: Any) -> dict[str, Any]:
    return {"name": name, "tags": dict(tags), "timestamp": "2026-11-21T13:00:05.123456789Z", "kind": kind, **value}


GOOD = sample(Metric.CLIENT_IN)
TEXT = json.dumps(GOOD).encode()


def parsed(spark: SparkSession, values: Mapping[str, Any], source: Source = SOURCE) -> dict[str, list[Row]]:
    """Returns the rows of each record from one query; values other than bytes and None are written as JSON."""
    written = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for v in values.values()]
    logged = datetime.fromtimestamp(AT_MS / 1000, UTC)
    raw = spark.createDataFrame([(v, "samples", 0, n, logged) for n, v in enumerate(written)], RAW)
    rows = table(raw, prometheus_json.scrapes, source).collect()
    return {name: [row for row in rows if row.offset == n] for n, name in enumerate(values)}


def samples_of_rows(rows: list[Row]) -> dict[tuple[str, str], float]:
    assert [row.reason for row in rows] == [None] * len(rows)
    return {(s.n, s.l): s.v for row in rows for s in row.samples}


# -- names ------------------------------------------------------------------------------------------------------------


def test_metrics_table_maps_every_contract_name_to_itself() -> None:
    ours = {v for k, v in vars(Metric).items() if not k.startswith("_") and v.startswith("kafka_")}
    assert {name for name in ours if METRICS.get(name) != name} == set()
    assert set(METRICS.values()) == ours | {Metric.LINK_SPEED}


def test_jmx_exporter_rules_yield_every_contract_name() -> None:
    """Parts of a rule's name come from the MBean, so each contract name is matched against the rules."""
    rules = yaml.safe_load((COLLECTORS / "jmx-exporter.yaml").read_text())["rules"]
    templates = [re.sub(r"\$\d", r"\\w+", rule["name"]).lower() for rule in rules]
    names = set(METRICS.values()) - METRICS_OF_MACHINES
    ours = {name for name in names if not any(re.fullmatch(template, name) for template in templates)}
    assert ours == set()


FAMILIES: dict[str, tuple[str, dict[str, str], str, str]] = {
    "jmx_exporter meter": ("kafka_server_brokertopicmetrics_replicationbytesin_total", {}, Metric.REPLICATION_IN, ""),
    "upper case": ("kafka_server_BrokerTopicMetrics_ReassignmentBytesOut_total", {}, Metric.REASSIGNMENT_OUT, ""),
    "jmx_exporter gauge": ("kafka_server_replicamanager_leadercount", {}, Metric.LEADER_COUNT, ""),
    "jmx_exporter lag": (
        "kafka_server_replicafetchermanager_maxlag",
        {"clientId": "Replica"},
        Metric.REPLICA_LAG_MAX,
        "",
    ),
    "jmx_exporter p99": (
        "kafka_network_requestmetrics_totaltimems",
        {"request": "Produce", "quantile": "0.99"},
        Metric.TOTAL_TIME_P99,
        "request=Produce",
    ),
    "jmx_exporter request count": (
        "kafka_network_requestmetrics_totaltimems_count",
        {"request": "Produce"},
        Metric.TOTAL_TIME_COUNT,
        "request=Produce",
    ),
    "jmx_exporter without a rule": (
        "kafka_server_broker_metadata_metrics_last_applied_record_lag_ms",
        {},
        Metric.BROKER_METADATA_LAG,
        "",
    ),
    "ours, creations": (
        Metric.TOTAL_TIME_MEAN,
        {"request": "CreateTopics"},
        Metric.TOTAL_TIME_MEAN,
        "request=CreateTopics",
    ),
    "bitnami request mean": (
        "kafka_network_requestmetrics_totaltimems_mean",
        {"request": "Produce"},
        Metric.TOTAL_TIME_MEAN,
        "request=Produce",
    ),
    "jmx_exporter event p99": (
        "kafka_controller_controllereventmanager_eventqueuetimems",
        {"quantile": "0.99"},
        Metric.EVENT_QUEUE_TIME_P99,
        "",
    ),
    "jmx_exporter event count": (
        "kafka_controller_controllereventmanager_eventqueuetimems_count",
        {},
        Metric.EVENT_QUEUE_TIME_COUNT,
        "",
    ),
    "jmx_exporter error": (
        "kafka_network_requestmetrics_errors_total",
        {"request": "CreateTopics", "error": "THROTTLING_QUOTA_EXCEEDED"},
        Metric.MUTATIONS_REJECTED,
        "request=CreateTopics",
    ),
    "jmx_exporter version": (
        "kafka_network_requestmetrics_requests_total",
        {"request": "CreateTopics", "version": "5"},
        Metric.REQUESTS_BY_VERSION,
        "request=CreateTopics,version=5",
    ),
    "confluent version": (
        "kafka_network_requestmetrics_requestspersec",
        {"request": "DeleteTopics", "version": "6"},
        Metric.REQUESTS_BY_VERSION,
        "request=DeleteTopics,version=6",
    ),
    "kafka-2_0_0 tenant": (
        "kafka_server_quota_tokens",
        {"resource": 'ControllerMutation, user="alice"', "clientId": '"app.1"'},
        Metric.MUTATION_TOKENS,
        "client_id=app.1,user=alice",
    ),
    "kraft throttle": ("kafka_server_leaderreplication_byte_rate", {}, Metric.LEADER_THROTTLED, ""),
    "kraft tenant": (
        "kafka_server_quota_mutation_rate",
        {"resource": "ControllerMutation", "user": "alice"},
        Metric.MUTATION_RATE,
        "user=alice",
    ),
    "strimzi network": (
        "kafka_server_socket_server_metrics_incoming_byte_total",
        {"listener": "PLAIN", "networkProcessor": "2"},
        Metric.NETWORK_IN,
        "listener=PLAIN,networkprocessor=2",
    ),
    "reporter meter": ("kafka_server_brokertopicmetrics_bytesoutpersec_total", {}, Metric.CLIENT_OUT, ""),
    "reporter, older": ("kafka_server_kafka_server_replicamanager_isrexpandspersec_total", {}, Metric.ISR_EXPANDS, ""),
    "confluent meter": ("kafka_server_brokertopicmetrics_bytesinpersec", {}, Metric.CLIENT_IN, ""),
    "bitnami meter": ("kafka_server_brokertopicmetrics_total_bytesinpersec_count", {}, Metric.CLIENT_IN, ""),
    "bitnami gauge": ("kafka_server_replicamanager_total_partitioncount_value", {}, Metric.PARTITION_COUNT, ""),
    "bitnami controller": (
        "kafka_controller_kafkacontroller_activecontrollercount_value",
        {},
        Metric.ACTIVE_CONTROLLER,
        "",
    ),
    "ours, tenant": (
        "kafka_server_controllermutation_throttle_time",
        {"user": "bob", "client_id": "c"},
        Metric.MUTATION_THROTTLE_TIME,
        "client_id=c,user=bob",
    ),
}

NOT_OURS: dict[str, Any] = {
    "up": sample("up"),
    "jvm": sample("jvm_memory_bytes_used", labels={"instance": "unknown:1"}),
    "unknown host": sample("kafka_server_somethingelse", labels={"instance": "unknown:1"}),
    "a topic's": sample(Metric.CLIENT_IN, labels={"topic": "orders", "instance": "unknown:1"}),
    "no throttled bytes": sample(Metric.CLIENT_IN, "NaN"),
    "infinite": sample(Metric.CLIENT_IN, "+Inf"),
    "minus infinite": sample(Metric.CLIENT_IN, "-Inf"),
    "a version of another request": sample(
        "kafka_network_requestmetrics_requests_total", labels={**BROKER, "request": "Produce", "version": "12"}
    ),
    "requests without a version": sample(
        "kafka_network_requestmetrics_requests_total", labels={**BROKER, "request": "CreateTopics"}
    ),
    "another quantile": sample("kafka_network_requestmetrics_totaltimems", labels={**BROKER, "quantile": "0.5"}),
    "another request": sample(Metric.TOTAL_TIME_P99, labels={**BROKER, "request": "Metadata"}),
    "another error": sample(
        "kafka_network_requestmetrics_errors_total", labels={**BROKER, "request": "Produce", "error": "NONE"}
    ),
    "another quota": sample("kafka_server_quota_tokens", labels={**BROKER, "resource": "Produce", "user": "u"}),
    "idle count in ns": sample(Metric.HANDLER_IDLE, "8.2e12"),
    "idle over the JVM's life": sample("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "0.9"),
    "rheostat's own": sample(Metric.LEADER_RATE),
    "vector's increment": vector(Metric.CLIENT_IN, "incremental", counter={"value": 3.0}),
    "vector's histogram": vector(Metric.CLIENT_IN, aggregated_histogram={"buckets": [], "count": 1, "sum": 2.0}),
    "vector's null": vector(Metric.CLIENT_IN, gauge={"value": None}),
    "someone else's wrong types": {"name": "up", "labels": {"instance": "h"}, "timestamp": "soon", "value": "x"},
}


def test_scrapes_names_of_other_exporters_become_contract_names(spark: SparkSession) -> None:
    values = {case: sample(name, labels=BROKER | labels) for case, (name, labels, _, _) in FAMILIES.items()}
    rows = parsed(spark, values)
    assert {case: samples_of_rows(found) for case, found in rows.items()} == {
        case: {(metric, labels): 5.0} for case, (_, _, metric, labels) in FAMILIES.items()
    }


def test_scrapes_foreign_record_is_skipped_without_reject(spark: SparkSession) -> None:
    assert {case: rows for case, rows in parsed(spark, NOT_OURS).items() if rows} == {}


def test_scrapes_read_speeds_of_physical_interfaces_only(spark: SparkSession) -> None:
    """As node_exporter reports them: without the broker's id, at another port, and -125000 for an unknown speed."""
    speeds = {
        "eth0": "1.25e+08", "enp0s31f6": "3.125e+09", "bond0": "2.5e+09", "bond0.100": "2.5e+09", "ib0": "2.5e+10",
        "lo": "1.25e+09", "veth1a2b": "1.25e+09", "docker0": "1.25e+09", "br-4f": "1.25e+09", "tap0": "1.25e+06",
        "eth1": "-125000", "eth2": "0", "eth3": "1.25e+06", "eth4": "5.36870911875e+14", "eth5": "NaN", "": "1.25e+08",
    }  # fmt: skip
    labels = {"instance": "kafka-2.example.com:9100", "job": "node"}
    values = {
        device: sample(Metric.LINK_SPEED, speed, {**labels, "device": device}) for device, speed in speeds.items()
    }
    found = {device: rows for device, rows in parsed(spark, values).items() if rows}
    assert {device: samples_of_rows(rows) for device, rows in found.items()} == {
        device: {(Metric.LINK_SPEED, f"device={device}"): float(speeds[device])}
        for device in ("eth0", "enp0s31f6", "bond0", "bond0.100", "ib0")
    }
    assert {row.node for rows in found.values() for row in rows} == {2}


def test_recorded_output_of_node_exporter_has_the_speed_of_its_physical_interface(spark: SparkSession) -> None:
    """The records are made of the recorded text as prometheus-kafka-adapter makes them."""
    text = (Path(__file__).parent / "golden" / "node-exporter.txt").read_text()
    series = [one for family in text_string_to_metric_families(text) for one in family.samples]
    labels = {"instance": "kafka-2.example.com:9100", "job": "node"}
    values = {str(one): sample(one.name, f"{one.value:g}", {**labels, **one.labels}) for one in series}
    rows = [row for found in parsed(spark, values).values() for row in found]
    assert samples_of_rows(rows) == {(Metric.LINK_SPEED, "device=eth0"): 1.25e9}
    assert len(series) == 7


def test_scrapes_skip_the_speeds_of_machines_without_a_broker(spark: SparkSession) -> None:
    other = {"instance": "db-1.example.com:9100", "device": "eth0"}
    speed, kafka = (sample(name, "1.25e+08", other) for name in (Metric.LINK_SPEED, Metric.PARTITION_COUNT))
    found = parsed(spark, {"speed": speed, "kafka": kafka})
    assert found["speed"] == []
    assert [row.reason for row in found["kafka"]] == [NO_NODE.format("db-1.example.com:9100")]


# -- who and when -----------------------------------------------------------------------------------------------------


def test_scrapes_node_cluster_role_and_time_come_from_labels(spark: SparkSession) -> None:
    name = Metric.FOLLOWER_THROTTLED
    values = {
        "label": sample(name),
        "node_id": sample(name, labels={"node_id": "8", "cluster": "blue", "role": "controller"}),
        "kafka_broker_id": sample(name, labels={"kafka_broker_id": "9", "kafka_cluster": "green", "role": "leader"}),
        "host": sample(name, labels={"instance": "kafka-2.example.com:7071"}),
        "host and port": sample(name, labels={"instance": "10.0.0.9:7071"}),
        "id that is none": sample(name, labels={"broker_id": "kafka-2", "instance": "kafka-2.example.com:1"}),
        "zone": sample(name, timestamp="2026-11-21T14:00:05.25+01:00"),
        "no time": {k: v for k, v in sample(name).items() if k != "timestamp"},
        "value a number": sample(name, 5),
        "vector": vector(name, gauge={"value": 5}),
        "vector's counter": vector(Metric.CLIENT_IN, namespace=None, counter={"value": 5}),
        "vector's namespace": vector("server_followerreplication_byte_rate", namespace="kafka", gauge={"value": 5}),
    }
    rows = {case: found[0] for case, found in parsed(spark, values).items()}
    assert {case: (row.node, row.cluster, row.role) for case, row in rows.items()} == {
        "label": (7, "main", None),
        "node_id": (8, "blue", "controller"),
        "kafka_broker_id": (9, "green", None),
        "host": (2, "main", None),
        "host and port": (3, "main", None),
        "id that is none": (2, "main", None),
        **dict.fromkeys(("zone", "no time", "value a number"), (7, "main", None)),
        **dict.fromkeys(("vector", "vector's counter", "vector's namespace"), (7, "main", None)),
    }
    times = {case: row.ts for case, row in rows.items()}
    assert {t for case, t in times.items() if "vector" not in case and case not in ("zone", "no time")} == {AT_MS}
    assert (times["zone"], times["no time"], times["vector"]) == (AT_MS + 250, None, AT_MS + 123)
    assert {next(iter(samples_of_rows([row]).values())) for row in rows.values()} == {5.0}


def test_scrapes_vector_summary_becomes_p99_and_count(spark: SparkSession) -> None:
    quantiles = [{"quantile": 0.5, "value": 1.0}, {"quantile": 0.99, "value": 12.5}]
    summary = {"quantiles": quantiles, "count": 40, "sum": 99.0}
    values = {
        "events": vector("kafka_controller_controllereventmanager_eventqueuetimems", aggregated_summary=summary),
        "requests": vector(
            "kafka_network_requestmetrics_totaltimems",
            tags=BROKER | {"request": "FetchConsumer"},
            aggregated_summary=summary,
        ),
    }
    assert {case: samples_of_rows(rows) for case, rows in parsed(spark, values).items()} == {
        "events": {(Metric.EVENT_QUEUE_TIME_P99, ""): 12.5, (Metric.EVENT_QUEUE_TIME_COUNT, ""): 40.0},
        "requests": {
            (Metric.TOTAL_TIME_P99, "request=FetchConsumer"): 12.5,
            (Metric.TOTAL_TIME_COUNT, "request=FetchConsumer"): 40.0,
        },
    }


# -- malformed --------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "tombstone": (None, "empty record"),
    "empty": (b"", "empty record"),
    "blank": (b"  ", NOT_JSON),
    "text": (b"hello", NOT_JSON),
    "number": (b"5", NOT_JSON),
    "array": (b"[" + TEXT + b"]", NOT_JSON),
    "truncated": (TEXT[:-3], NOT_JSON),
    "trailing garbage": (TEXT + b" x", NOT_JSON),
    "two objects": (TEXT + TEXT, NOT_JSON),
    "two objects of others": (json.dumps(sample("up")).encode() * 2, NOT_JSON),
    "invalid UTF-8": (TEXT.replace(b"kafka-7", b"\xff\xfe"), "invalid UTF-8"),
    "2,000 levels": (TEXT[:-1] + b',"z":' + b"[" * 2000 + b"]" * 2000 + b"}", NOT_JSON),
    "nothing": (b"{}", "no name: neither prometheus-kafka-adapter nor Vector wrote this"),
    "other JSON": ({"a": 1}, "no name: neither prometheus-kafka-adapter nor Vector wrote this"),
    "labels a list": (
        TEXT.replace(b'"labels": {', b'"labels": [{').replace(b"}}", b"}]}"),
        "a field has the wrong type",
    ),
    "gauge a number": (vector(Metric.CLIENT_IN, gauge=3), "a field has the wrong type"),
    "no value": ({k: v for k, v in GOOD.items() if k != "value"}, "no value"),
    "value in words": (sample(Metric.CLIENT_IN, "five"), "value is not a number: five"),
    "NaN without quotes": (TEXT.replace(b'"5"', b"NaN"), 'value is not a number: "NaN"'),
    "value an object": (sample(Metric.CLIENT_IN, {"a": 1}), 'value is not a number: {"a":1}'),
    "epoch": (
        sample(Metric.CLIENT_IN, timestamp=1_700_000_000),
        "timestamp is not in the form of RFC 3339: 1700000000",
    ),
    "13th month": (
        sample(Metric.CLIENT_IN, timestamp="2026-13-21T13:00:05Z"),
        "timestamp is not in the form of RFC 3339: 2026-13-21T13:00:05Z",
    ),
    "unknown host": (
        sample(Metric.CLIENT_IN, labels={"instance": "elsewhere:7071"}),
        NO_NODE.replace("{}", "elsewhere:7071"),
    ),
    "no host": (sample(Metric.CLIENT_IN, labels={}), NO_NODE.replace("{}", "(no instance)")),
    "negative node": (sample(Metric.CLIENT_IN, labels={"broker_id": "-1"}), NO_NODE.replace("{}", "(no instance)")),
}


def test_scrapes_malformed_record_is_refused_with_reason(spark: SparkSession) -> None:
    rows = parsed(spark, {name: value for name, (value, _) in REFUSED.items()} | {"good": GOOD})
    assert samples_of_rows(rows.pop("good")) == {(Metric.CLIENT_IN, ""): 5.0}
    assert {name: [row.reason for row in found] for name, found in rows.items()} == {
        name: [reason] for name, (_, reason) in REFUSED.items()
    }


def test_scrapes_records_of_one_megabyte_are_read(spark: SparkSession) -> None:
    values = {
        "a megabyte of labels": sample(Metric.CLIENT_IN, labels=BROKER | {f"l{n}": "x" * 90 for n in range(10_000)}),
        "a megabyte in one": sample(Metric.CLIENT_IN, labels=BROKER | {"l": "x" * 1_000_000}),
    }
    assert [samples_of_rows(rows) for rows in parsed(spark, values).values()] == [{(Metric.CLIENT_IN, ""): 5.0}] * 2


def test_scrapes_without_hosts_have_the_common_type(spark: SparkSession) -> None:
    found = spark.createDataFrame([], RAW).select(prometheus_json.scrapes(Source("c")).alias("s")).schema["s"].dataType
    wanted = spark.createDataFrame([], f"s array<{SCRAPE_TYPE}>").schema["s"].dataType
    assert found.simpleString() == wanted.simpleString()
    assert samples_of_rows(parsed(spark, {"good": GOOD}, Source("c"))["good"]) == {(Metric.CLIENT_IN, ""): 5.0}


# -- what we ask users to put into Prometheus ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus() -> Any:
    return yaml.safe_load((COLLECTORS / "prometheus-remote-write.yaml").read_text())


def test_remote_write_keeps_only_names_that_are_read(prometheus: Any) -> None:
    (kept,) = [
        rule["regex"]
        for rule in prometheus["remote_write"][0]["write_relabel_configs"]
        if rule["source_labels"] == ["__name__"]
    ]
    names = {key.split("/")[0] for key in METRICS} | {name for name, *_ in FAMILIES.values()}
    assert {name for name in names if not re.fullmatch(kept, name)} == set()
    others = [
        "up",
        "node_network_up",
        "jvm_memory_bytes_used",
        "kafka_log_log_size",
        "kafka_server_brokertopicmetrics_messagesin_total",
    ]
    assert [name for name in others if re.fullmatch(kept, name)] == []


def test_relabel_node_id_comes_from_label_else_host_name(prometheus: Any) -> None:
    (rule,) = prometheus["scrape_configs"][0]["relabel_configs"]

    def node_of(broker_id: str, address: str) -> str | None:
        found = re.fullmatch(rule["regex"], f"{broker_id};{address}")
        return found and found[1]

    assert node_of("", "kafka-3:7071") == "3"
    assert node_of("", "my-cluster-kafka-12.brokers.prod.svc:9404") == "12"
    assert node_of("", "10.0.0.9:7071") is None
    assert node_of("4", "kafka-3:7071") is None
