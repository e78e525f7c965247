"""Time from rate, rate from time, and the limiting one of both: with the lab's figures, and for any figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.shared.contract import Side
from tuner.core.drain_time import (
    RateEstimate,
    RateVerdict,
    SideLoad,
    drain_s,
    estimate_rate,
    fluid_optimum_s,
    rate_bytes_per_s_min,
    rate_for_time,
)
from tuner.core.side_load import PlannedPartition, idle_steady_state_bytes_per_s, side_loads
from tuner.core.throttle_limits import MB

L, F = Side.LEADER, Side.FOLLOWER
# The lab's runs E1 to E3: two replicas, 3 MB/s of writes, a third broker is added: 3 × (1 in sync + 1 adding) to keep up.
LAB = PlannedPartition("orders", 0, 1, frozenset({1, 2}), 3.0 * MB, {3: 60.0 * MB})


def side(remaining: float, steady_state: float) -> SideLoad:
    return SideLoad(remaining * MB, steady_state * MB)


# -- what a plan loads onto each side --------------------------------------------------------------------------------------


def test_leader_side_counts_every_follower_and_follower_side_one() -> None:
    assert side_loads([LAB]) == {(1, L): side(60, 6), (3, F): side(60, 3)}


def test_throttle_above_bytes_in_can_be_below_steady_state() -> None:
    """RF 3 and 10 MB/s: two in-sync followers take 20 and the new one 10, so 25 MB/s never ends, far above BytesIn."""
    moved = PlannedPartition("orders", 0, 1, frozenset({1, 2, 3}), 10.0 * MB, {4: 100.0 * MB})
    loads = side_loads([moved])
    assert loads[(1, L)] == side(100, 30)
    assert fluid_optimum_s(loads.values(), 25 * MB) is None
    assert fluid_optimum_s(loads.values(), 40 * MB) == 10.0


def test_sides_sum_over_partitions_and_adding_replicas() -> None:
    two = PlannedPartition("orders", 1, 1, frozenset({1}), 1.0 * MB, {3: 10.0 * MB, 4: 10.0 * MB})
    assert side_loads([LAB, two]) == {(1, L): side(80, 8), (3, F): side(70, 4), (4, F): side(10, 1)}


def test_out_of_sync_replica_that_is_not_added_takes_nothing() -> None:
    alone = PlannedPartition("orders", 0, 1, frozenset({1}), 3.0 * MB, {3: 60.0 * MB})
    assert side_loads([alone])[(1, L)] == side(60, 3)


def test_unmoved_partitions_still_take_their_share() -> None:
    stays = PlannedPartition("orders", 1, 1, frozenset({1, 2}), 3.0 * MB)
    elsewhere = PlannedPartition("orders", 2, 2, frozenset({1, 2}), 3.0 * MB)
    loads = side_loads([LAB, stays, elsewhere])
    assert loads[(1, L)] == side(60, 9)  # The lab's E4: at 7.5 MB/s it never ended, with exact lists it did.
    assert (2, L) not in loads  # In-sync replicas pass whatever the throttle: nothing there can fail to end.
    assert idle_steady_state_bytes_per_s([LAB, stays, elsewhere]) == {1: 3.0 * MB, 2: 3.0 * MB}


# -- time and rate -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("quota", "ends"), [(4.5, False), (6.0, False), (7.0, True), (12.0, True)])
def test_lab_moves_end_above_steady_state(quota: float, ends: bool) -> None:
    loads = side_loads([LAB])
    assert (estimate_rate(loads, rate_bytes_per_s_max=quota * MB).verdict is RateVerdict.ENDS) is ends


@pytest.mark.parametrize(
    ("remaining", "steady_state", "time_s", "rate"),
    [
        (60, 6, 60, 7_000_000),
        (60, 6, 20, 9_000_000),
        (60, 0, 60, 1_000_000),
        (0, 6, 60, 6_000_001),  # Nothing to copy still has to keep up.
        (0, 0, 60, 1),
    ],
)
def test_rate_for_time_covers_remaining_and_steady_state(
    remaining: float, steady_state: float, time_s: float, rate: int
) -> None:
    assert rate_for_time(side(remaining, steady_state), time_s) == rate


LOADS = st.builds(SideLoad, st.floats(0, 1e15), st.floats(0, 1e11))
TIMES = st.floats(1, 1e7)


@given(LOADS, TIMES)
def test_estimated_rate_is_the_smallest_that_ends_in_time(load: SideLoad, time_s: float) -> None:
    rate = rate_for_time(load, time_s)
    taken_s = drain_s(load, rate)
    assert taken_s is not None
    assert taken_s <= time_s
    less_s = drain_s(load, rate - 2)  # One byte/s may be the rounding of a float.
    assert less_s is None or less_s > time_s * (1 - 1e-9) or rate - 2 < rate_bytes_per_s_min(load)


@given(LOADS)
def test_minimum_rate_is_smallest_that_drains(load: SideLoad) -> None:
    least = rate_bytes_per_s_min(load)
    assert drain_s(load, least) is not None
    assert drain_s(load, least - 1) is None


# -- which of the two gives ----------------------------------------------------------------------------------------------

TWO = {"a": side(60, 6), "b": side(100, 2)}


def test_estimate_without_request_names_the_draining_rate() -> None:
    assert estimate_rate(TWO) == RateEstimate(RateVerdict.ENDS, 6_000_001, "a")


def test_rate_alone_gives_its_duration() -> None:
    assert estimate_rate(TWO, rate_bytes_per_s_max=12 * MB) == RateEstimate(
        RateVerdict.ENDS, 6_000_001, "a", 12_000_000, 10.0, "a"
    )
    slow_b = estimate_rate(TWO, rate_bytes_per_s_max=22 * MB)
    assert (slow_b.time_s, slow_b.slowest_side) == (5.0, "b")


def test_a_time_alone_gives_its_rate() -> None:
    found = estimate_rate(TWO, time_s_max=10)
    assert found == RateEstimate(RateVerdict.ENDS, 6_000_001, "a", 12_000_000, 10.0, "a", 12_000_000)


def test_compatible_rate_and_time_give_smaller_rate() -> None:
    found = estimate_rate(TWO, rate_bytes_per_s_max=50 * MB, time_s_max=10)
    assert (found.verdict, found.rate_bytes_per_s, found.time_s) == (RateVerdict.ENDS, 12_000_000, 10.0)


def test_conflicting_rate_and_time_name_the_needed_change() -> None:
    found = estimate_rate(TWO, rate_bytes_per_s_max=8 * MB, time_s_max=10)
    assert found.verdict is RateVerdict.TOO_SLOW
    assert (found.rate_bytes_per_s, found.time_s) == (8_000_000, 30.0)  # The time gives, by 20 s ...
    assert found.rate_bytes_per_s_needed == 12_000_000  # ... or the rate, by 4 MB/s.


def test_below_steady_state_no_time_helps() -> None:
    for time_s in (None, 10.0, 1e9):
        found = estimate_rate(TWO, rate_bytes_per_s_max=6 * MB, time_s_max=time_s)
        assert (found.verdict, found.time_s, found.steady_state_side) == (RateVerdict.NEVER_ENDS, None, "a")
        assert found.rate_bytes_per_s_min == 6_000_001


@given(st.dictionaries(st.integers(0, 9), LOADS, min_size=1), st.floats(1, 1e12), TIMES)
def test_verdict_matches_the_simulated_drain(loads: dict[int, SideLoad], rate_max: float, time_s: float) -> None:
    found = estimate_rate(loads, rate_bytes_per_s_max=rate_max, time_s_max=time_s)
    assert found.rate_bytes_per_s is not None
    assert found.rate_bytes_per_s <= rate_max
    assert found.time_s == fluid_optimum_s(loads.values(), found.rate_bytes_per_s)
    assert (found.time_s is None) is (found.verdict is RateVerdict.NEVER_ENDS)
    if found.time_s is not None:
        assert (found.time_s <= time_s) is (found.verdict is RateVerdict.ENDS)
    assert (found.rate_bytes_per_s >= found.rate_bytes_per_s_min) is (found.verdict is not RateVerdict.NEVER_ENDS)
