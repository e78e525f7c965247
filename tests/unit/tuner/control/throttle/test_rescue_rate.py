"""Rescue rates and feasibility, with the numbers of the lab runs E1 to E6 (a move ends at a quota q if and only if q > W)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import LIMITS, F, L

from streaming.shared.contract import Side
from tuner.control.throttle import rescue_rate as rr
from tuner.core.drain_time import SideLoad, drain_s, fluid_optimum_s
from tuner.core.throttle_limits import MB, ThrottleLimits

# run: (side, quota, W, byte-rate that the broker showed, drain that was seen); MB and MB/s
RUNS = {
    "E1": (L, 4.5, 6.0, 4.6, -1.6),
    "E2": (L, 7.0, 6.0, 7.1, 1.3),
    "E3": (L, 12.0, 6.0, 12.8, 6.0),
    "E4": (L, 7.5, 9.0, 7.6, -1.6),
    "E5": (F, 2.0, 3.0, 2.0, -1.2),
    "E6": (F, 5.0, 3.0, 5.1, 1.5),
}


def load(remaining: float = 159.0, steady_state: float = 6.0) -> SideLoad:
    return SideLoad(remaining * MB, steady_state * MB)


@pytest.mark.parametrize("run", RUNS)
def test_drain_time_matches_the_measured_moves(run: str) -> None:
    _, quota, steady_state, _, seen_drain = RUNS[run]
    ends = drain_s(load(steady_state=steady_state), quota * MB) is not None
    assert ends == (seen_drain > 0)


@pytest.mark.parametrize("run", RUNS)
def test_measured_moves_were_throttle_bound(run: str) -> None:
    _, quota, steady_state, measured, _ = RUNS[run]
    assert rr.is_throttle_bound(quota * MB, load(steady_state=steady_state), measured * MB, LIMITS)


@pytest.mark.parametrize(
    ("quota", "steady_state", "measured", "bound"),
    [
        (4.5, 6.0, None, True),  # Below keep-up it must be, measured or not …
        (4.5, 6.0, 0.0, True),  # … for any measurement.
        (6.0, 6.0, 0.0, True),  # Equal drains nothing either.
        (6.1, 6.0, None, False),  # Above it, not knowing is not knowing.
        (12.0, 6.0, 10.2, True),  # 85 %.
        (12.0, 6.0, 10.1, False),
        (12.0, 6.0, 3.0, False),  # Something else holds it.
        (20.0, 6.0, 21.0, True),
    ],
)
def test_throttle_is_bound_when_85_percent_used_or_undrainable(
    quota: float, steady_state: float, measured: float | None, bound: bool
) -> None:
    measured_bytes = None if measured is None else measured * MB
    assert rr.is_throttle_bound(quota * MB, load(steady_state=steady_state), measured_bytes, LIMITS) is bound


@pytest.mark.parametrize(
    ("steady_state", "floor"),
    [(6.0, 7.2), (9.0, 10.8), (3.0, 5.0), (0.0, 5.0), (40.0, 48.0)],  # 1.2 W, and never below the operator's 5.
)
def test_minimum_draining_rate_is_steady_state_plus_a_fifth(steady_state: float, floor: float) -> None:
    assert rr.min_draining_bytes_per_s(steady_state * MB, LIMITS) == pytest.approx(floor * MB)


@pytest.mark.parametrize(("steady_state", "infeasible"), [(49.9, False), (50.0, True), (80.0, True), (0.0, False)])
def test_infeasible_if_ceiling_is_not_above_steady_state(steady_state: float, infeasible: bool) -> None:
    assert rr.is_infeasible(10 * MB, load(steady_state=steady_state), LIMITS) is infeasible


def test_feasible_under_a_current_rate_above_the_ceiling() -> None:
    assert not rr.is_infeasible(100 * MB, load(steady_state=60.0), LIMITS)
    assert rr.is_infeasible(60 * MB, load(steady_state=60.0), LIMITS)


@pytest.mark.parametrize(
    ("loads", "target_s"),
    [
        ([], 10.0),
        ([(44.0, 6.0)], 10.0),  # One second's work: but the quota's window sets the pace, not the rate.
        ([(880.0, 6.0)], 20.0),  # 880 ÷ (50 − 6)
        ([(880.0, 6.0), (4_400.0, 6.0)], 100.0),  # The slowest side decides.
        ([(880.0, 6.0), (4_400.0, 60.0)], 20.0),  # An infeasible side decides nothing.
    ],
)
def test_drain_target_is_that_of_slowest_feasible_side(loads: list[tuple[float, float]], target_s: float) -> None:
    by_side = {(i, L): load(*numbers) for i, numbers in enumerate(loads)}
    assert rr.drain_target_s(by_side, LIMITS) == pytest.approx(target_s)


@pytest.mark.parametrize(
    ("side", "remaining", "steady_state", "live", "target_s", "wanted"),
    [
        (L, 159.0, 6.0, 4.5, 10.0, 21.9),  # E1, rescued: 6 + 159 ÷ 10.
        (L, 132.0, 9.0, 7.5, 10.0, 22.2),  # E4.
        (F, 159.0, 3.0, 2.0, 10.0, 24.57),  # E5, with the follower's slack: 1.3 × (3 + 15.9).
        (L, 0.0, 6.0, 4.5, 10.0, 7.2),  # The floor: the least that drains.
        (L, 0.0, 0.0, 1.0, 10.0, 5.0),  # The operator's floor.
        (L, 9_000.0, 6.0, 4.5, 10.0, 50.0),  # The ceiling …
        (F, 9_000.0, 6.0, 4.5, 10.0, 50.0),  # … which slack does not break.
        (L, 4_400.0, 6.0, 4.5, 100.0, 50.0),  # The slowest side runs exactly at the ceiling.
        (L, 880.0, 6.0, 4.5, 100.0, 14.8),  # The others need less for the same time.
        (L, 159.0, 6.0, 30.0, 10.0, 30.0),  # Never below what stands there …
        (L, 159.0, 6.0, 80.0, 10.0, 80.0),  # … nor cut by a ceiling it was never under.
    ],
)
def test_setpoint_meets_drain_target_between_minimum_and_ceiling(
    side: Side, remaining: float, steady_state: float, live: float, target_s: float, wanted: float
) -> None:
    found = rr.setpoint_bytes_per_s(side, load(remaining, steady_state), live * MB, target_s, LIMITS)
    assert found == round(wanted * MB)


@given(
    st.sampled_from(list(Side)),
    st.floats(0, 1e12),
    st.floats(0, 1e9),
    st.floats(0, 2e9),
    st.floats(10, 1e6),
    st.floats(5e6, 1e9),
)
def test_setpoint_stays_between_minimum_and_ceiling(
    side: Side, remaining: float, steady_state: float, live: float, target_s: float, ceiling: float
) -> None:
    limits = ThrottleLimits(rate_bytes_per_s_max=ceiling)
    wanted = rr.setpoint_bytes_per_s(side, SideLoad(remaining, steady_state), live, target_s, limits)
    assert wanted >= round(live)
    assert wanted <= round(max(ceiling, live))
    if not rr.is_infeasible(live, SideLoad(remaining, steady_state), limits):
        assert wanted >= round(min(ceiling, rr.min_draining_bytes_per_s(steady_state, limits)))


@pytest.mark.parametrize(
    ("remaining", "steady_state", "rate", "seconds"),
    [(600.0, 6.0, 36.0, 20.0), (0.0, 6.0, 7.0, 0.0), (600.0, 6.0, 6.0, None), (600.0, 6.0, 4.5, None)],
)
def test_drain_time_is_remaining_bytes_over_surplus(
    remaining: float, steady_state: float, rate: float, seconds: float | None
) -> None:
    assert drain_s(load(remaining, steady_state), rate * MB) == seconds


@pytest.mark.parametrize(
    ("loads", "ceiling", "seconds"),
    [
        ([], 50.0, 0.0),
        ([(880.0, 6.0), (4_400.0, 6.0)], 50.0, 100.0),
        ([(880.0, 6.0), (1.0, 50.0)], 50.0, None),  # One side that never ends keeps the whole from ending.
    ],
)
def test_fluid_optimum_is_the_slowest_drain_time(
    loads: list[tuple[float, float]], ceiling: float, seconds: float | None
) -> None:
    assert fluid_optimum_s([load(*numbers) for numbers in loads], ceiling * MB) == seconds
