"""The Kalman gain tells uneven seconds, which return every twelve seconds, from real steps of five seconds."""

from __future__ import annotations

import pytest

from tuner.control.throttle.quota_window.kalman_gain import kalman_gains
from tuner.control.throttle.quota_window.model import advance, correct, steady_window
from tuner.core.throttle_limits import MB

SAMPLES = 11
FREE = float("inf")


def test_echo_attributes_most_of_a_difference_to_the_step() -> None:
    assert kalman_gains(SAMPLES, 5) == pytest.approx(
        (-0.131, 0.158, -0.074, 0.122, -0.087, -0.231, 0.256, -0.090, 0.123, -0.073, 0.504), abs=0.001
    )
    assert sum(kalman_gains(SAMPLES, 5)[-5:]) == pytest.approx(0.720, abs=0.001)


def test_step_longer_than_window_is_shared_over_its_seconds() -> None:
    assert len(kalman_gains(3, 5)) == 5
    assert len(kalman_gains(SAMPLES, 15)) == 15
    assert sum(kalman_gains(3, 5)) == pytest.approx(0.70, abs=0.01)


def test_step_as_long_as_echo_reveals_little() -> None:
    """Twelve of them bring what the bound says, however they share it."""
    assert kalman_gains(SAMPLES, 12) == pytest.approx((0.0,) * 11 + (0.2,), abs=0.001)


def test_twelve_second_pattern_is_learned_after_some_steps() -> None:
    """20 MB/s in the mean, and 10 MB more or less in every third second, which hardly changes the sum of five."""
    pattern = [20 * MB + 10 * MB * (-1, 0, 1)[i % 3] for i in range(12)]
    window = steady_window(0, 20 * MB)
    for second in range(1, 241):
        window = advance(window, second * 1000, 20 * MB, FREE, SAMPLES)
        at_s = second - 3  # A step is told of three seconds late.
        if at_s > 0 and at_s % 5 == 0:
            passed = sum(pattern[i % 12] for i in range(at_s - 5, at_s))
            window = correct(window, at_s * 1000, 5.0, passed, FREE, SAMPLES)
    assert window.seconds[-12:] == pytest.approx([pattern[i % 12] for i in range(228, 240)], abs=1 * MB)
