"""The model of the quota window: contents, admitted bytes, and the weight of a measured step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tuner.control.throttle.quota_window.model import (
    SECONDS_KEPT,
    QuotaSamples,
    advance,
    correct,
    correct_first_use,
    rate_for_setpoint,
    steady_window,
)
from tuner.core.throttle_limits import MB

SAMPLES = 11
FREE = float("inf")
RATES = st.floats(0.0, 1e9)


def test_steady_window_passes_its_bound_every_second() -> None:
    window = advance(steady_window(0, 20 * MB), 5_000, 20 * MB, FREE, SAMPLES)
    assert window.seconds[-5:] == pytest.approx((20 * MB,) * 5)
    assert window.until_ms == 5_000


def test_step_up_releases_twelve_seconds_of_difference() -> None:
    window = advance(steady_window(0, 5 * MB), 2_000, 20 * MB, FREE, SAMPLES)
    assert window.seconds[-2:] == pytest.approx((185 * MB, 5 * MB))


def test_burst_repeats_every_twelve_seconds() -> None:
    """As in measured drain E1, at 12, 24 and 36 s: the bound is the mean, 5 MB/s, and the burst alone has passed."""
    none = (0.0,) * SECONDS_KEPT
    burst = QuotaSamples(0, (0.0,) * (SECONDS_KEPT - 1) + (60 * MB,), none, none)
    window = advance(burst, 24_000, 5 * MB, FREE, SAMPLES)
    assert window.seconds[-24:] == pytest.approx(((0.0,) * 11 + (60 * MB,)) * 2)


def test_step_down_passes_nothing_until_window_empties() -> None:
    window = advance(steady_window(0, 20 * MB), 10_000, 5 * MB, FREE, SAMPLES)
    assert window.seconds[-10:] == pytest.approx((*[0.0] * 9, 20 * MB))


def test_link_limits_the_burst_of_a_step_up() -> None:
    window = advance(steady_window(0, 5 * MB), 1_000, 20 * MB, 100 * MB, SAMPLES)
    assert window.seconds[-1] == 100 * MB


@given(RATES, RATES)
def test_rate_for_setpoint_passes_the_setpoint_next_second(held: float, wanted: float) -> None:
    window = steady_window(0, held)
    after = advance(window, 1_000, rate_for_setpoint(window, wanted, SAMPLES), FREE, SAMPLES)
    assert after.seconds[-1] == pytest.approx(wanted, abs=10.0)


def test_bound_exceeds_setpoint_while_window_holds_a_burst() -> None:
    none = (0.0,) * SECONDS_KEPT
    burst = QuotaSamples(0, (0.0,) * (SECONDS_KEPT - 1) + (110 * MB,), none, none)
    assert rate_for_setpoint(burst, 5 * MB, SAMPLES) == pytest.approx(115 * MB / 12)
    quiet = QuotaSamples(0, none, none, none)
    assert rate_for_setpoint(quiet, 5 * MB, SAMPLES) == pytest.approx(5 * MB / 12)


def test_planned_bound_rises_linearly_for_twelve_seconds() -> None:
    """4× up from 5 MB/s: the first bound is 75 ÷ 12, so that 20 MB pass and not 185."""
    window, planned = steady_window(0, 5 * MB), []
    for second in range(1, 13):
        planned.append(rate_for_setpoint(window, 20 * MB, SAMPLES, compensation_range=0.0))
        window = advance(window, second * 1000, planned[-1], FREE, SAMPLES, setpoint_bytes_per_s=20 * MB)
    assert planned == pytest.approx([(5 * (12 - i) + 20 * i) * MB / 12 for i in range(1, 13)])
    assert window.seconds[-12:] == pytest.approx((20 * MB,) * 12)


def test_window_contents_move_bound_within_compensation_range() -> None:
    """The window holds nothing, or twice the setpoint: the model may be wrong, so it may raise the bound only a little."""
    empty, brimming = steady_window(0, 20 * MB, 0.0), steady_window(0, 20 * MB, 40 * MB)
    assert rate_for_setpoint(empty, 20 * MB, SAMPLES, compensation_range=0.1) == pytest.approx(20 * MB)
    assert rate_for_setpoint(brimming, 20 * MB, SAMPLES, compensation_range=0.1) == pytest.approx(22 * MB)
    assert rate_for_setpoint(
        steady_window(0, 20 * MB, 20.5 * MB), 20 * MB, SAMPLES, compensation_range=0.1
    ) == pytest.approx(245.5 * MB / 12)


def test_unused_rate_does_not_lower_the_next_rate() -> None:
    """96 % of the setpoint passes in each second, because a delayed follower asks again half a second later."""
    used = steady_window(0, 20 * MB, 0.96 * 20 * MB)
    assert rate_for_setpoint(used, 20 * MB, SAMPLES, compensation_range=0.07) == pytest.approx(20 * MB)
    burst = steady_window(0, 20 * MB, 1.05 * 20 * MB)
    expected = 20 * MB * (11 * 1.05 + 1) / 12
    assert rate_for_setpoint(burst, 20 * MB, SAMPLES, compensation_range=0.07) == pytest.approx(expected)


@given(st.floats(0.0, 1e9), st.integers(0, 7), st.floats(0.0, 1e8))
def test_unexplained_step_takes_the_measured_sum(passed: float, late_s: int, rate: float) -> None:
    assume(abs(passed - 5 * rate) > 0.251 * 5 * rate)
    window = correct(steady_window(60_000, rate), 60_000 - late_s * 1000, 5.0, passed, FREE, SAMPLES)
    end = SECONDS_KEPT - late_s
    assert sum(window.seconds[end - 5 : end]) == pytest.approx(passed, rel=1e-6, abs=1.0)
    assert len(window.seconds) == SECONDS_KEPT


@given(st.floats(0.76, 1.24), st.integers(0, 7))
def test_step_near_the_model_is_corrected_by_72_percent(passed_ratio: float, late_s: int) -> None:
    """The rest may be a response that straddles the end of the step, or one counted by an earlier step."""
    before = steady_window(60_000, 20 * MB)
    window = correct(before, 60_000 - late_s * 1000, 5.0, passed_ratio * 100 * MB, FREE, SAMPLES)
    end = SECONDS_KEPT - late_s
    believed = sum(window.seconds[end - 5 : end]) - 100 * MB
    assert believed == pytest.approx(0.7203 * (passed_ratio - 1.0) * 100 * MB, rel=0.001, abs=1.0)
    assert len(window.seconds) == SECONDS_KEPT
    assert window.seconds[: end - 11] == before.seconds[: end - 11]


def test_seconds_after_measured_step_are_replayed_with_their_bounds() -> None:
    """The step brought twice the bytes of the model, so nothing can have passed since."""
    window = correct(steady_window(60_000, 10 * MB), 58_000, 5.0, 100 * MB, FREE, SAMPLES)
    assert window.seconds[-2:] == (0.0, 0.0)
    assert window.seconds[-7:-2] == pytest.approx((20 * MB,) * 5)


def test_step_outside_the_window_changes_nothing() -> None:
    window = steady_window(60_000, 10 * MB)
    assert correct(window, 20_000, 5.0, 1.0, FREE, SAMPLES) == window
    assert correct(window, 61_000, 5.0, 1.0, FREE, SAMPLES) == window


def new_to_kafka(bound: float) -> QuotaSamples:
    """Eight seconds under a throttle that was unused before; by the model the first second is a burst of 12 s."""
    return advance(steady_window(0, bound, 0.0), 8_000, bound, FREE, SAMPLES, setpoint_bytes_per_s=0.0)


def test_new_throttle_is_recognised_by_its_first_step() -> None:
    """The first five seconds passed 20 MB each, not 240 MB at once; the same holds for the three since."""
    before = new_to_kafka(20 * MB)
    assert before.seconds[-8:] == pytest.approx((240 * MB, *[0.0] * 7))
    window = correct_first_use(before, 5_000, 5.0, 100 * MB, FREE, SAMPLES)
    assert window.seconds[-14:] == pytest.approx((*[20 * MB] * 14,))
    assert rate_for_setpoint(window, 20 * MB, SAMPLES, compensation_range=0.07) == pytest.approx(20 * MB)


def test_idle_throttle_releases_its_window_in_first_step() -> None:
    before = new_to_kafka(20 * MB)
    window = correct_first_use(before, 5_000, 5.0, 235 * MB, FREE, SAMPLES)
    assert window == correct(before, 5_000, 5.0, 235 * MB, FREE, SAMPLES)
    assert sum(window.seconds[-8:]) == pytest.approx(240 * MB, rel=0.02)


def test_ramp_starts_at_first_step_below_bound() -> None:
    """A disk limits 20 MB/s to 5: the ramp is planned from a window of 5 MB/s."""
    window = correct_first_use(new_to_kafka(20 * MB), 5_000, 5.0, 25 * MB, 5 * MB, SAMPLES)
    assert window.seconds[-11:] == pytest.approx((5 * MB,) * 11)
    assert window.setpoints[-11:] == pytest.approx((5 * MB,) * 11)


def test_first_step_corrects_a_known_window_normally() -> None:
    before = advance(steady_window(0, 20 * MB), 7_000, 20 * MB, FREE, SAMPLES)
    assert correct_first_use(before, 5_000, 5.0, 110 * MB, FREE, SAMPLES) == correct(
        before, 5_000, 5.0, 110 * MB, FREE, SAMPLES
    )
    assert correct_first_use(before, 20_000, 5.0, 1.0, FREE, SAMPLES) == before


def test_bytes_of_new_move_count_as_planned() -> None:
    """Its followers let 30 MB/s through for five seconds, where the throttle stands at 20 and held nothing when we came: its window
    will be full in a moment. 25 MB/s are meant now, so the setting goes up instead of closing for as long as that takes to leave."""
    came = steady_window(0, 20 * MB, 4 * MB)
    before = advance(
        replace(came, setpoints=came.seconds), 6_000, 20 * MB, 4 * MB, SAMPLES, setpoint_bytes_per_s=4 * MB
    )
    step = (5_000, 5.0, 150 * MB, 25 * MB, SAMPLES)
    window = correct_first_use(before, *step, setpoint_bytes_per_s=25 * MB)
    assert window.seconds == correct(before, *step).seconds
    assert window.setpoints[-7:] == pytest.approx((4 * MB, *[25 * MB] * 6)), "and the second since, too"
    opens, closes = (
        rate_for_setpoint(each, 25 * MB, SAMPLES, compensation_range=0.07) for each in (window, correct(before, *step))
    )
    assert opens > 1.5 * closes
