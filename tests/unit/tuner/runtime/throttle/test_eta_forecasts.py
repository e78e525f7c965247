"""The ratios of expected times are computed once a minute, for a few sides at a time, and only while a long move runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tuner_cases import move_signal

from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LearnedCapacity, LoadForecast, MoveSignal, Side
from tuner.core.cluster import BrokerSide
from tuner.runtime.throttle.eta_forecasts import EtaForecasts
from tuner.runtime.throttle.forecast_inputs import ForecastInputs
from tuner.runtime.throttle.side_values import SIDES_PER_CALL
from tuner.settings.tuner import TunerSettings

MB = 1e6
NOW_MS = 1_764_000_000_000 - 1_764_000_000_000 % (STEP_S * 1000)
SETTINGS = TunerSettings(rate_bytes_per_s_max=50 * MB)
PROFILE = BrokerProfile(
    "c",
    1,
    NOW_MS,
    NOW_MS,
    1e6,
    client_in=LoadForecast(bytes_per_s=(80 * MB, *(60 * MB,) * (STEPS_MAX - 1))),
    capacity_in=LearnedCapacity(bytes_per_s=100 * MB, seen_at_ms=NOW_MS),
)
LONG = move_signal(1, Side.FOLLOWER, remaining=2 * 3600 * 20 * MB, slope=-20 * MB, steady_state=0.0)
FIRST = (1, Side.FOLLOWER)


def moves_onto(brokers: range, signal: MoveSignal = LONG) -> dict[BrokerSide, MoveSignal]:
    return {(broker, Side.FOLLOWER): replace(signal, broker=broker) for broker in brokers}


class Profiles:
    """Counts how often the profiles are read."""

    def __init__(self, by_broker: Mapping[int, BrokerProfile]) -> None:
        self.by_broker = by_broker
        self.reads = 0

    def __call__(self) -> Mapping[int, BrokerProfile]:
        self.reads += 1
        return self.by_broker


def eta_forecasts(
    profiles: Profiles,
    settings: TunerSettings,
    link_speeds: Mapping[int, float] | None = None,
    sides_per_call: int | None = SIDES_PER_CALL,
) -> EtaForecasts:
    inputs = ForecastInputs(profiles, (link_speeds or {}).get, settings)
    return EtaForecasts(inputs, sides_per_call=sides_per_call)


def test_long_move_has_a_ratio_and_a_short_one_reads_no_profile() -> None:
    profiles = Profiles({1: PROFILE})
    short = replace(LONG, remaining_bytes=60 * 20 * MB)
    assert eta_forecasts(profiles, SETTINGS).ratios({FIRST: short}, NOW_MS) == {}
    assert profiles.reads == 0
    assert eta_forecasts(profiles, SETTINGS).ratios({FIRST: LONG}, NOW_MS) == {FIRST: 0.75}


@pytest.mark.parametrize("age_h", [4, -4], ids=["old", "future"])
def test_unusable_profile_is_not_used(age_h: int) -> None:
    unusable = replace(PROFILE, made_at_ms=NOW_MS - age_h * 3_600_000)
    assert eta_forecasts(Profiles({1: unusable}), SETTINGS).ratios({FIRST: LONG}, NOW_MS) == {}


def test_ratio_stays_for_a_minute_and_ends_with_its_move() -> None:
    profiles = Profiles({1: PROFILE})
    forecasts = eta_forecasts(profiles, SETTINGS)
    first = forecasts.ratios({FIRST: LONG}, NOW_MS)
    assert forecasts.ratios({FIRST: LONG}, NOW_MS + 59_000) is first
    assert profiles.reads == 1
    profiles.by_broker = {}
    assert forecasts.ratios({FIRST: LONG}, NOW_MS + 60_000) == {}
    profiles.by_broker = {1: PROFILE}
    assert forecasts.ratios({FIRST: LONG}, NOW_MS + 120_000) == {FIRST: 0.74}
    assert forecasts.ratios({}, NOW_MS + 121_000) == {}


def test_clock_that_is_set_back_computes_again() -> None:
    profiles = Profiles({1: PROFILE})
    forecasts = eta_forecasts(profiles, SETTINGS)
    forecasts.ratios({FIRST: LONG}, NOW_MS + 3_600_000)
    assert forecasts.ratios({FIRST: LONG}, NOW_MS) == {FIRST: 0.75}
    assert profiles.reads == 2


def test_each_call_computes_a_few_sides_until_all_have_a_ratio() -> None:
    brokers = range(1, 101)
    profiles = Profiles({broker: replace(PROFILE, broker=broker) for broker in brokers})
    forecasts = eta_forecasts(profiles, SETTINGS)
    moves = moves_onto(brokers)
    sizes = [len(forecasts.ratios(moves, NOW_MS + 1000 * second)) for second in range(4)]
    assert sizes == [40, 80, 100, 100]
    assert profiles.reads == 100
    assert len(eta_forecasts(profiles, SETTINGS, sides_per_call=None).ratios(moves, NOW_MS)) == 100


def test_capacity_in_the_settings_precedes_the_learned_one() -> None:
    told = TunerSettings.model_validate(
        {"rate_bytes_per_s_max": 50 * MB, "capacity": {"in_bytes_per_s": 200 * MB, "out_bytes_per_s": 200 * MB}}
    )
    # 0.85 × 200 MB/s leave more than the ceiling in both hours.
    assert eta_forecasts(Profiles({1: PROFILE}), told).ratios({FIRST: LONG}, NOW_MS) == {}


def test_link_speed_is_the_capacity_while_none_is_learned() -> None:
    """0.85 × 117.6 MB/s are as much as the learned capacity of the other tests."""
    young = Profiles({1: replace(PROFILE, capacity_in=None)})
    assert eta_forecasts(young, SETTINGS).ratios({FIRST: LONG}, NOW_MS) == {}
    assert eta_forecasts(young, SETTINGS, {1: 100 * MB / 0.85}).ratios({FIRST: LONG}, NOW_MS) == {FIRST: 0.75}


def test_without_objective_only_the_ceiling_limits() -> None:
    rescue = TunerSettings.model_validate({"rate_bytes_per_s_max": 50 * MB, "objective": "off"})
    assert eta_forecasts(Profiles({1: PROFILE}), rescue).ratios({FIRST: LONG}, NOW_MS) == {}
