"""The stream on Spark clusters: a standalone master with two workers from the jars of PySpark, and Hadoop's small YARN cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest
import yaml
from kafka import TopicPartition
from lab_parts import RHEOSTAT, Running, running, until, write_records_with_bad_headers

from rheostat.jvm.artifacts import resolve_jars
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
RECOVERY_S_MAX = 30
WINDOW_MS, SLIDE_MS = 30_000, 5_000  # The defaults of the settings.
# As docs/how-to/run-the-stream.md says: the same on master, workers and driver.
SECURED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "of-this-test-alone",
    "spark.network.crypto.enabled": "true",
}


@pytest.fixture
def workers() -> list[Running]:
    """The processes of the workers, as soon as there is a master."""
    return []


@pytest.fixture
def master(tmp_path: Path, workers: list[Running]) -> Iterator[str]:
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
            workers.append(start(f"worker-{i}", "org.apache.spark.deploy.worker.Worker", *at, *size, url))
        until(lambda: boss.said().count("Registering worker") == WORKERS, 30, "the workers have come")
        yield url


class FedStream:
    """A stream whose metrics topic gets a scrape of each of two brokers every second."""

    def __init__(self, lab: Lab, folder: Path, master: str, conf: Mapping[str, str]) -> None:
        self.topics = Topics.with_prefix("rheostat")
        with ClusterClient(lab.kafka_settings(), "test") as client:
            ensure_topics(client, self.topics)
        settings = yaml.safe_load(lab_config(lab))
        settings["stream"] |= {"checkpoint_dir": str(folder / "checkpoint"), "driver_memory_mb": 512, "master": master}
        settings["stream"] |= {"executor_memory_mb": 512, "cores": WORKERS, "spark_conf": dict(conf)}
        self.config = folder / "rheostat.yaml"
        self.config.write_text(yaml.safe_dump(settings))
        self.sent_ms: list[int] = []
        self._sender = producer(lab.kafka_settings(), "test")
        self._reader = consumer(lab.kafka_settings(), "test")
        self._reader.assign([TopicPartition(self.topics.signals, 0)])
        self._reader.seek_to_beginning()
        self.found: list[BrokerSignal] = []

    def feed(self) -> None:
        """Sends a scrape of each broker, unless the last one is less than a second old."""
        now_ms = int(time.time() * 1000)
        if self.sent_ms and now_ms - self.sent_ms[-1] < 1000:
            return
        self.sent_ms.append(now_ms)
        for node in (1, 2):
            one = Scrape("lab", node, NodeRole.BROKER, now_ms, (Sample(Metric.LEADER_COUNT, "", node * 10.0),))
            self._sender.send(self.topics.metrics, key=one.key(), value=one.value(), partition=node - 1)
        self._sender.flush(timeout=10)

    def read(self) -> list[BrokerSignal]:
        """Reads new signals, and returns all."""
        for records in self._reader.poll(timeout_ms=100).values():
            signals = [decode_signal(record.value) for record in records]
            self.found += [one for one in signals if isinstance(one, BrokerSignal)]
        return self.found

    def has_both(self, after_ms: int) -> bool:
        """Feeds, and returns whether signals of both brokers contain a scrape that is newer than ``after_ms``."""
        self.feed()
        return {one.broker for one in self.read() if one.sampled_at_ms > after_ms} == {1, 2}

    def close(self) -> None:
        self._sender.close(timeout=5)
        self._reader.close()


@contextmanager
def fed_stream(lab: Lab, folder: Path, master: str, conf: Mapping[str, str]) -> Iterator[FedStream]:
    fed = FedStream(lab, folder, master, conf)
    try:
        yield fed
    finally:
        fed.close()


def test_pipeline_runs_on_executors_without_rheostat_installed(
    lab: Lab, master: str, workers: list[Running], tmp_path: Path
) -> None:
    with fed_stream(lab, tmp_path, "local", SECURED) as fed:
        write_records_with_bad_headers(lab.kafka_settings(), [fed.topics.metrics])
        command = (*RHEOSTAT, "stream", "--config", fed.config, "--master", master)
        with running(*command, log=tmp_path / "stream.log") as stream:
            until(lambda: fed.has_both(0) or not stream.alive(), 60, "signals arrive")
            executors = [one.name for i in range(WORKERS) for one in (tmp_path / f"worker-{i}").iterdir()]
            assert stream.alive()
            started = [
                psutil.Process(stream.pid),
                *stream.descendants(),
                *(p for w in workers for p in w.descendants()),
            ]
            lines = [" ".join(one.cmdline()) for one in started if one.status() != psutil.STATUS_ZOMBIE]
            assert stream.end(signal.SIGTERM) == 0
        assert sum("CoarseGrainedExecutorBackend" in line for line in lines) == WORKERS
        assert sum("org.apache.spark.deploy.SparkSubmit" in line for line in lines) == 1
        assert not [line for line in lines if SECURED["spark.authenticate.secret"] in line]
        assert {one.broker: one.leaders for one in fed.found} == {1: 10.0, 2: 20.0}
        assert len(executors) == WORKERS, "one application's folder on each worker"
        assert "Traceback" not in stream.said()
        assert "are not authenticated" not in stream.said()


@pytest.mark.campaign
@pytest.mark.timeout(240)
def test_killed_worker_costs_no_record(lab: Lab, master: str, workers: list[Running], tmp_path: Path) -> None:
    with fed_stream(lab, tmp_path, master, SECURED) as fed:
        command = (*RHEOSTAT, "stream", "--config", fed.config)
        with running(*command, log=tmp_path / "stream.log") as stream:
            until(lambda: fed.has_both(0), 60, "signals arrive")
            killed = workers[0]
            for process in (*killed.descendants(), killed.process):
                process.kill()
            killed_ms = int(time.time() * 1000)
            until(lambda: fed.has_both(killed_ms), RECOVERY_S_MAX, "the other worker goes on")
            last_ms = fed.sent_ms[-1]
            until(lambda: fed.has_both(last_ms + 8_000), 60, "windows end")
            assert stream.alive(), "the same stream goes on"
            assert stream.end(signal.SIGTERM) == 0
        windows = {(one.broker, one.window_end_ms): one for one in fed.found}
        ends = sorted({end for _, end in windows})
        assert ends == list(range(ends[0], ends[-1] + 1, SLIDE_MS)), "no window is missing"
        for (broker, end), one in windows.items():
            if end <= last_ms:
                sent = sum(end - WINDOW_MS <= at < end for at in fed.sent_ms)
                assert one.samples == sent, f"window {end} of broker {broker} has every scrape once"


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_pipeline_runs_on_yarn(lab: Lab, tmp_path: Path) -> None:
    java, spark_home = find_java().executable, Path(pyspark.__file__).parent
    hadoop_jars = resolve_jars(Path(__file__).with_name("hadoop-ivy.xml"))["hadoop"]
    hadoop = tmp_path / "hadoop"
    hadoop.mkdir()
    class_path = os.pathsep.join([*map(str, hadoop_jars), f"{spark_home}/jars/*"])
    source = Path(__file__).with_name("YarnLab.java")
    conf = {
        # The nodes are on this machine, so they need no copy of Spark.
        "spark.yarn.jars": f"local:{spark_home}/jars/*",
        "spark.yarn.stagingDir": str(tmp_path / "staging"),
        "spark.yarn.am.memory": "512m",
    }
    yarn_command = [java, "-Xmx512m", f"-Dtest.build.data={hadoop}", "-cp", class_path, source, str(hadoop)]
    with running(*yarn_command, log=tmp_path / "yarn.log", env={"JAVA_HOME": str(java.parents[1])}) as yarn:
        until(lambda: "YARN is ready" in yarn.said() or not yarn.alive(), 90, "YARN is up")
        assert yarn.alive(), yarn.said()[-3000:]
        with fed_stream(lab, tmp_path, "yarn", conf) as fed:
            config = yaml.safe_load(fed.config.read_text())
            config["stream"]["driver_host"] = "127.0.0.1"
            fed.config.write_text(yaml.safe_dump(config))
            command = (*RHEOSTAT, "stream", "--config", fed.config)
            env = {"HADOOP_CONF_DIR": str(hadoop), "JAVA_HOME": str(java.parents[1])}
            with running(*command, log=tmp_path / "stream.log", env=env) as stream:
                until(lambda: fed.has_both(0) or not stream.alive(), 120, "signals arrive")
                assert stream.alive(), stream.said()[-3000:]
                assert stream.end(signal.SIGTERM) == 0
            assert {one.broker: one.leaders for one in fed.found} == {1: 10.0, 2: 20.0}
