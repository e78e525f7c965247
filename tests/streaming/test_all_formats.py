"""All formats yield the same signals for the same measurements, and no good record is refused among garbage.

Each format reports the same history for a node of its own, on its own topic, in the records that its collectors write. A tenth of all
records is garbage.
"""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest
from otlp_wire import request
from pyspark.sql import SparkSession
from stream_cases import T0, TOPICS, Logged, at, decoded, newest, numbered, raw, records, scrape

from streaming.formats import cruise_control, telegraf
from streaming.formats.common import Source
from streaming.pipeline import Input, build
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    Metric,
    NodeRole,
    Signal,
    TenantSignal,
)

SEED = 4711
SCRAPES = 5
EVERY_S = 5

Samples = dict[tuple[str, str], float]

LABELS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (Metric.TOTAL_TIME_P99, Metric.TOTAL_TIME_MEAN, Metric.TOTAL_TIME_COUNT),
        (
            "request=Produce",
            "request=FetchConsumer",
            "request=CreateTopics",
            "request=DeleteTopics",
            "request=CreatePartitions",
        ),
    ),
    Metric.REQUESTS_BY_VERSION: (
        "request=CreateTopics,version=5",
        "request=CreateTopics,version=7",
        "request=DeleteTopics,version=4",
        "request=CreatePartitions,version=2",
        "request=CreatePartitions,version=3",
    ),
    Metric.MUTATIONS_REJECTED: ("request=CreateTopics", "request=DeleteTopics"),
    Metric.NETWORK_IN: ("listener=A,networkprocessor=0", "listener=B,networkprocessor=1"),
    Metric.NETWORK_OUT: ("listener=A,networkprocessor=0", "listener=B,networkprocessor=1"),
    **dict.fromkeys(
        (Metric.MUTATION_RATE, Metric.MUTATION_TOKENS, Metric.MUTATION_THROTTLE_TIME),
        ("user=alice", "client_id=app.1", "client_id=app.1,user=b%2Cb"),
    ),
}
SHARES = (Metric.HANDLER_IDLE, Metric.CONTROLLER_IDLE, Metric.ACTIVE_CONTROLLER)
# What is told as parts of a sum, or as factors of a product, in records of their own.
SUMMED = (
    "network_in_bytes_per_s", "network_out_bytes_per_s", "step_network_in_bytes_per_s", "step_network_out_bytes_per_s",
    "mutations_rejected_per_s", "old_create_requests_per_s", "old_delete_requests_per_s", "old_addition_requests_per_s",
    "refusable_requests_per_s",
)  # fmt: skip
MULTIPLIED = (
    "produce_mean_ms",
    "event_queue_time_mean_ms",
    "event_processing_mean_ms",
    "queue_depth_mean",
    "create_mean_ms",
    "delete_mean_ms",
    "addition_mean_ms",
)


def samples_at_scrape(k: int) -> Samples:
    """Returns the samples of the k-th scrape: every metric of Kafka."""
    names = sorted(v for v in vars(Metric).values() if isinstance(v, str) and v.startswith("kafka_"))
    found: Samples = {}
    for i, name in enumerate(names):
        for j, labels in enumerate(LABELS.get(name, ("",))):
            share = 1.0 if name == Metric.ACTIVE_CONTROLLER else 0.5 + i / 100
            found[name, labels] = share if name in SHARES else 1000.0 * (i + 1) + (3 * i + j + 1) * (k + 1) * k
    return found


def labelled(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",")) if text else {}


# -- what each collector writes --------------------------------------------------------------------------------------


def rheostat_json(k: int, node: int) -> list[bytes]:
    return [scrape(k * EVERY_S, samples_at_scrape(k), node=node, role=NodeRole.BROKER).value()]


TELEGRAF = {name: (kind, field) for kind, fields in telegraf.FIELDS.items() for field, name in fields.items()}
TELEGRAF_TAGS = {"client_id": "client-id", "networkprocessor": "networkProcessor"}


