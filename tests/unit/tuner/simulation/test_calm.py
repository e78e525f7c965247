"""The measures of calm on series whose figures are computed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tuner.simulation.calm import (
    Silence,
    ThrottleSeries,
    burst_ratio_max,
    rate_variation_per_min,
    undershoot_ratio,
    writes_per_broker_min,
)

NONE = math.inf


def series(
    rates: Sequence[Sequence[float]],
    passed: Sequence[Sequence[float]] | None = None,
    work: Sequence[Sequence[bool]] | None = None,
    step_s: Sequence[float] | None = None,
) -> ThrottleSeries:
    """Returns a series in MB/s, with a row for each interval; without more, all that is allowed passes in seconds with work."""
    rate = np.array(rates, dtype=np.float64) * 1e6
    return ThrottleSeries(
        step_s=np.ones(len(rate)) if step_s is None else np.array(step_s),
        rate_bytes_per_s=rate,
        passed_bytes_per_s=rate.copy() if passed is None else np.array(passed, dtype=np.float64) * 1e6,
        has_work=np.ones(rate.shape, dtype=np.bool_) if work is None else np.array(work),
    )


def column(values: Sequence[float]) -> list[list[float]]:
    return [[value] for value in values]


# -- variation of a rate beyond its trend ------------------------------------------------------------------------------


def test_constant_rate_and_steady_ramp_do_not_vary() -> None:
    assert rate_variation_per_min(series(column([50.0] * 60))) == 0.0
    assert rate_variation_per_min(series(column([float(mb) for mb in range(10, 70)]))) == 0.0
    assert rate_variation_per_min(series(column([float(mb) for mb in range(70, 10, -1)]))) == 0.0


def test_variation_is_what_is_undone_relative_to_mean_and_minutes() -> None:
    """10, 20, 10, 20 MB/s: 30 of changes less 10 of net change, ÷ a mean of 15, ÷ 4 s."""
    assert rate_variation_per_min(series(column([10.0, 20.0, 10.0, 20.0]))) == pytest.approx(20 / 15 / (4 / 60))


def test_three_percent_back_and_forth_each_second_is_a_rate_of_two_a_minute() -> None:
    rates = [100.0 + 3.0 * (second % 2) for second in range(600)]
    # 59 or 60 changes of 3 a minute, less a net change of 0 or 3, ÷ 101.5.
    assert rate_variation_per_min(series(column(rates))) == pytest.approx(60 * 3 / 101.5, rel=0.03)


def test_step_that_stays_for_minutes_is_a_trend() -> None:
    rates = [100.0] * 90 + [50.0] * 120 + [100.0] * 90
    assert rate_variation_per_min(series(column(rates))) == 0.0
    # The same step for 20 s within one minute costs its way down and up: 100 ÷ a mean of 96.7, ÷ 5 minutes.
    short = [100.0] * 90 + [50.0] * 20 + [100.0] * 190
    assert rate_variation_per_min(series(column(short))) == pytest.approx(100 / (290 / 3) / 5)


def test_variation_of_throttles_is_weighted_by_time_with_work() -> None:
    still = [[10.0, 20.0], [10.0, 10.0], [10.0, 20.0], [10.0, 20.0]]
    work = [[True, True], [True, True], [True, True], [True, False]]
    # The second one: 20 less 0, ÷ a mean of 16.7; together they work for 7 s.
    assert rate_variation_per_min(series(still, work=work)) == pytest.approx(20 / (50 / 3) / (7 / 60))


def test_change_across_a_time_without_work_or_throttle_is_not_counted() -> None:
    work = column([True, True, False, True, True])
    assert rate_variation_per_min(series(column([10.0, 10.0, 90.0, 40.0, 40.0]), work=work)) == 0.0
    assert rate_variation_per_min(series(column([10.0, 10.0, NONE, 40.0, 40.0]))) == 0.0


def test_variation_uses_the_length_of_intervals() -> None:
    """10 MB/s for 1 s, 20 for 4 s, 10 for 1 s: 20 of changes, ÷ a mean of 100 ÷ 6, ÷ 6 s."""
    found = rate_variation_per_min(series(column([10.0, 20.0, 10.0]), step_s=[1.0, 4.0, 1.0]))
    assert found == pytest.approx(20 / (100 / 6) / (6 / 60))


def test_run_without_throttle_has_no_figure() -> None:
    free = series(column([NONE] * 5), passed=column([80.0] * 5))
    assert rate_variation_per_min(free) is None
    assert burst_ratio_max(free) is None
    assert undershoot_ratio(free) is None


# -- bytes against their rate ------------------------------------------------------------------------------------------


def test_burst_is_largest_interval_of_any_throttle_with_work() -> None:
    passed = [[5.0, 10.0], [25.0, 70.0], [0.0, 90.0]]
    work = [[True, True], [True, True], [True, False]]
    rates = [[10.0, 20.0]] * 3
    assert burst_ratio_max(series(rates, passed, work)) == pytest.approx(3.5)
    assert burst_ratio_max(series(rates, passed, work), series([[1.0]], [[4.0]])) == pytest.approx(4.0)


def test_undershoot_is_share_of_allowed_bytes_that_did_not_pass() -> None:
    """Seconds 2 to 4 count: 10 and 5 of 10 MB are missing, and what is too much makes up for nothing."""
    passed = column([0.0, 0.0, 5.0, 90.0, 0.0])
    assert undershoot_ratio(series(column([10.0] * 5), passed)) == pytest.approx(15 / 30)


def test_undershoot_weighs_intervals_by_length() -> None:
    found = undershoot_ratio(series(column([10.0] * 4), column([9.0, 10.0, 0.0, 9.0]), step_s=[1.0, 1.0, 3.0, 1.0]))
    assert found == pytest.approx(30 / 40)


def test_undershoot_of_the_kind_that_limits_counts() -> None:
    leaders = series(column([10.0] * 5), column([9.0] * 5))
    followers = series(column([18.0] * 5), column([9.0] * 5))
    assert undershoot_ratio(leaders, followers) == pytest.approx(0.1)
    assert undershoot_ratio(followers, leaders) == pytest.approx(0.1)
    assert undershoot_ratio(followers) == pytest.approx(0.5)


def test_undershoot_ignores_seconds_in_which_work_begins_or_ends() -> None:
    work = column([True, True, True, False, True, True, True])
    passed = column([0.0, 8.0, 0.0, 0.0, 0.0, 6.0, 0.0])
    assert undershoot_ratio(series(column([10.0] * 7), passed, work)) == pytest.approx(6 / 20)


@pytest.mark.parametrize("seconds", [1, 2])
def test_recording_of_one_or_two_intervals_has_no_undershoot(seconds: int) -> None:
    assert undershoot_ratio(series(column([10.0] * seconds))) is None
    assert rate_variation_per_min(series(column([10.0] * seconds))) == 0.0


# -- silence and writes ------------------------------------------------------------------------------------------------


def test_longest_silence_is_unbroken_and_of_one_side() -> None:
    silence = Silence(2)
    for is_silent, step_s in (
        ([True, False], 1.0),
        ([True, True], 0.5),
        ([False, True], 0.5),
        ([True, True], 0.25),
        ([True, False], 1.0),
    ):
        silence.add(np.array(is_silent), step_s)
    assert silence.longest_s == 1.5
    assert Silence(2).longest_s == 0.0


def test_writes_are_per_broker_and_minute() -> None:
    assert writes_per_broker_min(60, 4, 90.0) == pytest.approx(10.0)
    assert writes_per_broker_min(1, 1, 0.0) == pytest.approx(60.0)
