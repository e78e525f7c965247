"""The demo's exit code: 0 only when all of it held."""

from __future__ import annotations

from typing import Any

import pytest

from rheostat.demo.summary import Summary
from rheostat.status import stuck

HELD: dict[str, Any] = {
    "stalled_before_s": 27.0,
    "trend_before_bytes_per_s": 2e6,
    "stall_detection_s": 30.0,
    "cause": "stalled_below_keep_up",
    "rescue_s": 50.0,
    "optimum_s": 12.0,
    "ratio_to_optimum": 4.2,
    "decisions": [{"action": "set", "kind": "outcome"}],
    "produce_p99_ms": {"before": 9.0, "during": 50.0, "after": 5.0},
    "throttle_keys_left": 0,
    "completed": True,
}


def test_when_all_held_there_is_no_fault() -> None:
    assert Summary(**HELD).faults() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trend_before_bytes_per_s": -1e6}, "not falling behind"),
        ({"trend_before_bytes_per_s": None}, "not falling behind"),
        ({"cause": None}, "did not find the stall"),
        ({"decisions": [{"action": "set", "kind": "intent"}]}, "no throttle was raised"),
        ({"completed": False}, "did not complete"),
        ({"ratio_to_optimum": None}, "optimum could not be worked out"),
        (
            {"throttle_keys_left": 1, "left": ["broker 1: leader.replication.throttled.rate"]},
            "left behind: broker 1: leader",
        ),
        ({"throttle_keys_left": None}, "not known whether"),
        ({"produce_p99_ms": {"before": 9.0, "during": None, "after": 5.0}}, "not measured during the move"),
    ],
)
def test_each_thing_that_did_not_hold_is_a_fault(change: dict[str, Any], said: str) -> None:
    (fault,) = Summary(**{**HELD, **change}).faults()
    assert said in fault


def decision(reason: str, *, broker: int = 1, failure: str | None = None) -> dict[str, Any]:
    return {"broker": broker, "side": "leader", "reason": reason, "text": f"{broker} {reason}", "failure": failure}


@pytest.mark.parametrize(
    ("moves", "decisions", "told"),
    [
        ([{}], [decision("infeasible")], ["1 infeasible"]),
        ([{}], [decision("infeasible"), decision("progressing")], []),  # The newest word counts ...
        ([{}], [decision("infeasible"), decision("progressing", broker=3)], ["1 infeasible"]),  # ... of each throttle.
        ([{}], [decision("stalled_throttle_bound", failure="no right")], ["1 stalled_throttle_bound"]),
        ([], [decision("infeasible")], []),  # Nothing moves any more.
        ([{}], [], []),
    ],
)
def test_status_is_not_well_while_turning_a_throttle_cannot_help(
    moves: list[Any], decisions: list[Any], told: list[str]
) -> None:
    assert stuck({"moves": moves, "last_decisions": decisions}) == told
