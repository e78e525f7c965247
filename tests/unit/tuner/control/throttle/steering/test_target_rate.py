"""The rates at which all moves end at the same time: bounds, modes, takeover, and stale signals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import F, L

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from tuner.control.throttle.objective import Capacity, ControlLimits, Mode, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.control.throttle.steering.target_rate import (
    TargetRate,
    ceiling_bytes_per_s,
    decoupled_rate,
    drain_target_s,
    drain_times_s,
    isr_recovery_rate,
    limit_takeover,
    max_rate_bytes_per_s,
    min_rate_bytes_per_s,
    next_boost,
    target_rate,
)
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits(takeover_ramp_s=30.0)
FAST = Objective(50.0)
LINK = Capacity(125 * MB, 125 * MB)
RATES = st.floats(0.0, 1e9)


@given(RATES, st.floats(0.0, 1e12), RATES, st.floats(2.0, 1e5))
def test_rate_stays_between_minimum_and_maximum(
    steady_state: float, remaining: float, ceiling: float, target_s: float
) -> None:
    load = SideLoad(remaining, steady_state)
    floor = min_rate_bytes_per_s(load, LIMITS)
    assert floor == max(5 * MB, 1.2 * steady_state)
    for side in (L, F):
        found = target_rate(side, load, floor, ceiling, target_s, LIMITS)
        assert floor <= found.rate_bytes_per_s <= max(floor, ceiling)


@pytest.mark.parametrize(("side", "alone"), [(L, 1.0), (F, 1.3)])
def test_side_of_growing_plan_gets_spare_rate(side: Side, alone: float) -> None:
    load, ceiling = SideLoad(1_000 * MB, 4 * MB), 100 * MB
    floor = min_rate_bytes_per_s(load, LIMITS)
    assert target_rate(side, load, floor, ceiling, 50.0, LIMITS).rate_bytes_per_s == pytest.approx(
        (4 + alone * 20) * MB
    )
    by_turns = target_rate(side, load, floor, ceiling, 50.0, LIMITS, planned=True)
    assert by_turns.rate_bytes_per_s == pytest.approx((4 + LIMITS.plan_margin_ratio * 20) * MB)
    # Of four leaders that each get half as much again one follower would be given twice what it may have: there it is a bound.
    assert target_rate(side, load, floor, 20 * MB, 50.0, LIMITS, planned=True).rate_bytes_per_s == 20 * MB


def test_growing_plan_keeps_leaders_below_and_followers_at_ceiling() -> None:
    """So what arrives does not find the follower's quota used up, and who writes to it does not wait."""
    limits = replace(LIMITS, rate_bytes_per_s_max=100 * MB)
    most, paced = 100 * MB, limits.plan_leader_ratio * 100 * MB
    load = SideLoad(1e6 * MB, 0.0)
    by_turns = {side: target_rate(side, load, 5 * MB, 10 * most, 50.0, limits, planned=True) for side in (L, F)}
    assert by_turns[L].rate_bytes_per_s == pytest.approx(paced)
    assert by_turns[F].rate_bytes_per_s == most
    assert by_turns[L].at_ceiling
    assert target_rate(L, load, 5 * MB, 10 * most, 50.0, limits).rate_bytes_per_s == most
    # In share mode that is the share.
    share = target_rate(L, load, 5 * MB, 20 * MB, 50.0, limits, max_bytes_per_s=20 * MB, planned=True)
    assert share.rate_bytes_per_s == pytest.approx(limits.plan_leader_ratio * 20 * MB)
    # What drains comes first, and what the operator allows is enough for it.
    drains = (paced + most) / 2
    tight = target_rate(L, SideLoad(1e6 * MB, drains / 1.02), drains, 10 * most, 50.0, limits, planned=True)
    assert tight.rate_bytes_per_s == drains
    assert not tight.infeasible


def test_slowest_side_runs_at_ceiling_others_at_need() -> None:
    loads = {(1, L): SideLoad(10_000 * MB, 0.0), (2, L): SideLoad(2_000 * MB, 0.0)}
    ceilings = {(1, L): 50 * MB, (2, L): 80 * MB}
    floors = {side: min_rate_bytes_per_s(load, LIMITS) for side, load in loads.items()}
    target_s = drain_target_s(drain_times_s(loads, floors, ceilings), FAST, 0, LIMITS)
    assert target_s == pytest.approx(200.0)
    rates = {
        side: target_rate(side[1], load, floors[side], ceilings[side], target_s, LIMITS) for side, load in loads.items()
    }
    assert rates[(1, L)] == TargetRate(50 * MB, infeasible=False, at_ceiling=True)
    assert rates[(2, L)].rate_bytes_per_s == pytest.approx(10 * MB)
    assert not rates[(2, L)].at_ceiling


