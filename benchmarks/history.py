"""Measures the history at 1,000 brokers: its bytes a day, and the CPU time and memory of a pass.

A real broker has the signals of two periods: each broker has a broker signal and a replication signal with 24 fetcher threads every
five seconds, and a tenth of the brokers has move signals. Two passes make one period each, in one Spark session: in the first one
the JVM still compiles its code.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from rheostat.jvm.kernel import stream_jars
from rheostat.lab.cluster import Lab, LabSpec
from streaming.history.passes import HistoryJob, HistoryMaker
from streaming.history.signal_log import open_signal_log
from streaming.session import SparkOptions, spark_session
from streaming.shared.contract import (
    PERIOD_S,
    SIGNAL_VERSION,
    BrokerSignal,
    FetcherThreadLag,
    LagTrend,
    MoveSignal,
    ReplicationSignal,
    Side,
    TenantSignal,
    Topics,
    decode_history,
    signal_kind,
)
from streaming.shared.kafka import KafkaSettings, consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.history_topic import HistoryTopic
from streaming.shared.topics import ensure_topics

BROKERS = 1_000
THREADS = 24
TENANTS = 200
SLIDE_S = 5
PERIODS = 2
DAY_MB_MAX = 50.0  # 35 days then take less than 2 GB.
PASS_CPU_S_MAX = 60.0  # A tenth of the time between two passes.
_NOISE = 31_415_926.0  # Stands in a template for a number that differs between windows.
_TOPICS = Topics.with_prefix("rheostat")


def measure(brokers: int = BROKERS) -> dict[str, Any]:
    with Lab(LabSpec(brokers=1)) as lab, tempfile.TemporaryDirectory(prefix="rheostat-bench-") as folder:
        kafka = KafkaSettings(bootstrap_servers=lab.bootstrap_servers)
        with ClusterClient(kafka, "bench") as client:
            ensure_topics(client, _TOPICS)
        spark = spark_session(stream_jars(), SparkOptions("bench", Path(folder), cores=2, compiler="thorough"))
        jobs: list[HistoryJob] = []
        maker = HistoryMaker(
            lambda: open_signal_log(spark, kafka, _TOPICS), _TOPICS.history, alone=nullcontext(), on_job=jobs.append
        )
        now_ms = int(time.time() * 1000)
        last_ms = now_ms - now_ms % (PERIOD_S * 1000) - PERIOD_S * 1000
        passes = []
        for n in range(PERIODS):
            start_ms = last_ms - (PERIODS - n) * PERIOD_S * 1000
            records, size = _fill(kafka, start_ms, brokers)
            began_s, cpu_before = time.monotonic(), _java(spark).cpu_times()
            maker.run_pass(lambda: False)
            cpu_s = sum(_java(spark).cpu_times()[:2]) - sum(cpu_before[:2])
            passes.append(
                {
                    "signals": records,
                    "signal_bytes": size,
                    "pass_s": round(time.monotonic() - began_s, 1),
                    "pass_cpu_s": round(cpu_s, 1),
                    "job_s": round(jobs[-1].took_s, 1),
                    "jvm_rss_mb": round(_java(spark).memory_info().rss / 1e6),
                }
            )
        period_bytes, json_bytes = _sizes(lab, kafka)
        spark.stop()
    a_day = period_bytes * 86_400 / PERIOD_S
    return {
        "brokers": brokers,
        "passes": passes,
        "period_json_bytes": json_bytes,
        "period_bytes": period_bytes,
        "day_mb": round(a_day / 1e6, 1),
        "pass_cpu_s": passes[-1]["pass_cpu_s"],
        "jvm_rss_mb": passes[-1]["jvm_rss_mb"],
        "bounds": {
            "day_mb": (round(a_day / 1e6, 1), "<=", DAY_MB_MAX),
            "pass_cpu_s": (passes[-1]["pass_cpu_s"], "<=", PASS_CPU_S_MAX),
        },
    }


def _fill(kafka: KafkaSettings, start_ms: int, brokers: int) -> tuple[int, int]:
    """Writes the signals of one period; returns their number and bytes."""
    templates, noise = list(_templates(brokers)), random.Random(start_ms)
    records = size = 0
    with closing(producer(kafka, "bench", linger_ms=50, batch_size=1 << 20, compression_type=None)) as sender:
        for end_ms in range(start_ms + SLIDE_S * 1000, start_ms + PERIOD_S * 1000 + 1, SLIDE_S * 1000):
            for key, parts in templates:
                numbers = (b"%.3f" % (1e6 * noise.lognormvariate(2.0, 1.0)) for _ in parts)
                value = b"".join(piece for pair in zip(parts, numbers, strict=True) for piece in pair)
                value = value[: value.rindex(b"}") + 1].replace(b'"window_end_ms": 0', b'"window_end_ms": %d' % end_ms)
                sender.send(_TOPICS.signals, key=b"%s|%d" % (key, end_ms), value=value)
                records += 1
                size += len(value)
        sender.flush()
    return records, size


def _templates(brokers: int) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yields for each entity its key without the window end, and its value in pieces between numbers that differ."""
    common: dict[str, Any] = {
        "cluster": "main", "window_end_ms": 0, "sampled_at_ms": 1_700_000_000_000, "samples": 6, "completeness": 1.0,
    }  # fmt: skip
    trend = LagTrend(slope_messages_per_s=_NOISE, span_s=300.0, points=12, r2=0.5)
    lag: dict[str, Any] = {"partitions": 8.0, "lag_sum_messages": 12.0, "lag_max_messages": 4.0, "trend": trend}
    threads = tuple(FetcherThreadLag(source=n, fetcher=0, fetched_bytes_per_s=_NOISE, **lag) for n in range(THREADS))
    names = BrokerSignal.__dataclass_fields__
    numbers = dict.fromkeys([name for name in names if name.endswith(("_per_s", "_ms", "_ratio", "_messages"))], _NOISE)
    numbers |= {"partitions": 4000.0, "leaders": 1300.0, "step_s": 5.0, "under_min_isr_partitions": 0.0}
    for broker in range(brokers):
        yield _pieces(f"broker|{broker}", BrokerSignal(**{**numbers, **common}, broker=broker, throttled_by="quota"))
        replication = ReplicationSignal(
            **common, broker=broker, partitions=4000.0, lag_sum_messages=_NOISE, trend=trend, trend_5min=trend, threads=threads
        )  # fmt: skip
        yield _pieces(f"replication|{broker}", replication)
        if broker % 10 == 0:
            for side in Side:
                move = MoveSignal(
                    **common, broker=broker, side=side, moving_partitions=9, listed_partitions=9, steady_state_bytes_per_s=_NOISE
                )  # fmt: skip
                yield _pieces(f"move|{broker}|{side.value}", move)
    for n in range(TENANTS):
        tenant = TenantSignal(**common, node=1, user=f"team-{n}", mutation_rate_per_s=_NOISE, tokens=55.0)
        yield _pieces(f"tenant|1|user=team-{n}", tenant)


