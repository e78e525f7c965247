from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learning.models.forecaster import Forecasts, LoadForecaster
from learning.models.periods import KEPT_HOURS
from streaming.shared.contract.profiles import HORIZONS_H, STEPS_MAX


def daily(hour: int) -> float:
    return 20e6 + 10e6 * math.sin(2 * math.pi * hour / 24) + (5e6 if hour % 168 >= 120 else 0.0)


def learned(hours: int, *series: Callable[[int], float]) -> LoadForecaster:
    forecaster = LoadForecaster()
    forecaster.widen(len(series))
    for hour in range(hours):
        forecaster.learn(np.array([value(hour) for value in series], dtype=np.float32))
    return forecaster


def test_first_hour_is_the_forecast_until_more_is_known() -> None:
    forecasts = learned(1, lambda _: 7e6).forecasts(STEPS_MAX)
    assert forecasts.values.shape == (STEPS_MAX, 1)
    assert forecasts.values == pytest.approx(7e6)
    assert np.isnan(forecasts.errors).all()
    assert forecasts.models == [""]


def test_nothing_known_gives_no_forecast() -> None:
    assert np.isnan(learned(3, lambda _: math.nan).forecasts(5).values).all()


def test_daily_shape_is_forecast_after_some_days() -> None:
    hours = 4 * 24
    forecasts = learned(hours, daily).forecasts(48)
    expected = [daily(hours + step) for step in range(24)]  # A working day.
    assert forecasts.values[:24, 0] == pytest.approx(expected, rel=0.05)


def test_weekly_shape_is_forecast_after_some_weeks() -> None:
    hours = 28 * 24
    forecasts = learned(hours, daily).forecasts(168)
    assert forecasts.values[:, 0] == pytest.approx([daily(hours + step) for step in range(168)], rel=0.05)


def test_noise_without_a_shape_is_forecast_by_a_mean() -> None:
    noise = random.Random(3)
    values = [18e6 * noise.gauss(1, 0.3) for _ in range(20 * 24)]
    forecasts = learned(len(values), lambda hour: values[hour]).forecasts(24)
    assert forecasts.values[:, 0] == pytest.approx(18e6, rel=0.15)


def test_error_of_each_horizon_is_measured_once_it_was_reached() -> None:
    forecasts = learned(30, daily).forecasts(1)
    assert [not math.isnan(error) for error in forecasts.errors[:, 0]] == [horizon < 30 for horizon in HORIZONS_H]


def test_series_do_not_influence_each_other() -> None:
    alone = learned(100, daily).forecasts(168)
    beside = learned(100, lambda hour: 1e9 * (hour % 5), daily, lambda _: math.nan).forecasts(168)
    assert np.array_equal(alone.values[:, 0], beside.values[:, 1])


def test_later_series_has_a_forecast_of_its_own() -> None:
    forecaster = learned(50, daily)
    forecaster.widen(2)
    forecaster.learn(np.array([daily(50), 3e6], dtype=np.float32))
    assert forecaster.forecasts(10).values[:, 1] == pytest.approx(3e6)


def test_open_hour_is_the_first_step() -> None:
    forecasts = learned(60, daily).forecasts(24, from_newest=True)
    assert forecasts.values.shape == (24, 1)
    assert forecasts.values[0, 0] == pytest.approx(daily(59))


def test_hole_of_two_days_keeps_forecasts() -> None:
    forecasts = learned(12 * 24, lambda hour: math.nan if 200 <= hour < 248 else daily(hour)).forecasts(24)
    assert forecasts.values[:, 0] == pytest.approx([daily(12 * 24 + step) for step in range(24)], rel=0.1)


def test_forecaster_keeps_a_bounded_number_of_hours() -> None:
    forecaster = learned(KEPT_HOURS + 200, lambda hour: 1e9 if hour < 10 else daily(hour))
    assert forecaster.forecasts(24).values.max() < 40e6


@given(
    st.lists(
        st.one_of(st.just(math.nan), st.floats(0, 1e12), st.sampled_from([0.0, 1e-30, 1.0, 1e12])),
        min_size=1,
        max_size=80,
    ),
    st.integers(1, 60),
)
@settings(max_examples=20, deadline=None)
def test_forecasts_are_finite_and_bounded(values: list[float], repeat: int) -> None:
    hours = min(200, len(values) * repeat)
    forecasts: Forecasts = learned(hours, lambda hour: values[hour % len(values)]).forecasts(STEPS_MAX)
    known = forecasts.values[~np.isnan(forecasts.values)]
    largest = max((value for value in values[:hours] if not math.isnan(value)), default=0.0)
    assert (known >= 0.0).all()
    assert (known <= 2.001 * np.float32(largest)).all()
    errors = forecasts.errors[~np.isnan(forecasts.errors)]
    assert (errors >= 0.0).all()
    assert np.isfinite(errors).all()