def test_ceiling_below_steady_state_is_infeasible_and_uses_minimum() -> None:
    found = target_rate(L, SideLoad(1e9, 30 * MB), 36 * MB, 25 * MB, 100.0, LIMITS)
    assert found.infeasible
    assert found.rate_bytes_per_s == pytest.approx(36 * MB)


def test_configured_maximum_rate_limits_both_sides() -> None:
    limits = replace(LIMITS, rate_bytes_per_s_max=20 * MB)
    assert target_rate(L, SideLoad(1e12, 1 * MB), 5 * MB, 90 * MB, 10.0, limits).rate_bytes_per_s == 20 * MB
    assert target_rate(F, SideLoad(1e12, 1 * MB), 5 * MB, 90 * MB, 10.0, limits).rate_bytes_per_s == 20 * MB


def test_deadline_sets_the_drain_time() -> None:
    deadline = Objective(50.0, Mode.DEADLINE, finish_at_ms=1_000_000)
    times_s = drain_times_s({(1, L): SideLoad(10_000 * MB, 0.0)}, {(1, L): 5 * MB}, {(1, L): 100 * MB})
    assert drain_target_s(times_s, deadline, 0, LIMITS) == pytest.approx(0.9 * 985.0)
    assert drain_target_s(times_s, deadline, 950_000, LIMITS) == pytest.approx(100.0)


def test_undrainable_side_sets_no_drain_time() -> None:
    loads = {(1, L): SideLoad(10_000 * MB, 0.0), (2, L): SideLoad(1_000 * MB, 90 * MB)}
    limits = replace(LIMITS, rate_bytes_per_s_max=80 * MB)
    floors = {side: min_rate_bytes_per_s(load, limits) for side, load in loads.items()}
    assert floors == {(1, L): 5 * MB, (2, L): 80 * MB}
    assert drain_times_s(loads, floors, {(1, L): 100 * MB, (2, L): 60 * MB}) == {(1, L): 100.0}


def test_decoupled_side_ends_in_half_the_time() -> None:
    load = SideLoad(2_000 * MB, 4 * MB)
    assert decoupled_rate(L, load, 5 * MB, 80 * MB, 200.0, LIMITS).rate_bytes_per_s == pytest.approx(24 * MB)
    assert decoupled_rate(L, load, 5 * MB, 20 * MB, 200.0, LIMITS).rate_bytes_per_s == 20 * MB
    assert decoupled_rate(F, load, 5 * MB, 80 * MB, 200.0, LIMITS).rate_bytes_per_s == pytest.approx(30 * MB)
    assert decoupled_rate(F, load, 5 * MB, 25 * MB, 200.0, LIMITS).rate_bytes_per_s == 25 * MB
    assert target_rate(F, load, 5 * MB, 25 * MB, 100.0, LIMITS).rate_bytes_per_s == 25 * MB


def test_decoupled_side_uses_minimum_above_ceiling() -> None:
    found = decoupled_rate(F, SideLoad(1e9, 30 * MB), 36 * MB, 20 * MB, 100.0, LIMITS)
    assert found.infeasible
    assert found.rate_bytes_per_s == pytest.approx(36 * MB)


def test_share_and_gentle_modes_use_less_headroom() -> None:
    share = Objective(50.0, Mode.SHARE, share_max=0.2)
    gentle = Objective(50.0, Mode.GENTLE)
    most = max_rate_bytes_per_s(5 * MB, 125 * MB, FAST, LIMITS)
    assert ceiling_bytes_per_s(60 * MB, 5 * MB, most, FAST) == 65 * MB
    assert ceiling_bytes_per_s(60 * MB, 5 * MB, most, gentle) == pytest.approx(35 * MB)
    most = max_rate_bytes_per_s(5 * MB, 125 * MB, share, LIMITS)
    assert ceiling_bytes_per_s(60 * MB, 5 * MB, most, share) == pytest.approx(30 * MB)


