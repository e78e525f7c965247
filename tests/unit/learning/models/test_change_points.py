from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from learning.models.change_points import ChangeWatch, FoundChange


def watched(hours: int, value: Callable[[int], float], noise: float = 0.1) -> list[tuple[int, FoundChange]]:
    """Returns what was found, with the hour in which it was found."""
    draw = random.Random(5)
    watch = ChangeWatch(negligible=1.0)
    found = [(hour, watch.learn(hour, value(hour) * math.exp(draw.gauss(0, noise)))) for hour in range(hours)]
    return [(hour, finding) for hour, finding in found if finding is not None]


def daily(hour: int) -> float:
    return 20.0 + 12.0 * math.sin(2 * math.pi * hour / 24)


def test_lasting_change_is_found_within_two_days() -> None:
    changes = [(at, f) for at, f in watched(400, lambda h: daily(h) * (2 if h >= 300 else 1)) if not f.is_unusual]
    [(at, change)] = changes
    assert 300 < at < 348
    assert change.since_hour == pytest.approx(300, abs=12)
    assert change.after / change.before == pytest.approx(2, rel=0.3)


def test_lasting_fall_is_found() -> None:
    [(at, change)] = watched(400, lambda h: daily(h) / (3 if h >= 300 else 1))
    assert 300 < at < 348
    assert change.after < 0.5 * change.before


def test_daily_shape_is_no_change() -> None:
    assert watched(35 * 24, daily) == []


def test_change_of_a_negligible_value_is_none() -> None:
    assert watched(400, lambda h: 0.05 if h >= 300 else 0.001) == []


def test_short_peak_is_unusual_and_no_change() -> None:
    [(at, peak)] = watched(400, lambda h: daily(h) * (6 if h in (300, 301) else 1))
    assert (at, peak.is_unusual, peak.since_hour) == (300, True, 300)
    assert peak.after > 4 * peak.before


def test_first_days_find_nothing() -> None:
    assert watched(48, lambda h: 1.0 if h < 24 else 100.0) == []


def test_second_change_is_found_as_well() -> None:
    levels = [1.0] * 200 + [3.0] * 200 + [1.0] * 200
    assert len([f for _, f in watched(600, lambda h: 10 * levels[h]) if not f.is_unusual]) == 2


def test_holes_change_nothing() -> None:
    assert watched(600, lambda h: math.nan if h % 7 < 3 else daily(h)) == []
