"""Ends and best starts of plans whose clients' load changes by the hour."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LearnedCapacity, LoadForecast, Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import fluid_optimum_s
from tuner.core.link_limit import LinkSource
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.planning.copy_forecast import (
    TOLD_CAPACITY_RATIO,
    BindingLimit,
    CopyLimits,
    KnownCapacity,
    LimitPeriod,
    LoadCase,
    known_capacities,
)
from tuner.planning.copy_rates import forecast_rates
from tuner.planning.start_time import MOVE_S_MAX, MoveForecast, remaining_at

MB = 1e6
HOUR_MS = STEP_S * 1000
NOW_MS = 480_000 * HOUR_MS + 18 * 60_000  # 18 minutes past an hour.
LEADER, FOLLOWER = (1, Side.LEADER), (3, Side.FOLLOWER)
NO_LINK_SPEED: dict[int, float] = {}
CEILING = CopyLimits(periods=[LimitPeriod(0, 50 * MB)])


def partition(
    size_bytes: float = 100e9, write_bytes_per_s: float = 2 * MB, leader: int = 1, target: int = 3
) -> PlannedPartition:
    return PlannedPartition("orders", 0, leader, frozenset({leader, 2}), write_bytes_per_s, {target: size_bytes})


def night_valley(hour: int) -> float:
    """80 MB/s, and 10 MB/s from the fifth to the twelfth hour."""
    return 10 * MB if 5 <= hour % 24 < 13 else 80 * MB


def profile(
    broker: int,
    loads: list[float | None] | None = None,
    errors: tuple[float, ...] = (),
    capacity: float | None = 120 * MB,
) -> BrokerProfile:
    """A profile whose clients read and write the same; the default is the valley."""
    values = tuple(map(night_valley, range(STEPS_MAX)) if loads is None else loads)
    load = LoadForecast(bytes_per_s=values, error_bytes_per_s=errors)
    learned = None if capacity is None else LearnedCapacity(bytes_per_s=capacity, seen_at_ms=NOW_MS)
    return BrokerProfile(
        cluster="test",
        broker=broker,
        made_at_ms=NOW_MS,
        start_ms=NOW_MS - NOW_MS % HOUR_MS,
        history_s=1e6,
        client_in=load,
        client_out=load,
        capacity_in=learned,
        capacity_out=learned,
    )


def forecast(
    partitions: list[PlannedPartition], profiles: list[BrokerProfile] | None = None, limits: CopyLimits = CEILING
) -> MoveForecast:
    by_broker = {} if profiles is None else {p.broker: p for p in profiles}
    learned = known_capacities(side_loads(partitions), {}, by_broker, NO_LINK_SPEED.get)
    return MoveForecast(partitions, by_broker, replace(limits, capacities={**learned, **limits.capacities}), NOW_MS)


# -- a load that stays -------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.builds(
            partition,
            size_bytes=st.floats(1e6, 1e11),
            write_bytes_per_s=st.floats(0, 5e6),
            leader=st.integers(1, 2),
            target=st.integers(3, 5),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 24 * 3600),
)
def test_constant_load_takes_as_long_as_the_estimate(partitions: list[PlannedPartition], later_s: int) -> None:
    start_ms = NOW_MS + 1000 * later_s
    expected_s = fluid_optimum_s(side_loads(partitions).values(), 50 * MB)
    duration_s = forecast(partitions).estimate(start_ms).duration_s
    if expected_s is None or expected_s > MOVE_S_MAX:
        assert duration_s is None
    else:
        assert duration_s == pytest.approx(expected_s, abs=0.002, rel=1e-9)


def test_constant_load_in_profiles_leaves_a_constant_rate() -> None:
    """Learned 120 MB/s − clients 80 MB/s: 40 MB/s, of which the leader's steady state (2 followers × 2 MB/s) is a part."""
    constant = forecast([partition()], [profile(b, [80 * MB] * 200) for b in (1, 3)])
    result = constant.estimate(NOW_MS)
    assert result.duration_s == pytest.approx(100e9 / (40 * MB - 4 * MB))
    assert result.end_low_ms == result.end_ms == result.end_high_ms
    assert result.binding is not None
    assert (result.binding.side, result.binding.period.limit) == (LEADER, BindingLimit.CLIENTS)
    assert constant.best_start_ms() == NOW_MS


def test_unknown_capacity_leaves_only_the_ceiling() -> None:
    result = forecast([partition()], [profile(b, capacity=None) for b in (1, 3)]).estimate(NOW_MS)
    assert result.binding is not None
    assert result.binding.period.limit is BindingLimit.CEILING
    assert result.binding.period.rate_bytes_per_s == 50 * MB


def test_nothing_to_copy_ends_at_its_start() -> None:
    result = forecast([replace(partition(), lacking_bytes={})]).estimate(NOW_MS)
    assert (result.duration_s, result.binding) == (0.0, None)


