"""The thresholds of the rules: the value that another decision needed, and the recorded value; records of another form."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.control.throttle.reason_thresholds import Threshold, thresholds

AT_MS = 1_700_000_000_000
DECISION = {"broker": 1, "side": "leader", "current_bytes_per_s": 18_000_000, "setpoint_bytes_per_s": 50_000_000}


def stall(lost_s: float, *, stalled: bool, drained: float = -1e6, observed_s: float = 40.0) -> dict[str, Any]:
    """Returns a state with a window of ten seconds, in which the throttles allowed 2 MB/s."""
    window = [[5.0, drained * 5, 10e6], [5.0, drained * 5, 10e6]]
    return {"lost_s": lost_s, "stalled": stalled, "observed_s": observed_s, "window": window}


def inputs(*, stalls: dict[str, Any] | None = None, steady_state: float = 24e6, **more: Any) -> dict[str, Any]:
    return {
        "move": {"steady_state_bytes_per_s": steady_state, "sampled_at_ms": AT_MS - 20_000},
        "broker": {"leader_throttled_bytes_per_s": 17.5e6, "produce_p99_ms": 45.0, "sampled_at_ms": AT_MS - 5_000},
        "stalls": stalls if stalls is not None else {"3": stall(14.5, stalled=True)},
        "limits": {"bound_ratio": 0.85, "rate_bytes_per_s_max": 20e6, "deadband_ratio": 0.1, "signal_age_s_max": 15.0},
        **more,
    }


def found(reason: str, **more: Any) -> list[tuple[str, str]]:
    return [(each.needed, each.actual) for each in thresholds(reason, DECISION, inputs(**more), AT_MS)]


def test_stall_below_steady_state_names_rate_drain_and_lost_time() -> None:
    assert found("stalled_below_steady_state") == [
        ("above 24.0 MB/s (steady-state replication)", "18.0 MB/s"),
        ("at least 1.00 MB/s (half of what the throttles allow)", "−1.00 MB/s"),
        ("below 14.5 s", "14.5 s"),
    ]


def test_stall_under_a_used_up_throttle_names_the_traffic() -> None:
    assert found("stalled_throttle_bound", steady_state=5e6)[0] == (
        "below 15.3 MB/s (85% of the throttle)", "17.5 MB/s",
    )  # fmt: skip


def test_progressing_move_names_what_a_stall_needs() -> None:
    healthy = {"3": stall(4.0, stalled=False, drained=1.8e6)}
    assert found("progressing", stalls=healthy) == [
        ("below 1.00 MB/s (half of what the throttles allow)", "1.80 MB/s"),
        ("at least 14.5 s", "4.0 s"),
    ]


def test_window_that_is_not_full_yet_tells_no_drain() -> None:
    short = {"3": {**stall(0.0, stalled=False), "window": [[5.0, 1e6, 2e6]]}}
    assert found("progressing", stalls=short) == [("at least 14.5 s", "0.0 s")]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("watching", ("at least 24 s", "40 s")),
        ("infeasible", ("above 24.0 MB/s (steady-state replication)", "20.0 MB/s")),
        ("at_ceiling", ("more than 10% above the throttle", "20.0 MB/s")),
        ("signals_stale", ("at most 15 s", "20 s")),
    ],
)
def test_rule_with_one_threshold_names_it(reason: str, expected: tuple[str, str]) -> None:
    assert found(reason) == [expected]


def test_latency_above_the_objective_explains_a_rate_at_its_minimum() -> None:
    assert found("no_headroom", p99_ms_max=30.0) == [("at most 30 ms (the objective)", "45 ms")]
    assert found("no_headroom", p99_ms_max=60.0) == []


@pytest.mark.parametrize("reason", ["move_ended", "paused", "unheard_of"])
def test_rule_without_a_threshold_has_none(reason: str) -> None:
    assert found(reason) == []


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"stalls": None},
        {"stalls": {"3": {"stalled": True, "window": [[1, 2]], "lost_s": "x"}}, "move": None, "limits": {}},
        {"stalls": {"3": 7}, "move": {"steady_state_bytes_per_s": "x"}, "broker": [], "limits": []},
    ],
)
def test_records_of_another_form_give_no_sentence(forged: dict[str, Any]) -> None:
    for reason in ("stalled_throttle_bound", "stalled_below_steady_state", "progressing", "watching", "infeasible"):
        assert thresholds(reason, DECISION, forged, AT_MS) == []
        assert thresholds(reason, {}, forged, AT_MS) == []


def test_threshold_says_what_would_have_been_decided() -> None:
    (first, *_) = thresholds("stalled_below_steady_state", DECISION, inputs(), AT_MS)
    assert isinstance(first, Threshold)
    assert first.otherwise == "the tuner would have checked whether the throttle is used up"
