"""conf/collectors/telegraf.conf on real nodes: what Telegraf reads through Jolokia gets the contract's names.

Telegraf itself is not started. The test sends the requests that the configuration stands for, and names tags and fields as
Telegraf's documentation says.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from kafka.errors import ThrottlingQuotaExceededError
from lab_parts import java_processes_of, until
from pyspark.sql import SparkSession

from rheostat.config.resources import conf_file
from rheostat.jvm.artifacts import resolve_jars
from rheostat.jvm.kernel import stream_jars
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import Node
from rheostat.lab.tools import tool_command
from streaming.formats import telegraf, telegraf_influx, telegraf_json
from streaming.formats.common import RAW, Source, table
from streaming.session import SparkOptions, spark_session
from streaming.shared import kafka_names
from streaming.shared.contract import Metric
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import TopicCreation

TOPIC = "throttled"
BYTES = 3_000_000
CLIENT = "tester"
CLUSTER = "somewhere"
CONTROLLER, BROKERS = 100, (1, 2)
CREATE = "request=CreateTopics"
NAMELESS = 2  # Its records carry no broker_id.
MAPPED = [name for fields in telegraf.FIELDS.values() for name in fields.values()]
THROTTLED = (Metric.LEADER_THROTTLED, Metric.FOLLOWER_THROTTLED)
ON_EACH_BROKER = (
    *THROTTLED, *telegraf.FIELDS["topics"].values(), *telegraf.FIELDS["replica_manager"].values(),
    Metric.TOTAL_TIME_P99, Metric.TOTAL_TIME_MEAN, Metric.TOTAL_TIME_COUNT,
    Metric.HANDLER_IDLE, Metric.NETWORK_IN, Metric.NETWORK_OUT, Metric.REPLICA_LAG_MAX,
)  # fmt: skip


# -- what Telegraf does -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    tags: dict[str, str]
    fields: dict[str, Any]


def config() -> dict[str, Any]:
    """The shipped configuration with its commented parts enabled, except the other data_format."""
    text = conf_file("collectors", "telegraf.conf").read_text()
    return tomllib.loads(re.sub(r"(?m)^( *)#(?=\[\[|[a-z_]+ = )(?!data_format)", r"\1", text))


def read(url: str, plugin: Mapping[str, Any], global_tags: Mapping[str, str]) -> list[Point]:
    """One round of a plugin: a bulk request, and a point for each measurement and set of tags."""
    metrics = plugin["metric"]
    asked = []
    for metric in metrics:
        paths = sorted(metric.get("paths", []))
        attribute = {"attribute": paths[0] if len(paths) == 1 else paths} if paths else {}
        asked.append({"type": "read", "mbean": metric["mbean"], **attribute})
    request = urllib.request.Request(f"{url}/read", json.dumps(asked).encode(), {"Content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        answers = json.loads(answer.read())
    assert {a["status"] for a in answers} <= {200, 404}, answers

    found: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, Any]] = {}
    for metric, answer in zip(metrics, answers, strict=True):
        if answer["status"] == 404:  # No such MBean, or none yet.
            continue
        several = "*" in metric["mbean"]
        for mbean, value in (answer["value"] if several else {metric["mbean"]: answer["value"]}).items():
            keys = dict(pair.split("=", 1) for pair in mbean.split(":", 1)[1].split(",") if "=" in pair)
            own = {tag: keys[tag].strip("'\"") for tag in metric.get("tag_keys", []) if tag in keys}
            tags = {**global_tags, "host": "lab", "jolokia_agent_url": url, **own}
            series = (plugin["name_prefix"] + metric["name"], tuple(sorted(tags.items())))
            found.setdefault(series, {}).update(fields_of(metric, keys, value))
    return [Point(name, dict(tags), fields) for (name, tags), fields in found.items() if fields]


def fields_of(metric: Mapping[str, Any], keys: Mapping[str, str], value: Any) -> dict[str, Any]:
    paths = sorted(metric.get("paths", []))
    prefix = metric.get("field_prefix", "")
    wild = [pair.split("=", 1)[0] for pair in metric["mbean"].split(":", 1)[1].split(",") if pair.endswith("=*")]
    for number, key in enumerate(wild, start=1):
        prefix = prefix.replace(f"${number}", keys[key])
    if not isinstance(value, dict):
        named = {paths[0] if paths else "value": value}
    elif len(paths) == 1:  # Of a pattern: the name once for the path, once for the attribute.
        named = {f"{paths[0]}.{attribute}": v for attribute, v in value.items()}
    else:
        named = {attribute: v for attribute, v in value.items() if not paths or attribute in paths}
    return {prefix + name: v for name, v in named.items() if isinstance(v, str | int | float)}


def as_json(point: Point, ts_ms: int) -> bytes:
    fields = {name: float(v) if type(v) is int else v for name, v in point.fields.items()}
    body = {"fields": fields, "name": point.name, "tags": point.tags, "timestamp": ts_ms}
    return json.dumps(body, allow_nan=False).encode() + b"\n"


def as_influx(point: Point, ts_ms: int) -> bytes:
    def word(text: str) -> str:
        return re.sub(r"([,= ])", r"\\\1", text)

    def value(v: Any) -> str:
        if isinstance(v, bool):
            return str(v).lower()
        if isinstance(v, str):
            return '"' + re.sub(r'(["\\])', r"\\\1", v) + '"'
        return f"{Decimal(repr(v)):f}"  # Never with an exponent.

    tags = "".join(f",{word(k)}={word(v)}" for k, v in point.tags.items() if v)
    fields = ",".join(f"{word(k)}={value(v)}" for k, v in point.fields.items())
    return f"{point.name}{tags} {fields} {ts_ms * 10**6}\n".encode()


# -- a lab to ask -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two brokers, so that there is a follower; every node has Jolokia on its own port."""
    (agent,) = resolve_jars(Path(__file__).with_name("jolokia-ivy.xml"))["jolokia"]
    with Lab(LabSpec(brokers=2, java_options=(f"-javaagent:{agent}=host=127.0.0.1,port=0",))) as running:
        yield running
    assert java_processes_of(running.home) == []


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = spark_session(stream_jars(), SparkOptions("tests", tmp_path_factory.mktemp("spark"), cores=2))
    yield session
    session.stop()


