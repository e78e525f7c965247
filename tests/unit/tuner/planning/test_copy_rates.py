"""Rates and ends of large moves: those of the plain forecast, and found in time."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from plain_copy_rates import drained_at_ms, plain_copy_periods

from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LearnedCapacity, LoadForecast
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.planning.copy_forecast import CopyLimits, LimitPeriod, LoadCase, known_capacities
from tuner.planning.copy_rates import forecast_rates
from tuner.planning.start_time import MOVE_S_MAX, MoveForecast

MB = 1e6
HOUR_MS = STEP_S * 1000
NOW_MS = 480_000 * HOUR_MS + 18 * 60_000
UNTIL_MS = NOW_MS + 1000 * MOVE_S_MAX + 24 * HOUR_MS
# An estimate of a large cluster takes 2 s on two busy processors. The plain forecast takes over half a minute.
LARGE_S_MAX = 10.0


def drawn_partitions(rng: random.Random, brokers: int, count: int) -> list[PlannedPartition]:
    partitions = []
    for number in range(count):
        leader, *others = rng.sample(range(brokers), 4)
        lacking = {others[2]: rng.choice([0.0, rng.uniform(1e8, 2e10)])} if rng.random() < 0.8 else {}
        isr = frozenset({leader, others[0], others[1]})
        # Some leaders get more than their profile says that all clients write.
        write_bytes_per_s = rng.uniform(0, 2e8 if leader == 0 else 4e5) / brokers
        partitions.append(PlannedPartition("orders", number, leader, isr, write_bytes_per_s, lacking))
    return partitions


def drawn_load(rng: random.Random, hole_share: float) -> LoadForecast:
    base = rng.uniform(20, 90) * MB
    hours = rng.choice([0, 5, 30, STEPS_MAX]) if hole_share else STEPS_MAX
    by_hour = [base * (1.0 if 7 <= hour % 24 < 20 else 0.2) * rng.uniform(0.8, 1.2) for hour in range(hours)]
    values = tuple(None if rng.random() < hole_share else value for value in by_hour)
    errors = tuple(None if rng.random() < hole_share else rng.uniform(1, 20) * MB for _ in range(5))
    return LoadForecast(bytes_per_s=values, error_bytes_per_s=errors)


def drawn_profile(rng: random.Random, broker: int, hole_share: float) -> BrokerProfile:
    capacity = LearnedCapacity(bytes_per_s=rng.uniform(80, 150) * MB, seen_at_ms=NOW_MS)
    return BrokerProfile(
        cluster="test",
        broker=broker,
        made_at_ms=NOW_MS,
        start_ms=NOW_MS - NOW_MS % HOUR_MS - rng.choice([0, HOUR_MS]),
        history_s=1e6,
        client_in=drawn_load(rng, hole_share),
        client_out=drawn_load(rng, hole_share),
        steady_in=drawn_load(rng, hole_share),
        steady_out=drawn_load(rng, hole_share),
        capacity_in=capacity,
        capacity_out=capacity if rng.random() < 0.8 else None,
    )


def drawn_limits(
    rng: random.Random, partitions: list[PlannedPartition], profiles: dict[int, BrokerProfile]
) -> CopyLimits:
    changes = [
        LimitPeriod(
            NOW_MS + 7 * number * HOUR_MS + 123_456,
            rng.uniform(5, 60) * MB,
            headroom_ratio=rng.choice([0.5, 1.0]),
            share_max=rng.choice([None, 0.4]),
        )
        for number in range(12)
    ]
    capacities = known_capacities(side_loads(partitions), {}, profiles, lambda _: None)
    return CopyLimits([LimitPeriod(0, 50 * MB), *changes], 2 * MB, capacities=capacities, leader_ratio=0.92)


@pytest.mark.parametrize("seed", range(12))
def test_rates_and_ends_are_those_of_the_plain_forecast(seed: int) -> None:
    rng = random.Random(seed)
    hole_share = 0.3 if seed % 2 else 0.0
    partitions = drawn_partitions(rng, 7, 25)
    profiles = {broker: drawn_profile(rng, broker, hole_share) for broker in range(7) if rng.random() < 0.8}
    limits, loads = drawn_limits(rng, partitions, profiles), side_loads(partitions)
    for case in LoadCase:
        plain = plain_copy_periods(partitions, profiles, limits, NOW_MS, UNTIL_MS, case)
        rates = forecast_rates(partitions, profiles, limits, NOW_MS, UNTIL_MS, case)
        assert set(rates.sides) == set(plain)
        for side, periods in plain.items():
            for period, expected in zip(rates.periods(side), periods, strict=True):
                steady_state, rate = expected.steady_state_bytes_per_s, expected.rate_bytes_per_s
                assert period.steady_state_bytes_per_s == pytest.approx(steady_state, rel=1e-9)
                assert period.rate_bytes_per_s == pytest.approx(rate, rel=1e-9)
                assert replace(period, steady_state_bytes_per_s=steady_state, rate_bytes_per_s=rate) == expected
        forecast = MoveForecast(partitions, profiles, limits, NOW_MS)
        for start_ms in (NOW_MS, NOW_MS + 9 * HOUR_MS):
            ends_ms = [drained_at_ms(loads[side].remaining_bytes, plain[side], start_ms) for side in loads]
            end_ms = forecast.estimate(start_ms, case).end_ms
            if None in ends_ms:
                assert end_ms is None
            else:
                assert end_ms == pytest.approx(max(ms for ms in ends_ms if ms is not None), abs=2, rel=0)


def test_best_start_of_a_large_cluster_is_found_in_time() -> None:
    rng = random.Random(1)
    partitions = drawn_partitions(rng, 200, 8_000)
    profiles = {broker: drawn_profile(rng, broker, 0.0) for broker in range(200)}
    limits = drawn_limits(rng, partitions, profiles)
    began_s = time.process_time()
    forecast = MoveForecast(partitions, profiles, limits, NOW_MS)
    forecast.estimate(forecast.best_start_ms())
    assert time.process_time() - began_s < LARGE_S_MAX