def test_maximum_rate_is_lower_of_share_and_setting() -> None:
    share = Objective(50.0, Mode.SHARE, share_max=0.2)
    assert max_rate_bytes_per_s(5 * MB, 125 * MB, FAST, LIMITS) == float("inf")
    assert max_rate_bytes_per_s(5 * MB, 125 * MB, share, LIMITS) == 30 * MB
    assert max_rate_bytes_per_s(0.0, 50 * MB, share, LIMITS) == 10 * MB
    assert max_rate_bytes_per_s(5 * MB, 125 * MB, share, replace(LIMITS, rate_bytes_per_s_max=12 * MB)) == 12 * MB
    assert max_rate_bytes_per_s(5 * MB, float("inf"), share, replace(LIMITS, rate_bytes_per_s_max=40 * MB)) == 40 * MB


def test_share_holds_against_minimum_and_follower_slack() -> None:
    """2 % of 125 MB/s is less than the least rate; 20 % on the follower's side is 25 MB/s and not 1.3 times that."""
    load = SideLoad(1e12, 0.0)
    small = max_rate_bytes_per_s(0.0, 125 * MB, Objective(50.0, Mode.SHARE, share_max=0.02), LIMITS)
    floor = min_rate_bytes_per_s(load, LIMITS, max_bytes_per_s=small)
    assert floor == 2.5 * MB
    assert target_rate(L, load, floor, small, 10.0, LIMITS, max_bytes_per_s=small) == TargetRate(
        2.5 * MB, at_ceiling=True
    )
    fifth = max_rate_bytes_per_s(0.0, 125 * MB, Objective(50.0, Mode.SHARE, share_max=0.2), LIMITS)
    assert target_rate(F, load, 5 * MB, fifth, 10.0, LIMITS, max_bytes_per_s=fifth).rate_bytes_per_s == 25 * MB


def test_share_below_steady_state_is_infeasible() -> None:
    load, share = SideLoad(1e9, 4 * MB), Objective(50.0, Mode.SHARE, share_max=0.02)
    most = max_rate_bytes_per_s(0.0, 125 * MB, share, LIMITS)
    found = target_rate(
        F, load, min_rate_bytes_per_s(load, LIMITS, max_bytes_per_s=most), most, 10.0, LIMITS, max_bytes_per_s=most
    )
    assert found == TargetRate(2.5 * MB, infeasible=True, at_ceiling=True)


def after_forty_seconds(objective: Objective, planned: frozenset[BrokerSide] = frozenset()) -> dict[int, float]:
    """What is meant for two leaders, by broker: one has 400 GB to send and one 100 GB, at 30 MB/s at most."""
    limits = ControlLimits(rate_bytes_per_s_max=30 * MB)
    quiet = BrokerSignal(
        "c", 1, 0, 0, 6, 1.0, network_out_bytes_per_s=0.0, network_in_bytes_per_s=0.0,
        reassignment_out_bytes_per_s=0.0, reassignment_in_bytes_per_s=0.0, produce_p99_ms=1.0,
    )  # fmt: skip
    moves = {
        (broker, L): MoveSignal(
            "c", broker, L, 0, 0, 6, 1.0, 1, 1, remaining_bytes=remaining_bytes, steady_state_bytes_per_s=0.0, write_bytes_per_s=0.0
        )
        for broker, remaining_bytes in ((1, 400e9), (2, 100e9))
    }  # fmt: skip
    memory, stands = ControlState(), dict.fromkeys(moves, 5 * MB)
    for second in range(40):
        at_ms = second // 5 * 5000
        brokers = {b: replace(quiet, broker=b, window_end_ms=at_ms, sampled_at_ms=at_ms) for b in (1, 2)}
        now = {side: replace(move, window_end_ms=at_ms, sampled_at_ms=at_ms) for side, move in moves.items()}
        view = ControlInput(second * 1000, brokers, now, stands, {1: LINK, 2: LINK}, planned_sides=planned)
        memory, writes = control_step(view, memory, objective, limits)
        stands |= writes
    return {b: memory.side_states[(b, L)].setpoint.rate_bytes_per_s for b in (1, 2)}


def test_side_at_configured_maximum_sets_time_for_all() -> None:
    """The larger takes 13,333 s, so the smaller needs a quarter of that rate."""
    assert after_forty_seconds(FAST) == {1: 30 * MB, 2: pytest.approx(7.5 * MB)}


