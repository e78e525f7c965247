"""A throttle with an empty quota window warms up before a step copies through it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from loop_rig import Rig
from test_list_writer import NOTHING, cycle
from test_steering_tick import OBJECTIVE
from tuner_cases import LIMITS, NOW_MS, SOURCE, STALL, TARGET, broker_signal, live, move, observation, owned

from tuner.control.throttle.decision import Decision, Hold, Reason, SetRate
from tuner.control.throttle.policy import decide
from tuner.control.throttle.quota_window.ramp import WINDOW_S, plan_fill
from tuner.control.throttle.state import Memory
from tuner.control.throttle.write_intents import record_success
from tuner.core.cluster import LiveCluster
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.throttle_limits import MB, ThrottleLimits

STEERS = replace(LIMITS, closed_loop=True, rate_bytes_per_s_min=1 * MB)
KEY = ("orders", 0)


# -- what is decided ------------------------------------------------------------------------------------------------------


def decided(limits: ThrottleLimits = STEERS, memory: Memory | None = None, **more: Any) -> Decision:
    """About the leader's side of the standard move, of which nothing is measured yet."""
    seen = replace(observation(live(), signals=()), **{"empty_windows": frozenset({SOURCE, TARGET}), **more})
    _, decisions = decide(seen, memory or Memory(), limits, STALL)
    (found,) = (d for d in decisions if isinstance(d, SetRate | Hold) and (d.broker, d.side) == SOURCE)
    return found


def test_warmup_needs_no_measurement() -> None:
    found = decided()
    assert isinstance(found, SetRate)
    assert (found.reason, found.current_bytes_per_s, found.setpoint_bytes_per_s) == (
        Reason.WINDOW_WARMUP,
        10 * MB,
        10 * MB,
    )
    assert "1.00 MB/s → 10.0 MB/s: the current rate, while the quota window fills" in found.text


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        (Reason.RATE_IS_CHANGING, {"ramping": frozenset({SOURCE, TARGET})}),
        (Reason.SIGNALS_MISSING, {"live": live({})}),
        (Reason.SIGNALS_MISSING, {"empty_windows": frozenset({TARGET})}),
    ],
)
def test_warmup_runs_once_and_needs_a_throttle(reason: Reason, more: dict[str, Any]) -> None:
    assert decided(**more).reason is reason


def test_orders_and_external_owners_precede_a_warmup() -> None:
    order = Orders(overrides={SOURCE: Override(9 * MB, NOW_MS + 60_000, "kim")})
    assert decided(orders=order).reason is Reason.OVERRIDDEN
    assert decided(memory=Memory(externally_owned_until_ms={SOURCE: NOW_MS + 60_000})).reason is Reason.EXTERNALLY_OWNED
    standing = Memory(preexisting_rates={SOURCE: 10 * MB})
    assert decided(replace(STEERS, adopts_existing=False), standing).reason is Reason.PRESERVED


def test_warmup_starts_at_the_minimum_rate() -> None:
    (low, *_), stands = plan_fill(10 * MB, 4 * MB), 10 * MB
    assert low.rate_bytes_per_s == 4 * MB
    assert "4.00 MB/s → 10.0 MB/s" in decided(replace(STEERS, rate_bytes_per_s_min=4 * MB)).text
    assert decided(replace(STEERS, rate_bytes_per_s_min=stands)).reason is Reason.SIGNALS_MISSING


def test_warmup_ends_at_the_ceiling() -> None:
    found = decided(replace(STEERS, rate_bytes_per_s_max=6 * MB))
    assert isinstance(found, SetRate)
    assert found.setpoint_bytes_per_s == 6 * MB
    assert "1.00 MB/s → 6.00 MB/s: the ceiling, while the quota window fills" in found.text


def test_interrupted_warmup_continues_to_the_earlier_rate() -> None:
    ours = replace(owned(10 * MB, 10 * MB, 3 * MB), restore_to_bytes_per_s=10 * MB)
    found = decided(live=live({SOURCE: 3 * MB, TARGET: 3 * MB}), memory=Memory(owned={SOURCE: ours}))
    assert isinstance(found, SetRate)
    assert (found.current_bytes_per_s, found.setpoint_bytes_per_s) == (3 * MB, 10 * MB)
    assert "3.00 MB/s → 10.0 MB/s: the earlier rate" in found.text
    after = record_success(Memory(owned={SOURCE: ours}), found)
    assert SOURCE not in after.owned


def test_warmup_without_objective_or_plan_is_none() -> None:
    assert decided(replace(STEERS, closed_loop=False)).reason is Reason.SIGNALS_MISSING