def measurements(k: int, node: int) -> Iterator[dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (name, labels), value in samples_at_scrape(k).items():
        kind, field = TELEGRAF[name]
        found.setdefault((kind, labels), {})[field] = value
    for (kind, labels), values in found.items():
        tags = {TELEGRAF_TAGS.get(key, key): value for key, value in labelled(labels).items()}
        tags |= {"error": "THROTTLING_QUOTA_EXCEEDED"} if kind == "request_errors" else {}
        tags |= {"broker_id": str(node), "host": "h"}
        yield {"name": f"kafka_{kind}", "tags": tags, "fields": values, "timestamp": T0 + k * EVERY_S * 1000}


def telegraf_json(k: int, node: int) -> list[bytes]:
    return [json.dumps(one).encode() for one in measurements(k, node)]


def telegraf_influx(k: int, node: int) -> list[bytes]:
    def joined(pairs: Mapping[str, Any]) -> str:
        return ",".join(f"{key}={value}" for key, value in pairs.items())

    return [
        f"{one['name']},{joined(one['tags'])} {joined(one['fields'])} {one['timestamp'] * 1_000_000}\n".encode()
        for one in measurements(k, node)
    ]


def prometheus_json(k: int, node: int) -> list[bytes]:
    when = f"2023-11-14T22:13:{30 + k * EVERY_S:02}Z"
    return [
        json.dumps(
            {
                "timestamp": when,
                "value": str(value),
                "name": name,
                "labels": {"__name__": name, "broker_id": str(node), **labelled(labels)},
            }
        ).encode()
        for (name, labels), value in samples_at_scrape(k).items()
    ]


def otlp(k: int, node: int) -> dict[str, Any]:
    def attributes(named: Mapping[str, str]) -> list[dict[str, Any]]:
        return [{"key": key, "value": {"stringValue": value}} for key, value in named.items()]

    ns = str((T0 + k * EVERY_S * 1000) * 1_000_000)
    metrics = [
        {
            "name": n,
            "gauge": {"dataPoints": [{"attributes": attributes(labelled(labels)), "timeUnixNano": ns, "asDouble": v}]},
        }
        for (n, labels), v in samples_at_scrape(k).items()
    ]
    resource = {
        "resource": {"attributes": attributes({"broker_id": str(node)})},
        "scopeMetrics": [{"metrics": metrics}],
    }
    return {"resourceMetrics": [resource]}


def otlp_json(k: int, node: int) -> list[bytes]:
    return [json.dumps(otlp(k, node)).encode()]


def otlp_proto(k: int, node: int) -> list[bytes]:
    return [request(otlp(k, node))]


def rate(type_: int, k: int) -> float:
    return 0.75 if cruise_control.TYPES[type_] == Metric.HANDLER_IDLE else 1e6 * (type_ + 1) + k


def cruise_control_records(k: int, node: int) -> list[bytes]:
    at_ms = T0 + k * EVERY_S * 1000
    return [struct.pack(">BBBqid", 0, 0, type_, at_ms, node, rate(type_, k)) for type_ in cruise_control.TYPES]


WRITERS: dict[str, Callable[[int, int], list[bytes]]] = {
    "rheostat_json": rheostat_json,
    "telegraf_json": telegraf_json,
    "telegraf_influx": telegraf_influx,
    "prometheus_json": prometheus_json,
    "otlp_json": otlp_json,
    "otlp_proto": otlp_proto,
    "cruise_control": cruise_control_records,
}
NODES = {name: 1 + i for i, name in enumerate(WRITERS)}
SAME = [name for name in WRITERS if name not in ("rheostat_json", "cruise_control")]

GARBAGE: tuple[bytes | None, ...] = (
    None,
    b"",
    b"   ",
    b"hello, world",
    b"{}",
    b"[1]",
    b"5",
    b"\xff\xfe\x00",
    b'{"name": "kafka_topics", "v": 1, "resourceMetrics": 5',
    b"[" * 5_000,
    b"\x00" * 100,
)


def broken_copies(format_: str, good: bytes) -> list[bytes]:
    """Returns a record without its end, and two records in one."""
    if format_ == "cruise_control":
        return [good[:-1], good * 2]
    if format_ == "otlp_proto":
        return [good[:-1], good + good[:-1]]
    torn = good[: good.index(b"=", good.index(b" ")) + 1] if format_ == "telegraf_influx" else good[:-2]
    return [torn, good.replace(b"\n", b" ") * 2]


def topic_of(format_: str) -> str:
    return f"of.{format_}"


def log(format_: str, chance: random.Random) -> tuple[list[Logged], dict[int, bytes | None]]:
    """Returns the records of a topic, and the offset and value of those that must be refused."""
    values: list[tuple[float, bytes | None, bool]] = []
    for k in range(SCRAPES):
        for i, good in enumerate(WRITERS[format_](k, NODES[format_])):
            at_s = k * EVERY_S + i / 1000
            values.append((at_s, good, True))
            if chance.random() < 0.1 or i == 0:
                values.append((at_s, chance.choice([*GARBAGE, *broken_copies(format_, good)]), False))
    values += [
        (21.0, bad, False) for bad in (*GARBAGE, *broken_copies(format_, WRITERS[format_](0, NODES[format_])[0]))
    ]
    found = numbered(one for at_s, value, _ in values for one in at(at_s, value, topic=topic_of(format_)))
    found = [replace(one, partition=chance.randrange(3)) for one in found]
    return found, {i: value for i, (_, value, good) in enumerate(values) if not good}


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> tuple[list[Signal], dict[bytes, Any], dict[bytes, bytes | None]]:
    """Signals, rejects, and expected rejects; both by the reject's key."""
    chance = random.Random(SEED)
    inputs, garbage = [], {}
    for name in WRITERS:
        found, bad = log(name, chance)
        every_s = 60 if name == "cruise_control" else EVERY_S
        inputs.append((raw(spark, found), Input(name, Source("c"), every_ms=every_s * 1000)))  # type: ignore[arg-type]
        for offset, value in bad.items():
            garbage[f"{topic_of(name)}-{found[offset].partition}-{offset}".encode()] = value
    frame = build(inputs, TOPICS).cache()
    rejects = {key: json.loads(value) for key, value in records(frame, TOPICS.rejects).items()}
    return decoded(records(frame, TOPICS.signals)), rejects, garbage


def fields_of(signals: list[Signal], kind: Any, format_: str, **fields: Any) -> dict[str, Any]:
    node = "broker" if kind is BrokerSignal else "node"
    return asdict(replace(newest(signals, kind, **{node: NODES[format_]}, **fields), **{node: 0}))


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "broker": (BrokerSignal, {}),
    "controller": (ControllerSignal, {}),
    "a user": (TenantSignal, {"user": "alice", "client_id": None}),
    "a client": (TenantSignal, {"user": None, "client_id": "app.1"}),
    "both": (TenantSignal, {"user": "b,b", "client_id": "app.1"}),
}


