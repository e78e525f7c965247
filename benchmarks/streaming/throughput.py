"""Measures the throughput of the pipeline on a full topic: by parts of the work, and by sizes of the cluster."""

from __future__ import annotations

import json
import statistics
import threading
import time
from typing import Any

from kafka import TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.metrics_load import CLUSTER, Shape
from benchmarks.streaming.bench import Bench, fill
from rheostat.jvm.kernel import stream_jars
from streaming import sinks, sources
from streaming.entities import entities
from streaming.formats import rheostat_json
from streaming.formats.common import Source, table
from streaming.pipeline import Input, build
from streaming.session import SparkCluster, SparkOptions, spark_session
from streaming.settings import Compiler, FormatName
from streaming.shared.contract import Topics
from streaming.shared.kafka import consumer
from streaming.sources import Feed

# What the session sets and a plain one would not.
_OURS = (
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
    "spark.sql.optimizer.inSetConversionThreshold",
    "spark.sql.optimizer.excludedRules",
    "spark.sql.subexpressionElimination.enabled",
    "spark.sql.streaming.checkpointFileManagerClass",
)
_SCRAPE = "v long, cluster string, node int, role string, ts long, samples array<struct<n string, l string, v double>>"


class Session:
    """One warm Spark session in this process, with queries that process a topic and end.

    The reference is reading and parsing with Spark's own expressions at the pipeline's settings, which are faster than Spark's
    defaults. The kernel reads rheostat's format faster than both, so it is no reference.
    """

    def __init__(
        self, bench: Bench, *, compiler: Compiler, master: str = "local", shuffle_partitions: int = 2, cores: int = 2
    ) -> None:
        self._bench = bench
        self._runs = 0
        self.spark = spark_session(
            stream_jars(),
            SparkOptions(
                app_name="benchmark",
                local_dir=bench.home / "spark",
                cores=cores,
                shuffle_partitions=shuffle_partitions,
                compiler=compiler,
                cluster=None if master == "local" else SparkCluster(master, "127.0.0.1", 700, 1),
            ),
        )

    def parse_only(self, topic: str, records: int, batch: int) -> float:
        parsed = table(self._read(topic, batch), rheostat_json.scrapes, Source(CLUSTER))
        return self._work_off(parsed.writeStream.format("noop"), records)["records_per_s"]

    def plain_parse(self, topic: str, records: int, batch: int) -> float:
        """Reads and parses with plain expressions, with Spark's own settings and those of its Kafka source."""
        plain = self.spark.newSession()
        for name in _OURS:
            plain.conf.unset(name)
        read = (
            plain.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._bench.kafka.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", batch)
            .load()
        )
        parsed = read.select(F.from_json(F.col("value").cast("string"), _SCRAPE).alias("scrape")).select("scrape.*")
        return self._work_off(parsed.writeStream.format("noop"), records)["records_per_s"]

    def fold_only(self, topic: str, records: int, batch: int, format_: FormatName = "rheostat_json") -> float:
        """Reads, and parses and folds in one step as the pipeline does: the part of the work without state."""
        folded = entities(self._read(topic, batch), format_, Source(CLUSTER), 5000)
        return self._work_off(folded.writeStream.format("noop"), records)["records_per_s"]

    def whole(self, topic: str, records: int, batch: int) -> dict[str, float]:
        out = Topics.with_prefix(f"{topic}-out")
        built = build([(self._read(topic, batch), Input("rheostat_json", Source(CLUSTER)))], out)
        nowhere = self._bench.home / "replaced"
        return self._work_off(sinks.to_kafka(built, self._bench.kafka, checkpoint_dir=nowhere, trigger_ms=0), records)

    def heap_mb(self) -> float:
        """Returns the used heap after a garbage collection."""
        runtime = self.spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]  # none before a session
        runtime.gc()
        return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20

    def _read(self, topic: str, batch: int) -> DataFrame:
        feed = Feed(self._bench.kafka, (topic,), "rheostat_json", Source(CLUSTER), 5000)
        return sources.live(self.spark, feed, start="earliest", max_records_per_trigger=batch)

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
            "batch_ms": statistics.median(p["durationMs"]["triggerExecution"] for p in steady),
            "outside_tasks_ms": statistics.median(
                p["durationMs"]["triggerExecution"] - p["durationMs"]["addBatch"] for p in steady
            ),
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
    topic = shape.name
    records = fill(bench, topic, shape, scrapes)
    for kind in ("signals", "rejects"):
        bench.create(f"{topic}-out.{kind}")
    parse: list[float] = []
    plain: list[float] = []
    fold: list[float] = []
    whole: list[dict[str, float]] = []
    warm_up = rounds // 2 + 1
    for _ in range(warm_up + rounds):  # In turns: what else the machine does meets both.
        parse.append(session.parse_only(topic, records, batch))
        plain.append(session.plain_parse(topic, records, batch))
        fold.append(session.fold_only(topic, records, batch))
        whole.append(session.whole(topic, records, batch))
    per_scrape = shape.samples_per_scrape
    parse, plain, fold, whole = parse[warm_up:], plain[warm_up:], fold[warm_up:], whole[warm_up:]
    ratios = [w["records_per_s"] / p for p, w in zip(parse, whole, strict=True)]
    signals = signals_in(bench, f"{topic}-out.signals")
    # Every scrape ends a window, and the same one in every round. A node has a signal of its own, one of its moving partitions
    # and one of its lags.
    expected = records * (1 + bool(shape.partitions) + bool(shape.lag_threads))
    assert signals == expected, f"{signals} signals of {records} records"
    return {
        "nodes": shape.nodes,
        "partitions_per_node": shape.partitions,
        "records": records,
        "signals": signals,
        "samples_per_s": round(statistics.median(w["records_per_s"] for w in whole) * per_scrape),
        "parse_only_samples_per_s": round(statistics.median(parse) * per_scrape),
        "plain_parse_samples_per_s": round(statistics.median(plain) * per_scrape),
        "fold_only_samples_per_s": round(statistics.median(fold) * per_scrape),
        "ratio_to_parse_only": round(statistics.median(ratios), 3),
        "ratio_to_plain_parse": round(
            statistics.median(w["records_per_s"] / p for p, w in zip(plain, whole, strict=True)), 3
        ),
        "ratios": [round(r, 3) for r in ratios],
        "state_rows": whole[-1]["state_rows"],
        "state_mb": round(whole[-1]["state_mb"], 1),
        "late_rows": whole[-1]["late_rows"],
    }