def test_warmup_skips_sides_that_block_writes() -> None:
    behind = replace(broker_signal(1), under_min_isr_partitions=1)
    recovers = replace(move(), isr=(1,))
    found = decided(live=live(moves=(recovers,)), broker_signals={1: behind, 3: broker_signal(3)})
    assert found.reason is not Reason.WINDOW_WARMUP


# -- the loop -------------------------------------------------------------------------------------------------------------


def idle() -> tuple[Rig, PrepareHandshake]:
    """A throttle of another tool, and no move."""
    rig, announcing = Rig(Memory(), objective=OBJECTIVE), PrepareHandshake()
    rig.throttles.lists.clear()
    rig.limits = replace(rig.limits, rate_bytes_per_s_min=1 * MB)
    rig.loop = rig._make_loop(Memory())
    rig.live.moves = ()
    rig.signals.moves = {}
    rig.loop.connect_plans(dict, announcing)
    for _ in range(4):
        cycle(rig)
    return rig, announcing


def cut_short(rig: Rig, announcing: PrepareHandshake) -> None:
    """A step has begun, and a look fails while its throttle is brought up."""
    announcing.submit([move()])
    cycle(rig)
    rig.live.moves = (move(),)
    announcing.clear()
    rig.live.not_seen = "no answer"
    cycle(rig)


def test_warmup_lowers_before_the_step_and_restores_after() -> None:
    rig, announcing = idle()
    announcing.submit([move()])
    began_s = rig.now_s + 5.0
    assert cycle(rig).count(Reason.WINDOW_WARMUP) == 2
    assert announcing.deferred == {}
    assert rig.throttles.rates == {SOURCE: 1 * MB, TARGET: 1 * MB}, "a twelfth of 10 MB/s is less than is allowed"
    rig.live.moves = (move(),)
    announcing.clear()
    rig.now_s += 1.0
    assert rig.cycle() == [Reason.RATE_IS_CHANGING] * 2, "no signal tells of it yet, and it goes on"
    rates = []
    while (due_s := rig.loop.next_due_s()) is not None and rig.loop._ramps.busy:
        rig.now_s = due_s
        rig.loop.tick()
        rates.append((rig.now_s - began_s, rig.throttles.rates[SOURCE]))
    assert rates == [(i, round(10 * MB * (i + 1) / 12)) for i in range(1, 12)]
    assert not rig.loop.memory.owned, "the rate is as before, so nothing has to be restored"
    assert rig.kinds("set") == ["intent", "intent", "outcome", "outcome"]


def test_recent_moves_need_no_warmup() -> None:
    rig, announcing = idle()
    rig.live.moves = (move(),)
    cycle(rig)
    announcing.submit([replace(move(), partition=5)])
    assert Reason.WINDOW_WARMUP not in cycle(rig), "it moves"
    announcing.clear()
    rig.live.moves = ()
    rig.now_s += 1.0
    rig.cycle()
    rig.now_s += WINDOW_S - 1.0
    announcing.submit([replace(move(), partition=5)])
    assert Reason.WINDOW_WARMUP not in rig.cycle(), "it has ended just now"


@pytest.mark.parametrize("why", ["urgent", "listed", "looked just now"])
def test_warmup_is_skipped_for_urgent_steps_and_counted_bytes(why: str) -> None:
    rig, announcing = idle()
    if why == "listed":
        rig.throttles.lists = Rig().throttles.lists
        cycle(rig)
    if why == "looked just now":
        rig.loop = rig._make_loop(Memory())
        rig.loop.connect_plans(dict, announcing)
        cycle(rig)
    announcing.submit([move()], [KEY] if why == "urgent" else ())
    assert Reason.WINDOW_WARMUP not in cycle(rig)
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_warmup_interrupted_by_a_failed_cycle_continues() -> None:
    rig, announcing = idle()
    cut_short(rig, announcing)
    assert not rig.loop._ramps.busy
    rig.live.not_seen = None
    assert cycle(rig) == [Reason.WINDOW_WARMUP] * 2, "no measurement is needed for what stood"
    assert 1 * MB < rig.throttles.rates[SOURCE] < 2 * MB, "and it goes on at once"
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert not rig.loop.memory.owned
    assert cycle(rig) == [Reason.SIGNALS_MISSING] * 2


def test_interrupted_warmup_is_restored_or_relinquished() -> None:
    for external in (False, True):
        rig, announcing = idle()
        cut_short(rig, announcing)
        rig.live.not_seen = None
        if external:
            rig.throttles.rates[SOURCE] = 7 * MB
            assert Reason.EXTERNAL_CHANGE in cycle(rig)
            assert (cycle(rig), rig.throttles.rates[SOURCE])[1] == 7 * MB
            continue
        rig.live.moves = ()
        for _ in range(4):
            cycle(rig)
        assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
        assert not rig.loop.memory.owned


