"""The newest step, the forecast of the load, and the latency margin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.headroom import (
    DirectionLoad,
    forecast_bytes_per_s,
    headroom_bytes_per_s,
    next_margin,
    update_load,
)
from tuner.control.throttle.steering.latest_step import StepRates, append_step_from_mean
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits(margin_start=0.03, margin_min=-0.03, latency_aim=0.74)


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
    assert forecast_bytes_per_s(load, 5.0, LIMITS) == pytest.approx(50 * MB, rel=0.01)


def test_load_step_is_adopted_at_once() -> None:
    load = update_load(DirectionLoad(50 * MB, 0.0, 1 * MB), 75 * MB, 5.0, LIMITS)
    assert load.level_bytes_per_s == 75 * MB


def test_noise_moves_the_level_a_little_and_widens_the_spread() -> None:
    load = update_load(DirectionLoad(50 * MB, 0.0, 1 * MB), 53 * MB, 5.0, LIMITS)
    assert 50 * MB < load.level_bytes_per_s < 52 * MB
    assert load.spread_bytes_per_s > 1 * MB


def test_usual_load_is_learned_slowly_and_reset_by_step() -> None:
    load = update_load(None, 50 * MB, 5.0, LIMITS)
    for _ in range(12):
        load = update_load(load, 52 * MB, 5.0, LIMITS)
    assert 50.2 * MB < load.usual_bytes_per_s < 50.5 * MB
    for _ in range(240):
        load = update_load(load, 52 * MB, 5.0, LIMITS)
    assert load.usual_bytes_per_s == pytest.approx(52 * MB, rel=0.01)
    assert update_load(load, 90 * MB, 5.0, LIMITS).usual_bytes_per_s == 90 * MB


def test_margin_grows_above_aim_and_shrinks_half_as_fast() -> None:
    assert next_margin(0.03, 0.9, True, LIMITS) == pytest.approx(0.0316)
    assert next_margin(0.03, 2.0, True, LIMITS) == pytest.approx(0.06)
    assert next_margin(0.03, 0.0, True, LIMITS) == pytest.approx(0.025)


def test_margin_does_not_shrink_on_unfilled_link() -> None:
    """Anti-windup: low latency on an idle link is no reason for more."""
    assert next_margin(0.03, 0.1, False, LIMITS) == 0.03
    assert next_margin(0.03, 1.5, False, LIMITS) > 0.03


SHIPPED = ControlLimits()


@pytest.mark.parametrize(
    ("ratio", "after"),
    [
        (0.3, 0.03 - 0.01 * 0.3),  # The aim that ships is 0.6 of the objective,
        (0.05, 0.03 - 0.01 * 0.5),  # and no step gives back more than half of what one adds.
        (0.6, 0.03),
        (0.9, 0.03 + 0.01 * 0.3),
        (1.0, 0.03 + 0.01 * 0.4),
        (1.2, 0.03 + 0.01 * (0.6 + 2.0)),  # A miss weighs two on top,
        (3.0, 0.03 + 0.01 * (1.0 + 2.0)),  # and how large it was no more than one.
    ],
)
def test_margin_step_with_default_constants(ratio: float, after: float) -> None:
    assert next_margin(0.03, ratio, True, SHIPPED) == pytest.approx(after)


def test_default_margin_ranges_from_two_to_thirty_percent() -> None:
    low = high = SHIPPED.margin_start
    for _ in range(20):
        low, high = next_margin(low, 0.1, True, SHIPPED), next_margin(high, 2.0, True, SHIPPED)
    assert (low, high) == (pytest.approx(0.02), pytest.approx(0.30))
    # Where the p99 tells of minutes and not of this moment, what comes and goes is inside it, and it may say that there is more.
    # Nothing of this moment, nothing of which the next could be another: as fast as it grows.
    assert next_margin(0.02, 0.1, True, SHIPPED, fast_component=0.0) == pytest.approx(0.01)
    assert next_margin(0.02, 0.1, True, SHIPPED, fast_component=0.5) == pytest.approx(0.0125)
    assert next_margin(-0.01, 0.9, True, SHIPPED, fast_component=0.0) == pytest.approx(-0.014)
    assert next_margin(-0.039, 0.1, True, SHIPPED, fast_component=0.0) == pytest.approx(-0.04)
    # What is not seen of it is kept again at once, and a miss ends it.
    assert next_margin(-0.04, 0.6, True, SHIPPED, fast_component=0.5) == pytest.approx(-0.01)
    assert next_margin(-0.04, 1.1, True, SHIPPED, fast_component=0.0) == pytest.approx(0.025)
    # And it may come up to 0.95 of the objective.
    assert next_margin(0.03, 0.9, True, SHIPPED, fast_component=0.0) == pytest.approx(0.026)
    assert next_margin(0.03, 0.95, True, SHIPPED, fast_component=0.0) == pytest.approx(0.03)
    assert next_margin(0.03, 1.0, True, SHIPPED, fast_component=0.0) == pytest.approx(0.034)


def test_low_headroom_reacts_to_near_misses_by_default() -> None:
    assert next_margin(0.03, 0.9, True, SHIPPED, low_headroom=True) == pytest.approx(0.0295)
    assert next_margin(0.03, 1.0, True, SHIPPED, low_headroom=True) == pytest.approx(0.0305)


def test_low_headroom_with_default_constants() -> None:
    """90 of 100 MB/s less a margin of 2, of which clients take 40 and half of the 4 by which they are usually off."""
    load = DirectionLoad(40 * MB, 0.0, 4 * MB)
    assert headroom_bytes_per_s(100 * MB, load, 0.02, 5.0, SHIPPED) == pytest.approx(46 * MB)
    # Going up by 1 MB/s a second, for the 5 s until anything written now tells.
    assert headroom_bytes_per_s(100 * MB, DirectionLoad(40 * MB, 1 * MB, 4 * MB), 0.02, 5.0, SHIPPED) == pytest.approx(
        41 * MB
    )


def test_near_steady_state_only_near_misses_count() -> None:
    limits = ControlLimits(latency_aim=0.74, latency_aim_low_headroom=0.95)
    assert next_margin(0.03, 0.9, True, limits, low_headroom=True) == pytest.approx(0.0295)
    assert next_margin(0.03, 0.9, True, limits, low_headroom=False) == pytest.approx(0.0316)
    assert next_margin(0.03, 1.2, True, limits, low_headroom=True) == pytest.approx(0.0525)


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.booleans()), max_size=200))
def test_margin_stays_within_its_limits(ratios: list[tuple[float, bool]]) -> None:
    margin = LIMITS.margin_start
    for ratio, fills in ratios:
        margin = next_margin(margin, ratio, fills, LIMITS)
        assert LIMITS.margin_min <= margin <= LIMITS.margin_max


def test_headroom_is_allowed_share_minus_load() -> None:
    assert headroom_bytes_per_s(100 * MB, DirectionLoad(30 * MB), 0.05, 5.0, LIMITS) == pytest.approx(55 * MB)
    assert headroom_bytes_per_s(100 * MB, DirectionLoad(95 * MB), 0.05, 5.0, LIMITS) == 0.0


@pytest.mark.parametrize("aim", ["latency_aim", "latency_aim_max", "latency_aim_low_headroom"])
def test_latency_aim_is_below_the_objective(aim: str) -> None:
    with pytest.raises(AssertionError):
        ControlLimits(**{aim: 1.0})