def agent_url(node: Node) -> str:
    def told() -> str | None:
        found = re.search(r"Jolokia: Agent started with URL (http://\S+?)/?\s", node.log.read_text(errors="replace"))
        return found[1] if found else None

    url = until(told, 20, f"the Jolokia agent of {node.name} says where it is")
    assert url is not None
    return url


def make_it_measurable(lab: Lab) -> None:
    """Starts throttled replication, and lets a mutation quota refuse requests."""
    # Before the quota: with one, Kafka counts the creations of each client.
    with ClusterClient(lab.kafka_settings(), "test") as client:
        all_replicas = {kafka_names.LEADER_REPLICAS: "*", kafka_names.FOLLOWER_REPLICAS: "*"}
        client.create_topics([TopicCreation(TOPIC, 2, 2, all_replicas)])
        rates = {kafka_names.LEADER_RATE: "100000000", kafka_names.FOLLOWER_RATE: "100000000"}
        assert set(client.alter_broker_configs({1: rates, 2: rates}).values()) == {None}
    quota = tool_command(
        lab.artifacts, "kafka.admin.ConfigCommand", "--bootstrap-server", lab.bootstrap_servers,
        "--alter", "--add-config", "controller_mutation_rate=0.1", "--entity-type", "users", "--entity-default",
        "--entity-type", "clients", "--entity-name", CLIENT,
    )  # fmt: skip
    subprocess.run(quota, check=True, capture_output=True, timeout=120)
    numbers = count()
    with lab.admin(CLIENT) as admin:

        def is_refused() -> bool:
            """Whether the next creation is refused: each may spend what it finds and more, and the next finds less than nothing."""
            try:
                admin.create_topics([NewTopic(f"many-{next(numbers)}", 40, 1)])
            except ThrottlingQuotaExceededError:
                return True
            return False

        # The controller's copy of the quota may be a moment late.
        until(is_refused, 30, "a creation beyond the quota is refused")
    # Last, as Kafka's rates forget what is older than eleven seconds.
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=None, record_bytes=10_000, total_bytes=BYTES,
        # Else a leader that is slow for a moment is given less: a sixth of all, on a busy machine.
        properties=("partitioner.adaptive.partitioning.enable=false",),
    ) as load:  # fmt: skip
        load.wait(60)


def read_by_telegraf(lab: Lab) -> tuple[list[Point], Source]:
    """The metrics of every node, and the host name by which rheostat recognises the node without an id."""
    plugins = config()["inputs"]["jolokia2_agent"]
    urls = {node.node_id: agent_url(node) for node in lab.nodes.values()}
    points: dict[int, list[Point]] = {}

    def all_there() -> bool:
        for node, url in urls.items():
            tags = {"cluster": CLUSTER} | ({} if node == NAMELESS else {"broker_id": str(node)})
            points[node] = [point for plugin in plugins for point in read(url, plugin, tags)]
        measured = {(node, point.name) for node, found in points.items() for point in found}
        both = {(node, f"kafka_{side}_replication") for node in BROKERS for side in ("leader", "follower")}
        return both | {(CONTROLLER, "kafka_controller_mutation")} <= measured

    until(all_there, 40, "replication and quota are measured", every_s=0.5)
    return [p for found in points.values() for p in found], Source(
        "elsewhere", {urls[NAMELESS].split("/")[2]: NAMELESS}
    )


