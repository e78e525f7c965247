"""Runs the passes in a thread of the stream: the first at the start, the others 60 s after the end of each period.

A failed pass, for example because Kafka does not answer, is reported and repeated; it does not affect the live query. Only a pass
that fills the heap ends the JVM, and with it the stream. A file in a local folder counts these exits. After the first exit,
each job computes only one period. After the second exit, the pending periods are skipped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from streaming.failure_causes import first_line
from streaming.history.passes import OVER_AFTER_S, HistoryJob, HistoryMaker
from streaming.session import BACKLOG_POOL, ran_out_of_memory
from streaming.shared.contract import PERIOD_S

_JOBS = "history"
_POLL_S = 0.2
_RETRY_S_MIN, _RETRY_S_MAX = 1.0, 300.0
_EXITS_MAX = 2


@dataclass(frozen=True, slots=True)
class HistoryListener:
    """Callbacks for the events of the history. The worker's thread calls them.

    Attributes:
        job: called after each job that has written periods.
        failed: called with the cause of a failure, and the seconds until the retry.
    """

    job: Callable[[HistoryJob], None] = lambda _: None
    failed: Callable[[str, float], None] = lambda *_: None


class HistoryWorker:
    """Runs the passes of ``maker`` in its own thread."""

    def __init__(
        self,
        spark: SparkSession,
        state_dir: Path,
        maker: HistoryMaker,
        *,
        live_query_runs: Callable[[], bool],
        on_failure: Callable[[str, float], None],
        period_s: int = PERIOD_S,
    ) -> None:
        """
        Args:
            state_dir: a local folder that survives restarts, for the counter of JVM exits.
            live_query_runs: returns whether the live query has finished its first batch.
            on_failure: called with the cause of a failure, and the seconds until the retry.
        """
        self._spark = spark
        self._exits = _JvmExits(state_dir / "history-ends")
        self._maker = maker
        self._live_query_runs = live_query_runs
        self._on_failure = on_failure
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Makes the thread end soon. The job in progress is abandoned and repeated by a later run."""
        self._stop.set()
        if self._thread.is_alive():
            self._spark.sparkContext.cancelJobGroup(_JOBS)

    def join(self, timeout_s: float) -> None:
        """Waits until the thread has ended."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", BACKLOG_POOL)
        context.setJobGroup(_JOBS, "history", interruptOnCancel=True)
        while not self._live_query_runs() and not self._stop.wait(_POLL_S):
            pass
        wait_s = _RETRY_S_MIN
        while not self._stop.is_set():
            try:
                self._run_pass()
                wait_s = _RETRY_S_MIN
                self._stop.wait(seconds_until_pass(time.time(), self._period_s))
            except Exception as error:  # noqa: BLE001 - signals do not depend on the history, so every failure is reported and repeated
                if self._stop.is_set():
                    return
                if isinstance(error, Py4JNetworkError) and ran_out_of_memory():
                    self._exits.add()
                    return  # The process ends with the JVM; the next process continues.
                self._on_failure(first_line(error), wait_s)
                self._stop.wait(wait_s)
                wait_s = min(_RETRY_S_MAX, wait_s * 2)

    def _run_pass(self) -> None:
        exits = self._exits.count()
        if exits >= _EXITS_MAX:
            self._on_failure(
                f"Spark's Java process has ended {exits} times while it computed the history, because its heap was full. The "
                "stream skips the periods that it could not compute. Raise stream.driver_memory_mb",
                0.0,
            )
            self._maker.skip()
        else:
            self._maker.run_pass(self._stop.is_set, smallest_jobs=exits > 0)
        self._exits.clear()


def seconds_until_pass(now_s: float, period_s: int) -> float:
    """Returns the time until the next pass, which begins ``OVER_AFTER_S`` after the end of a period."""
    return period_s - (now_s - OVER_AFTER_S) % period_s


class _JvmExits:
    """Counts in a file how many times in a row a pass has ended the JVM."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def count(self) -> int:
        try:
            return int(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def add(self) -> None:
        self._path.write_text(str(self.count() + 1))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
