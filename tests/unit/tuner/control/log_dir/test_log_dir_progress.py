"""Tests the progress of copies between log directories: bytes left, rates, expected end."""

from __future__ import annotations

import pytest
from log_dir_cases import log_dir_copy
from tuner_cases import NOW_MS

from tuner.control.log_dir.progress import CopyHistory, add_read, measure_progress
from tuner.core.throttle_limits import MB


def test_progress_first_read_uses_reported_rate() -> None:
    copies = [log_dir_copy(300 * MB), log_dir_copy(100 * MB, partition=1)]
    found = measure_progress(copies, add_read(CopyHistory(), NOW_MS, copies), 20.0 * MB)
    assert (found.partitions, found.remaining_bytes, found.copied_bytes_per_s, found.eta_s) == (
        2,
        400 * MB,
        20 * MB,
        20.0,
    )


def test_progress_between_reads_counts_writes_against_the_copy() -> None:
    first, last = [log_dir_copy(300 * MB, size=1000 * MB)], [log_dir_copy(250 * MB, size=1050 * MB)]
    history = add_read(add_read(CopyHistory(), NOW_MS, first), NOW_MS + 10_000, last)
    found = measure_progress(last, history, reported_bytes_per_s=1.0)
    assert (found.copied_bytes_per_s, found.written_bytes_per_s, found.eta_s) == (10 * MB, 5 * MB, 50.0)


def test_progress_ended_copy_counts_with_all_its_bytes() -> None:
    first = [log_dir_copy(60 * MB), log_dir_copy(500 * MB, partition=1)]
    last = [log_dir_copy(460 * MB, partition=1)]
    history = add_read(add_read(CopyHistory(), NOW_MS, first), NOW_MS + 5_000, last)
    assert measure_progress(last, history, None).copied_bytes_per_s == 20 * MB


@pytest.mark.parametrize(("reported", "remaining", "eta_s"), [(None, 5.0, None), (0.0, 5.0, None), (None, 0.0, 0.0)])
def test_progress_without_a_rate_has_no_end(reported: float | None, remaining: float, eta_s: float | None) -> None:
    copies = [log_dir_copy(remaining * MB)]
    assert measure_progress(copies, add_read(CopyHistory(), NOW_MS, copies), reported).eta_s == eta_s


@pytest.mark.parametrize("later_ms", [-5_000, 31_000])
def test_history_drops_reads_before_a_gap_or_a_clock_change(later_ms: int) -> None:
    copies = [log_dir_copy()]
    history = add_read(add_read(CopyHistory(), NOW_MS, copies), NOW_MS + later_ms, copies)
    assert [at_ms for at_ms, _ in history.reads] == [NOW_MS + later_ms]
