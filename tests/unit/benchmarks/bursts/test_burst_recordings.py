"""Recorded rate changes: recordings round-trip, and their figures have the expected values."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bursts.methods import DOWN_S, END_S, UP_S, changes, in_one_step, linear, typical
from benchmarks.bursts.recordings import TICK_S, Run, read, write

QUIET, BUSY = [0] * 10, [500] * 10  # A second of nothing, and one of 5 MB/s.


def run(up: list[int]) -> Run:
    """A run at 5 MB/s, except for ``up`` right after the change."""
    start = BUSY * round(UP_S)
    rest = [500] * (round((DOWN_S + END_S) / TICK_S) - len(up))
    return Run((0.0, 0.0), (*start, *up, *rest))


def test_recording_round_trips(tmp_path: Path) -> None:
    runs = [run(QUIET), Run((1.25, 3.0), (1, 2, 3))]
    write("a", runs, tmp_path)
    assert read("a", tmp_path) == runs


def test_invalid_recording_is_reported_with_its_line(tmp_path: Path) -> None:
    write("a", [run(QUIET)], tmp_path)
    with (tmp_path / "a.jsonl").open("a") as out:
        out.write('{"moments": [1], "grown_kb": []}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: .*record it again"):
        read("a", tmp_path)


def test_phases_have_peak_silence_and_mean() -> None:
    phases = run([*QUIET, *QUIET, *[2_000] * 5]).phases()
    assert phases.start.peak_mb() == pytest.approx(5.0)
    assert phases.start.silence_s() == 0.0
    assert phases.up.silence_s() == pytest.approx(2.0)
    assert phases.up.peak_mb() == pytest.approx(12.5)  # Half a second of 20 MB/s, and half of 5.
    assert phases.down.mean_mb_per_s() == pytest.approx(5.0)
    runs = [run(QUIET * n).phases() for n in (1, 2, 3, 9)]
    assert typical(lambda p: p.up.silence_s(), runs) == pytest.approx(2.5)


def test_rate_changes_go_in_one_step_or_linearly() -> None:
    assert changes((1.0, 2.0)) == [(0.0, 0.0, 5e6), (26.0, 5e6, 20e6), (53.0, 20e6, 5e6)]
    assert in_one_step(7.0, 5e6, 20e6) == [(7.0, 20e6)]
    assert linear(3, 0.5)(7.0, 5e6, 20e6) == [(7.0, 10e6), (7.5, 15e6), (8.0, 20e6)]
