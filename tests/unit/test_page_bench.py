"""The benchmark of page and API ends in its time, and its bounds bite."""

from __future__ import annotations

import time

import pytest

from benchmarks.page import TooLong, main, measure, verdicts

WELL = {"first_view_ms": 900, "update_kb": 90.0, "p99_ms": 45.0, "cycle_ms": 800.0, "cycle_watched_ms": 870.0}


def broken(**changes: float | None) -> list[str]:
    return [name for name, _, figure, bound in verdicts(WELL | changes) if figure is not None and figure > bound]


def test_bounds_bite() -> None:
    assert broken() == []
    assert broken(first_view_ms=1001) == ["first view"]
    assert broken(first_view_ms=None) == []
    assert broken(update_kb=100.1) == ["update"]
    assert broken(p99_ms=50.1) == ["API p99"]
    assert broken(cycle_watched_ms=881.0) == ["cycle, watched ÷ alone"]


def test_a_machine_that_does_not_get_on_is_told_so_and_nothing_waits_for_ever(
    capsys: pytest.CaptureFixture[str],
) -> None:
    began_s = time.monotonic()
    with pytest.raises(TooLong, match="the cluster is made"):
        measure(20, 1, 1, seconds=0.0)
    assert time.monotonic() - began_s < 60
    assert main(["--brokers", "20", "--seconds", "0"]) == 1
    assert "not done after 0 s" in capsys.readouterr().err
