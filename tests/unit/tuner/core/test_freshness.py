"""Stale signals may prevent a decision and never cause one."""

from __future__ import annotations

import pytest
from tuner_cases import NOW_MS, L, broker_signal, move_signal

from tuner.core.freshness import Freshness, age_s, freshness


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (0.0, Freshness.FRESH),
        (2.0, Freshness.FRESH),
        (15.0, Freshness.FRESH),
        (15.001, Freshness.STALE),
        (600.0, Freshness.STALE),
        (-1.0, Freshness.FRESH),  # The collector's clock is a second ahead of ours.
    ],
)
def test_freshness_by_age(age: float, expected: Freshness) -> None:
    assert freshness(move_signal(1, L, age_s=age), NOW_MS, 15.0) is expected
    assert freshness(broker_signal(1, age_s=age), NOW_MS, 15.0) is expected


def test_no_signal_is_missing_and_not_stale() -> None:
    assert freshness(None, NOW_MS, 15.0) is Freshness.MISSING


@pytest.mark.parametrize(("age", "expected"), [(0.0, 0.0), (7.5, 7.5), (-30.0, 0.0)])
def test_age_is_never_negative(age: float, expected: float) -> None:
    assert age_s(broker_signal(1, age_s=age), NOW_MS) == expected


def test_signal_from_far_future_is_not_fresh() -> None:
    assert freshness(move_signal(1, L, age_s=-3600.0), NOW_MS, 15.0) is not Freshness.FRESH
