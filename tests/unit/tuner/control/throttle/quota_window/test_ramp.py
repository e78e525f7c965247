"""Ramps: every intermediate rate is between both ends, and the writes keep their budget."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.quota_window.ramp import (
    STARTING_S,
    STEP_COUNT_MIN,
    STEP_S_MIN,
    WINDOW_S,
    RampStep,
    plan_fill,
    plan_ramp,
)
from tuner.core.throttle_limits import MB

RATES = st.integers(0, 10**10)
SIDES = st.integers(1, 2_000)
BUDGETS = st.floats(1, 500)


@given(RATES, RATES, SIDES, BUDGETS)
def test_ramp_is_monotonic_between_both_ends(live: int, wanted: int, sides: int, budget: float) -> None:
    steps = plan_ramp(live, wanted, sides=sides, writes_per_s_max=budget)
    values = [live, *(s.rate_bytes_per_s for s in steps)]
    assert values[-1] == wanted
    assert all(min(live, wanted) <= v <= max(live, wanted) for v in values)
    ordered = sorted(values, reverse=wanted < live)
    assert values == ordered


@given(RATES, RATES, SIDES, BUDGETS)
def test_ramp_steps_are_even_and_fill_one_window(live: int, wanted: int, sides: int, budget: float) -> None:
    steps = plan_ramp(live, wanted, sides=sides, writes_per_s_max=budget)
    assert steps[0].after_s == 0.0
    gaps = [b.after_s - a.after_s for a, b in itertools.pairwise(steps)]
    assert all(gap == pytest.approx(gaps[0]) for gap in gaps)
    assert gaps[0] * len(steps) >= WINDOW_S - 1e-9
    assert len(steps) >= STEP_COUNT_MIN
    assert sides / gaps[0] <= max(budget, sides / STEP_S_MIN) * 1.1


def test_ramp_lasts_as_long_as_the_brokers_window() -> None:
    short, long = plan_ramp(5 * MB, 20 * MB, window_s=3.0), plan_ramp(5 * MB, 20 * MB, window_s=22.0)
    assert short[-1].after_s + STEP_S_MIN == pytest.approx(3.0)
    assert long[-1].after_s + STEP_S_MIN == pytest.approx(22.0)
    waits = plan_ramp(5 * MB, 20 * MB, window_s=22.0, move_age_s=STARTING_S + WINDOW_S)
    assert waits[0].after_s == pytest.approx(11.0), "a rise waits until this longer window is full"


def test_default_ramp_has_44_linear_steps() -> None:
    """Linear, 44 × 0.25 s: half of the lumps that 22 × 0.5 s leave in the window."""
    steps = plan_ramp(5 * MB, 20 * MB)
    assert len(steps) == 44
    assert [s.after_s for s in steps[:3]] == [0.0, 0.25, 0.5]
    assert steps[0].rate_bytes_per_s == 5_340_909
    assert steps[21].rate_bytes_per_s == 12_500_000
    assert steps[-1].rate_bytes_per_s == 20_000_000


@pytest.mark.parametrize(("sides", "count"), [(1, 44), (12, 44), (25, 22), (50, 11), (100, 6), (137, 4)])
def test_more_sides_take_coarser_steps(sides: int, count: int) -> None:
    assert len(plan_ramp(5 * MB, 20 * MB, sides=sides, writes_per_s_max=50.0)) == count


@given(st.integers(1, 137))
def test_ramp_writes_stay_within_budget(sides: int) -> None:
    """As far as four steps allow; rounding to a whole number of steps may cost half a step."""
    steps = plan_ramp(5 * MB, 20 * MB, sides=sides, writes_per_s_max=50.0)
    assert sides * (len(steps) - 0.5) / WINDOW_S <= 50.0


def test_ramp_of_thousand_brokers_stays_within_write_budget() -> None:
    steps = plan_ramp(5 * MB, 20 * MB, sides=1_000, writes_per_s_max=50.0)
    took_s = max(WINDOW_S, steps[-1].after_s + (steps[1].after_s - steps[0].after_s))
    assert 1_000 * len(steps) / took_s <= 50.0


def test_raise_waits_one_window_after_replica_creation() -> None:
    """What did not flow in the first seconds of a move, while they were, would else come all at once."""
    late, full = plan_ramp(2 * MB, 8 * MB, move_age_s=2.0), plan_ramp(2 * MB, 8 * MB, move_age_s=STARTING_S + WINDOW_S)
    assert (full[0].after_s, late[0].after_s) == (0.0, 19.0)
    assert plan_ramp(2 * MB, 8 * MB) == full
    assert [s.rate_bytes_per_s for s in late] == [s.rate_bytes_per_s for s in full]
    assert {round(b.after_s - a.after_s, 3) for a, b in itertools.pairwise(late)} == {STEP_S_MIN}


def test_raise_uses_move_age_and_cut_uses_quota_age() -> None:
    assert plan_ramp(2 * MB, 8 * MB, age_s=2.0) == plan_ramp(2 * MB, 8 * MB)
    assert plan_ramp(8 * MB, 2 * MB, move_age_s=2.0) == plan_ramp(8 * MB, 2 * MB)


def test_cut_is_immediate_and_faster_for_younger_windows() -> None:
    assert [(s.after_s, s.rate_bytes_per_s) for s in plan_ramp(8 * MB, 2 * MB, age_s=0.0)] == [(0.0, 2 * MB)]
    steps = plan_ramp(8 * MB, 2 * MB, age_s=2.0)
    assert steps[0] == RampStep(0.0, round((2 * 8 + 0.25 * 2) / 2.25 * MB))
    assert steps[3] == RampStep(0.75, 6 * MB)
    # After nine what was before begins to leave.
    assert steps[35].rate_bytes_per_s == round((2 * 8 + 9 * 2) / 11 * MB)
    assert steps[43].rate_bytes_per_s == 2 * MB


@given(RATES, RATES, SIDES, st.floats(0.0, 30.0), st.floats(0.0, 30.0))
def test_ramp_of_any_age_is_monotonic_between_ends(
    live: int, wanted: int, sides: int, age_s: float, move_age_s: float
) -> None:
    values = [
        live,
        *(s.rate_bytes_per_s for s in plan_ramp(live, wanted, sides=sides, age_s=age_s, move_age_s=move_age_s)),
    ]
    assert values[-1] == wanted
    assert values == sorted(values, reverse=wanted < live)


def test_ramp_to_current_rate_changes_nothing() -> None:
    assert {s.rate_bytes_per_s for s in plan_ramp(7 * MB, 7 * MB)} == {7 * MB}


@given(RATES, RATES, SIDES, BUDGETS)
def test_warmup_rises_monotonically_to_current_rate(rate: int, least: int, sides: int, budget: float) -> None:
    steps = plan_fill(rate, least, sides=sides, writes_per_s_max=budget)
    values = [s.rate_bytes_per_s for s in steps]
    assert values[-1] == rate
    assert values == sorted(set(values))
    assert values[0] >= min(rate, least)
    assert steps[0].after_s == 0.0
    gaps = [b.after_s - a.after_s for a, b in itertools.pairwise(steps)]
    assert all(gap >= max(1.0, sides / budget) - 1e-6 for gap in gaps)


@pytest.mark.parametrize(("sides", "at_once_s"), [(1, 1.0), (100, 2.0), (10_000, 12.0)])
def test_warmup_of_empty_window_passes_its_rate_only(sides: int, at_once_s: float) -> None:
    """Against Kafka's mean over eleven whole seconds and the one that is being filled."""
    rate, passed = 12 * MB, [0.0] * 11
    steps = plan_fill(rate, 0.0, sides=sides, writes_per_s_max=50.0)
    for second in range(30):
        bound = [s.rate_bytes_per_s for s in steps if s.after_s <= second][-1]
        passed.append(max(0.0, 12 * bound - sum(passed[-11:])))
    assert max(passed) == pytest.approx(rate * at_once_s, rel=1e-6)
    assert sum(passed[-12:]) == pytest.approx(12 * rate, rel=1e-6)