@pytest.mark.parametrize("format_", SAME)
@pytest.mark.parametrize("kind", KINDS)
def test_formats_same_measurements_yield_equal_signals(told: Any, kind: str, format_: str) -> None:
    type_, which = KINDS[kind]
    expected = fields_of(told[0], type_, "rheostat_json", **which)
    found = fields_of(told[0], type_, format_, **which)
    apart = (*SUMMED, *MULTIPLIED)
    assert {k: v for k, v in found.items() if k not in apart} == {k: v for k, v in expected.items() if k not in apart}


@pytest.mark.parametrize("format_", SAME)
@pytest.mark.parametrize("field", [*SUMMED, *MULTIPLIED])
def test_formats_values_in_separate_records_are_combined(told: Any, field: str, format_: str) -> None:
    kind = BrokerSignal if field.startswith(("network", "step", "produce")) else ControllerSignal
    expected = fields_of(told[0], kind, "rheostat_json")[field]
    assert expected > 0
    assert fields_of(told[0], kind, format_)[field] == pytest.approx(expected)


def test_formats_reference_signal_has_every_field(told: Any) -> None:
    not_kafka_s = {
        "leader_rate_bytes_per_s",
        "follower_rate_bytes_per_s",
        "replica_lag_sum_messages",
        "link_speed_bytes_per_s",
    }
    for kind, which in KINDS.values():
        found = fields_of(told[0], kind, "rheostat_json", **which)
        assert {k for k, v in found.items() if v is None} - set(which) <= not_kafka_s
        assert (found["samples"], found["sampled_at_ms"]) == (SCRAPES, T0 + (SCRAPES - 1) * EVERY_S * 1000)