def test_deferred_step_keeps_its_window_empty() -> None:
    rig, announcing = idle()
    rig.limits = replace(rig.limits, throttles_all_moves=True)
    rig.loop = rig._make_loop(Memory())
    rig.loop.connect_plans(dict, announcing)
    for _ in range(4):
        cycle(rig)
    rig.throttles.refusing["orders"] = "not authorized"
    rig.throttles.lists["orders"] = NOTHING
    announcing.submit([move()])
    cycle(rig)
    assert announcing.deferred
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (10 * MB, 10 * MB)
    assert rig.loop._windows._ages.empty_windows([SOURCE], rig.now_s) == {SOURCE}


def test_warmup_without_write_budget_changes_nothing() -> None:
    rig, announcing = idle()
    rig.loop._ramps._writes_per_s_max = rig.loop._ramps._budget = rig.loop._ramps._budget_max = 1.0
    announcing.submit([move()])
    assert cycle(rig).count(Reason.WINDOW_WARMUP) == 2
    assert sorted(rig.throttles.rates.values()) == [1 * MB, 10 * MB]
    assert len(rig.loop.memory.owned) == len(rig.loop._ramps.busy) == 1


def test_executor_counts_the_warmups_target_rate() -> None:
    rig, announcing = idle()
    announcing.submit([move()])
    cycle(rig)
    rig.now_s += 1.0
    rig.cycle()
    seen = rig.observer.cycles[-1][0].live
    assert isinstance(seen, LiveCluster)
    assert seen.rates[SOURCE].bytes_per_s == 1 * MB
    assert rig.loop.throttle_state.setpoints[SOURCE] == 10 * MB


def test_window_with_a_new_external_move_is_not_empty() -> None:
    for what in ("a move", "a list"):
        rig, announcing = idle()
        announcing.submit([replace(move(), partition=5)])
        if what == "a move":
            rig.live.moves = (move(),)
        else:
            rig.throttles.lists = Rig().throttles.lists
        assert Reason.WINDOW_WARMUP not in cycle(rig), what
        assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_old_interrupted_warmup_needs_fresh_signals() -> None:
    rig, announcing = idle()
    cut_short(rig, announcing)
    rig.live.not_seen = None
    rig.now_s += 60.0
    assert cycle(rig) == [Reason.SIGNALS_MISSING] * 2


def test_interrupted_warmup_continues_to_the_ceiling() -> None:
    rig, announcing = idle()
    rig.limits = replace(rig.limits, rate_bytes_per_s_max=6 * MB)
    rig.loop = rig._make_loop(Memory())
    rig.loop.connect_plans(dict, announcing)
    for _ in range(4):
        cycle(rig)
    cut_short(rig, announcing)
    rig.live.not_seen = None
    assert cycle(rig) == [Reason.WINDOW_WARMUP] * 2
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 6 * MB, TARGET: 6 * MB}


def test_warmup_with_failed_first_write_is_not_repeated() -> None:
    rig, announcing = idle()
    rig.throttles.refusing = {1: "not authorized", 3: "not authorized"}
    announcing.submit([move()])
    cycle(rig)
    assert not rig.loop._ramps.busy
    rig.throttles.refusing.clear()
    rig.live.moves = (move(),)
    announcing.clear()
    assert Reason.WINDOW_WARMUP not in cycle(rig)
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_pause_lets_a_warmup_finish() -> None:
    rig, announcing = idle()
    announcing.submit([move()])
    cycle(rig)
    rig.live.moves = (move(),)
    announcing.clear()
    rig.orders.latest = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
    assert Reason.PAUSED in cycle(rig)
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert not rig.loop.memory.owned


def test_urgent_step_keeps_its_sides_open_for_all_steps() -> None:
    rig, announcing = idle()
    announcing.submit([move(), replace(move(), partition=5)], [KEY])
    assert Reason.WINDOW_WARMUP not in cycle(rig)


def test_next_tuner_restores_an_interrupted_warmup() -> None:
    rig, announcing = idle()
    announcing.submit([move()])
    cycle(rig)
    rig.die_and_start_again()
    ours = rig.loop.memory.owned[SOURCE]
    assert (ours.before_bytes_per_s, ours.restore_to_bytes_per_s) == (10 * MB, 10 * MB)
    assert {1 * MB, 10 * MB} <= {*ours.possible_rates}
    rig.live.moves = ()
    for _ in range(8):
        cycle(rig)
        rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_release_restores_the_rate_before_a_warmup() -> None:
    rig, announcing = idle()
    announcing.submit([move()])
    cycle(rig)
    rig.live.moves = (move(),)
    announcing.clear()
    rig.orders.latest = Orders(at_ms=1, pause=Pause(1, "kim@desk", released=True))
    for _ in range(4):
        cycle(rig)
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert not rig.loop.memory.owned
