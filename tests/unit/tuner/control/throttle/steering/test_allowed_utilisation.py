"""The allowed utilisation settles where the measured latency meets the objective, whatever the capacity and the curve are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.allowed_utilisation import (
    START_GUESSED,
    START_TOLD,
    full_utilisation,
    update_allowed,
)

OBJECTIVE_MS = 50.0
LIMITS = ControlLimits()


def settled(
    latency_ms: Callable[[float], float], start: float = START_TOLD, step_s: float = 5.0, pole: float = 9.0
) -> list[float]:
    """Returns the allowed utilisation after each step of ten minutes in which a move uses all of it, up to a link of ``pole``."""
    found = [start]
    while len(found) * step_s < 600.0:
        used = min(pole, found[-1])
        found.append(update_allowed(found[-1], used, 0.1, latency_ms(used) / OBJECTIVE_MS, step_s, LIMITS))
    return found


def random_arrivals(base_ms: float, pole: float) -> Callable[[float], float]:
    return lambda u: base_ms / max(0.001, 1.0 - u / pole)


@pytest.mark.parametrize("step_s", [1.0, 5.0, 15.0])
@pytest.mark.parametrize("pole", [0.4, 0.7, 1.0, 2.0])
@pytest.mark.parametrize("base_ms", [2.5, 5.0, 15.0])
def test_latency_of_a_queue_settles_below_the_objective(base_ms: float, pole: float, step_s: float) -> None:
    """The capacity in the settings is ``1 ÷ pole`` times the true one."""
    latency = random_arrivals(base_ms, pole)
    last = settled(latency, step_s=step_s, pole=pole)[-round(120 / step_s) :]
    best = pole * (1.0 - base_ms / OBJECTIVE_MS)
    assert 0.8 * best < statistics.fmean(last) < 1.02 * best
    assert sum(u > best for u in last) <= 0.25 * len(last)


def test_flat_latency_below_the_objective_ends_in_a_full_link() -> None:
    assert settled(lambda _: 33.0)[-1] >= LIMITS.utilisation_max


def test_guessed_capacity_that_is_too_low_is_found() -> None:
    assert settled(random_arrivals(5.0, 2.5), START_GUESSED)[-1] > 1.8


def test_link_of_less_than_half_is_found_within_half_a_minute() -> None:
    assert settled(random_arrivals(5.0, 0.4), pole=0.4)[6] < 0.4


def test_lightly_used_link_does_not_raise_the_allowed_utilisation_above_its_start() -> None:
    assert update_allowed(0.9, 0.3, 0.3, 0.1, 60.0, LIMITS) == 0.9
    assert 0.6 < update_allowed(0.6, 0.3, 0.3, 0.1, 60.0, LIMITS) <= START_TOLD


def test_slow_clients_lower_it_at_any_utilisation() -> None:
    assert update_allowed(0.6, 0.3, 0.1, 1.6, 5.0, LIMITS) < 0.4


def test_burst_of_clients_leaves_it_at_their_load_and_it_rises_at_once_afterwards() -> None:
    allowed = 0.85
    for _ in range(60):
        allowed = update_allowed(allowed, 0.95, 0.94, 10.0, 5.0, LIMITS)
    assert allowed == pytest.approx(0.85), "the load of clients alone is above it"
    for _ in range(60):
        allowed = update_allowed(allowed, 0.5, 0.3, 10.0, 5.0, LIMITS)
    assert allowed == pytest.approx(0.3)
    assert update_allowed(allowed, 0.3, 0.3, 0.2, 5.0, LIMITS) > 0.3


def test_one_pause_of_a_broker_costs_at_most_a_third_of_its_traffic() -> None:
    assert update_allowed(0.8, 0.7, 0.1, 1e6, 15.0, LIMITS) == pytest.approx(0.8 - 0.21)


def test_quiet_step_keeps_a_larger_link() -> None:
    assert update_allowed(1.8, 0.2, 0.2, 0.2, 5.0, LIMITS) == 1.8


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 20.0), st.floats(1e-3, 1e6), st.floats(0.001, 3600.0)), min_size=1, max_size=100
    ),
    st.sampled_from([START_TOLD, START_GUESSED]),
)
def test_any_measurements_leave_a_utilisation(points: list[tuple[float, float, float]], start: float) -> None:
    allowed = start
    for used, latency_ms, step_s in points:
        before = allowed
        allowed = update_allowed(allowed, used, used / 2, latency_ms / OBJECTIVE_MS, step_s, LIMITS)
        assert math.isfinite(allowed)
        assert 0.0 <= allowed <= max(before, LIMITS.utilisation_max * full_utilisation(used))
