"""Records what other collectors write to Kafka about real brokers, for test_golden_records.py.

    python tests/streaming/golden/record.py --collector FILE VERSION --telegraf FILE VERSION
        --cruise-control FILE VERSION

Each option records one writer, and needs its program. golden/README.md says how to build the programs. A file begins with a line
that names the writer and its version. Each further line has a format, Kafka's timestamp, and a value in base64.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kafka import KafkaConsumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from rheostat.jvm.artifacts import resolve_jars
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import Node, free_ports
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import TopicCreation

HERE = Path(__file__).parent
JOLOKIA = HERE.parents[1] / "integration" / "jolokia-ivy.xml"
COLLECTORS = HERE.parents[2] / "conf" / "collectors"
CLUSTER = "golden"
WAIT_S_MAX = 200
# Topics, and the records that are kept: at least two rounds of all nodes.
TOPICS = {
    "otlp_proto": 9,
    "otlp_json": 9,
    "telegraf_influx": 500,
    "telegraf_json": 500,
    "cruise_control": 400,
}

Record = tuple[str, int, bytes]  # Format, Kafka's timestamp, value.
Writer = tuple[Path, str]  # Program and version.


def otlp_of(node: Node) -> dict[str, Any]:
    """Returns the node's metrics, as its JMX exporter tells them, as OpenTelemetry's batch in JSON."""
    with urllib.request.urlopen(node.jmx_url, timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    nanos = str(time.time_ns())
    metrics: list[dict[str, Any]] = []
    for family in families:
        for sample in family.samples:
            labels = [{"key": key, "value": {"stringValue": value}} for key, value in sample.labels.items()]
            points = {"dataPoints": [{"attributes": labels, "timeUnixNano": nanos, "asDouble": sample.value}]}
            total = {"aggregationTemporality": 2, "isMonotonic": True}
            kind = {"sum": points | total} if family.type == "counter" else {"gauge": points}
            metrics.append({"name": sample.name, "description": family.documentation, **kind})
    owner = {"broker_id": {"intValue": node.node_id}, "cluster": {"stringValue": CLUSTER}}
    resource = {"attributes": [{"key": key, "value": value} for key, value in owner.items()]}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]}


def record_collector(lab: Lab, home: Path, writer: Writer) -> None:
    """Sends each node's metrics to the Collector three times, 5 s apart, as an agent on each node would."""
    (port,) = free_ports(1)
    exporters = {
        f"kafka/{name}": {
            "brokers": lab.bootstrap_servers.split(","),
            "metrics": {"topic": name, "encoding": name},
            "partition_metrics_by_resource_attributes": True,
            "timeout": "60s",
        }
        for name in ("otlp_proto", "otlp_json")
    }
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": exporters,
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": list(exporters)}},
        },
    }
    file = home / "collector.yaml"
    file.write_text(yaml.safe_dump(config))
    with running([str(writer[0]), "--config", str(file)], home / "collector.log"):
        until(lambda: is_open(port))
        for second in (0, 5, 5):
            time.sleep(second)
            for node in lab.nodes.values():
                body = json.dumps(otlp_of(node)).encode()
                url = f"http://127.0.0.1:{port}/v1/metrics"
                urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})).close()
        write(lab, "OpenTelemetry Collector", writer, "otlp_proto", "otlp_json")


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def record_telegraf(lab: Lab, home: Path, writer: Writer) -> None:
    """Runs the shipped file with its commented parts, for the agents of all nodes and with an output in each format."""
    urls = {jolokia_url(node.log): node.node_id for node in lab.nodes.values()}
    text = (COLLECTORS / "telegraf.conf").read_text()
    text = re.sub(r"(?m)^( *)#(?=\[\[|[a-z_]+ = )(?!data_format)", r"\1", text)
    inputs, output = text.split("[[outputs.kafka]]", 1)
    inputs += output[output.index("\n[[inputs") :]
    inputs = re.sub(r"(?m)^( *)urls = .*$", rf"\1urls = {json.dumps(list(urls))}", inputs)
    inputs = re.sub(r"(?m)^  broker_id = .*$", "", inputs).replace('cluster = "main"', f'cluster = "{CLUSTER}"')
    outputs = "".join(
        f'[[outputs.kafka]]\n  brokers = {json.dumps(lab.bootstrap_servers.split(","))}\n  topic = "telegraf_{name}"\n  data_format = "{name}"\n'
        + ('  json_timestamp_units = "1ms"\n' if name == "json" else "")
        for name in ("influx", "json")
    )
    file = home / "telegraf.conf"
    file.write_text(f'[agent]\n  flush_interval = "1s"\n{inputs}\n{outputs}')
    hosts = {url.split("/")[2]: node for url, node in urls.items()}
    with running([str(writer[0]), "--config", str(file)], home / "telegraf.log"):
        write(lab, "Telegraf", writer, "telegraf_influx", "telegraf_json", hosts=hosts)