@pytest.mark.parametrize(("mode", "hurries"), [(Mode.FAST, True), (Mode.SHARE, True), (Mode.GENTLE, False)])
def test_only_fast_modes_give_plans_spare_rate(mode: Mode, *, hurries: bool) -> None:
    objective = Objective(50.0, mode, share_max=0.8 if mode is Mode.SHARE else None)
    alone = after_forty_seconds(objective)
    by_turns = after_forty_seconds(objective, frozenset({(1, L), (2, L)}))
    # The larger one's leader, at the operator's ceiling, leaves the followers room.
    paced = LIMITS.plan_leader_ratio if hurries else 1.0
    assert by_turns == {1: pytest.approx(paced * alone[1]), 2: pytest.approx((1.5 if hurries else 1.0) * alone[2])}


def test_takeover_starts_at_current_rate_and_cuts_excess_at_once() -> None:
    assert limit_takeover(TargetRate(80 * MB), 20 * MB, 0.0, LIMITS).rate_bytes_per_s == 20 * MB
    assert limit_takeover(TargetRate(80 * MB), 20 * MB, 15.0, LIMITS).rate_bytes_per_s == 50 * MB
    assert limit_takeover(TargetRate(80 * MB), 20 * MB, 90.0, LIMITS).rate_bytes_per_s == 80 * MB
    assert limit_takeover(TargetRate(10 * MB), 20 * MB, 0.0, LIMITS).rate_bytes_per_s == 10 * MB


def test_ramping_side_does_not_count_as_full_link() -> None:
    """Else the margin would be given away before the link was ever full."""
    assert not limit_takeover(TargetRate(80 * MB, at_ceiling=True), 20 * MB, 15.0, LIMITS).at_ceiling
    assert limit_takeover(TargetRate(80 * MB, at_ceiling=True), 20 * MB, 30.0, LIMITS).at_ceiling
    assert limit_takeover(TargetRate(10 * MB, at_ceiling=True), 20 * MB, 0.0, LIMITS).at_ceiling


def test_boost_multiplies_need_up_to_ceiling() -> None:
    load = SideLoad(2_000 * MB, 4 * MB)
    assert target_rate(L, load, 5 * MB, 80 * MB, 200.0, LIMITS).rate_bytes_per_s == pytest.approx(14 * MB)
    assert target_rate(L, load, 5 * MB, 80 * MB, 200.0, LIMITS, 1.5).rate_bytes_per_s == pytest.approx(21 * MB)
    assert target_rate(L, load, 5 * MB, 20 * MB, 200.0, LIMITS, 1.5).rate_bytes_per_s == 20 * MB


def test_stall_boosts_only_full_throttle_and_boost_fades() -> None:
    assert next_boost(1.0, True, True, LIMITS) == 1.5
    assert next_boost(1.5, True, True, LIMITS) == 2.25
    assert next_boost(4.0, True, True, LIMITS) == 5.0
    assert next_boost(1.5, True, False, LIMITS) == 1.5
    assert next_boost(2.25, False, True, LIMITS) == 1.5
    assert next_boost(1.0, False, False, LIMITS) == 1.0


def test_throttle_opens_to_lower_of_ceiling_and_link() -> None:
    assert isr_recovery_rate(12 * MB, 125 * MB, LIMITS).rate_bytes_per_s == 125 * MB
    assert isr_recovery_rate(12 * MB, 90 * MB, LIMITS).rate_bytes_per_s == 90 * MB
    assert (
        isr_recovery_rate(12 * MB, 125 * MB, replace(LIMITS, rate_bytes_per_s_max=60 * MB)).rate_bytes_per_s == 60 * MB
    )
    assert isr_recovery_rate(8 * MB, 125 * MB, replace(LIMITS, rate_bytes_per_s_max=8 * MB)).rate_bytes_per_s == 8 * MB
    assert isr_recovery_rate(130 * MB, 125 * MB, LIMITS).rate_bytes_per_s == 130 * MB


def test_minimum_drains_within_the_operator_limits() -> None:
    load = SideLoad(1_000 * MB, 30 * MB)
    assert min_rate_bytes_per_s(load, LIMITS) == 36 * MB
    assert min_rate_bytes_per_s(load, LIMITS, max_bytes_per_s=31 * MB) == 31 * MB
    assert min_rate_bytes_per_s(load, replace(LIMITS, rate_bytes_per_s_max=20 * MB)) == 20 * MB
    assert min_rate_bytes_per_s(SideLoad(1_000 * MB, 1 * MB), LIMITS) == 5 * MB


