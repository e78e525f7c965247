"""Signals as the signals topic holds them, and a log of them in memory for the passes of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streaming.history.passes import HistoryJob, HistoryMaker
from streaming.history.progress import HistoryProgress, decode_progress, encode_progress
from streaming.shared.contract import (
    PERIOD_S,
    BrokerSignal,
    ControllerSignal,
    HistoryPeriod,
    MoveSignal,
    ReplicationSignal,
    Signal,
    TenantSignal,
    decode_history,
    encode_signal,
    history_key,
    signal_key,
)

P0 = 1_700_000_400_000  # A boundary of periods.
PERIOD_MS = PERIOD_S * 1000
HISTORY = "rheostat.history"
COLUMNS = "key binary, value binary, partition int, offset long, timestamp timestamp"


@dataclass(frozen=True, slots=True)
class LoggedSignal:
    key: bytes | None
    value: bytes | None
    at_ms: int


Entry = Signal | LoggedSignal


def basics(at_s: float, cluster: str) -> dict[str, Any]:
    end_ms = P0 + round(at_s * 1000)
    return {
        "cluster": cluster,
        "window_end_ms": end_ms,
        "sampled_at_ms": end_ms - 1000,
        "samples": 6,
        "completeness": 1.0,
    }


def broker(at_s: float, node: int = 1, cluster: str = "c", **fields: Any) -> BrokerSignal:
    """A signal whose window ends that many seconds after P0."""
    return BrokerSignal(**basics(at_s, cluster), broker=node, **fields)


def move(at_s: float, side: Any, node: int = 1, cluster: str = "c", moving: int = 0, **fields: Any) -> MoveSignal:
    common = basics(at_s, cluster)
    return MoveSignal(**common, broker=node, side=side, moving_partitions=moving, listed_partitions=9, **fields)


def replication(at_s: float, node: int = 1, cluster: str = "c", **fields: Any) -> ReplicationSignal:
    return ReplicationSignal(**basics(at_s, cluster), broker=node, **fields)


def controller(at_s: float, node: int = 100, cluster: str = "c", **fields: Any) -> ControllerSignal:
    return ControllerSignal(**basics(at_s, cluster), node=node, **fields)


def tenant(at_s: float, node: int = 100, cluster: str = "c", **fields: Any) -> TenantSignal:
    return TenantSignal(**basics(at_s, cluster), node=node, **fields)


def logged(entry: Entry, at_ms: int | None = None) -> LoggedSignal:
    """A signal is logged a second after the end of its window, unless a time is given."""
    if isinstance(entry, LoggedSignal):
        return entry
    return LoggedSignal(signal_key(entry), encode_signal(entry), entry.window_end_ms + 1000 if at_ms is None else at_ms)


@dataclass
class MemoryLog:
    """A ``SignalLog`` of one partition.

    Attributes:
        gone: number of signals that retention has deleted.
        fails: called before each write.
        writes: the keys of each write of periods.
    """

    spark: SparkSession
    entries: list[LoggedSignal] = field(default_factory=list)
    gone: int = 0
    fails: Callable[[], None] = lambda: None
    history: dict[bytes, bytes] = field(default_factory=dict)
    writes: list[list[bytes]] = field(default_factory=list)
    stored: bytes | None = None

    def add(self, *entries: Entry, at_ms: int | None = None) -> None:
        self.entries += [logged(entry, at_ms) for entry in entries]

    def begin(self) -> Mapping[int, int]:
        return {0: self.gone}

    def end(self) -> Mapping[int, int]:
        return {0: len(self.entries)}

    def at(self, time_ms: int) -> Mapping[int, int]:
        times = enumerate(entry.at_ms for entry in self.entries)
        return {0: next((i for i, at_ms in times if i >= self.gone and at_ms >= time_ms), len(self.entries))}

    def records(self, first: Mapping[int, int], end: Mapping[int, int]) -> DataFrame:
        return frame(self.spark, self.entries[first[0] : end[0]], first[0])

    def write(self, records: DataFrame) -> None:
        self.fails()
        rows = records.collect()
        assert all(row.topic == HISTORY for row in rows)
        self.writes.append(sorted(bytes(row.key) for row in rows))
        self.history |= {bytes(row.key): bytes(row.value) for row in rows}

    def progress(self) -> HistoryProgress | None:
        return None if self.stored is None else decode_progress(self.stored)

    def write_progress(self, progress: HistoryProgress) -> None:
        self.fails()
        self.stored = encode_progress(progress)

    def periods(self) -> dict[tuple[str, int], HistoryPeriod]:
        """Returns the periods by cluster, and by number from P0 on."""
        periods = [decode_history(value) for value in self.history.values()]
        assert sorted(map(history_key, periods)) == sorted(self.history)
        return {(period.cluster, (period.start_ms - P0) // PERIOD_MS): period for period in periods}


def frame(spark: SparkSession, entries: Sequence[LoggedSignal], first: int = 0) -> DataFrame:
    rows = [
        (e.key, e.value, 0, offset, datetime.fromtimestamp(e.at_ms / 1000, UTC))
        for offset, e in enumerate(entries, first)
    ]
    return spark.createDataFrame(rows, COLUMNS)


class Passes:
    """Runs passes over a log at given times."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.jobs: list[HistoryJob] = []
        self.now_ms = P0
        self.restart()

    def restart(self) -> None:
        """Forgets what the process knows; the next pass reads the stored progress."""

        @contextmanager
        def open_log() -> Iterator[MemoryLog]:
            yield self.log

        self.maker = HistoryMaker(
            open_log, HISTORY, job_lock=nullcontext(), on_job=self.jobs.append, now_ms=lambda: self.now_ms
        )

    def run(self, at_s: float, *, smallest_jobs: bool = False) -> None:
        """Runs a pass that many seconds after P0."""
        self.now_ms = P0 + round(at_s * 1000)
        self.maker.run_pass(lambda: False, smallest_jobs=smallest_jobs)


def periods_of(spark: SparkSession, entries: Iterable[Entry]) -> dict[tuple[str, int], HistoryPeriod]:
    """Returns the periods that one pass makes from these signals."""
    log = MemoryLog(spark)
    log.add(*entries)
    Passes(log).run(20 * PERIOD_S)
    return log.periods()
