"""Compares the whole pipeline on a standalone cluster of one or two workers with one JVM of as many cores."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyspark

from benchmarks.streaming.bench import Bench
from benchmarks.streaming.throughput import Session
from rheostat.jvm.java import find_java
from rheostat.lab.node import free_ports
from streaming.shared.kafka import KafkaSettings

WARM_UP_RUNS, MEASURED_RUNS = 5, 3


@contextlib.contextmanager
def standalone(home: Path) -> Iterator[str]:
    """Yields the address of a master with two workers, from PySpark's own jars."""
    spark_home, executable = Path(pyspark.__file__).parent, find_java().executable
    core = next(spark_home.glob("jars/spark-core_*.jar")).name
    port = free_ports(1)[0]
    java = [str(executable), "-XX:+UseSerialGC", "-cp", str(spark_home / "jars" / "*")]
    # Workers give these variables to their executors.
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


def cluster_growth(bench: Bench, topic: str, records: int, per_scrape: int, batch: int) -> dict[str, Any]:
    """Returns the throughput with one and with two cores, on this machine alone and on a cluster with one core per worker.

    Each session is in a process of its own, because a process has one JVM. Each process repeats the whole topic until the compiler
    of its JVMs has done its work; the median of the last runs counts.
    """
    runs = WARM_UP_RUNS // 2 + 1 if bench.quick else WARM_UP_RUNS + MEASURED_RUNS
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder, standalone(Path(folder)) as master:
        for kind, address in (("local", "local"), ("cluster", master)):
            for cores in (1, 2):
                command = [sys.executable, "-m", "benchmarks.streaming.cluster", address, str(cores), topic]
                done = subprocess.run(
                    [*command, str(records), str(batch), str(runs), bench.kafka.bootstrap_servers],
                    stdout=subprocess.PIPE, timeout=600, check=True, text=True,
                )  # fmt: skip
                measured = json.loads(done.stdout.strip().splitlines()[-1])
                measured["samples_per_s"] = round(measured.pop("records_per_s") * per_scrape)
                measured["cpu_s_per_million_samples"] = round(measured.pop("cpu_s") / (records * per_scrape) * 1e6, 2)
                found[f"{kind}_{cores}"] = measured
    rate = {name: measured["samples_per_s"] for name, measured in found.items()}
    found["growth_local"] = round(rate["local_2"] / rate["local_1"], 2)
    found["growth_cluster"] = round(rate["cluster_2"] / rate["cluster_1"], 2)
    found["cluster_per_core_to_local"] = round(rate["cluster_2"] / rate["local_2"], 2)
    return found


def main(master: str, cores: str, topic: str, records: str, batch: str, runs: str, bootstrap_servers: str) -> None:
    """Prints the median of the last runs of a session. The CPU time is that of all Spark processes of this machine."""
    with tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder:
        bench = Bench(KafkaSettings(bootstrap_servers=bootstrap_servers), Path(folder), quick=True)
        session = Session(bench, compiler="thorough", master=master, cores=int(cores))
        found = []
        for _ in range(int(runs)):
            before_s = _cpu_s(session)
            found.append({**session.whole(topic, int(records), int(batch)), "cpu_s": _cpu_s(session) - before_s})
        session.spark.stop()
    last = found[-MEASURED_RUNS:]
    keys = ("records_per_s", "cpu_s", "batch_ms", "outside_tasks_ms")
    print(json.dumps({key: statistics.median(one[key] for one in last) for key in keys}))


def _cpu_s(session: Session) -> float:
    """Returns the CPU time of this process, of its JVM, and of its executors."""
    spark = {process.pid: process for process in psutil.Process().children(recursive=True)}
    driver = f"@127.0.0.1:{session.spark.conf.get('spark.driver.port')}"
    for process in psutil.process_iter(["cmdline"]):
        if any(word.endswith(driver) for word in process.info["cmdline"] or ()):
            spark[process.pid] = process
    times = [process.cpu_times() for process in spark.values()]
    return sum(time.user + time.system for time in times) + sum(os.times()[:2])


if __name__ == "__main__":
    main(*sys.argv[1:])
