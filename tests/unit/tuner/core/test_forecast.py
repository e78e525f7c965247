"""Profiles that may be used, and the forecast and its error at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.shared.contract import STEP_S, BrokerProfile, LoadForecast
from tuner.core.forecast import PROFILE_AGE_S_MAX, forecast_at, forecast_error, why_unusable

HOUR_MS = STEP_S * 1000
NOW_MS = 1000 * HOUR_MS
PROFILE = BrokerProfile(
    cluster="test",
    broker=1,
    made_at_ms=NOW_MS,
    start_ms=NOW_MS,
    history_s=86_400.0,
    client_in=LoadForecast(bytes_per_s=(1.0,)),
)


def test_new_profile_with_a_day_of_history_is_usable() -> None:
    assert why_unusable(PROFILE, NOW_MS) is None
    assert why_unusable(PROFILE, NOW_MS + round(1000 * PROFILE_AGE_S_MAX)) is None


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (None, "has no profile"),
        (replace(PROFILE, made_at_ms=NOW_MS - 4 * HOUR_MS), "has a profile that is 4 h old"),
        (replace(PROFILE, made_at_ms=NOW_MS + 4 * HOUR_MS), "has a profile that is dated 4 h in the future"),
        (replace(PROFILE, history_s=7200.0), "has a history of only 2 h"),
        (replace(PROFILE, history_s=-1.0), "has a history of only 0.0 s"),
        (replace(PROFILE, client_in=LoadForecast(bytes_per_s=(None,))), "has a profile without a forecast"),
    ],
)
def test_other_profiles_are_unusable_with_the_reason(profile: BrokerProfile | None, reason: str) -> None:
    assert why_unusable(profile, NOW_MS) == reason


@pytest.mark.parametrize(
    ("values", "hour", "expected"),
    [
        ((1.0, 2.0, 3.0), 1.5, 2.0),
        ((1.0, 2.0, 3.0), -5.0, 1.0),  # Before the first step.
        ((1.0, None, 3.0), 1.0, 1.0),  # A hole.
        ((None, None, 3.0), 0.0, 3.0),  # A hole at the begin.
        ((1.0, 2.0, 3.0), 99.0, 3.0),  # After a forecast of less than a day.
        (tuple(map(float, range(48))), 48.0, 24.0),  # After its end, the last day repeats.
        (tuple(map(float, range(48))), 97.0, 25.0),
        ((), 0.0, None),
        ((None,), 0.0, None),
    ],
)
def test_forecast_at_fills_holes_and_repeats_days(
    values: tuple[float | None, ...], hour: float, expected: float | None
) -> None:
    assert forecast_at(LoadForecast(bytes_per_s=values), NOW_MS, NOW_MS + round(hour * HOUR_MS)) == expected


@pytest.mark.parametrize(
    ("errors", "hours", "expected"),
    [
        ((1.0, 4.0, 12.0, 24.0, 168.0), 0.5, 1.0),
        ((1.0, 4.0, 12.0, 24.0, 168.0), 5.0, 12.0),
        ((1.0, 4.0, 12.0, 24.0, 168.0), 999.0, 168.0),
        ((1.0, None, 12.0), 3.0, 12.0),
        ((1.0, None, None), 3.0, 1.0),
        ((), 3.0, None),
    ],
)
def test_forecast_error_is_that_of_the_longer_horizon(
    errors: tuple[float | None, ...], hours: float, expected: float | None
) -> None:
    assert forecast_error(LoadForecast(error_bytes_per_s=errors), hours * 3600) == expected
