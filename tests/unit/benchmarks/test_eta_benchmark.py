"""The back-test of estimated ends: true times, errors, and the interval."""

from __future__ import annotations

import itertools
import math

import pytest

from benchmarks.eta import _Left, measure
from benchmarks.forecasts.traces import HISTORY_PERIOD_S, LoadTrace

MB = 1e6


def test_true_time_is_the_inverse_of_what_passes() -> None:
    left = _Left([4 * MB, 9 * MB, 0.0, 12 * MB, 5 * MB], 10 * MB)
    for from_s, until_s in itertools.combinations((0.0, 100.0, 600.0, 1_500.0, 2_500.0), 2):
        passed = left.bytes_between(from_s, until_s)
        # In the fourth period, from 1,800 s on, clients leave nothing.
        assert left.time_s(from_s, passed) == pytest.approx(until_s - from_s)
    assert left.bytes_between(0.0, 600.0) == 600 * 6 * MB
    assert left.bytes_between(1_800.0, 2_400.0) == 0.0
    assert math.isinf(left.time_s(0.0, 1e18))


def test_repeated_day_is_forecast_and_the_load_of_now_is_not() -> None:
    day = [30 * MB if 8 <= hour < 20 else 5 * MB for hour in range(24) for _ in range(3600 // HISTORY_PERIOD_S)]
    figures = measure([LoadTrace("day", HISTORY_PERIOD_S, tuple(day * 12))])["all"]
    assert figures["moves"] >= 10
    assert figures["error_median"] < 0.02
    assert figures["error_as_now_median"] > 0.2
    assert figures["shortest_ratio"] <= figures["best_start_ratio"] < 0.8
