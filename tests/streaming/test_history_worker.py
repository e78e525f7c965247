"""The worker of the history in a real Spark session: failures are repeated, and a heap that was filled is not filled forever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import kafka.errors
from history_cases import HISTORY, P0, PERIOD_MS, MemoryLog, broker
from pyspark.sql import SparkSession

from streaming.history.passes import HistoryMaker
from streaming.history.worker import HistoryWorker

DONE_S_MAX = 60.0


class Run:
    """A worker on a log, until the log has as many writes of periods."""

    def __init__(self, spark: SparkSession, folder: Path, log: MemoryLog) -> None:
        self.causes: list[str] = []
        self.log = log
        self.made = threading.Event()
        self.waits = threading.Event()

        @contextmanager
        def open_log() -> Iterator[MemoryLog]:
            yield log

        maker = HistoryMaker(open_log, HISTORY, job_lock=nullcontext(), on_job=lambda _: self.made.set())
        self.worker = HistoryWorker(
            spark,
            folder,
            maker,
            live_query_runs=self.waits.is_set,
            on_failure=lambda cause, _: self.causes.append(cause),
        )


def recent(n: int) -> float:
    """Returns a time within the period that ended n periods ago, in seconds from P0 on."""
    now_ms = int(time.time() * 1000)
    return (now_ms - now_ms % PERIOD_MS - n * PERIOD_MS - 5_000 - P0) / 1000


def test_worker_repeats_failed_pass_and_waits_for_live_query(spark: SparkSession, tmp_path: Path) -> None:
    calls: list[int] = []

    def fail_twice() -> None:
        calls.append(1)
        if len(calls) <= 2:
            raise kafka.errors.NodeNotReadyError("no broker answers")

    log = MemoryLog(spark, fails=fail_twice)
    log.add(broker(recent(1)))
    run = Run(spark, tmp_path, log)
    run.worker.start()
    assert not run.made.wait(0.5), "the live query does not run yet"
    run.waits.set()
    assert run.made.wait(DONE_S_MAX)
    run.worker.cancel()
    run.worker.join(DONE_S_MAX)
    assert len(log.history) == 1
    assert len(run.causes) == 2
    assert all("no broker answers" in cause for cause in run.causes)


def test_worker_skips_periods_that_filled_the_heap_twice(spark: SparkSession, tmp_path: Path) -> None:
    log = MemoryLog(spark)
    log.add(*[broker(recent(n)) for n in (2, 1)])
    (tmp_path / "history-ends").write_text("2")
    run = Run(spark, tmp_path, log)
    run.waits.set()
    run.worker.start()
    deadline = time.monotonic() + DONE_S_MAX
    while log.stored is None and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    run.worker.cancel()
    run.worker.join(DONE_S_MAX)
    progress = log.progress()
    assert progress is not None
    assert (progress.offsets, progress.pending) == ({0: 2}, ())
    assert not log.history
    assert "stream.driver_memory_mb" in run.causes[0]
    assert not (tmp_path / "history-ends").exists()


def test_worker_makes_one_period_a_job_after_a_full_heap(spark: SparkSession, tmp_path: Path) -> None:
    log = MemoryLog(spark)
    log.add(*[broker(recent(n)) for n in (3, 2)])
    (tmp_path / "history-ends").write_text("1")
    run = Run(spark, tmp_path, log)
    run.waits.set()
    run.worker.start()
    deadline = time.monotonic() + DONE_S_MAX
    while (tmp_path / "history-ends").exists() and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    run.worker.cancel()
    run.worker.join(DONE_S_MAX)
    assert [len(keys) for keys in log.writes] == [1, 1]