def jolokia_url(log: Path) -> str:
    pattern = re.compile(r"Jolokia: Agent started with URL (http://\S+?)/?\s")
    url: str = until(lambda: pattern.search(log.read_text(errors="replace")))[1]
    return url


def cruise_control_settings() -> dict[str, str]:
    """Returns the brokers' settings of Cruise Control's reporter, whose interval is 60 s by default."""
    prefix = "cruise.control.metrics"
    return {
        "metric.reporters": "com.linkedin.kafka.cruisecontrol.metricsreporter.CruiseControlMetricsReporter",
        f"{prefix}.topic": "cruise_control",
        f"{prefix}.reporter.metrics.reporting.interval.ms": "5000",
        f"{prefix}.reporter.kubernetes.mode": "false",
    }


def until(found: Any) -> Any:
    ends_s = time.monotonic() + WAIT_S_MAX
    while not (result := found()):
        if time.monotonic() > ends_s:
            sys.exit(f"not seen within {WAIT_S_MAX} s")
        time.sleep(0.2)
    return result


def first_records(lab: Lab, format_: str) -> list[Record]:
    """Waits until the format's topic has its number of records, and returns the first of them."""
    count = TOPICS[format_]
    reader = KafkaConsumer(bootstrap_servers=lab.bootstrap_servers)
    partition = TopicPartition(format_, 0)
    reader.assign([partition])
    until(lambda: reader.end_offsets([partition])[partition] >= count)
    reader.seek(partition, 0)
    records: list[Record] = []
    while len(records) < count:
        for batch in reader.poll(timeout_ms=1000).values():
            records += [(format_, record.timestamp, record.value) for record in batch]
    reader.close()
    return records[:count]


@contextmanager
def running(command: list[str], log: Path, environment: Mapping[str, str] = {}) -> Iterator[None]:
    with log.open("w") as out, subprocess.Popen(
        command, stdout=out, stderr=out, env={**os.environ, **environment}
    ) as process:  # fmt: skip
        try:
            yield
        except SystemExit:
            sys.stderr.write(log.read_text()[-3000:])
            raise
        finally:
            # A collector that cannot reach Kafka would go on trying for minutes.
            process.kill()


def write(lab: Lab, name: str, writer: Writer, *formats: str, hosts: Mapping[str, int] = {}) -> None:
    lines: list[dict[str, Any]] = [{"writer": name, "version": writer[1], "hosts": hosts}]
    for name_of_format in formats:
        for format_, ms, value in first_records(lab, name_of_format):
            lines.append({"format": format_, "ms": ms, "value": base64.b64encode(value).decode()})
    file = HERE / f"{name.lower().replace(' ', '-')}.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    sys.stdout.write(f"{file.name}: {len(lines) - 1} records\n")


def prepare(lab: Lab) -> None:
    """Creates the topics, and a topic whose replication counts against a throttle."""
    with ClusterClient(lab.kafka_settings(), "golden") as client:
        for topic in TOPICS:
            client.create_topics([TopicCreation(topic, 1, 1, {})])
        client.create_topics(
            [TopicCreation("throttled", 2, 2, {kafka_names.LEADER_REPLICAS: "*", kafka_names.FOLLOWER_REPLICAS: "*"})]
        )
        rates = {kafka_names.LEADER_RATE: "100000000", kafka_names.FOLLOWER_RATE: "100000000"}
        client.alter_broker_configs({1: rates, 2: rates})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("collector", "telegraf", "cruise-control"):
        parser.add_argument(f"--{name}", nargs=2, metavar=("FILE", "VERSION"))
    chosen = {name: (Path(pair[0]), pair[1]) for name, pair in vars(parser.parse_args()).items() if pair}
    (jolokia,) = resolve_jars(JOLOKIA)["jolokia"]
    agents = [f"-javaagent:{jolokia}=host=127.0.0.1,port=0"]
    settings: dict[str, str] = {}
    if "cruise_control" in chosen:
        # An agent's jar is on the class path, where the broker finds the reporter.
        agents.append(f"-javaagent:{chosen['cruise_control'][0]}")
        settings = cruise_control_settings()
    spec = LabSpec(brokers=2, java_options=tuple(agents), broker_settings=settings)
    with Lab(spec) as lab, tempfile.TemporaryDirectory() as folder:
        prepare(lab)
        with ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "throttled", rate_bytes_per_s=300_000, record_bytes=10_000
        ):  # fmt: skip
            if "cruise_control" in chosen:
                write(lab, "Cruise Control", chosen["cruise_control"], "cruise_control")
            for name, record in (
                ("telegraf", record_telegraf),
                ("collector", record_collector),
            ):
                if name in chosen:
                    record(lab, Path(folder), chosen[name])


if __name__ == "__main__":
    main()
