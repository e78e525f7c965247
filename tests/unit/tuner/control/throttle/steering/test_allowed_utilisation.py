"""The allowed utilisation settles where the measured latency meets the objective, whatever the capacity and the curve are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.steering.allowed_utilisation import START_TOLD, resume_allowed, update_allowed

OBJECTIVE_MS = 50.0
AHEAD = 1.5
DAY_S = 86_400.0


def settled(
    latency_ms: Callable[[float], float], start: float = START_TOLD, step_s: float = 5.0, pole: float = 9.0
) -> list[float]:
    """Returns the allowed utilisation after each step of ten minutes in which a move uses all of it, up to a link of ``pole``."""
    found = [start]
    while len(found) * step_s < 600.0:
        used = min(pole, found[-1])
        found.append(update_allowed(found[-1], used, 0.1, latency_ms(used) / OBJECTIVE_MS, step_s))
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
    assert settled(lambda _: 33.0)[-1] >= 0.95


@pytest.mark.parametrize("pole", [2.5, 20.0])
def test_link_that_is_many_times_the_first_traffic_is_found_within_minutes(pole: float) -> None:
    """Without a capacity in the settings the unit is the first traffic."""
    found = settled(random_arrivals(5.0, pole), 1.0, pole=pole)
    assert found[round(240 / 5)] > 0.7 * pole
    assert max(found) < pole


def test_link_that_carries_more_than_allowed_raises_what_is_allowed() -> None:
    assert update_allowed(0.5, 0.7, 0.6, 0.2, 5.0) > 0.7
    assert update_allowed(0.5, 9.0, 0.6, 0.2, 5.0) < AHEAD * AHEAD * 0.5, "a single wrong sample"


def test_next_move_resumes_below_what_the_last_one_learned() -> None:
    assert resume_allowed(None, 0.4, 0.0) == 0.4
    assert resume_allowed(3.0, 0.4, 3600.0) == pytest.approx(0.85 * 3.0, rel=0.01)
    assert 0.9 < resume_allowed(3.0, 0.4, 14 * DAY_S) < 1.0
    assert resume_allowed(3.0, 4.0, 3600.0) == 4.0, "clients send more already"
    assert resume_allowed(None, 0.4, 0.0, carried_ratio=2.0) == pytest.approx(0.85 * 2.0), "by the history"


def test_link_of_less_than_half_is_found_within_half_a_minute() -> None:
    assert settled(random_arrivals(5.0, 0.4), pole=0.4)[6] < 0.4


def test_lightly_used_link_raises_nothing() -> None:
    assert update_allowed(0.9, 0.3, 0.3, 0.1, 60.0) == 0.9


def test_slow_clients_lower_it_at_any_utilisation() -> None:
    assert update_allowed(0.6, 0.3, 0.1, 1.6, 5.0) < 0.4


def test_burst_of_clients_leaves_it_at_their_load_and_it_rises_at_once_afterwards() -> None:
    allowed = 0.85
    for _ in range(60):
        allowed = update_allowed(allowed, 0.95, 0.94, 10.0, 5.0)
    assert allowed == pytest.approx(0.85), "the load of clients alone is above it"
    for _ in range(60):
        allowed = update_allowed(allowed, 0.5, 0.3, 10.0, 5.0)
    assert allowed == pytest.approx(0.3)
    assert update_allowed(allowed, 0.3, 0.3, 0.2, 5.0) > 0.3


def test_one_pause_of_a_broker_costs_at_most_a_third_of_its_traffic() -> None:
    assert update_allowed(0.8, 0.7, 0.1, 1e6, 15.0) == pytest.approx(0.77 - 0.21)


def test_quiet_step_keeps_a_larger_link() -> None:
    assert update_allowed(1.8, 0.2, 0.2, 0.2, 5.0) == 1.8


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 20.0), st.floats(1e-3, 1e6), st.floats(0.001, 3600.0)), min_size=1, max_size=100
    ),
    st.sampled_from([START_TOLD, 1.0]),
)
def test_any_measurements_leave_a_utilisation(points: list[tuple[float, float, float]], start: float) -> None:
    allowed = start
    for used, latency_ms, step_s in points:
        before = allowed
        allowed = update_allowed(allowed, used, used / 2, latency_ms / OBJECTIVE_MS, step_s)
        assert math.isfinite(allowed)
        assert 0.0 <= allowed <= max(before, AHEAD * used)