def view(now_ms: int, sampled_at_ms: int, stands: int) -> ControlInput:
    broker = BrokerSignal(
        "c", 1, sampled_at_ms, sampled_at_ms, 6, 1.0, network_out_bytes_per_s=50 * MB, network_in_bytes_per_s=50 * MB,
        reassignment_out_bytes_per_s=20 * MB, reassignment_in_bytes_per_s=0.0, produce_p99_ms=10.0, fetch_p99_ms=10.0,
    )  # fmt: skip
    move = MoveSignal(
        "c", 1, L, sampled_at_ms, sampled_at_ms, 6, 1.0, 1, 1, remaining_bytes=10_000 * MB,
        steady_state_bytes_per_s=2 * MB, write_bytes_per_s=1 * MB,
    )  # fmt: skip
    return ControlInput(now_ms, {1: broker}, {(1, L): move}, {(1, L): stands}, {1: LINK})


def test_rate_rises_from_current_to_headroom() -> None:
    memory, stands = ControlState(), 20 * MB
    for second in range(120):
        memory, writes = control_step(view(second * 1000, second // 5 * 5000, stands), memory, FAST, LIMITS)
        stands = writes.get((1, L), stands)
    # 0.9 of 125 MB/s less 30 of clients is 82.5 with all of the margin, a little more once it has shrunk.
    assert 75 * MB < memory.side_states[(1, L)].setpoint.rate_bytes_per_s < 90 * MB


def test_stale_signals_hold_then_lower_and_never_raise() -> None:
    memory, stands, seen = ControlState(), 20 * MB, []
    for second in range(300):
        memory, writes = control_step(view(second * 1000, min(second, 30) // 5 * 5000, stands), memory, FAST, LIMITS)
        stands = writes.get((1, L), stands)
        seen.append(memory.side_states[(1, L)].setpoint.rate_bytes_per_s)
    held = seen[46]
    assert seen[46:60] == [held] * 14
    assert all(later <= earlier for earlier, later in itertools.pairwise(seen[46:]))
    assert seen[-1] < 0.3 * held
    assert seen[-1] >= 5 * MB


def test_stale_signals_stop_a_takeover() -> None:
    """The way up takes 30 s; the only signal there is grows old after 15."""
    memory, seen = ControlState(), []
    for second in range(28):
        memory, _ = control_step(view(second * 1000, 0, 20_000_000), memory, FAST, LIMITS)
        seen.append(memory.side_states[(1, L)].setpoint.rate_bytes_per_s)
    assert seen[15] > seen[5] > seen[0]
    assert seen[16:] == [seen[15]] * 12


def test_repeated_signal_keeps_margin_and_forecast() -> None:
    first, _ = control_step(view(3_000, 0, 20_000_000), ControlState(), FAST, LIMITS)
    second, _ = control_step(view(4_000, 0, 20_000_000), first, FAST, LIMITS)
    assert second.broker_estimates == first.broker_estimates


def test_unthrottled_side_stays_unthrottled() -> None:
    seen = view(3_000, 0, 20_000_000)
    memory, writes = control_step(replace(seen, current_rates={}), ControlState(), FAST, LIMITS)
    assert writes == {}
    assert memory.side_states == {}


def unseen(ours: dict[tuple[int, Side], int], seconds: int, *, partial: bool) -> list[int]:
    """What stands on a leader's side of which, since we were started, nothing or not the whole was measured."""
    memory, stands, seen = ControlState(), 70 * MB, []
    for second in range(seconds):
        now = view(second * 1000, second // 5 * 5000, stands)
        broker = replace(now.brokers[1], network_out_bytes_per_s=None)
        now = replace(now, brokers={1: broker}) if partial else replace(now, brokers={}, moves={})
        memory, writes = control_step(replace(now, restore_rates=ours), memory, FAST, ControlLimits())
        stands = writes.get((1, L), stands)
        seen.append(stands)
    return seen


@pytest.mark.parametrize("partial", [False, True])
def test_managed_rate_decays_after_restart_without_signals(partial: bool) -> None:
    """Down to what stood there before us; where that was nothing, to what drains."""
    seen = unseen({(1, L): 20 * MB}, 400, partial=partial)
    assert seen[:30] == [70 * MB] * 30
    assert all(later <= earlier for earlier, later in itertools.pairwise(seen))
    assert seen[-1] == pytest.approx(20 * MB, rel=0.005)  # Less is not worth a write.
    assert unseen({(1, L): 0}, 600, partial=partial)[-1] == pytest.approx(5 * MB, rel=0.005)


def test_external_rate_is_kept_without_signals() -> None:
    assert set(unseen({}, 300, partial=True)) == {70 * MB}