def signals_in(bench: Bench, topic: str) -> int:
    """Returns the number of different signals; one that was written twice counts once."""
    reader = consumer(bench.kafka, "bench-signals", auto_offset_reset="earliest", max_poll_records=5000)
    partitions = [TopicPartition(topic, p) for p in sorted(reader.partitions_for_topic(topic) or ())]
    reader.assign(partitions)
    reader.seek_to_beginning(*partitions)
    ends = reader.end_offsets(partitions)
    keys: set[bytes] = set()
    while any(reader.position(p) < ends[p] for p in partitions):
        for batch in reader.poll(timeout_ms=5000).values():
            keys.update(record.key for record in batch)
    reader.close()
    return len(keys)


def hour(bench: Bench, session: Session, shape: Shape) -> dict[str, Any]:
    """Processes an hour of a cluster as fast as possible; the state must not grow."""
    topic = "hour"
    records = fill(bench, topic, shape, scrapes=int(3600 / shape.every_s))
    for kind in ("signals", "rejects"):
        bench.create(f"{topic}-out.{kind}")
    heap_mb: list[float] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(2.0):
            heap_mb.append(session.heap_mb())

    watcher = threading.Thread(target=watch, name="heap", daemon=True)
    watcher.start()
    try:
        found = session.whole(topic, records, 4_000)
    finally:
        done.set()
        watcher.join(10)
    # A third of the run each; the start of the first is a cold start.
    third = len(heap_mb) // 3
    return {
        "records": records,
        "state_rows_first": found["state_rows_early"],
        "state_rows_last": found["state_rows_late"],
        "late_rows": found["late_rows"],
        "heap_mb_second_third": round(statistics.median(heap_mb[third : 2 * third])),
        "heap_mb_last_third": round(statistics.median(heap_mb[2 * third :])),
    }


def python_consumer(bench: Bench, topic: str, records: int, per_scrape: int) -> float:
    """Returns samples/s of one process: consume, json, and a dict of first, last and reset-proof increase per series and window."""
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