# -- a load that changes -----------------------------------------------------------------------------------------------------


def test_best_start_is_in_the_night_valley() -> None:
    valley = forecast([partition(500e9, 0.0)], [profile(b) for b in (1, 3)])
    best = valley.estimate(valley.best_start_ms())
    now = valley.estimate(NOW_MS)
    assert best.duration_s is not None
    assert 500e9 / (50 * MB) <= best.duration_s <= 1.05 * 500e9 / (50 * MB)
    hours_later = (best.start_ms - (NOW_MS - NOW_MS % HOUR_MS)) / HOUR_MS
    assert 4.5 <= hours_later <= 5  # The earliest start that is nearly as good as any other.
    assert best.start_ms % (HOUR_MS // 2) == 0
    assert now.end_ms is not None
    assert best.end_ms is not None
    assert now.duration_s is not None
    assert now.duration_s > best.duration_s
    assert now.end_ms <= best.end_ms  # An earlier start never ends later.


def test_starts_that_hardly_differ_begin_at_once() -> None:
    flat = [40 * MB] * 5 + [39.5 * MB] * 195
    assert forecast([partition()], [profile(b, list(flat)) for b in (1, 3)]).best_start_ms() == NOW_MS


def test_binding_period_is_the_busiest_hour_of_the_slowest_broker() -> None:
    loads = [10 * MB] * 200
    loads[2] = 90 * MB
    quiet = profile(3, [10 * MB] * 200)
    result = forecast([partition(800e9, 0.0)], [profile(1, list(loads)), quiet]).estimate(NOW_MS)
    assert result.binding is not None
    assert result.binding.side == LEADER
    assert result.binding.period.from_ms == NOW_MS - NOW_MS % HOUR_MS + 2 * HOUR_MS
    assert result.binding.period.rate_bytes_per_s == 30 * MB


def test_errors_of_forecasts_give_the_interval() -> None:
    errors = (5 * MB, 10 * MB, 15 * MB, 20 * MB, 20 * MB)
    result = forecast([partition(100e9, 0.0)], [profile(b, [80 * MB] * 200, errors) for b in (1, 3)]).estimate(NOW_MS)
    low_ms, end_ms, high_ms = result.end_low_ms, result.end_ms, result.end_high_ms
    assert low_ms is not None
    assert end_ms is not None
    assert high_ms is not None
    assert low_ms < end_ms < high_ms
    # Within the first hour the load is 5 MB/s lower or higher at most, later 10 MB/s.
    assert 100e9 / (50 * MB) <= (low_ms - NOW_MS) / 1000 <= 100e9 / (45 * MB)
    assert 100e9 / (35 * MB) <= (high_ms - NOW_MS) / 1000 <= 100e9 / (30 * MB)


def test_load_of_now_is_kept_for_comparison() -> None:
    valley = forecast([partition(1e12, 0.0)], [profile(b) for b in (1, 3)])
    as_now = valley.estimate(NOW_MS, LoadCase.PRESENT)
    assert as_now.duration_s == pytest.approx(1e12 / (40 * MB))
    expected_s = valley.estimate(NOW_MS).duration_s
    assert expected_s is not None
    assert expected_s < 1e12 / (40 * MB)


def test_steady_state_follows_the_writes_of_clients() -> None:
    """The partitions get 2 MB/s now, at 80 MB/s of clients; in the valley an eighth of it."""
    rates = forecast_rates([partition()], {1: profile(1)}, CEILING, NOW_MS, NOW_MS + 9 * HOUR_MS)
    assert rates.periods(LEADER)[0].steady_state_bytes_per_s == 2 * 2 * MB
    assert rates.periods(LEADER)[6].steady_state_bytes_per_s == pytest.approx(2 * 2 * MB / 8)
    assert rates.periods(FOLLOWER)[6].steady_state_bytes_per_s == pytest.approx(2 * MB / 8)


def test_holes_in_a_forecast_are_bridged() -> None:
    loads: list[float | None] = [80 * MB] * 200
    loads[1] = loads[2] = None
    filled = forecast([partition()], [profile(b, [80 * MB] * 200) for b in (1, 3)]).estimate(NOW_MS)
    holed = forecast([partition()], [profile(b, list(loads)) for b in (1, 3)]).estimate(NOW_MS)
    assert holed == filled


# -- limits ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [0.0, 1e-9, 1e9, 1e24])
@pytest.mark.parametrize("capacity", [1e-9, 1.0, 1e24])
def test_forged_profile_stays_between_lowest_rate_and_ceiling(load: float, capacity: float) -> None:
    limits = replace(CEILING, rate_bytes_per_s_min=5 * MB)
    forged = {b: profile(b, [load, 0.0] * 96, (1e24,), capacity) for b in (1, 3)}
    learned = known_capacities([LEADER, FOLLOWER], {}, forged, NO_LINK_SPEED.get)
    for case in LoadCase:
        rates = forecast_rates(
            [partition()], forged, replace(limits, capacities=learned), NOW_MS, NOW_MS + 30 * HOUR_MS, case
        )
        for period in (*rates.periods(LEADER), *rates.periods(FOLLOWER)):
            assert 5 * MB <= period.rate_bytes_per_s <= 50 * MB
            assert math.isfinite(period.steady_state_bytes_per_s)
            assert period.steady_state_bytes_per_s >= 0.0


def test_busy_clients_leave_the_lowest_rate() -> None:
    limits = replace(CEILING, rate_bytes_per_s_min=6 * MB)
    result = forecast([partition()], [profile(b, [200 * MB] * 200) for b in (1, 3)], limits).estimate(NOW_MS)
    assert result.binding is not None
    assert result.binding.period.limit is BindingLimit.MINIMUM
    assert result.duration_s == pytest.approx(100e9 / (6 * MB - 4 * MB))


def test_ceiling_below_steady_state_never_ends() -> None:
    never = forecast([partition()], limits=CopyLimits(periods=[LimitPeriod(0, 3 * MB)]))
    result = never.estimate(NOW_MS)
    assert (result.end_ms, result.end_low_ms, result.end_high_ms, result.duration_s) == (None, None, None, None)
    assert result.binding is not None
    assert result.binding.side == LEADER
    assert never.best_start_ms() == NOW_MS


def test_ceiling_of_a_later_period_applies_from_its_begin() -> None:
    begins_ms = NOW_MS + 10 * 60_000
    scheduled = CopyLimits(periods=[LimitPeriod(0, 10 * MB), LimitPeriod(begins_ms, 100 * MB)])
    result = forecast([partition(60e9, 0.0)], limits=scheduled).estimate(NOW_MS)
    assert result.duration_s == pytest.approx(600 + (60e9 - 600 * 10 * MB) / (100 * MB))
    assert forecast([partition(60e9, 0.0)], limits=scheduled).best_start_ms() > NOW_MS


def test_told_capacity_replaces_the_learned_one() -> None:
    sides: list[BrokerSide] = [LEADER, FOLLOWER]
    capacities = known_capacities(sides, {LEADER: 200 * MB}, {b: profile(b) for b in (1, 3)}, NO_LINK_SPEED.get)
    assert capacities[LEADER] == KnownCapacity(200 * MB)
    assert capacities[LEADER].allowed_bytes_per_s == TOLD_CAPACITY_RATIO * 200 * MB
    assert capacities[FOLLOWER].allowed_bytes_per_s == 120 * MB


def test_link_speed_is_the_capacity_where_nothing_was_learned() -> None:
    other: BrokerSide = (2, Side.FOLLOWER)
    profiles = {1: profile(1, capacity=None), 3: profile(3)}
    speeds = {1: 125 * MB, 3: 125 * MB}
    capacities = known_capacities([LEADER, FOLLOWER, other], {}, profiles, speeds.get)
    assert capacities == {
        LEADER: KnownCapacity(125 * MB, LinkSource.LINK),
        FOLLOWER: KnownCapacity(120 * MB, LinkSource.LEARNED),
    }
    # No traffic has proven the speed, so a part of it stays free as with a capacity in the settings.
    assert capacities[LEADER].allowed_bytes_per_s == TOLD_CAPACITY_RATIO * 125 * MB


def test_modes_share_and_gentle_lower_the_rate() -> None:
    profiles = [profile(b, [80 * MB] * 200) for b in (1, 3)]
    share = forecast([partition(100e9, 0.0)], profiles, CopyLimits([LimitPeriod(0, 50 * MB, share_max=0.25)])).estimate(
        NOW_MS
    )
    gentle = forecast(
        [partition(100e9, 0.0)], profiles, CopyLimits([LimitPeriod(0, 50 * MB, headroom_ratio=0.5)])
    ).estimate(NOW_MS)
    assert share.duration_s == pytest.approx(100e9 / (0.25 * 120 * MB))
    assert gentle.duration_s == pytest.approx(100e9 / (0.5 * 40 * MB))


def test_leaders_get_their_share_of_the_ceiling() -> None:
    result = forecast([partition(100e9, 0.0)], limits=replace(CEILING, leader_ratio=0.5)).estimate(NOW_MS)
    assert result.duration_s == pytest.approx(100e9 / (25 * MB))


def test_remaining_bytes_fall_to_zero_at_the_end() -> None:
    valley = forecast([partition(500e9, 0.0)], [profile(b) for b in (1, 3)])
    result = valley.estimate(NOW_MS)
    assert result.end_ms is not None
    periods = valley.periods(LEADER)
    assert remaining_at(500e9, periods, NOW_MS, NOW_MS) == 500e9
    assert remaining_at(500e9, periods, NOW_MS, result.end_ms) == pytest.approx(0.0, abs=1e5)