def _pieces(part: str, signal: Any) -> tuple[bytes, list[bytes]]:
    body = {"v": SIGNAL_VERSION, "kind": signal_kind(signal), **asdict(signal)}
    return f"main|{part}".encode(), json.dumps(body).encode().split(str(_NOISE).encode())


def _java(spark: SparkSession) -> psutil.Process:
    """Returns the process of Spark's JVM."""
    launched = psutil.Process(spark.sparkContext._gateway.proc.pid)
    return max([launched, *launched.children(recursive=True)], key=lambda process: process.memory_info().rss)


def _sizes(lab: Lab, kafka: KafkaSettings) -> tuple[int, int]:
    """Returns the bytes of one period on the broker's disk, and the bytes of its JSON."""
    with closing(consumer(kafka, "bench")) as reader:
        periods = list(HistoryTopic(reader, _TOPICS.history).periods("main", 0))
        assert len(periods) == PERIODS, f"{len(periods)} periods instead of {PERIODS}"
    logs = [path for path in lab.home.rglob("*.log") if path.parent.name == f"{_TOPICS.history}-0"]
    on_disk = sum(path.stat().st_size for path in logs) // PERIODS
    with closing(consumer(kafka, "bench")) as reader:
        topic = HistoryTopic(reader, _TOPICS.history)
        value = next(topic.newest_values(f"main|{periods[-1].start_ms}".encode(), 0))
    decode_history(value)
    return on_disk, len(value)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.history", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--brokers", type=int, default=BROKERS)
    options = parser.parse_args(arguments)
    found = measure(options.brokers)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for one in found["passes"]:
            megabytes = one["signal_bytes"] / 1e6
            print(
                f"a pass over {one['signals']:,} signals of {megabytes:,.0f} MB: {one['pass_s']} s, JVM {one['jvm_rss_mb']} MB"
            )
        sizes = f"{found['period_json_bytes']:,} bytes of JSON, {found['period_bytes']:,} bytes on disk"
        print(f"a period: {sizes}; {found['day_mb']} MB a day")
    return 0 if all(value <= bound for value, _, bound in found["bounds"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
