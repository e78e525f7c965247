"""The progress of the history: which periods a job makes, and the record that keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.history.progress import (
    PERIODS_MAX,
    RECORDS_MAX,
    HistoryProgress,
    PendingPeriod,
    decode_progress,
    encode_progress,
)
from streaming.history.worker import seconds_until_pass
from streaming.shared.contract import ContractError

PERIOD_MS = 600_000


def pending(number: int, records: int = 1, end_offset: int = 9) -> PendingPeriod:
    return PendingPeriod(start_ms=number * PERIOD_MS, records=records, end_offsets={0: end_offset})


def job_of(*periods: PendingPeriod, over: int = 100, smallest: bool = False) -> list[int]:
    """Returns the numbers of the periods that the next job makes."""
    progress = HistoryProgress(pending=periods)
    return [p.start_ms // PERIOD_MS for p in progress.next_job(over * PERIOD_MS, PERIOD_MS, smallest=smallest)]


def test_job_makes_newest_hour_of_ended_periods() -> None:
    assert job_of(*map(pending, range(20))) == list(range(20 - PERIODS_MAX, 20))
    assert job_of(*map(pending, range(20)), over=10) == [4, 5, 6, 7, 8, 9]
    assert job_of(*map(pending, (1, 3, 8, 9))) == [8, 9], "an hour of time, not six periods"
    assert job_of(pending(5), over=5) == []
    assert job_of() == []


def test_job_is_bounded_by_records() -> None:
    half = RECORDS_MAX // 2
    assert job_of(pending(1, half), pending(2, half), pending(3, half)) == [2, 3]
    assert job_of(pending(1), pending(2, 9 * RECORDS_MAX)) == [2], "one period is always made"
    assert job_of(pending(1), pending(2), smallest=True) == [2]


def test_new_signals_extend_pending_periods() -> None:
    progress = HistoryProgress(offsets={0: 5}, pending=(pending(2, 3, 5),))
    read = progress.with_read([pending(2, 4, 11), pending(1, 1, 7)], {0: 12, 1: 3})
    assert read == HistoryProgress(offsets={0: 12, 1: 3}, pending=(pending(1, 1, 7), pending(2, 7, 11)))
    assert read.without([pending(2)]) == HistoryProgress(offsets={0: 12, 1: 3}, pending=(pending(1, 1, 7),))


def test_impossible_pending_periods_are_dropped() -> None:
    forged = [pending(number) for number in (9, 5, 5, 21, 300_000)] + [
        replace(pending(6), start_ms=6 * PERIOD_MS + 1),
        pending(1),
    ]
    progress = HistoryProgress(offsets={0: 5}, pending=tuple(forged))
    plausible = progress.plausible(2 * PERIOD_MS, 20 * PERIOD_MS, PERIOD_MS)
    assert plausible == HistoryProgress(offsets={0: 5}, pending=(pending(5), pending(9)))


_periods = st.builds(
    PendingPeriod,
    start_ms=st.integers(0, 10**12),
    records=st.integers(0, 10**9),
    end_offsets=st.dictionaries(st.integers(0, 9), st.integers(0, 2**40)),
)


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 2**40)), st.lists(_periods))
def test_progress_record_is_read_as_written(offsets: dict[int, int], periods: list[PendingPeriod]) -> None:
    progress = HistoryProgress(offsets=offsets, pending=tuple(periods))
    assert decode_progress(encode_progress(progress)) == progress


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"\xff",
        b"[" * 5000,
        b"{}",
        b'{"v":2,"kind":"progress","progress":{}}',
        b'{"v":1,"kind":"period","progress":{}}',
        b'{"v":1,"kind":"progress","progress":{"offsets":{"0":-1}}}',
        b'{"v":1,"kind":"progress","progress":{"offsets":{"zero":1}}}',
        b'{"v":1,"kind":"progress","progress":{"pending":[{"start_ms":-5,"records":1,"end_offsets":{}}]}}',
    ],
)
def test_hostile_progress_record_is_refused(value: bytes) -> None:
    with pytest.raises(ContractError):
        decode_progress(value)


@pytest.mark.parametrize(("now_s", "seconds"), [(0, 60), (59, 1), (60, 600), (61, 599), (660, 600), (700, 560)])
def test_pass_comes_a_minute_after_each_period(now_s: float, seconds: float) -> None:
    assert seconds_until_pass(now_s, 600) == seconds
