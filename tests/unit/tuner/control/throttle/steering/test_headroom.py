"""The newest step, the forecast of the load, and the headroom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.headroom import (
    DirectionLoad,
    forecast_bytes_per_s,
    headroom_bytes_per_s,
    update_load,
)
from tuner.control.throttle.steering.latest_step import StepRates, append_step_from_mean
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits()


def test_constant_mean_gives_equal_steps() -> None:
    steps = StepRates()
    for _ in range(8):
        steps = append_step_from_mean(steps, 40 * MB, 5)
    assert steps.newest == pytest.approx(40 * MB)


def test_jump_appears_whole_in_its_step() -> None:
    """Five steps of 40, then one of 90: the mean says 50, the newest step 90."""
    steps = append_step_from_mean(append_step_from_mean(StepRates(), 40 * MB, 5), 50 * MB, 5)
    assert steps.newest == pytest.approx(90 * MB, rel=0.02)


@given(st.lists(st.floats(0.0, 1e9), min_size=6, max_size=40))
def test_derived_steps_are_never_negative(rates: list[float]) -> None:
    steps = StepRates()
    for end in range(5, len(rates) + 1):
        steps = append_step_from_mean(steps, sum(rates[end - 5 : end]) / 5, 5)
        assert steps.newest is not None
        assert steps.newest >= 0.0


def test_forecast_of_steady_load_adds_little() -> None:
    load = None
    for _ in range(40):
        load = update_load(load, 50 * MB, 5.0, LIMITS)
    assert load is not None
    assert forecast_bytes_per_s(load, LIMITS) == pytest.approx(50 * MB, rel=0.01)


def test_noise_moves_the_level_a_little_and_widens_the_spread() -> None:
    load = update_load(DirectionLoad(50 * MB, 1 * MB), 53 * MB, 5.0, LIMITS)
    assert 50 * MB < load.level_bytes_per_s < 52 * MB
    assert load.spread_bytes_per_s > 1 * MB


@pytest.mark.parametrize("step_s", [1.0, 5.0, 15.0])
def test_load_step_is_known_after_half_a_minute_whatever_the_scrape_interval(step_s: float) -> None:
    load = DirectionLoad(50 * MB, 1 * MB)
    for _ in range(round(30 / step_s)):
        load = update_load(load, 100 * MB, step_s, LIMITS)
    assert load.level_bytes_per_s == pytest.approx(97.5 * MB, rel=0.001)


@pytest.mark.parametrize(
    ("allowed", "headroom_mb"),
    [
        pytest.param(None, 0.95 * 100 - 42, id="no latency: the fixed share"),
        pytest.param(0.8, 0.8 * 100 - 42, id="80 % of the link"),
        pytest.param(1.56, 1.56 * 100 - 42, id="the capacity is twice the setting"),
        pytest.param(0.3, 0.0, id="the load takes all"),
    ],
)
def test_headroom_is_what_the_load_leaves_below_the_allowed_utilisation(
    allowed: float | None, headroom_mb: float
) -> None:
    """Of 100 MB/s clients use 40, with a spread of 4; 160 passed."""
    load = DirectionLoad(40 * MB, 4 * MB)
    assert headroom_bytes_per_s(100 * MB, load, 160 * MB, allowed, LIMITS, link_bytes_per_s=100 * MB) == pytest.approx(
        headroom_mb * MB
    )


def test_capacity_above_the_setting_counts_only_in_the_direction_that_used_it() -> None:
    load = DirectionLoad(40 * MB, 4 * MB)
    unused = headroom_bytes_per_s(100 * MB, load, 60 * MB, 1.8, LIMITS, link_bytes_per_s=100 * MB)
    assert unused == headroom_bytes_per_s(100 * MB, load, 0.0, None, LIMITS, link_bytes_per_s=100 * MB)


def test_link_speed_bounds_what_was_learned() -> None:
    """The unit is 10 MB/s; clients use 40 of a link of 125 MB/s."""
    load = DirectionLoad(40 * MB)

    def room(allowed: float | None, used_mb: float, link_mb: float | None) -> float:
        link = None if link_mb is None else link_mb * MB
        return headroom_bytes_per_s(10 * MB, load, used_mb * MB, allowed, LIMITS, link_bytes_per_s=link) / MB

    assert room(8.0, 60.0, 125.0) == pytest.approx(40.0), "a slow disk: the latency has taught 80 MB/s"
    assert room(30.0, 60.0, 125.0) == pytest.approx(0.95 * 125 - 40)
    assert room(30.0, 124.0, 125.0) == pytest.approx(0.95 * 1.25 * 124 - 40), (
        "a wrong speed does not hold a link that carries more"
    )
    assert room(float("inf"), 60.0, 125.0) == pytest.approx(0.95 * 125 - 40)
    assert room(float("inf"), 60.0, None) == float("inf")
