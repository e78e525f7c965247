"""Counts events of the stream since its process started, for Prometheus. The runner's listener updates the counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class BacklogState(Protocol):
    @property
    def remaining_records(self) -> int: ...

    @property
    def lost_records(self) -> int: ...


class HistoryJobFigures(Protocol):
    """The figures of a finished history job."""

    @property
    def periods(self) -> int: ...

    @property
    def newest_end_ms(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def took_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch with input; a field is None if Spark did not report it."""

    ended_at_s: float
    took_s: float | None
    newest_input_at_s: float | None
    watermark_at_s: float | None
    behind_records: int | None
    state_rows: int


@dataclass(slots=True)
class StreamCounts:
    """Event counts.

    The runner's thread writes them, except ``backlog_…`` and ``history_…``, which have threads of their own; any thread reads.
    """

    active: bool = False  # Whether this stream has the lease.
    last: LastBatch | None = None
    batches: int = 0
    input_rows: int = 0
    late_rows: int = 0
    refused: int = 0
    refused_not_written: int = 0
    quarantined: int = 0
    restarts: int = 0
    backlog_remaining: int = 0
    backlog_lost: int = 0
    history_end_ms: int | None = None  # End of the newest period of the history.
    history_job_s: float | None = None
    history_periods: int = 0
    history_refused: int = 0
    history_failures: int = 0

    def add_batch(self, progress: Mapping[str, Any], ended_at_s: float) -> None:
        """Adds one batch.

        Args:
            progress: the batch's report, as ``batch_values`` returns it.
        """
        took_ms = progress["batch_ms"]
        self.last = LastBatch(
            ended_at_s=ended_at_s,
            took_s=took_ms / 1000 if took_ms is not None else None,
            newest_input_at_s=progress["newest_input_at_s"],
            watermark_at_s=progress["watermark_at_s"],
            behind_records=progress["behind_records"],
            state_rows=progress["state_rows"],
        )
        self.batches += 1
        self.input_rows += progress["input_rows"]
        self.late_rows += progress["late_rows_dropped"]
        self.refused += progress["refused"]
        self.refused_not_written += progress["refused_not_written"]
        self.backlog_remaining = progress["backlog_remaining_records"]

    def set_active(self, active: bool) -> None:
        """Sets whether this stream has the lease. Clears the last batch and the backlog of a standby, which would look like a
        delay."""
        self.active = active
        if not active:
            self.last, self.backlog_remaining = None, 0

    def add_restart(self) -> None:
        self.restarts += 1

    def add_history(self, job: HistoryJobFigures) -> None:
        self.history_end_ms = max(job.newest_end_ms, self.history_end_ms or 0)
        self.history_job_s = job.took_s
        self.history_periods += job.periods
        self.history_refused += job.refused

    def add_history_failure(self) -> None:
        self.history_failures += 1

    def set_backlog(self, state: BacklogState) -> None:
        self.backlog_remaining, self.backlog_lost = state.remaining_records, state.lost_records
