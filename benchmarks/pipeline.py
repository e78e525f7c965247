"""What the measuring pipeline carries, how late it is, what it costs, and how that grows.

Everything against a real broker on the same machine. Five parts, each of which checks how many records went in:

    throughput   the same full topic through Spark reading and parsing alone, and through the whole pipeline into Kafka, in
                 turns in one warm session; the ratio of the two is what the pipeline adds. Beside them a plain
                 kafka-python consumer with json and dicts.
    live         `stream_child` as a process, under a steady load: start to first signal, publication to readable signal,
                 memory, rows of state at the begin and at the end.
    hour         an hour of 100 brokers worked off: rows of state and heap at its begin and at its end.
    hour         an hour of 100 brokers worked off: rows of state and heap at its begin and at its end.
    growth       throughput and state at 1, 10 and 100 times the brokers, and with 4,000 moving partitions a broker.
    cluster      the whole pipeline on a standalone cluster with two workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from kafka import TopicPartition
from kafka.admin import NewTopic

from benchmarks.metrics_load import CLUSTER, Shape, history, templates
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.lab import Lab, LabSpec
from rheostat.process import spawn, stop
from streaming.contract import Topics
from streaming.kafka import KafkaSettings, admin_client, consumer, producer
from streaming.settings import Compiler

RATIO_MIN = 0.6
P50_S_MAX, P99_S_MAX = 0.7, 1.5
START_S_MAX = 12.0
RSS_MB_MAX = 1.2 * 1024
SAMPLES_PER_S = 20_000
_LARGE = "16777216"


@dataclass(frozen=True, slots=True)
class Bench:
    kafka: KafkaSettings
    home: Path
    quick: bool

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        with contextlib.closing(admin_client(self.kafka, "bench")) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs={"max.message.bytes": _LARGE, **dotted})])


# -- throughput -------------------------------------------------------------------------------------------------------


def fill(bench: Bench, topic: str, shape: Shape, scrapes: int) -> int:
    """A topic with that history, at the times it claims; how many records."""
    # CreateTime and no retention: the past must be where it says it is.
    bench.create(topic, 2, retention_ms="-1", message_timestamp_type="CreateTime")
    count = 0
    sender = producer(bench.kafka, "bench-fill", linger_ms=50, batch_size=1 << 20)
    for key, value, ts_ms in history(shape, scrapes, int(time.time() * 1000)):
        sender.send(topic, key=key, value=value, timestamp_ms=ts_ms)
        count += 1
    sender.flush()
    sender.close()
    return count


class Session:
    """One warm Spark session in this process, and queries that work a topic off and end."""

    def __init__(self, bench: Bench, *, compiler: Compiler, master: str = "local", shuffle_partitions: int = 2) -> None:
        from streaming.session import Standalone, spark_session

        self._bench = bench
        self._runs = 0
        self.spark = spark_session(
            resolve_artifacts().spark_jars,
            app_name="benchmark",
            local_dir=bench.home / "spark",
            cores=2,
            shuffle_partitions=shuffle_partitions,
            compiler=compiler,
            standalone=None if master == "local" else Standalone(master, "127.0.0.1", 700, 1),
        )

    def parse_only(self, topic: str, records: int, batch: int) -> float:
        from streaming.formats import rheostat_json
        from streaming.formats.common import Source, table

        parsed = table(self._read(topic, batch), rheostat_json.scrapes, Source(CLUSTER))
        return self._work_off(parsed.writeStream.format("noop"), records)["records_per_s"]

    def whole(self, topic: str, records: int, batch: int) -> dict[str, float]:
        from streaming.formats.common import Source
        from streaming.pipeline import Input, build

        out = Topics.with_prefix(f"{topic}-out")
        built = build([(self._read(topic, batch), Input("rheostat_json", Source(CLUSTER)))], out)
        writer = built.writeStream.format("kafka").outputMode("update")
        return self._work_off(writer.option("kafka.bootstrap.servers", self._bench.kafka.bootstrap_servers), records)

    def heap_mb(self) -> float:
        """What is in use once garbage is collected."""
        runtime = self.spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]  # none before a session
        runtime.gc()
        return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20

    def _read(self, topic: str, batch: int) -> Any:
        return (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._bench.kafka.bootstrap_servers)
            .option("kafka.max.partition.fetch.bytes", _LARGE)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", batch)
            .load()
            .select("value", "topic", "partition", "offset", "timestamp")
        )

    def _work_off(self, writer: Any, records: int) -> dict[str, float]:
        self._runs += 1
        checkpoint = self._bench.home / f"checkpoint-{self._runs}"
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [p for p in query.recentProgress if p["numInputRows"]]
        seen = sum(p["numInputRows"] for p in batches)
        assert seen == records, f"{seen} records of {records} were read"
        steady = batches[1:]
        state = [op for p in batches for op in p["stateOperators"]]
        return {
            "records_per_s": 1000
            * sum(p["numInputRows"] for p in steady)
            / sum(p["durationMs"]["triggerExecution"] for p in steady),
            # Full from the second minute on; the last batch may be a short one.
            "state_rows_early": state[len(state) // 4]["numRowsTotal"] if state else 0,
            "state_rows_late": state[-2]["numRowsTotal"] if len(state) > 1 else 0,
            "state_rows": max((op["numRowsTotal"] for op in state), default=0),
            "state_mb": max((op["memoryUsedBytes"] for op in state), default=0) / 1e6,
            "late_rows": sum(op["numRowsDroppedByWatermark"] for op in state),
        }


def throughput(
    bench: Bench, session: Session, shape: Shape, *, scrapes: int, rounds: int, batch: int
) -> dict[str, Any]:
    topic = f"n{shape.nodes}p{shape.partitions}"
    records = fill(bench, topic, shape, scrapes)
    for kind in ("signals", "rejects"):
        bench.create(f"{topic}-out.{kind}")
    parse: list[float] = []
    whole: list[dict[str, float]] = []
    warm_up = rounds // 2 + 1
    for _ in range(warm_up + rounds):  # In turns: what else the machine does meets both.
        parse.append(session.parse_only(topic, records, batch))
        whole.append(session.whole(topic, records, batch))
    per_scrape = shape.samples_per_scrape
    parse, whole = parse[warm_up:], whole[warm_up:]
    ratios = [w["records_per_s"] / p for p, w in zip(parse, whole, strict=True)]
    return {
        "nodes": shape.nodes,
        "partitions_per_node": shape.partitions,
        "records": records,
        "samples_per_s": round(statistics.median(w["records_per_s"] for w in whole) * per_scrape),
        "parse_only_samples_per_s": round(statistics.median(parse) * per_scrape),
        "ratio_to_parse_only": round(statistics.median(ratios), 3),
        "ratios": [round(r, 3) for r in ratios],
        "state_rows": whole[-1]["state_rows"],
        "state_mb": round(whole[-1]["state_mb"], 1),
        "late_rows": whole[-1]["late_rows"],
    }


def hour(bench: Bench, session: Session, shape: Shape) -> dict[str, Any]:
    """An hour of a cluster, as fast as it goes: what is kept must not grow."""
    topic = "hour"
    records = fill(bench, topic, shape, scrapes=int(3600 / shape.every_s))
    for kind in ("signals", "rejects"):
        bench.create(f"{topic}-out.{kind}")
    before = session.heap_mb()
    found = session.whole(topic, records, 4_000)
    return {
        "records": records,
        "state_rows_first": found["state_rows_early"],
        "state_rows_last": found["state_rows_late"],
        "late_rows": found["late_rows"],
        "heap_mb_before": round(before),
        "heap_mb_after": round(session.heap_mb()),
    }


def python_consumer(bench: Bench, topic: str, records: int, per_scrape: int) -> float:
    """Samples/s of one process: consume, json, a dict of first, last and reset-proof increase per series and window."""
    reader = consumer(bench.kafka, "bench-python", auto_offset_reset="earliest", max_poll_records=2000)
    partitions = [TopicPartition(topic, p) for p in sorted(reader.partitions_for_topic(topic) or ())]
    reader.assign(partitions)
    reader.seek_to_beginning(*partitions)
    series: dict[tuple[Any, ...], list[float]] = {}
    seen, began = 0, time.monotonic()
    while seen < records:
        for batch in reader.poll(timeout_ms=5000).values():
            for record in batch:
                seen += 1
                body = json.loads(record.value)
                window = body["ts"] // 30_000
                for sample in body["samples"]:
                    key = (body["cluster"], body["node"], sample["n"], sample["l"], window)
                    value, kept = sample["v"], series.get(key)
                    if kept is None:
                        series[key] = [value, value, 0.0]
                    else:
                        kept[2] += value - kept[1] if value >= kept[1] else value
                        kept[1] = value
    took_s = time.monotonic() - began
    reader.close()
    return seen * per_scrape / took_s


# -- live -------------------------------------------------------------------------------------------------------------


class Load:
    """Scrapes at a steady pace, each sent when it is due. ``sent_s``: by node and time of the scrape, when."""

    def __init__(self, bench: Bench, topic: str, shape: Shape) -> None:
        self._nodes = templates(shape)
        self._every_s = shape.every_s / shape.nodes
        self._topic = topic
        self._sender = producer(bench.kafka, "bench-load", linger_ms=5)
        self._stop = threading.Event()
        self.records = 0
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._sender.close()

    def _run(self) -> None:
        due_s = time.time()
        while not self._stop.wait(0.005):
            now_s = time.time()
            while due_s <= now_s:
                node = self._nodes[self.records % len(self._nodes)]
                # The scrape's own time is the moment of publication: what the signal shows as sampled_at.
                self._sender.send(self._topic, key=node.key, value=node.at(int(time.time() * 1000)))
                self.records += 1
                due_s += self._every_s


def live(bench: Bench, *, shape: Shape, seconds: float, settings: dict[str, Any], tag: str) -> dict[str, Any]:
    topics = Topics.with_prefix(tag)
    bench.create(topics.metrics, 2, message_timestamp_type="LogAppendTime")
    bench.create(topics.signals, 1)
    bench.create(topics.rejects, 1)
    log = bench.home / f"{tag}.log"
    stream = {"checkpoint_dir": str(bench.home / tag / "checkpoint"), "start": "latest", **settings}
    with Load(bench, topics.metrics, shape), _tail(bench, topics.signals) as tail:
        began = time.monotonic()
        child = spawn(
            [sys.executable, "-m", "benchmarks.stream_child", bench.kafka.bootstrap_servers, tag, json.dumps(stream)],
            log=log,
        )
        try:
            first = next(tail)
            start_s = time.monotonic() - began
            latencies: list[float] = []
            until = time.monotonic() + seconds
            warm = time.monotonic() + seconds / 2  # The JIT has seen the code by then; before it is told apart.
            early: list[float] = []
            while time.monotonic() < until:
                received_s, sampled_s = next(tail)
                (latencies if time.monotonic() > warm else early).append(received_s - sampled_s)
            assert first is not None
            memory = _memory_mb(child)
        finally:
            stop(child, grace_s=30)
    batches = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    steady = batches[len(batches) // 2 :]
    return {
        "samples_per_s": shape.nodes * shape.samples / shape.every_s,
        "start_s": round(start_s, 2),
        "signals": len(latencies),
        **{f"latency_s_{name}": round(_quantile(latencies, q), 3) for name, q in _QUANTILES},
        **{f"latency_s_early_{name}": round(_quantile(early, q), 3) for name, q in _QUANTILES},
        "batch_ms_median": statistics.median(b["batch_ms"] for b in steady),
        "state_rows_first": steady[0]["state_rows"],
        "state_rows_last": steady[-1]["state_rows"],
        "late_rows": sum(b["late_rows_dropped"] for b in batches),
        "rss_mb": round(memory["rss"]),
        "rss_mb_jvm": round(memory["jvm"]),
        "heap_mb_max": settings.get("driver_memory_mb", 1024),
    }


_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def _quantile(values: list[float], q: float) -> float:
    assert len(values) > 50, f"only {len(values)} signals came"
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


@contextlib.contextmanager
def _tail(bench: Bench, topic: str) -> Iterator[Iterator[tuple[float, float]]]:
    """(received, sampled at) of every signal as it becomes readable, epoch seconds."""
    reader = consumer(bench.kafka, "bench-tail", fetch_max_wait_ms=20, auto_offset_reset="earliest")
    reader.assign([TopicPartition(topic, 0)])

    def signals() -> Iterator[tuple[float, float]]:
        silent_since = time.monotonic()
        while time.monotonic() - silent_since < 120:
            batches = reader.poll(timeout_ms=100)
            received_s = time.time()
            for batch in batches.values():
                for record in batch:
                    silent_since = time.monotonic()
                    yield received_s, json.loads(record.value)["sampled_at_ms"] / 1000
        raise SystemExit("no signal came for two minutes")

    try:
        yield signals()
    finally:
        reader.close()


def _memory_mb(child: subprocess.Popen[bytes]) -> dict[str, float]:
    process = psutil.Process(child.pid)
    family = [process, *process.children(recursive=True)]
    rss = {p.pid: p.memory_info().rss / 2**20 for p in family}
    return {"rss": sum(rss.values()), "jvm": sum(rss[p.pid] for p in family if p.name() == "java")}


# -- a cluster --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def standalone(home: Path) -> Iterator[str]:
    """A master and two workers from PySpark's own jars; the master's address."""
    import pyspark

    from rheostat.jvm.java import find_java
    from rheostat.lab.node import free_ports

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
                work.name, f"{package}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
                "--memory", "1g", "--work-dir", str(work), address,
            )  # fmt: skip
        yield address


def on_cluster(bench_settings: KafkaSettings, topic: str, records: int, per_scrape: int, batch: int) -> float:
    """In a process of its own: this one's session is local, and a process has one JVM."""
    with tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder, standalone(Path(folder)) as master:
        command = [sys.executable, "-m", "benchmarks.pipeline", "--on-cluster", master, topic, str(records), str(batch)]
        done = subprocess.run(
            [*command, bench_settings.bootstrap_servers], stdout=subprocess.PIPE, timeout=300, check=True, text=True
        )
    return float(json.loads(done.stdout.strip().splitlines()[-1])["records_per_s"]) * per_scrape


