"""The expected time of a running move follows the forecast of clients, of replication and of the limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tuner_cases import move_signal

from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LoadForecast, MoveSignal, Side
from tuner.core.link_limit import LinkSource
from tuner.core.side_load import PlannedPartition
from tuner.planning.copy_forecast import CopyLimits, KnownCapacity, LimitPeriod
from tuner.planning.copy_rates import forecast_rates
from tuner.planning.eta_forecast import eta_ratio
from tuner.planning.side_forecast import SideForecast

MB = 1e6
HOUR_MS = STEP_S * 1000
NOW_MS = 1_764_000_000_000 - 1_764_000_000_000 % HOUR_MS
CAPACITY = KnownCapacity(100 * MB, LinkSource.LEARNED)
CEILING_50 = CopyLimits((LimitPeriod(NOW_MS, 50 * MB),), rate_bytes_per_s_min=1 * MB)


def profile(*hours_mb: float | None, replication_mb: float = 0.0) -> BrokerProfile:
    """Clients and replication by hour from now on; the last value stays."""
    load = LoadForecast(
        bytes_per_s=tuple(
            None if value is None else value * MB for value in (*hours_mb, *hours_mb[-1:] * (STEPS_MAX - len(hours_mb)))
        )
    )
    steady = LoadForecast(bytes_per_s=(replication_mb * MB,) * STEPS_MAX)
    return BrokerProfile(
        "c", 1, NOW_MS, NOW_MS, 1e6, client_in=load, client_out=load, steady_in=steady, steady_out=steady
    )


def follower(hours: float, rate_mb: float, steady_state_mb: float = 0.0) -> MoveSignal:
    """A move that takes ``hours`` at its current rate."""
    rate = rate_mb * MB
    return move_signal(1, Side.FOLLOWER, remaining=hours * 3600 * rate, slope=-rate, steady_state=steady_state_mb * MB)


def ratio_of(
    signal: MoveSignal, loads: BrokerProfile | None, capacity: KnownCapacity | None, limits: CopyLimits
) -> float:
    steady_state = signal.steady_state_bytes_per_s or 0.0
    return eta_ratio(signal, SideForecast(signal.side, steady_state, loads, capacity, limits, NOW_MS), NOW_MS)


@pytest.mark.parametrize(
    ("hours", "ratio"),
    [
        (0.5, 1.0),  # It ends within this hour.
        (2.0, 0.75),  # One hour at 20 MB/s, and the rest at 40.
        (9.0, 5.0 / 9.0),
    ],
)
def test_fewer_clients_later_shorten_the_move(hours: float, ratio: float) -> None:
    found = ratio_of(follower(hours, 20.0), profile(80.0, 60.0), CAPACITY, CEILING_50)
    assert found == pytest.approx(ratio)


def test_more_clients_later_lengthen_the_move() -> None:
    found = ratio_of(follower(2.0, 40.0), profile(60.0, 80.0), CAPACITY, CEILING_50)
    assert found == pytest.approx(1.5)


def test_forecast_scales_the_current_rate() -> None:
    """The forecast expects 20 MB/s now; the move makes 16 MB/s, and so 32 MB/s instead of 40 in the next hour."""
    found = ratio_of(follower(2.0, 16.0), profile(80.0, 60.0), CAPACITY, CEILING_50)
    assert found == pytest.approx(0.75)


def test_move_below_its_throttle_does_not_speed_up() -> None:
    """A disk limits the move to 5 MB/s although 20 MB/s are free: later only fewer than 5 MB/s make a difference."""
    slow = follower(2.0, 5.0)
    assert ratio_of(slow, profile(80.0, 60.0), CAPACITY, CEILING_50) == 1.0
    assert ratio_of(slow, profile(80.0, 97.5), CAPACITY, CEILING_50) == pytest.approx(1.5)


def test_ceiling_limits_later_hours() -> None:
    found = ratio_of(follower(2.0, 40.0), profile(60.0, 0.0), CAPACITY, CEILING_50)
    assert found == pytest.approx((1.0 + 40.0 / 50.0) / 2.0)


def test_schedule_changes_the_ceiling_within_an_hour() -> None:
    """After half an hour the ceiling doubles. No capacity is known, so nothing else limits the move."""
    limits = CopyLimits((LimitPeriod(NOW_MS, 10 * MB), LimitPeriod(NOW_MS + HOUR_MS // 2, 20 * MB)))
    found = ratio_of(follower(1.5, 10.0), None, None, limits)
    assert found == pytest.approx((0.5 + 0.5) / 1.5)


def test_steady_state_replication_takes_its_part() -> None:
    """Of the ceiling of 50 MB/s, W takes 10 now. It follows the forecast of replication."""
    limits = CopyLimits((LimitPeriod(NOW_MS, 50 * MB),))
    changing = replace(profile(0.0), steady_in=LoadForecast(bytes_per_s=(20 * MB, *(60 * MB,) * (STEPS_MAX - 1))))
    found = ratio_of(follower(2.0, 40.0, steady_state_mb=10.0), changing, None, limits)
    assert found == pytest.approx(1.5)


def test_leader_side_reads_what_clients_receive() -> None:
    quiet_in = replace(profile(80.0, 60.0), client_in=LoadForecast(bytes_per_s=(0.0,) * STEPS_MAX))
    leader = replace(follower(2.0, 20.0), side=Side.LEADER)
    assert ratio_of(leader, quiet_in, CAPACITY, CEILING_50) == pytest.approx(0.75)
    assert ratio_of(follower(2.0, 20.0), quiet_in, CAPACITY, CEILING_50) == 1.0


def test_minimum_rate_applies_if_clients_leave_nothing() -> None:
    limits = CopyLimits((LimitPeriod(NOW_MS, 50 * MB),), rate_bytes_per_s_min=10 * MB)
    found = ratio_of(follower(2.0, 20.0), profile(80.0, 100.0), CAPACITY, limits)
    assert found == pytest.approx(1.5)


def test_absurd_forecast_changes_the_rate_by_a_bounded_factor() -> None:
    """A forged profile can slow a move down to a hundredth, and speed it up to the ceiling."""
    unlimited = CopyLimits((LimitPeriod(NOW_MS, float("inf")),))
    huge = KnownCapacity(1e300, LinkSource.LEARNED)
    slower = ratio_of(follower(2.0, 20.0), profile(80.0, 1e300), CAPACITY, unlimited)
    assert slower == pytest.approx((1.0 + 100.0) / 2.0)
    assert 0.5 < ratio_of(follower(2.0, 20.0), profile(1e299, 0.0), huge, unlimited) <= 1.0


def test_move_of_months_keeps_its_current_rate_after_a_week() -> None:
    found = ratio_of(follower(24.0 * 70, 20.0), profile(80.0, 60.0), CAPACITY, CEILING_50)
    assert found == pytest.approx((7 * 24 + (24 * 70 - (1 + 2 * (7 * 24 - 1)))) / (24 * 70))


@pytest.mark.parametrize(
    "signal",
    [
        move_signal(1, Side.FOLLOWER, slope=None),
        move_signal(1, Side.FOLLOWER, slope=5.0),
        move_signal(1, Side.FOLLOWER, remaining=None),
        move_signal(1, Side.FOLLOWER, remaining=0.0),
        follower(2.0, 20.0, steady_state_mb=200.0),  # The ceiling is below W.
    ],
    ids=["no_slope", "grows", "no_size", "ended", "ceiling_below_w"],
)
def test_unknown_end_has_no_ratio(signal: MoveSignal) -> None:
    assert ratio_of(signal, profile(80.0, 60.0), CAPACITY, CEILING_50) == 1.0


def test_profile_without_values_changes_nothing() -> None:
    assert ratio_of(follower(5.0, 20.0), profile(None), CAPACITY, CEILING_50) == 1.0


@settings(max_examples=60, deadline=None)
@given(
    clients_mb=st.lists(st.floats(0.0, 120.0), min_size=2, max_size=30),
    ceiling_mb=st.floats(5.0, 200.0),
    hours=st.floats(0.2, 60.0),
)
def test_undisturbed_move_ends_as_the_forecast_of_its_plan(
    clients_mb: list[float], ceiling_mb: float, hours: float
) -> None:
    """A move that copies exactly at the forecast rate of this hour."""
    limits = CopyLimits(
        (LimitPeriod(NOW_MS, ceiling_mb * MB),), rate_bytes_per_s_min=4 * MB, capacities={(1, Side.FOLLOWER): CAPACITY}
    )
    loads = {1: profile(*clients_mb)}
    copied = PlannedPartition("t", 0, 9, frozenset({9}), 0.0, {1: 1.0})
    rates = forecast_rates([copied], loads, limits, NOW_MS, NOW_MS + 14 * 24 * HOUR_MS)
    row = rates.sides.index((1, Side.FOLLOWER))
    now_rate = float(rates.rates[row, 0])
    remaining = hours * 3600 * now_rate
    expected_ms = rates.ends_ms(
        np.where(np.arange(len(rates.sides)) == row, remaining, 0.0), NOW_MS, int(rates.times_ms[-1])
    )[row]
    assume(expected_ms is not None and expected_ms - NOW_MS < 7 * 24 * HOUR_MS)
    signal = move_signal(1, Side.FOLLOWER, remaining=remaining, slope=-now_rate, steady_state=0.0)
    ratio = ratio_of(signal, loads[1], CAPACITY, limits)
    assert ratio * hours == pytest.approx((expected_ms - NOW_MS) / HOUR_MS, rel=1e-3, abs=1e-3)
