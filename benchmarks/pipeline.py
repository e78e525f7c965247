"""Measures throughput, latency and cost of the metrics pipeline, and how they grow.

Everything runs with a real broker on the same machine. There are seven parts, and each checks the number of its records:

    throughput   the same full topic through Spark's reading and parsing alone, and through the whole pipeline into Kafka, in turn
                 in one warm session. Their ratio is the cost that the pipeline adds. For comparison: the same parsing with
                 plain Spark expressions, and a plain kafka-python consumer with json and dicts.
    live         the stream as a process under a constant load: time to the first signal, publication to readable signal, memory,
                 rows of state at the start and at the end.
    hour         an hour of 100 brokers as a backlog: rows of state and heap at its start and at its end.
    flood        5,000 refused records a second for a minute: all are reported, and the state stays within its slots.
    growth       throughput and state at 1, 10 and 100 times the brokers, with 4,000 moving partitions per broker, and with the
                 lags of 24 fetcher threads per broker.
    cluster      the whole pipeline with one and two cores: in one JVM, and on a standalone cluster with one core per worker.
    otlp         batches that an OpenTelemetry Collector wrote, read in protobuf and in JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.metrics_load import Shape
from benchmarks.streaming.bench import Bench, fill
from benchmarks.streaming.cluster import cluster_growth
from benchmarks.streaming.flood import flood
from benchmarks.streaming.live import live
from benchmarks.streaming.otlp import otlp
from benchmarks.streaming.throughput import Session, hour, python_consumer, throughput
from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.kafka import KafkaSettings

RATIO_MIN = 0.6
CLUSTER_PER_CORE_MIN = 0.8
P50_S_MAX, P99_S_MAX = 0.7, 1.5
START_S_MAX = 12.0
RSS_MB_MAX = 1.2 * 1024
SAMPLES_PER_S = 20_000
HEAP_GROWTH_MAX = 1.2  # What a collection finds in use varies by less.
FLOOD_ROWS_MAX = 2 * 2 * 5000  # Partitions, spans that are open at once, and places of one partition.
PARTS = ("live", "throughput", "hour", "flood", "growth", "otlp", "cluster")


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
                for compiler in ("thorough", "quick")
            }
        session = (
            Session(bench, compiler="thorough")
            if set(parts) & {"throughput", "hour", "flood", "growth", "otlp"}
            else None
        )
        if session is not None:
            if "throughput" in parts:
                found["throughput"] = throughput(
                    bench, session, Shape(1000), scrapes=60, rounds=3 if quick else 7, batch=10_000
                )
                found["python_consumer_samples_per_s"] = round(python_consumer(bench, "n1000p0", 60_000, 50))
            if "hour" in parts:
                found["hour"] = hour(bench, session, Shape(100))
            if "flood" in parts:
                found["flood"] = flood(bench, session)
            if "growth" in parts:
                found["growth"] = [
                    throughput(bench, session, shape, scrapes=scrapes, rounds=1 if quick else 3, batch=batch)
                    for shape, scrapes, batch in (
                        (Shape(100), 60, 2_000),
                        (Shape(10_000), 3, 10_000),
                        (Shape(3, partitions=4000), 24, 6),
                        (Shape(1000, lag_threads=24), 60, 10_000),
                    )
                ]
            if "otlp" in parts:
                found["otlp"] = otlp(bench, session, rounds=3 if quick else 7)
            session.spark.stop()
        if "cluster" in parts:
            records = 24_000
            if fill(bench, "spread", Shape(1000), 24) != records:
                raise AssertionError("the topic for the cluster is not full")
            for kind in ("signals", "rejects"):
                bench.create(f"spread-out.{kind}")
            found["cluster"] = cluster_growth(bench, "spread", records, 50, 4_000)
    found["bounds"] = bounds(found)
    return found


def bounds(found: dict[str, Any]) -> dict[str, tuple[float, str, float]]:
    held: dict[str, tuple[float, str, float]] = {}
    if "throughput" in found:
        held["ratio_to_parse_only"] = (found["throughput"]["ratio_to_parse_only"], ">=", RATIO_MIN)
        held["throughput_late_rows"] = (found["throughput"]["late_rows"], "<=", 0)
    if "hour" in found:
        held["hour_late_rows"] = (found["hour"]["late_rows"], "<=", 0)
        held["hour_state_rows"] = (found["hour"]["state_rows_last"], "<=", found["hour"]["state_rows_first"])
        held["hour_heap_mb"] = (
            found["hour"]["heap_mb_last_third"],
            "<=",
            HEAP_GROWTH_MAX * found["hour"]["heap_mb_second_third"],
        )
    if "flood" in found:
        held["flood_told"] = (found["flood"]["told"], ">=", found["flood"]["records"])
        held["flood_state_rows"] = (found["flood"]["state_rows"], "<=", FLOOD_ROWS_MAX)
    if "cluster" in found:
        held["cluster_per_core"] = (found["cluster"]["cluster_per_core_to_local"], ">=", CLUSTER_PER_CORE_MIN)
    if "otlp" in found:
        held["otlp_proto_to_json"] = (found["otlp"]["ratio_proto_to_json"], ">=", 1.0)
    for compiler, seen in found.get("live", {}).items():
        held[f"{compiler}_latency_s_p50"] = (seen["latency_s_p50"], "<=", P50_S_MAX)
        held[f"{compiler}_latency_s_p99"] = (seen["latency_s_p99"], "<=", P99_S_MAX)
        held[f"{compiler}_start_s"] = (seen["start_s"], "<=", START_S_MAX)
        held[f"{compiler}_late_rows"] = (seen["late_rows"], "<=", 0)
        held[f"{compiler}_rss_mb"] = (seen["rss_mb"], "<=", RSS_MB_MAX)
    return held


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts.split(",")) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
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