def _run_on_cluster(master: str, topic: str, records: str, batch: str, bootstrap_servers: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder:
        bench = Bench(KafkaSettings(bootstrap_servers=bootstrap_servers), Path(folder), quick=True)
        session = Session(bench, compiler="thorough", master=master)
        found = [session.whole(topic, int(records), int(batch)) for _ in range(4)][-1]
        session.spark.stop()
    print(json.dumps(found))


# -- all of it --------------------------------------------------------------------------------------------------------


PARTS = ("live", "throughput", "hour", "growth", "cluster")


def measure(parts: Sequence[str], *, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"cores": os.cpu_count()}
    with Lab(LabSpec(brokers=1)) as lab, tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder:
        bench = Bench(KafkaSettings(bootstrap_servers=lab.bootstrap_servers), Path(folder), quick)
        if "live" in parts:
            rates = Shape(int(SAMPLES_PER_S / 50 * 5))
            found["live"] = {
                compiler: live(
                    bench, shape=rates, seconds=30.0 if quick else 60.0, settings={"compiler": compiler}, tag=compiler
                )
                for compiler in ("quick", "thorough")
            }
        session = Session(bench, compiler="thorough") if set(parts) & {"throughput", "hour", "growth"} else None
        if session is not None:
            if "throughput" in parts:
                found["throughput"] = throughput(
                    bench, session, Shape(1000), scrapes=24, rounds=3 if quick else 7, batch=10_000
                )
                found["python_consumer_samples_per_s"] = round(python_consumer(bench, "n1000p0", 24_000, 50))
            if "hour" in parts:
                found["hour"] = hour(bench, session, Shape(100))
            if "growth" in parts:
                found["growth"] = [
                    throughput(bench, session, shape, scrapes=scrapes, rounds=1 if quick else 3, batch=batch)
                    for shape, scrapes, batch in (
                        (Shape(100), 60, 2_000),
                        (Shape(10_000), 3, 10_000),
                        (Shape(3, partitions=4000), 24, 6),
                    )
                ]
            session.spark.stop()
        if "cluster" in parts:
            records = 12_000
            if fill(bench, "spread", Shape(1000), 12) != records:
                raise AssertionError("the topic for the cluster is not full")
            for kind in ("signals", "rejects"):
                bench.create(f"spread-out.{kind}")
            found["cluster_samples_per_s"] = round(on_cluster(bench.kafka, "spread", records, 50, 4_000))
    found["bounds"] = bounds(found)
    return found


def bounds(found: dict[str, Any]) -> dict[str, tuple[float, str, float]]:
    held: dict[str, tuple[float, str, float]] = {}
    if "throughput" in found:
        held["ratio_to_parse_only"] = (found["throughput"]["ratio_to_parse_only"], ">=", RATIO_MIN)
    for compiler, seen in found.get("live", {}).items():
        held[f"{compiler}_latency_s_p50"] = (seen["latency_s_p50"], "<=", P50_S_MAX)
        held[f"{compiler}_latency_s_p99"] = (seen["latency_s_p99"], "<=", P99_S_MAX)
        held[f"{compiler}_start_s"] = (seen["start_s"], "<=", START_S_MAX)
        held[f"{compiler}_rss_mb"] = (seen["rss_mb"], "<=", RSS_MB_MAX)
    return held


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--on-cluster"]:
        _run_on_cluster(*arguments[1:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    options = parser.parse_args(arguments)
    found = measure(options.parts.split(","), quick=options.quick)
    if options.json:
        print(json.dumps(found))
    else:
        for part, measured in found.items():
            if part != "bounds":
                print(part, json.dumps(measured, indent=2))
        print(f"{'bound':24} {'measured':>10} {'bound':>9}")
        for name, (value, sign, bound) in found["bounds"].items():
            print(f"{name:24} {value:10.3f} {sign} {bound:6.1f}")
    well = all(value >= bound if sign == ">=" else value <= bound for value, sign, bound in found["bounds"].values())
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