def test_cruise_control_means_appear_in_broker_signal(told: Any) -> None:
    found = fields_of(told[0], BrokerSignal, "cruise_control")
    expected = {
        cruise_control.RATES[n]: rate(t, SCRAPES - 1)
        for t, n in cruise_control.TYPES.items()
        if n in cruise_control.RATES
    }
    assert {field: found[field] for field in expected} == expected
    assert found["request_handler_idle_ratio"] == 0.75


def test_formats_only_malformed_records_are_refused(told: Any) -> None:
    _, rejects, garbage = told
    assert rejects.keys() == garbage.keys()
    assert len(garbage) > 100
    for key, reject in rejects.items():
        value = garbage[key] or b""
        assert f"{reject['topic']}-{reject['partition']}-{reject['offset']}".encode() == key
        assert base64.b64decode(reject["head"]) == value[:256]
        assert reject["reason"], key
        if not value:
            assert reject["reason"] == "empty record"


FORWARDS, ANSWERS = 70, 71


def creation_metrics(k: int) -> Iterator[dict[str, Any]]:
    """Broker and controller both count creations, because brokers forward them; no tag names a role."""
    creations = {"TotalTimeMs.Count": 1_000 + 10 * k, "TotalTimeMs.Mean": 30}
    for node, kind, own in (
        (FORWARDS, "replica_manager", {"LeaderCount.Value": 3}),
        (ANSWERS, "controller", {"ActiveControllerCount.Value": 1, "LastCommittedRecordOffset.Value": 5_000 + 100 * k}),
    ):
        tags, ts = {"broker_id": str(node)}, T0 + k * EVERY_S * 1000
        yield {"name": f"kafka_{kind}", "tags": tags, "fields": own, "timestamp": ts}
        yield {
            "name": "kafka_request",
            "tags": tags | {"request": "CreateTopics"},
            "fields": creations,
            "timestamp": ts,
        }


def test_telegraf_topic_creations_appear_only_in_controller_signal(spark: SparkSession) -> None:
    logged = [
        one
        for k in range(SCRAPES)
        for metric in creation_metrics(k)
        for one in at(k * EVERY_S, json.dumps(metric).encode())
    ]
    frame = build([(raw(spark, logged), Input("telegraf_json", Source("c")))], TOPICS)
    found = decoded(records(frame, TOPICS.signals))
    assert {(type(s), getattr(s, "broker", getattr(s, "node", None))) for s in found} == {
        (BrokerSignal, FORWARDS),
        (ControllerSignal, ANSWERS),
    }
    controller = newest(found, ControllerSignal)
    assert (controller.create_mean_ms, controller.metadata_records_per_s) == (30.0, 20.0)


def test_formats_yield_signals_only_for_reporting_nodes(told: Any) -> None:
    assert {getattr(s, "broker", getattr(s, "node", None)) for s in told[0]} == set(NODES.values())
    assert {s.cluster for s in told[0]} == {"c"}
