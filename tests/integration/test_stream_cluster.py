"""The stream on Spark clusters: a standalone master with two workers from the jars of PySpark, and Hadoop's small YARN cluster."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyspark
import pytest
import yaml
from fed_stream import fed_stream, missing_or_wrong_windows
from lab_parts import RHEOSTAT, Running, rheostat, running, until, write_records_with_bad_headers

from rheostat.jvm.artifacts import resolve_jars
from rheostat.jvm.java import find_java
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import free_ports

LAB = LabSpec(brokers=1)
WORKERS = 2
RECOVERY_S_MAX = 30
# As docs/how-to/run-on-a-spark-cluster.md says: the same on master, workers and driver.
SECURED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "of-this-test-alone",
    "spark.network.crypto.enabled": "true",
}


@pytest.fixture
def workers() -> list[Running]:
    """The processes of the workers, as soon as there is a master."""
    return []


class Standalone:
    """Starts the processes of a standalone cluster."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.url = f"spark://127.0.0.1:{free_ports(1)[0]}"

    def start_master(self) -> Running:
        port = self.url.rpartition(":")[2]
        master = self._start("master", "org.apache.spark.deploy.master.Master", "--port", port)
        until(lambda: "New state: ALIVE" in master.said(), 90, "the master is up")
        return master

    def start_worker(self, name: str, *first_jars: Path) -> Running:
        """
        Args:
            first_jars: JAR files with precedence over those of PySpark.
        """
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name)]
        return self._start(name, "org.apache.spark.deploy.worker.Worker", *size, self.url, first_jars=first_jars)

    def _start(self, name: str, main: str, *arguments: str, first_jars: tuple[Path, ...] = ()) -> Running:
        java, spark_home = find_java().executable, Path(pyspark.__file__).parent
        class_path = os.pathsep.join([*map(str, first_jars), f"{spark_home}/jars/*"])
        secured = [f"-D{setting}={value}" for setting, value in SECURED.items()]
        small = [*secured, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path]
        # Workers give these variables to their executors.
        here = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(spark_home),
            "SPARK_SCALA_VERSION": next(spark_home.glob("jars/spark-core_*.jar")).name.split("_")[1].partition("-")[0],
            "JAVA_HOME": str(java.parents[1]),
        }
        (self._folder / name).mkdir()
        command = [str(java), *small, main, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        return self._stack.enter_context(running(*command, log=self._folder / f"{name}.log", env=here))


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    with ExitStack() as stack:
        yield Standalone(tmp_path, stack)


@pytest.fixture
def master(standalone: Standalone, workers: list[Running]) -> str:
    """The URL of a Spark cluster with both workers."""
    master = standalone.start_master()
    workers += [standalone.start_worker(f"worker-{i}") for i in range(WORKERS)]
    until(lambda: master.said().count("Registering worker") == WORKERS, 90, "the workers have come")
    return standalone.url


def test_pipeline_runs_on_executors_without_rheostat_installed(
    lab: Lab, master: str, workers: list[Running], tmp_path: Path
) -> None:
    with fed_stream(lab, tmp_path, "local", SECURED) as fed:
        write_records_with_bad_headers(lab.kafka_settings(), [fed.topics.metrics])
        command = (*RHEOSTAT, "stream", "--config", fed.config, "--master", master)
        with running(*command, log=tmp_path / "stream.log") as stream:
            until(lambda: fed.has_both(0) or not stream.alive(), 240, "signals arrive")
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
def test_killed_worker_costs_no_record(lab: Lab, master: str, workers: list[Running], tmp_path: Path) -> None:
    with fed_stream(lab, tmp_path, master, SECURED) as fed:
        command = (*RHEOSTAT, "stream", "--config", fed.config)
        with running(*command, log=tmp_path / "stream.log") as stream:
            until(lambda: fed.has_both(0), 150, "signals arrive")
            until(lambda: fed.has_both(fed.sent_ms[0] + 35_000), 90, "windows of this test end")
            killed = workers[0]
            for process in (*killed.descendants(), killed.process):
                process.kill()
            killed_ms = int(time.time() * 1000)
            until(lambda: fed.has_both(killed_ms), RECOVERY_S_MAX, "the other worker goes on")
            sys.stdout.write(f"signals again {time.time() - killed_ms / 1000:.1f} s after the kill\n")
            last_ms = fed.sent_ms[-1]
            until(lambda: fed.has_both(last_ms + 8_000), 60, "windows end")
            assert stream.alive(), "the same stream goes on"
            assert stream.end(signal.SIGTERM) == 0
        assert not missing_or_wrong_windows(fed, last_ms)


@pytest.mark.campaign
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
        until(lambda: "YARN is ready" in yarn.said() or not yarn.alive(), 240, "YARN is up")
        assert yarn.alive(), yarn.said()[-3000:]
        with fed_stream(lab, tmp_path, "yarn", conf) as fed:
            config = yaml.safe_load(fed.config.read_text())
            config["stream"]["driver_host"] = "127.0.0.1"
            fed.config.write_text(yaml.safe_dump(config))
            command = (*RHEOSTAT, "stream", "--config", fed.config)
            env = {"HADOOP_CONF_DIR": str(hadoop), "JAVA_HOME": str(java.parents[1])}
            with running(*command, log=tmp_path / "stream.log", env=env) as stream:
                until(lambda: fed.has_both(0) or not stream.alive(), 180, "signals arrive")
                assert stream.alive(), stream.said()[-3000:]
                assert stream.end(signal.SIGTERM) == 0
            assert {one.broker: one.leaders for one in fed.found} == {1: 10.0, 2: 20.0}


@pytest.mark.campaign
def test_worker_of_another_spark_version_is_named(lab: Lab, standalone: Standalone, tmp_path: Path) -> None:
    standalone.start_master()
    jars = resolve_jars(Path(__file__).with_name("spark-4.1-ivy.xml"))["spark"]
    standalone.start_worker("worker-0", *jars)
    with fed_stream(lab, tmp_path, standalone.url, SECURED) as fed:
        command = (*RHEOSTAT, "stream", "--config", fed.config)
        with running(*command, log=tmp_path / "stream.log") as stream:
            until(lambda: fed.feed() or not stream.alive(), 200, "the stream ends")
            assert stream.process.wait(10) == 1
    last = stream.said().splitlines()[-1]
    assert f"{standalone.url} has given the stream no executor for" in last
    assert "run Spark 4.2.0" in last
    assert "Traceback" not in stream.said()


@pytest.mark.campaign
def test_master_that_does_not_answer_is_named(lab: Lab, tmp_path: Path) -> None:
    url = f"spark://127.0.0.1:{free_ports(1)[0]}"
    with fed_stream(lab, tmp_path, url, SECURED) as fed:
        done = rheostat("stream", "--config", fed.config, timeout_s=150)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr[-3000:]
    assert (
        f"The Spark master {url} did not accept the stream, or has ended it: check that it answers, runs Spark 4.2.0"
        in last
    )
    assert "Traceback" not in done.stderr