def test_telegraf_metrics_have_known_names_in_both_formats(lab: Lab, spark: SparkSession) -> None:
    make_it_measurable(lab)
    points, source = read_by_telegraf(lab)
    logged = datetime.now(UTC)
    ts_ms = int(logged.timestamp() * 1000) - 1500
    sent = [("json", as_json(p, ts_ms)) for p in points] + [("influx", as_influx(p, ts_ms)) for p in points]
    raw = spark.createDataFrame([(value, topic, 0, n, logged) for n, (topic, value) in enumerate(sent)], RAW)
    rows = (
        table(raw.where("topic = 'json'"), telegraf_json.scrapes, source)
        .unionByName(table(raw.where("topic = 'influx'"), telegraf_influx.scrapes, source))
        .collect()
    )

    assert [row for row in rows if row.reason is not None] == []
    assert {(row.cluster, row.ts) for row in rows} == {(CLUSTER, ts_ms)}
    seen: dict[str, dict[tuple[str, int, str], float]] = {"json": {}, "influx": {}}
    for row in rows:
        for sample in row.samples:
            key = (sample.n, row.node, sample.l)
            assert key not in seen[row.topic], "measured twice"
            seen[row.topic][key] = sample.v
    assert seen["influx"] == seen["json"]

    def values(name: str) -> dict[int, float]:
        """Returns values per node, summed over labels."""
        nodes = {node for n, node, _ in seen["json"] if n == name}
        return {node: sum(v for (n, of, _), v in seen["json"].items() if (n, of) == (name, node)) for node in nodes}

    # The first is not a number until Kafka delays a request; the second exists from the first copy between log directories on. The
    # third is read from the machine, and not through Jolokia.
    unseen = {Metric.MUTATION_THROTTLE_TIME, Metric.LOG_DIR_COPIED, Metric.LINK_SPEED}
    assert set(MAPPED) - {n for n, _, _ in seen["json"]} == unseen
    for name in ON_EACH_BROKER:
        assert set(values(name)) >= set(BROKERS), name
    for name in telegraf.FIELDS["controller"].values():
        assert set(values(name)) == {CONTROLLER}, name

    written = sum(values(Metric.CLIENT_IN).values())
    assert BYTES <= written < 2 * BYTES
    assert sum(values(Metric.REPLICATION_IN).values()) == pytest.approx(written, rel=0.1)
    # What clients write to a broker comes in over its network, and leaves it once more for the other's replicas.
    for b in BROKERS:
        assert values(Metric.NETWORK_IN)[b] >= values(Metric.CLIENT_IN)[b] > BYTES / 4
        assert values(Metric.NETWORK_OUT)[b] >= values(Metric.REPLICATION_OUT)[b] > BYTES / 4
    # An eleventh of a second's worth in each of eleven seconds: far from nothing, and from the throttle.
    assert all(BYTES / 100 < values(name)[b] < BYTES for name in THROTTLED for b in BROKERS)
    assert all(0 < values(Metric.HANDLER_IDLE)[b] < 1.1 for b in BROKERS)
    assert values(Metric.ACTIVE_CONTROLLER) == {CONTROLLER: 1}
    assert values(Metric.ACTIVE_BROKERS) == {CONTROLLER: 2}
    assert values(Metric.MUTATION_TOKENS)[CONTROLLER] < 0
    assert (Metric.MUTATION_RATE, CONTROLLER, f"client_id={CLIENT},user=ANONYMOUS") in seen["json"]
    assert (Metric.MUTATIONS_REJECTED, CONTROLLER, "request=CreateTopics") in seen["json"]
    assert (Metric.REQUESTS_BY_VERSION, CONTROLLER, "request=CreateTopics,version=7") in seen["json"]
    assert {of for n, _, of in seen["json"] if n == Metric.TOTAL_TIME_P99} == {
        "request=Produce", "request=FetchConsumer", "request=FetchFollower", "request=CreateTopics", "request=DeleteTopics",
        "request=CreatePartitions",
    }  # fmt: skip
    # A creation is counted by the broker that was asked and by the controller that did it.
    creations = {node: v for (n, node, of), v in seen["json"].items() if (n, of) == (Metric.TOTAL_TIME_COUNT, CREATE)}
    assert creations[CONTROLLER] == sum(creations[b] for b in BROKERS) > 0
    assert set(values(Metric.BROKER_METADATA_LAG)) == set(BROKERS)
