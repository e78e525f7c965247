"""The quietest hours of the next day, from forecasts."""

from __future__ import annotations

from dataclasses import replace

from week_cases import HOUR_MS, MB, broker_profile

from streaming.shared.contract import LoadForecast
from tuner.planning.quiet_hours import find_quiet_hours

MIDNIGHT_MS = 1_700_006_400_000  # 2023-11-15 00:00:00 UTC; the load is highest six hours later, and lowest at 18:00.


def test_quiet_hours_begin_two_hours_before_the_lowest_load() -> None:
    profiles = [broker_profile("lab", broker, MIDNIGHT_MS) for broker in (1, 2)]
    quiet = find_quiet_hours(profiles, MIDNIGHT_MS + 1)
    assert quiet is not None
    assert (quiet.start_ms - MIDNIGHT_MS) / HOUR_MS in (16, 17)
    assert 90 * MB < quiet.client_bytes_per_s < 1.05 * 95 * MB  # Two brokers with 90 MB/s, near half of it.
    assert not quiet.is_now
    assert quiet.client_bytes_per_s_max > 2.5 * quiet.client_bytes_per_s


def test_constant_load_is_quiet_now() -> None:
    flat = LoadForecast(bytes_per_s=(5 * MB,) * 48)
    profile = replace(broker_profile("lab", 1, MIDNIGHT_MS), client_in=flat, client_out=LoadForecast())
    quiet = find_quiet_hours([profile], MIDNIGHT_MS + 1)
    assert quiet is not None
    assert (quiet.start_ms, quiet.client_bytes_per_s, quiet.is_now) == (MIDNIGHT_MS + 1, 5 * MB, True)


def test_profiles_without_forecast_know_no_quiet_hours() -> None:
    empty = replace(broker_profile("lab", 1, MIDNIGHT_MS), client_in=LoadForecast(), client_out=LoadForecast())
    assert find_quiet_hours([empty], MIDNIGHT_MS) is None
    assert find_quiet_hours([], MIDNIGHT_MS) is None
