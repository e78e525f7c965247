from __future__ import annotations

import numpy as np

from learning.models.periods import Floats
from learning.models.proven_capacity import ProvenCapacity


def one(value: float) -> Floats:
    return np.array([value], dtype=np.float32)


def capacity_of(*rates: tuple[int, float, float]) -> ProvenCapacity:
    """Learns (hour, bytes/s, p99 in ms) with a baseline of 20 ms."""
    capacity = ProvenCapacity()
    capacity.widen(1)
    for hour, rate, p99_ms in rates:
        capacity.learn(hour, one(rate), one(p99_ms), one(20.0))
    return capacity


def test_largest_rate_with_latency_in_order_counts() -> None:
    capacity = capacity_of((5, 50e6, 25.0), (6, 80e6, 31.0), (7, 60e6, 29.0), (8, 55e6, 20.0))
    assert capacity.at(9, 0) == (60e6, 7)


def test_rate_without_latency_or_baseline_does_not_count() -> None:
    capacity = capacity_of((5, 50e6, np.nan))
    capacity.learn(6, one(60e6), one(20.0), one(np.nan))
    assert capacity.at(7, 0) is None


def test_short_latency_may_rise_by_some_milliseconds() -> None:
    capacity = ProvenCapacity()
    capacity.widen(1)
    capacity.learn(1, one(50e6), one(5.9), one(1.0))
    assert capacity.at(2, 0) == (50e6, 1)
    capacity.learn(2, one(60e6), one(6.1), one(1.0))
    assert capacity.at(2, 0) == (50e6, 1)


def test_old_figure_gives_way_to_a_newer_one_in_time() -> None:
    day = 24
    capacity = capacity_of((0, 100e6, 20.0), (13 * day, 60e6, 20.0))
    assert capacity.at(13 * day + 1, 0) == (100e6, 0)
    assert capacity.at(30 * day, 0) == (60e6, 13 * day)


def test_figure_is_forgotten_after_five_weeks() -> None:
    capacity = capacity_of((0, 100e6, 20.0))
    assert capacity.at(34 * 24, 0) is not None
    assert capacity.at(36 * 24, 0) is None


def test_changed_broker_has_no_capacity() -> None:
    capacity = capacity_of((5, 50e6, 20.0))
    capacity.forget(0)
    assert capacity.at(6, 0) is None
