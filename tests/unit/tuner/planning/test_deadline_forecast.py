"""The rate of mode ``deadline`` makes up for hours in which the forecast leaves less room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LoadForecast, Side
from tuner.core.drain_time import SideLoad
from tuner.core.link_limit import LinkSource
from tuner.core.side_load import PlannedPartition
from tuner.planning.copy_forecast import CopyLimits, KnownCapacity, LimitPeriod
from tuner.planning.copy_rates import forecast_rates
from tuner.planning.deadline_forecast import deadline_time_ratio, lowest_copy_rate
from tuner.planning.side_forecast import SideForecast, SurplusPeriod

MB = 1e6
HOUR_MS = STEP_S * 1000
NOW_MS = 1_764_000_000_000 - 1_764_000_000_000 % HOUR_MS
CAPACITY = KnownCapacity(100 * MB, LinkSource.LEARNED)
SIDE = (1, Side.FOLLOWER)


def profile(*hours_mb: float) -> BrokerProfile:
    """Clients by hour from now on; the last value stays."""
    load = LoadForecast(
        bytes_per_s=tuple(value * MB for value in (*hours_mb, *hours_mb[-1:] * (STEPS_MAX - len(hours_mb))))
    )
    return BrokerProfile("c", 1, NOW_MS, NOW_MS, 1e6, client_in=load, client_out=load)


def limits(ceiling_mb: float = 50.0, *later: LimitPeriod) -> CopyLimits:
    return CopyLimits((LimitPeriod(NOW_MS, ceiling_mb * MB), *later), 1 * MB, {SIDE: CAPACITY})


def forecast(loads: BrokerProfile | None, under: CopyLimits, steady_state_mb: float = 0.0) -> SideForecast:
    return SideForecast(Side.FOLLOWER, steady_state_mb * MB, loads, CAPACITY, under, NOW_MS)


def ratio(gb: float, hours: float, of: SideForecast) -> float:
    return deadline_time_ratio(SideLoad(gb * 1e9, 0.0), of, NOW_MS, hours * 3600)


def test_equal_hours_change_nothing() -> None:
    assert ratio(10.0, 6.0, forecast(profile(80.0), limits())) == pytest.approx(1.0)


def test_more_room_later_does_not_slow_the_side_down() -> None:
    assert ratio(72.0, 4.0, forecast(profile(80.0, 50.0), limits())) == pytest.approx(1.0)


def test_busy_hours_later_speed_the_side_up() -> None:
    """72 GB in 4 hours are 5 MB/s. The last two hours leave 2 MB/s, so the first two need 8."""
    assert ratio(0.072e3, 4.0, forecast(profile(60.0, 60.0, 98.0), limits())) == pytest.approx(5.0 / 8.0)


def test_too_little_room_allows_all_of_it() -> None:
    assert ratio(400.0, 2.0, forecast(profile(60.0, 98.0), limits())) == 0.0


def test_schedule_without_profile_counts() -> None:
    """A rule lowers the ceiling to 4 MB/s after an hour: of 6 MB/s on average, the first hour has to copy 10."""
    later = LimitPeriod(NOW_MS + HOUR_MS, 4 * MB)
    found = deadline_time_ratio(
        SideLoad(3 * 3600 * 6 * MB, 0.0), forecast(None, limits(50.0, later)), NOW_MS, 3 * 3600.0
    )
    assert found == pytest.approx(6.0 / 10.0)


def test_deadline_after_the_forecast_leaves_half_to_the_second_week() -> None:
    """In two weeks 3 MB/s are needed. Half of the first week leaves 2 MB/s, so the other half needs 4."""
    of = forecast(profile(*(98.0,) * 84, 80.0), limits())
    assert ratio(3 * 14 * 24 * 3.6, 14 * 24.0, of) == pytest.approx(3.0 / 4.0)


@pytest.mark.parametrize(("gb", "hours"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 1e-8)])
def test_nothing_to_copy_or_no_time_changes_nothing(gb: float, hours: float) -> None:
    assert ratio(gb, hours, forecast(profile(60.0, 98.0), limits())) == 1.0


def test_ceiling_below_steady_state_copies_nothing() -> None:
    periods = [SurplusPeriod(0, 1000, -5.0), SurplusPeriod(1000, 2000, 10.0)]
    assert lowest_copy_rate(periods, 8.0) == 8.0
    assert lowest_copy_rate(periods, 11.0) is None


HOURS = st.lists(st.floats(0.0, 120.0), min_size=2, max_size=30)


@settings(max_examples=80, deadline=None)
@given(clients_mb=HOURS, hours=st.floats(0.5, 40.0), gb=st.floats(1.0, 2_000.0), steady_state_mb=st.floats(0.0, 3.0))
def test_lowest_rate_ends_at_the_deadline_by_the_estimate_of_a_plan(
    clients_mb: list[float], hours: float, gb: float, steady_state_mb: float
) -> None:
    """The throttle W + r is the lowest one with which ``plan estimate`` forecasts an end in time."""
    loads, load = profile(*clients_mb), SideLoad(gb * 1e9, steady_state_mb * MB)
    found = deadline_time_ratio(load, forecast(loads, limits(), steady_state_mb), NOW_MS, hours * 3600)
    assert 0.0 <= found <= 1.0
    # The partition is led elsewhere, and that broker's load stays, so W stays.
    copied = PlannedPartition("t", 0, 9, frozenset({9}), load.steady_state_bytes_per_s, {1: load.remaining_bytes})

    def end_h(throttle_bytes_per_s: float) -> float:
        capped = replace(limits(), periods=(LimitPeriod(NOW_MS, throttle_bytes_per_s),))
        rates = forecast_rates([copied], {1: loads}, capped, NOW_MS, NOW_MS + 7 * 24 * HOUR_MS)
        remaining = np.where([side == SIDE for side in rates.sides], load.remaining_bytes, 0.0)
        end_ms = rates.ends_ms(remaining, NOW_MS, NOW_MS + 7 * 24 * HOUR_MS)[rates.sides.index(SIDE)]
        return float("inf") if end_ms is None else (end_ms - NOW_MS) / HOUR_MS

    if found == 0.0:
        assert end_h(50 * MB) >= 0.999 * hours
        return
    needed = load.remaining_bytes / (found * hours * 3600)
    assume(needed > 0.01 * MB)
    assert end_h(load.steady_state_bytes_per_s + needed * 1.0001) <= hours * 1.001
    assert end_h(load.steady_state_bytes_per_s + needed * 0.99) >= hours * 0.999


@settings(max_examples=80, deadline=None)
@given(clients_mb=HOURS, gb=st.floats(1.0, 2_000.0), hours=st.tuples(st.floats(0.5, 60.0), st.floats(0.5, 60.0)))
def test_later_deadline_never_needs_a_higher_rate(
    clients_mb: list[float], gb: float, hours: tuple[float, float]
) -> None:
    of = forecast(profile(*clients_mb), limits())
    rates = [
        float("inf") if found == 0.0 else gb / (found * left_h)
        for left_h in sorted(hours)
        for found in [ratio(gb, left_h, of)]
    ]
    assert rates[1] <= rates[0] * (1 + 1e-9)


@settings(max_examples=80, deadline=None)
@given(room_mb=st.lists(st.floats(2.0, 50.0), min_size=3, max_size=12), share=st.floats(0.1, 0.95))
def test_side_that_follows_the_ratio_ends_in_time(room_mb: list[float], share: float) -> None:
    """A move that is computed again every ten minutes, while each hour leaves what was forecast."""
    loads = profile(*(100.0 - room for room in room_mb))
    hours = len(room_mb)
    left_bytes = share * sum(room_mb) * MB * 3600
    for step in range(6 * hours):
        now_ms, left_s = NOW_MS + step * 600_000, 600.0 * (6 * hours - step)
        of = SideForecast(Side.FOLLOWER, 0.0, loads, CAPACITY, limits(), now_ms)
        found = deadline_time_ratio(SideLoad(left_bytes, 0.0), of, now_ms, left_s)
        needed = float("inf") if found == 0.0 else left_bytes / (found * left_s)
        left_bytes -= 600.0 * min(needed, room_mb[step // 6] * MB)
        if left_bytes <= 1.0:
            return
    assert left_bytes <= 1e-6 * share * sum(room_mb) * MB * 3600
