"""The plot of the quota window: a burst and its echo after one write, none after 22 steps, and a mean that keeps the throttle."""

from __future__ import annotations

import pytest

from benchmarks.bursts.methods import HIGH, LOW, MB, in_one_step, linear
from docs_build.quota_window_plot import draw_quota_window_plot, passed_by_second, rate_by_second, window_means


def test_plot_is_deterministic_and_names_its_lines() -> None:
    picture = draw_quota_window_plot()
    assert picture == draw_quota_window_plot()
    for label in ("copied", "mean of 11 s", "throttle", "One write", "22 steps of 0.5 s", "time since the first byte"):
        assert f">{label}</text>" in picture


def test_recordings_show_what_the_caption_says() -> None:
    step, ramp = passed_by_second("step"), passed_by_second("ramp_22")
    assert max(step[25:28]) > 3 * HIGH, "the burst"
    assert max(step[36:40]) > 3 * HIGH, "its echo, 11 s later"
    assert sum(step[51:59]) < 1 * MB, "eight seconds of silence after the step down"
    assert max(ramp) < 2 * HIGH
    assert max(window_means(step)[10:]) <= 1.04 * HIGH
    assert max(window_means(ramp)[10:]) <= 1.04 * HIGH


def test_rate_by_second_follows_the_writes() -> None:
    step = rate_by_second(in_one_step)
    assert (step[0], step[24], step[25], step[49], step[50]) == (LOW, LOW, HIGH, HIGH, LOW)
    ramp = rate_by_second(linear(22, 0.5))
    assert ramp[25] == pytest.approx(LOW + (HIGH - LOW) / 22)
    assert ramp[36] == pytest.approx(HIGH)
