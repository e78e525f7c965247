"""The doctor refuses a broker in ZooKeeper mode by name. Kafka 3.9 is the last version that has this mode."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_parts import until

from rheostat.config.settings import parse_settings
from rheostat.doctor.findings import FindingVerdict
from rheostat.doctor.kafka_version import kafka_version
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.jvm.java import find_java
from rheostat.jvm.kafka_versions import check_kafka_version, node_artifacts
from rheostat.lab.node import HOST, free_ports
from rheostat.run.process import spawn, stop
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError


@contextmanager
def java(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = spawn([str(find_java().executable), "-Xmx256m", "-XX:+UseSerialGC", *arguments], log=log)
    try:
        yield process
    finally:
        stop(process, grace_s=0.0)


@pytest.mark.campaign
def test_broker_in_zookeeper_mode_is_refused_by_name(tmp_path: Path) -> None:
    jars = node_artifacts(resolve_artifacts(), check_kafka_version("3.9")).kafka_class_path
    zookeeper_port, port = free_ports(2)
    server = tmp_path / "server.properties"
    server.write_text(
        f"broker.id=1\nzookeeper.connect={HOST}:{zookeeper_port}\nlisteners=PLAINTEXT://{HOST}:{port}\n"
        f"log.dirs={tmp_path / 'data'}\noffsets.topic.replication.factor=1\n"
    )
    settings = parse_settings(
        f"""
cluster: main
kafka: {{bootstrap_servers: "{HOST}:{port}", request_timeout_s: 2}}
stream: {{checkpoint_dir: {tmp_path}/checkpoint}}
tuner: {{rate_bytes_per_s_max: 50MB/s}}
""",
        "test",
        {},
    )
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    with (
        java(tmp_path / "zookeeper.log", "-cp", jars, main, str(zookeeper_port), str(tmp_path / "zookeeper")),
        java(tmp_path / "kafka.log", "-cp", jars, "kafka.Kafka", str(server)),
    ):
        kafka: KafkaSettings = settings.kafka

        def is_up() -> bool:
            try:
                with ClusterClient(kafka, "compat") as client:
                    return [one.node for one in client.brokers()] == [1]
            except ClusterError:
                return False

        until(is_up, 90, lambda: (tmp_path / "kafka.log").read_text(errors="replace")[-2000:], every_s=1.0)
        with ClusterClient(kafka, "compat") as client:
            (finding,) = kafka_version(client, [1], settings)
    assert finding.verdict is FindingVerdict.FAILED
    assert finding.found == "broker 1 runs in ZooKeeper mode; rheostat works with KRaft only"
