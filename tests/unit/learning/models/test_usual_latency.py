from __future__ import annotations

import numpy as np
import pytest

from learning.models.periods import Floats
from learning.models.usual_latency import UsualLatency

WEEK_H = 168


def one(value: float) -> Floats:
    return np.array([value], dtype=np.float32)


def learned(hours: int, p99_ms: float = 10.0, by_night_ms: float = 5.0, weekend: float = 1.0) -> UsualLatency:
    latency = UsualLatency()
    latency.widen(1)
    for hour in range(hours):
        value = by_night_ms if hour % 24 < 6 else p99_ms
        latency.learn(hour, one(value * (weekend if hour % WEEK_H >= 120 else 1.0)))
    return latency


def test_first_hours_give_a_baseline_for_all_hours() -> None:
    assert learned(1).p99_ms(1)[0] == pytest.approx(5.0)
    assert np.isnan(learned(0).p99_ms(0)[0])


def test_two_days_give_a_baseline_by_hour_of_the_day() -> None:
    latency = learned(48)
    assert latency.p99_ms(48 + 3)[0] == pytest.approx(5.0)
    assert latency.p99_ms(48 + 12)[0] == pytest.approx(10.0)


def test_two_weeks_give_a_baseline_by_hour_of_the_week() -> None:
    latency = learned(2 * WEEK_H, weekend=0.5)
    assert latency.p99_ms(2 * WEEK_H + 12)[0] == pytest.approx(10.0)
    assert latency.p99_ms(2 * WEEK_H + 5 * 24 + 12)[0] == pytest.approx(5.0)


def test_single_long_pause_changes_the_baseline_little() -> None:
    latency = learned(8 * 24)
    latency.learn(8 * 24 + 12, one(1_000.0))
    assert latency.p99_ms(9 * 24 + 12)[0] < 20.0


def test_unknown_hours_change_nothing() -> None:
    latency = learned(48)
    for hour in range(48, 72):
        latency.learn(hour, one(np.nan))
    assert latency.p99_ms(72 + 12)[0] == pytest.approx(10.0)


def test_changed_broker_begins_again_with_its_new_level() -> None:
    latency = learned(48)
    latency.begin_again(0, 30.0)
    assert latency.p99_ms(48 + 12)[0] == pytest.approx(30.0)
    for hour in range(48, 48 + 48):
        latency.learn(hour, one(20.0 if hour % 24 < 12 else 40.0))
    assert latency.p99_ms(96 + 12)[0] == pytest.approx(40.0)
