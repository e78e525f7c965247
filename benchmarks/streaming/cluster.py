"""Runs the whole pipeline on a standalone cluster with two workers, in its own process because a process has one JVM."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark

from benchmarks.streaming.bench import Bench
from benchmarks.streaming.throughput import Session
from rheostat.jvm.java import find_java
from rheostat.lab.node import free_ports
from streaming.shared.kafka import KafkaSettings


@contextlib.contextmanager
def standalone(home: Path) -> Iterator[str]:
    """Yields the address of a master with two workers, from PySpark's own jars."""
    spark_home, executable = Path(pyspark.__file__).parent, find_java().executable
    core = next(spark_home.glob("jars/spark-core_*.jar")).name
    port = free_ports(1)[0]
    java = [str(executable), "-XX:+UseSerialGC", "-cp", str(spark_home / "jars" / "*")]
    # What workers start executors with.
    environ = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(spark_home),
        "SPARK_SCALA_VERSION": core.split("_")[1].partition("-")[0],
        "JAVA_HOME": str(executable.parents[1]),
    }
    address = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as ends:

        def start(name: str, *command: str) -> None:
            with (home / f"{name}.log").open("wb") as log:
                process = subprocess.Popen([*java, *command], stdout=log, stderr=log, env=environ)
            ends.callback(process.wait, 20)
            ends.callback(process.terminate)

        package = "org.apache.spark.deploy"
        start("master", f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for i in (1, 2):
            work = home / f"worker-{i}"
            start(
                work.name,
                f"{package}.worker.Worker",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(work),
                address,
            )
        yield address


def on_cluster(kafka: KafkaSettings, topic: str, records: int, per_scrape: int, batch: int) -> float:
    """Returns the throughput, measured in a child process: the session of this process is local, and a process has one JVM."""
    with tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder, standalone(Path(folder)) as master:
        command = [sys.executable, "-m", "benchmarks.streaming.cluster", master, topic, str(records), str(batch)]
        done = subprocess.run(
            [*command, kafka.bootstrap_servers], stdout=subprocess.PIPE, timeout=300, check=True, text=True
        )
    return float(json.loads(done.stdout.strip().splitlines()[-1])["records_per_s"]) * per_scrape


def main(master: str, topic: str, records: str, batch: str, bootstrap_servers: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder:
        bench = Bench(KafkaSettings(bootstrap_servers=bootstrap_servers), Path(folder), quick=True)
        session = Session(bench, compiler="thorough", master=master)
        found = [session.whole(topic, int(records), int(batch)) for _ in range(4)][-1]
        session.spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
