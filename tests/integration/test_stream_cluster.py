"""The stream processor on a standalone Spark cluster: a master and two workers, from the jars of PySpark."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
import yaml
from kafka import TopicPartition
from lab_parts import RHEOSTAT, Running, running, until, write_records_with_bad_headers

from rheostat.jvm.java import find_java
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.contract import (
    BrokerSignal,
    Metric,
    NodeRole,
    Sample,
    Scrape,
    Topics,
    decode_signal,
)
from streaming.shared.kafka.clients import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics

LAB = LabSpec(brokers=1)
WORKERS = 2
# As docs/how-to/run-the-stream.md says: the same on master, workers and driver.
SECURED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "of-this-test-alone",
    "spark.network.crypto.enabled": "true",
}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a Spark cluster with both workers."""
    java, spark_home = find_java().executable, Path(pyspark.__file__).parent
    port = free_ports(1)[0]
    url = f"spark://127.0.0.1:{port}"
    secured = [f"-D{name}={value}" for name, value in SECURED.items()]
    small = [*secured, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{spark_home}/jars/*"]
    # What workers start executors with.
    here = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(spark_home),
        "SPARK_SCALA_VERSION": next(spark_home.glob("jars/spark-core_*.jar")).name.split("_")[1].partition("-")[0],
        "JAVA_HOME": str(java.parents[1]),
    }
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Running:
            (tmp_path / name).mkdir()
            command = [str(java), *small, *arguments]
            return stack.enter_context(running(*command, log=tmp_path / f"{name}.log", env=here))

        at = ["--host", "127.0.0.1", "--webui-port", "0"]
        boss = start("master", "org.apache.spark.deploy.master.Master", *at, "--port", str(port))
        until(lambda: "New state: ALIVE" in boss.said(), 30, "the master is up")
        for i in range(WORKERS):
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"worker-{i}")]
            start(f"worker-{i}", "org.apache.spark.deploy.worker.Worker", *at, *size, url)
        until(lambda: boss.said().count("Registering worker") == WORKERS, 30, "the workers have come")
        yield url


def test_pipeline_runs_on_executors_without_rheostat_installed(lab: Lab, master: str, tmp_path: Path) -> None:
    topics = Topics.with_prefix("rheostat")
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, topics)
    settings = yaml.safe_load(lab_config(lab))
    settings["stream"] |= {"checkpoint_dir": str(tmp_path / "checkpoint"), "driver_memory_mb": 512}
    settings["stream"] |= {"executor_memory_mb": 512, "cores": WORKERS}
    config = tmp_path / "rheostat.yaml"
    config.write_text(yaml.safe_dump(settings))
    write_records_with_bad_headers(lab.kafka_settings(), [topics.metrics])
    sender = producer(lab.kafka_settings(), "test")
    now_ms = int(time.time() * 1000)
    for node in (1, 2):
        one = Scrape("lab", node, NodeRole.BROKER, now_ms, (Sample(Metric.LEADER_COUNT, "", node * 10.0),))
        sender.send(topics.metrics, key=one.key(), value=one.value(), partition=node - 1)
    sender.flush(timeout=10)
    sender.close(timeout=5)
    reader = consumer(lab.kafka_settings(), "test")
    reader.assign([TopicPartition(topics.signals, 0)])
    reader.seek_to_beginning()
    found: dict[int, BrokerSignal] = {}

    def look() -> bool:
        for records in reader.poll(timeout_ms=200).values():
            signals = [decode_signal(record.value) for record in records]
            found.update({one.broker: one for one in signals if isinstance(one, BrokerSignal)})
        return len(found) == 2 or not stream.alive()

    folder = tmp_path / "spark-conf"
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SECURED.items()))
    command = (*RHEOSTAT, "stream", "--config", config, "--master", master)
    with running(*command, log=tmp_path / "stream.log", env={"SPARK_CONF_DIR": str(folder)}) as stream:
        until(look, 60, "signals arrive")
        executors = [one.name for i in range(WORKERS) for one in (tmp_path / f"worker-{i}").iterdir()]
        assert stream.alive()
        assert stream.end(signal.SIGTERM) == 0
    reader.close()
    assert {broker: one.leaders for broker, one in found.items()} == {1: 10.0, 2: 20.0}
    assert len(executors) == WORKERS, "one application's folder on each worker"
    assert "Traceback" not in stream.said()
    assert "are not authenticated" not in stream.said()
