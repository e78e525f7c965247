"""A deadline that will be missed is explained with its numbers, while an operator can still act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from tuner_cases import LIMITS, NOW_MS, SOURCE, STALL, TARGET, WELL, live, move, move_signal, observation

from tuner.control.throttle.deadline import DeadlineMiss, explain_deadline_miss, find_deadline_miss, time_to_end_s
from tuner.control.throttle.decision import AllowSteering, Reason
from tuner.control.throttle.objective import Mode
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, Setpoint
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.core.drain_time import SideLoad
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.settings.tuner import TunerSettings

# 600 MB remain and 6 MB/s keep up: at 12 MB/s they end in 100 s.
LOAD = SideLoad(600 * MB, 6 * MB)
AT_12 = Setpoint(12 * MB)


def by(seconds: float, limits: ThrottleLimits = LIMITS) -> ThrottleLimits:
    return replace(limits, closed_loop=True, finish_at_ms=NOW_MS + round(1000 * seconds))


def one(seconds: float, course: Setpoint = AT_12, load: SideLoad = LOAD) -> DeadlineMiss | None:
    return find_deadline_miss({SOURCE: load}, {SOURCE: course}, [SOURCE], NOW_MS, by(seconds))


@pytest.mark.parametrize(("left_s", "is_late"), [(100.0, False), (85.1, False), (85.0, True), (-20.0, True)])
def test_deadline_miss_starts_at_15_s(left_s: float, is_late: bool) -> None:
    assert (one(left_s) is not None) is is_late


@pytest.mark.parametrize(
    ("ratio", "left_s", "is_late"),
    [
        (2.0, 190.0, False),  # 200 s are expected, and a forecast may be wrong by 26 s.
        (2.0, 170.0, True),
        (0.5, 60.0, False),
        (0.5, 30.0, True),
    ],
)
def test_deadline_miss_follows_the_forecast(ratio: float, left_s: float, is_late: bool) -> None:
    ratios = {SOURCE: ratio}
    miss = find_deadline_miss({SOURCE: LOAD}, {SOURCE: AT_12}, [SOURCE], NOW_MS, by(left_s), ratios)
    assert (miss is not None) is is_late
    if miss is not None:
        assert miss.ends_s == ratio * 100.0
        assert "if loads and limits follow the forecast" in str(miss)


def test_deadline_miss_without_a_deadline_is_none() -> None:
    assert find_deadline_miss({SOURCE: LOAD}, {SOURCE: AT_12}, [SOURCE], NOW_MS, LIMITS) is None


def test_deadline_miss_text_has_all_numbers() -> None:
    """600 MB in 40 s and 6 MB/s beside them are 21 MB/s; 12 are far below the ceiling of 50, so it is clients who hold it."""
    assert str(one(40)) == (
        "600 MB remain; at 12.0 MB/s, of which steady-state replication takes 6.00 MB/s, the move ends in 100 s; "
        "finish_at is in 40 s, so the move ends 60 s late; to end in time the move needs 21.0 MB/s; the capacity of the brokers "
        "and the load of clients permit no higher rate: raise the latency objective, set finish_at at least 60 s later, or move "
        "fewer partitions"
    )


def test_deadline_miss_at_the_ceiling_names_the_ceiling() -> None:
    """2 GB at 46 MB/s take 50 s; 25 s would take 86 MB/s."""
    found = str(one(25, Setpoint(46 * MB), SideLoad(2000 * MB, 6 * MB)))
    assert (
        "to end in time the move needs 86.0 MB/s; the ceiling is 50.0 MB/s: raise tuner.rate_bytes_per_s_max, set finish_at"
        in found
    )


def test_deadline_miss_after_the_deadline_names_no_rate() -> None:
    found = str(one(-20))
    assert "finish_at was 20 s ago, so the move ends 2 min late; no rate ends the move in time" in found


@pytest.mark.parametrize("meant", [6 * MB, 6 * MB + 1])
def test_deadline_miss_that_never_ends_names_no_end(meant: float) -> None:
    found = one(3600, Setpoint(meant))
    assert found is not None
    assert str(found).startswith(
        "600 MB remain, and the move never ends at 6.00 MB/s, of which steady-state replication takes 6.00 MB/s; finish_at is in 1 h; "
    )
    assert "finish_at" not in str(found).split(";")[2]
    assert time_to_end_s(LOAD, Setpoint(meant)) == float("inf")


def test_deadline_explanation_of_other_sides_names_the_slowest() -> None:
    loads = {SOURCE: LOAD, TARGET: SideLoad(600 * MB, 3 * MB)}
    courses = {SOURCE: AT_12, TARGET: Setpoint(15 * MB)}  # 100 s, and 50 s.
    found = find_deadline_miss(loads, courses, loads, NOW_MS, by(30))
    assert found is not None
    assert (found.side, found.late_s) == (SOURCE, 70.0)
    assert explain_deadline_miss(found, TARGET, loads[TARGET], courses[TARGET]) == (
        "too late for the deadline, because the copies through the broker 1 leader throttle end 70 s after finish_at: the "
        "decision about that throttle says what to change"
    )
    in_time = replace(found, left_s=40.0)
    assert explain_deadline_miss(in_time, TARGET, loads[TARGET], courses[TARGET]) is None
    assert explain_deadline_miss(in_time, TARGET, loads[TARGET], courses[TARGET], eta_ratio=3.0) is not None


def test_deadline_miss_ignores_unmeasured_sides() -> None:
    assert one(10, Setpoint(12 * MB, inputs_stale=True)) is None
    assert find_deadline_miss({SOURCE: LOAD}, {}, [SOURCE], NOW_MS, by(10)) is None
    assert find_deadline_miss({SOURCE: LOAD}, {SOURCE: AT_12}, [], NOW_MS, by(10)) is None


# -- in what is decided ------------------------------------------------------------------------------------------------


def decided(
    left_s: float,
    observed_s: float = 60.0,
    forecasts: Mapping[BrokerSide, DeadlineForecast] = MappingProxyType({}),
    **course: bool,
) -> dict[BrokerSide, AllowSteering]:
    cluster: LiveCluster = live({SOURCE: 12 * MB, TARGET: 40 * MB}, moves=(move(),))
    courses = {SOURCE: Setpoint(12 * MB, **course), TARGET: Setpoint(40 * MB)}
    signals = (move_signal(*SOURCE), move_signal(*TARGET, steady_state=3 * MB))
    known = Memory(stalls={3: replace(WELL, observed_s=observed_s)})
    seen = replace(observation(cluster, signals, courses=courses), deadline_forecasts=forecasts)
    _, found = decide(seen, known, by(left_s), STALL)
    return {(d.broker, d.side): d for d in found if isinstance(d, AllowSteering)}


def test_deadline_not_met_is_the_reason_of_the_slowest_side() -> None:
    found = decided(60)
    assert (found[SOURCE].reason, found[TARGET].reason) == (Reason.DEADLINE_NOT_MET, Reason.FOLLOWS_CLIENTS)
    assert found[SOURCE].text.startswith(
        "broker 1 leader throttle: too late for the deadline: 600 MB remain; at 12.0 MB/s, of which steady-state replication takes 6.00 MB/s, the move ends in 100 s; finish_at is in 60 s, so the move ends 40 s late; "
    )
    assert found[SOURCE].current_bytes_per_s == 12_000_000, "the law goes on"


def test_deadline_met_is_not_mentioned() -> None:
    assert {d.reason for d in decided(120).values()} == {Reason.FOLLOWS_CLIENTS}


def test_deadline_is_not_judged_before_45_s_of_observation() -> None:
    assert {d.reason for d in decided(60, observed_s=44.9).values()} == {Reason.FOLLOWS_CLIENTS}
    assert decided(60, observed_s=45.0)[SOURCE].reason is Reason.DEADLINE_NOT_MET


def test_no_headroom_precedes_the_deadline_in_the_text() -> None:
    found = decided(60, no_headroom=True)[SOURCE]
    assert found.reason is Reason.NO_HEADROOM
    assert "when clients send less; too late for the deadline: 600 MB remain" in found.text


@pytest.mark.parametrize(
    ("forecast", "text"),
    [
        (None, "; broker 1 has no usable profile, so the tuner assumes its present load until finish_at"),
        (
            DeadlineForecast(0.5),
            "; by the forecast of the load, some hours until finish_at leave less bandwidth, so this side copies 2 times as fast "
            "as with the present load",
        ),
        (
            DeadlineForecast(1.0),
            "; by the forecast of the load, each hour until finish_at leaves enough bandwidth for this rate",
        ),
        (
            DeadlineForecast(0.0, has_profile=False),
            "; by the schedule (the broker has no usable profile), too little bandwidth is left until finish_at, so this "
            "side may use all that is left now",
        ),
    ],
)
def test_decision_says_what_the_forecast_changes(forecast: DeadlineForecast | None, text: str) -> None:
    forecasts = {} if forecast is None else {SOURCE: forecast}
    found = decided(500, forecasts=forecasts)
    assert found[SOURCE].reason is Reason.FOLLOWS_CLIENTS
    assert found[SOURCE].text.endswith(text)


def test_finish_at_comes_from_the_settings() -> None:
    given = {
        "rate_bytes_per_s_max": 50e6,
        "objective": {"latency_ms": 50, "mode": Mode.DEADLINE, "finish_at": "2026-01-31T06:00:00Z"},
        "capacity": {"in_bytes_per_s": 1e8, "out_bytes_per_s": 1e8},
    }
    assert TunerSettings.model_validate(given).limits().finish_at_ms == 1_769_839_200_000
    assert TunerSettings(rate_bytes_per_s_max=50e6).limits().finish_at_ms is None
