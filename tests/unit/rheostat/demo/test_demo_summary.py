"""The demo's exit code is 0 only if every result is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rheostat.demo.story import _write_rate, throttle_of
from rheostat.demo.summary import DemoSummary
from rheostat.demo.view import DemoView
from rheostat.status.report import unfixable_by_throttle

HELD: dict[str, Any] = {
    "stalled_before_s": 27.0,
    "trend_before_bytes_per_s": 2e6,
    "stall_detection_s": 30.0,
    "cause": "stalled_below_steady_state",
    "rescue_s": 50.0,
    "optimum_s": 12.0,
    "ratio_to_optimum": 4.2,
    "decisions": [{"action": "set", "kind": "outcome"}],
    "produce_p99_ms": {"before": 9.0, "during": 50.0, "after": 5.0},
    "throttle_keys_left": 0,
    "completed": True,
}


def test_summary_with_all_results_has_no_fault() -> None:
    assert DemoSummary(**HELD).faults() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trend_before_bytes_per_s": -1e6}, "not falling behind"),
        ({"trend_before_bytes_per_s": None}, "not falling behind"),
        ({"cause": None}, "did not find the stall"),
        ({"decisions": [{"action": "set", "kind": "intent"}]}, "no throttle was raised"),
        ({"completed": False}, "did not complete"),
        ({"ratio_to_optimum": None}, "the optimum is unknown"),
        (
            {"throttle_keys_left": 1, "left": ["broker 1: leader.replication.throttled.rate"]},
            "left behind: broker 1: leader",
        ),
        ({"throttle_keys_left": None}, "unknown whether"),
        ({"produce_p99_ms": {"before": 9.0, "during": None, "after": 5.0}}, "not measured during the move"),
    ],
)
def test_faults_names_each_missing_result(change: dict[str, Any], said: str) -> None:
    (fault,) = DemoSummary(**{**HELD, **change}).faults()
    assert said in fault


def test_summary_without_a_rescue_names_the_shrinking_remaining_bytes() -> None:
    said: list[str] = []
    view = SimpleNamespace(print_heading=said.append, print_line=lambda text, **_: said.append(text))
    summary = DemoSummary(**{**HELD, "trend_before_bytes_per_s": -1.9e6, "write_bytes_per_s": 1.3e6})
    summary.print_to(cast(DemoView, view))
    assert any("for 27 s before the tuner started, the remaining bytes shrank by 1.90 MB/s" in line for line in said)
    assert any("producers at 1.30 MB/s" in line and "busy with other programs?" in line for line in said)
    said.clear()
    DemoSummary(**HELD).print_to(cast(DemoView, view))
    assert any("the remaining bytes grew by 2.00 MB/s" in line for line in said)


@pytest.mark.parametrize(("written", "throttle"), [(3_000_000, 4_500_000), (1_300_000, 2_000_000), (10_000, 100_000)])
def test_throttle_of_is_above_the_write_rate(written: int, throttle: int) -> None:
    """The demo must show a stall on slow machines, too."""
    assert throttle_of(written) == throttle
    assert written < throttle


@pytest.mark.parametrize(("found", "taken"), [(None, 3e6), (0.0, 3e6), (2.8e6, 3e6), (5e6, 3e6), (1.3e6, 1.3e6)])
def test_write_rate_is_measured_if_below_the_target(found: float | None, taken: float) -> None:
    said: list[str] = []
    assert _write_rate(found, cast(DemoView, SimpleNamespace(print_line=said.append))) == taken
    assert said == (["this machine is busy: the producers write 1.30 MB/s"] if taken < 3e6 else [])


def decision(reason: str, *, broker: int = 1, failure: str | None = None) -> dict[str, Any]:
    return {"broker": broker, "side": "leader", "reason": reason, "text": f"{broker} {reason}", "failure": failure}


@pytest.mark.parametrize(
    ("moves", "decisions", "told"),
    [
        ([{}], [decision("infeasible")], ["1 infeasible"]),
        ([{}], [decision("infeasible"), decision("progressing", broker=3)], ["1 infeasible"]),
        ([{}], [decision("infeasible"), decision("infeasible")], ["1 infeasible"]),  # One decision about two throttles.
        ([{}], [decision("stalled_throttle_bound", failure="no right")], ["1 stalled_throttle_bound"]),
        ([], [], []),
    ],
)
def test_unfixable_by_throttle_counts_infeasible_and_failed_decisions(
    moves: list[Any], decisions: list[Any], told: list[str]
) -> None:
    assert unfixable_by_throttle({"moves": moves, "throttle_decisions": decisions}) == told
