"""One pass over the signals topic: reads the signals since the last pass, and computes the periods to which they belong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming.history import periods
from streaming.history.progress import HistoryProgress, PendingPeriod
from streaming.history.signal_log import SignalLog
from streaming.shared.contract import PERIOD_S

OVER_AFTER_S = 60  # A period is computed this long after its end, when the live query has written its last signals.
_DAY_MS = 24 * 3600 * 1000
# A signal that is older than this, or this far in the future, has a wrong time.
_PAST_MS_MAX, _FUTURE_MS_MAX = 2 * _DAY_MS, 3600 * 1000
# The clock that sets the ends of windows may be this far ahead of the clock that sets the timestamps of signals.
_SKEW_MS = 60_000


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """A completed job, which has written periods.

    Attributes:
        periods: number of records, one for each cluster and period.
        newest_end_ms: the end of the newest period.
        refused: signals that were left out, because they do not follow the contract.
    """

    periods: int
    newest_end_ms: int
    refused: int
    took_s: float


class HistoryMaker:
    """Computes periods of the history, and keeps the progress in the history topic."""

    def __init__(
        self,
        open_log: Callable[[], AbstractContextManager[SignalLog]],
        topic: str,
        *,
        job_lock: AbstractContextManager[object],
        on_job: Callable[[HistoryJob], None],
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        period_s: int = PERIOD_S,
    ) -> None:
        """
        Args:
            topic: the history topic.
            job_lock: a lock that is held during each job, so that only one background job at a time takes a core from the live
                query.
            on_job: called after each job.
        """
        self._open_log = open_log
        self._topic = topic
        self._job_lock = job_lock
        self._on_job = on_job
        self._now_ms = now_ms
        self._period_ms = period_s * 1000
        self._progress: HistoryProgress | None = None  # None until the first pass has read it.

    def run_pass(self, stop: Callable[[], bool], *, smallest_jobs: bool = False) -> None:
        """Computes each period that has ended and has new signals, the newest first.

        Args:
            stop: asked after each job; if it returns true, the pass ends.
            smallest_jobs: each job computes only one period.
        """
        with self._open_log() as log:
            progress = self._with_new_signals(self._known_progress(log), log)
            while job := progress.next_job(
                self._now_ms() - OVER_AFTER_S * 1000, self._period_ms, smallest=smallest_jobs
            ):
                self._make(job, log)
                if stop():
                    return
                progress = progress.without(job)
                log.write_progress(progress)
                self._progress = progress

    def skip(self) -> None:
        """Drops all pending periods, and continues after the newest signal."""
        with self._open_log() as log:
            progress = HistoryProgress(offsets=dict(log.end()))
            log.write_progress(progress)
            self._progress = progress

    def _known_progress(self, log: SignalLog) -> HistoryProgress:
        """Returns the newest progress that was written, with offsets that exist in the topic.

        A partition without a usable offset is read from a day ago.
        """
        if self._progress is None:
            self._progress = log.progress() or HistoryProgress()
        now_ms = self._now_ms()
        begin, day_ago, end = log.begin(), log.at(now_ms - _DAY_MS), log.end()
        offsets = {}
        for partition, first in begin.items():
            known = self._progress.offsets.get(partition)
            # An offset after the end of the topic was read from an earlier topic of the same name.
            offsets[partition] = day_ago[partition] if known is None or known > end[partition] else max(first, known)
        known_progress = HistoryProgress(offsets=offsets, pending=self._progress.pending)
        return known_progress.plausible(now_ms - _PAST_MS_MAX, now_ms + _FUTURE_MS_MAX, self._period_ms)

    def _with_new_signals(self, progress: HistoryProgress, log: SignalLog) -> HistoryProgress:
        """Returns the progress after reading the new signals, with the periods to which they belong as pending."""
        end, now_ms = log.end(), self._now_ms()
        if all(progress.offsets[partition] >= offset for partition, offset in end.items()):
            return progress
        unread = _one_task(log.records(progress.offsets, end))
        with self._job_lock:
            rows = periods.touched(unread, self._period_ms, now_ms - _PAST_MS_MAX, now_ms + _FUTURE_MS_MAX).collect()
        touched = [
            PendingPeriod(start_ms=row.start_ms, records=row.records, end_offsets={row.partition: row.end_offset})
            for row in rows
            if row.start_ms is not None
        ]
        return progress.with_read(touched, end)

    def _make(self, job: Sequence[PendingPeriod], log: SignalLog) -> None:
        """Computes these periods from all of their signals."""
        began_s = time.monotonic()
        # A signal is written after its window has ended, so none of the periods' signals is before the first start.
        first, topic_end = log.at(job[0].start_ms - _SKEW_MS), log.end()
        end = {
            partition: max([offset, *(min(topic_end[partition], p.end_offsets.get(partition, 0)) for p in job)])
            for partition, offset in first.items()
        }
        starts_ms = [period.start_ms for period in job]
        signals = periods.signals_in(_one_task(log.records(first, end)), starts_ms, self._period_ms)
        history = periods.periods(signals, self._topic).persist()
        try:
            with self._job_lock:
                counts = history.agg(F.count("key").alias("periods"), F.sum("refused").alias("refused")).collect()[0]
                log.write(history.filter("key IS NOT NULL").drop("refused"))
        finally:
            history.unpersist()
        self._on_job(
            HistoryJob(
                periods=counts.periods,
                newest_end_ms=starts_ms[-1] + self._period_ms,
                refused=counts.refused or 0,
                took_s=time.monotonic() - began_s,
            )
        )


def _one_task(records: DataFrame) -> DataFrame:
    """Returns the records in one Spark partition, so that the job takes one core."""
    return records.coalesce(1)
