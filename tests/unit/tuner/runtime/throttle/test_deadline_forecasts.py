"""The forecasts until the deadline use the profile and the schedule, and stay for a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tuner_cases import move_signal

from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LearnedCapacity, LoadForecast, Side
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.runtime.throttle.deadline_forecasts import DeadlineForecasts
from tuner.runtime.throttle.forecast_inputs import ForecastInputs
from tuner.settings.tuner import TunerSettings

MB = 1e6
HOUR_MS = STEP_S * 1000
NOW_MS = 1_764_000_000_000 - 1_764_000_000_000 % HOUR_MS
FINISH_AT_MS = NOW_MS + 4 * HOUR_MS
SIDE = (1, Side.FOLLOWER)
NO_LINK_SPEED: dict[int, float] = {}
PROFILE = BrokerProfile(
    "c",
    1,
    NOW_MS,
    NOW_MS,
    1e6,
    client_in=LoadForecast(bytes_per_s=(60 * MB, 60 * MB, *(98 * MB,) * (STEPS_MAX - 2))),
    capacity_in=LearnedCapacity(bytes_per_s=100 * MB, seen_at_ms=NOW_MS),
)
MOVES = {SIDE: move_signal(1, Side.FOLLOWER, remaining=72_000 * MB, slope=-5 * MB, steady_state=0.0)}


def settings(**more: object) -> TunerSettings:
    objective = {"mode": "deadline", "finish_at": datetime.fromtimestamp(FINISH_AT_MS / 1000, UTC)}
    return TunerSettings.model_validate(
        {"rate_bytes_per_s_max": 50 * MB, "rate_bytes_per_s_min": 1 * MB, "objective": objective, **more}
    )


def forecasts(
    profile: BrokerProfile | None = PROFILE, link_speeds: Mapping[int, float] | None = None, **more: object
) -> DeadlineForecasts:
    inputs = ForecastInputs(lambda: {} if profile is None else {1: profile}, (link_speeds or {}).get, settings(**more))
    return DeadlineForecasts(inputs, settings().law_limits())


def test_busy_hours_shorten_the_time() -> None:
    found = forecasts().forecasts(MOVES, NOW_MS, FINISH_AT_MS)
    assert found[SIDE].has_profile
    assert 0.5 < found[SIDE].time_ratio < 0.7


@pytest.mark.parametrize(
    "profile",
    [None, replace(PROFILE, made_at_ms=NOW_MS - 4 * HOUR_MS), replace(PROFILE, history_s=3600.0)],
    ids=["none", "old", "young"],
)
def test_without_usable_profile_there_is_no_forecast(profile: BrokerProfile | None) -> None:
    assert forecasts(profile).forecasts(MOVES, NOW_MS, FINISH_AT_MS) == {}


def test_rule_of_the_schedule_needs_no_profile() -> None:
    """From the second hour on, the ceiling is 2 MB/s."""
    hour = datetime.fromtimestamp(NOW_MS / 1000, UTC).hour
    rule = {
        "name": "slow",
        "cron": f"0 {(hour + 1) % 24} * * *",
        "duration_s": "6h",
        "time_zone": "UTC",
        "rate_bytes_per_s_max": 2 * MB,
    }
    found = forecasts(None, schedule=[rule]).forecasts(MOVES, NOW_MS, FINISH_AT_MS)[SIDE]
    assert not found.has_profile
    assert 0.25 < found.time_ratio < 0.4


def test_without_deadline_no_profile_is_read() -> None:
    def refuse() -> dict[int, BrokerProfile]:
        raise AssertionError("a profile was read")

    inputs = ForecastInputs(refuse, NO_LINK_SPEED.get, settings())
    assert DeadlineForecasts(inputs, settings().law_limits()).forecasts(MOVES, NOW_MS, None) == {}


def test_link_speed_is_the_capacity_while_none_is_learned() -> None:
    """The clients of later hours leave nothing of 0.85 × 100 MB/s, and all of a faster link."""
    young = replace(PROFILE, capacity_in=None)
    slow, fast = (forecasts(young, {1: speed * MB}).forecasts(MOVES, NOW_MS, FINISH_AT_MS) for speed in (100, 1000))
    assert slow[SIDE].time_ratio < 0.7 < fast[SIDE].time_ratio == 1.0


def test_deadline_in_the_past_has_no_forecast() -> None:
    assert forecasts().forecasts(MOVES, NOW_MS, NOW_MS - 1) == {}


def test_forecast_stays_for_a_minute_and_another_deadline_computes_again() -> None:
    every = forecasts()
    first = every.forecasts(MOVES, NOW_MS, FINISH_AT_MS)
    assert every.forecasts(MOVES, NOW_MS + 59_000, FINISH_AT_MS) is first
    later = every.forecasts(MOVES, NOW_MS + 59_000, FINISH_AT_MS + 2 * HOUR_MS)
    assert later[SIDE].time_ratio < first[SIDE].time_ratio


def test_signal_without_load_has_no_forecast() -> None:
    unknown = {SIDE: replace(MOVES[SIDE], steady_state_bytes_per_s=None)}
    assert forecasts().forecasts(unknown, NOW_MS, FINISH_AT_MS) == {}


def test_forged_profile_only_speeds_up() -> None:
    """A ratio is between 0 (all the room now) and 1 (as without a profile), whatever the profile says."""
    for load in (0.0, 1e300):
        forged = replace(PROFILE, client_in=LoadForecast(bytes_per_s=(load,) * STEPS_MAX))
        found = forecasts(forged).forecasts(MOVES, NOW_MS, FINISH_AT_MS)[SIDE]
        assert found == DeadlineForecast(1.0 if load == 0.0 else 0.0)
