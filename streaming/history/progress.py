"""The progress of the history: pure functions, and the record that keeps the progress in the history topic.

The progress has two parts: the offsets of the signals topic before which every signal was read, and the pending periods. A pending
period has new signals and is not computed yet. A period is computed once it is over, and again if late signals arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from streaming.shared.contract import HISTORY_VERSION, ContractError
from streaming.shared.contract.bounds import Count, TimestampMs

# No period has this key, because a period's key has a cluster, a bar and a time.
PROGRESS_KEY = b"progress"
PERIODS_MAX = 6  # Periods of one job: an hour.
RECORDS_MAX = 300_000  # Signals of one job, unless its only period has more; 1,000 brokers have 240,000 in ten minutes.


@dataclass(frozen=True, slots=True)
class PendingPeriod:
    """A period that is to be computed.

    Attributes:
        records: number of new signals of the period, without the signals that were read before.
        end_offsets: by partition of the signals topic, the offset after the last signal of the period.
    """

    start_ms: TimestampMs
    records: Count
    end_offsets: dict[int, Count]


@dataclass(frozen=True, slots=True)
class HistoryProgress:
    """The offsets up to which signals were read, by partition, and the periods that are to be computed, in order of time."""

    offsets: dict[int, Count] = field(default_factory=dict)
    pending: tuple[PendingPeriod, ...] = ()

    def with_read(self, touched: Iterable[PendingPeriod], offsets: Mapping[int, int]) -> HistoryProgress:
        """Returns the progress after reading the signals before ``offsets``; ``touched`` are the periods of these signals."""
        pending = {period.start_ms: period for period in self.pending}
        for new in touched:
            old = pending.get(new.start_ms, PendingPeriod(start_ms=new.start_ms, records=0, end_offsets={}))
            ends = {**old.end_offsets, **new.end_offsets}
            pending[new.start_ms] = replace(old, records=old.records + new.records, end_offsets=ends)
        in_order = tuple(pending[start_ms] for start_ms in sorted(pending))
        return HistoryProgress(offsets=dict(offsets), pending=in_order)

    def plausible(self, first_ms: int, last_ms: int, period_ms: int) -> HistoryProgress:
        """Returns the progress without pending periods of impossible times, which no pass would ever compute and remove.

        Args:
            first_ms: no period begins before it, or after ``last_ms``.
        """
        pending = {
            period.start_ms: period
            for period in self.pending
            if first_ms <= period.start_ms <= last_ms and period.start_ms % period_ms == 0
        }
        return replace(self, pending=tuple(pending[start_ms] for start_ms in sorted(pending)))

    def without(self, computed: Iterable[PendingPeriod]) -> HistoryProgress:
        """Returns the progress without these periods, which have been computed."""
        starts_ms = {period.start_ms for period in computed}
        return replace(self, pending=tuple(p for p in self.pending if p.start_ms not in starts_ms))

    def next_job(self, over_ms: int, period_ms: int, *, smallest: bool = False) -> tuple[PendingPeriod, ...]:
        """Returns the newest pending periods that end before ``over_ms``, as many as one job computes; empty if none is pending.

        Args:
            smallest: return one period at most.
        """
        over = [period for period in self.pending if period.start_ms + period_ms <= over_ms]
        job: list[PendingPeriod] = []
        for period in reversed(over):
            is_first = not job
            is_near = is_first or job[0].start_ms - period.start_ms < PERIODS_MAX * period_ms
            fits = is_first or (not smallest and sum(p.records for p in job) + period.records <= RECORDS_MAX)
            if not is_near or not fits:
                break
            job.append(period)
        return tuple(reversed(job))


class _Record(msgspec.Struct):
    """The value of a progress record."""

    v: int
    kind: str
    progress: HistoryProgress


_DECODER = msgspec.json.Decoder(_Record)


def encode_progress(progress: HistoryProgress) -> bytes:
    return msgspec.json.encode(_Record(v=HISTORY_VERSION, kind="progress", progress=progress))


def decode_progress(value: bytes) -> HistoryProgress:
    """Returns the progress that a record holds.

    Raises:
        ContractError: the record is not a progress record, or has another version.
    """
    try:
        record = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContractError(f"progress of the history: {type(error).__name__}") from error
    if (record.v, record.kind) != (HISTORY_VERSION, "progress"):
        raise ContractError("not a progress record of this version")
    return record.progress
