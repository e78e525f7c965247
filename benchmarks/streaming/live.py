"""Measures latency of the signals and cost of the stream, as its own process under a constant load."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
from kafka import TopicPartition

from benchmarks.metrics_load import Shape, templates
from benchmarks.streaming.bench import Bench
from rheostat.run.process import spawn, stop
from streaming.shared.contract import Topics
from streaming.shared.kafka import consumer, producer


class Load:
    """Scrapes at a constant rate, each sent when it is due. ``sent_s`` has the send times by node and time of the scrape."""

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
            [
                sys.executable,
                "-m",
                "benchmarks.streaming.child",
                bench.kafka.bootstrap_servers,
                tag,
                json.dumps(stream),
            ],
            log=log,
        )
        try:
            next(tail)
            start_s = time.monotonic() - began
            latencies: list[float] = []
            until = time.monotonic() + seconds
            warm = (
                time.monotonic() + seconds / 2
            )  # Earlier signals are reported separately, because the JVM still compiles its code.
            early: list[float] = []
            while time.monotonic() < until:
                received_s, sampled_s = next(tail)
                (latencies if time.monotonic() > warm else early).append(received_s - sampled_s)
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
    """Yields (received, sampled at) of every signal as soon as it is readable, in epoch seconds."""
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
