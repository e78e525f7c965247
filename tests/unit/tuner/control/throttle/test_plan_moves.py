"""Plans of rheostat without an objective: rates and lists precede the first byte, never above the ceiling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from loop_rig import Rig
from reassign_rig import still
from test_list_writer import NOTHING, WANTED, cycle, listed
from test_prepared_moves import Announced
from test_steering_tick import OBJECTIVE
from tuner_cases import LIMITS, NOW_MS, SOURCE, TARGET, F, L, live, move, observation, owned

from tuner.control.throttle.decision import Decision, Hold, Reason, SetRate, StartRate
from tuner.control.throttle.objective import ControlLimits, Objective, with_max_rate
from tuner.control.throttle.plan_moves import (
    highest_plan_rate_bytes_per_s,
    list_requested_moves,
    plan_rates,
    plan_setpoints,
    plan_throttle_rate,
    select_moves_to_list,
)
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders, Override
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import Plan, PlanHead, PlanPartition, PlanState, PlanThrottle, RequestedStep
from tuner.core.throttle_limits import MB, StallLimits, ThrottleLimits
from tuner.journal.plan_book import PlanBook, apply_for_display
from tuner.journal.plan_records import encode_parts, encode_requested, head_key, part_key, requested_key

KEY = ("orders", 0)
STANDBY: BrokerSide = (2, L)
CEILING = 48 * MB
TWELFTH = 4 * MB
# Leaders get 0.92 of a plan's rate: several destinations fetch from one leader.
LEADER_MAX = 44_160_000
LEADER_TWELFTH = 3_680_000
PLAN_LIMITS = replace(LIMITS, rate_bytes_per_s_max=CEILING)
SLOW = PlanThrottle(12 * MB)


def plan(throttle: PlanThrottle | None = None, *, asked: bool = True) -> Plan:
    head = PlanHead("p1", "kim@desk", NOW_MS, NOW_MS, 1, throttle=throttle or PlanThrottle())
    step = {KEY: RequestedStep((3, 2), (1, 2))} if asked else {}
    return Plan(head, {KEY: PlanPartition((3, 2), (1, 2))}, step, PlanState(NOW_MS))


def rig_of(throttle: PlanThrottle | None = None, **more: Any) -> tuple[Rig, PrepareHandshake, list[Plan]]:
    """A tuner without an objective, a cluster on which nothing moves or is throttled, and a plan on record."""
    rig, announcing, plans = Rig(Memory(), **more), PrepareHandshake(), [plan(throttle, asked=False)]
    rig.limits = replace(rig.limits, rate_bytes_per_s_max=CEILING)
    rig.loop = rig._make_loop(Memory())
    rig.throttles.rates.clear()
    rig.throttles.lists = {"orders": NOTHING, "payments": NOTHING}
    rig.live.moves = ()
    rig.signals.moves = {}
    rig.loop.connect_plans(dict, announcing, lambda: plans)
    for _ in range(4):
        cycle(rig)
    return rig, announcing, plans


def announce(rig: Rig, announcing: PrepareHandshake, plans: list[Plan]) -> None:
    """The plan is about to ask Kafka for its step, and the tuner sees to that."""
    plans[0] = replace(plans[0], requested=plan().requested)
    announcing.submit([move()])
    cycle(rig)


def begin(rig: Rig, announcing: PrepareHandshake) -> None:
    rig.live.moves = (move(),)
    announcing.clear()


# -- before the first byte ------------------------------------------------------------------------------------------------


def test_plan_without_objective_has_rates_and_lists_before_moving() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    assert announcing.deferred == {}
    assert rig.throttles.rates == {SOURCE: LEADER_TWELFTH, STANDBY: LEADER_TWELFTH, TARGET: TWELFTH}
    assert listed(rig) == WANTED


def test_plan_with_objective_and_moves_left_alone_is_throttled() -> None:
    rig, announcing, plans = rig_of(objective=OBJECTIVE)
    announce(rig, announcing, plans)
    assert announcing.deferred == {}
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}
    assert listed(rig) == WANTED


def test_plan_rate_rises_to_the_ceiling_as_the_window_fills() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    began_s = rig.now_s
    begin(rig, announcing)
    found = []
    while rig.loop._ramps.busy and (due_s := rig.loop.next_due_s()) is not None:
        rig.now_s = due_s
        rig.loop.tick()
        found.append((round(rig.now_s - began_s), rig.throttles.rates[TARGET]))
        assert rig.throttles.rates[SOURCE] == round(rig.throttles.rates[TARGET] * 0.92)
    assert found == [(i + 3, TWELFTH * (i + 1)) for i in range(1, 12)], (
        "it waits until fetchers run, then a twelfth a second"
    )
    assert cycle(rig) == [Reason.SIGNALS_MISSING] * 2, "no measurement has come yet, and the rates stand"
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_MAX, CEILING)


def test_plan_throttle_is_lower_than_the_ceiling() -> None:
    rig, announcing, plans = rig_of(SLOW)
    announce(rig, announcing, plans)
    assert rig.throttles.rates == {SOURCE: 920_000, STANDBY: 920_000, TARGET: 1 * MB}
    begin(rig, announcing)
    rig.run_ramps()
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (11_040_000, 12 * MB)


def test_plan_throttle_above_a_lowered_ceiling_gives_the_ceiling() -> None:
    assert plan_throttle_rate(PlanThrottle(90 * MB), PLAN_LIMITS.rate_bytes_per_s_max) == CEILING


@pytest.mark.parametrize("limits", [ThrottleLimits(48 * MB), ControlLimits(rate_bytes_per_s_max=48 * MB)])
def test_lower_ceiling_lowers_the_minimum_rate(limits: Any) -> None:
    low = with_max_rate(limits, 2 * MB)
    assert (low.rate_bytes_per_s_max, low.rate_bytes_per_s_min) == (2 * MB, 2 * MB)
    assert with_max_rate(limits, 12 * MB).rate_bytes_per_s_min == 5 * MB
    assert with_max_rate(limits, 48 * MB) is limits


def test_plan_leaves_nothing_behind_at_its_end() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    plans[0] = replace(plans[0], requested={})
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert not rig.throttles.rates
    assert not listed(rig)
    assert not rig.loop.memory.owned


@pytest.mark.parametrize("during", ["the way up", "the copy"])
def test_plan_leaves_nothing_behind_after_a_kill(during: str) -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    begin(rig, announcing)
    if during == "the copy":
        rig.run_ramps()
    rig.die_and_start_again()
    rig.loop.connect_plans(dict, PrepareHandshake(), lambda: plans)
    cycle(rig)
    rig.run_ramps()
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_MAX, CEILING)
    assert listed(rig) == WANTED, "what a plan has asked for is on record, and stays throttled"
    plans[0] = replace(plans[0], requested={})
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert not rig.throttles.rates
    assert not listed(rig)


def unknown_plans(state: str) -> list[Plan]:
    """What a tuner that starts finds of the plan while its head cannot be read."""
    book, made = PlanBook("c"), plan()
    head = {"newer": b'{"v": 99}', "damaged": b"x", "mended": None}[state]
    apply_for_display(book, part_key("c", "p1", 0), encode_parts(made.partitions))
    apply_for_display(book, requested_key("c", "p1", 0), encode_requested(made.requested))
    apply_for_display(book, head_key("c", "p1"), head)
    return [*book.known_plans]


@pytest.mark.parametrize("objective", [None, OBJECTIVE], ids=["no_objective", "objective"])
@pytest.mark.parametrize("state", ["newer", "damaged", "mended"])
def test_plan_without_readable_head_keeps_throttle_until_its_end(state: str, objective: Objective | None) -> None:
    rig, announcing, plans = rig_of(SLOW, objective=objective)
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    rates = dict(rig.throttles.rates)
    rig.die_and_start_again()
    plans[:] = unknown_plans(state)
    rig.loop.connect_plans(dict, PrepareHandshake(), lambda: plans)
    for _ in range(6):
        rig.now_ms += 5_000
        cycle(rig)
        assert listed(rig) == WANTED
        assert rig.throttles.rates.keys() == rates.keys()
        assert max(rig.throttles.rates.values()) <= CEILING
        if objective is None:
            assert rig.throttles.rates == rates, "the throttle of the plan, which is lower than the ceiling"
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert not rig.throttles.rates
    assert not listed(rig)


def test_move_of_unknown_plan_is_throttled_again_after_clearing() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    plans.clear()
    rig.throttles.rates.clear()
    rig.throttles.lists = {"orders": NOTHING, "payments": NOTHING}
    for _ in range(3):
        cycle(rig)
    assert listed(rig) == WANTED
    assert rig.throttles.rates.keys() >= {SOURCE, TARGET}


def test_other_tools_move_is_not_listed_beside_unknown_plan() -> None:
    others = move(partition=5)
    assert select_moves_to_list((move(), others), {}, PLAN_LIMITS, WANTED) == (move(),)


def test_unthrottled_plan_is_neither_prepared_nor_listed() -> None:
    made = Announced({("t", 0): still(1, 2)}, online={1, 2, 3, 4})
    made.give({("t", 0): (3, 2)}, throttle=PlanThrottle(unthrottled=True))
    made.ticks()
    assert dict(made.cluster.asked) == {("t", 0): (3, 2)}
    for throttles_moves in (False, True):
        limits = replace(PLAN_LIMITS, throttles_all_moves=throttles_moves)
        assert select_moves_to_list((move(),), {KEY: PlanThrottle(unthrottled=True)}, limits, WANTED) == ()
    assert plan_rates((move(),), {KEY: PlanThrottle(unthrottled=True)}, PLAN_LIMITS) == {}


# -- rates that stand already ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stood", [2 * MB, 200 * MB])
def test_preexisting_rate_becomes_the_plans_and_is_restored(stood: int) -> None:
    rig, announcing, plans = rig_of()
    rig.throttles.rates = {SOURCE: stood, TARGET: stood}
    for _ in range(4):
        cycle(rig)
    announce(rig, announcing, plans)
    assert announcing.deferred == {}
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_TWELFTH, TWELFTH)
    begin(rig, announcing)
    rig.run_ramps()
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_MAX, CEILING)
    plans[0] = replace(plans[0], requested={})
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert rig.throttles.rates == {SOURCE: stood, TARGET: stood}


def test_default_of_the_cluster_does_not_open_a_plan() -> None:
    rig, announcing, plans = rig_of()
    rig.throttles.default_rates = {L: 900 * MB, F: 900 * MB}
    announce(rig, announcing, plans)
    assert announcing.deferred == {}
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_TWELFTH, TWELFTH)
    begin(rig, announcing)
    rig.run_ramps()
    assert max(rig.throttles.rates.values()) == CEILING
    plans[0] = replace(plans[0], requested={})
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert not rig.throttles.rates, "the default is in force again"


def test_preserved_rate_above_the_ceiling_defers_the_step() -> None:
    rig, announcing, plans = rig_of()
    rig.throttles.rates = {SOURCE: 200 * MB, TARGET: 200 * MB}
    rig.limits = replace(rig.limits, adopts_existing=False)
    rig.loop = rig._make_loop(rig.loop.memory)
    rig.loop.connect_plans(dict, announcing, lambda: plans)
    for _ in range(4):
        cycle(rig)
    announce(rig, announcing, plans)
    assert announcing.deferred is not None
    assert "is at 200 MB/s, but the plan may use only 48.0 MB/s" in announcing.deferred[KEY]
    assert not announcing.waiting_for_capacity, "nothing is under way that would change it: it has failed"
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (200 * MB, 200 * MB)


def test_rate_that_another_tool_removed_defers_the_step() -> None:
    rig, announcing, plans = rig_of()
    theirs = Memory(externally_owned_until_ms={SOURCE: NOW_MS + 3_600_000})
    rig.loop = rig._make_loop(theirs)
    rig.loop.connect_plans(dict, announcing, lambda: plans)
    announce(rig, announcing, plans)
    assert announcing.deferred == {KEY: "not begun: no rate is set on the broker 1 leader throttle"}


def test_step_waits_while_a_rate_is_lowered_for_it() -> None:
    rig, announcing, plans = rig_of()
    rig.live.moves = (move(partition=5),)
    rig.throttles.rates = {SOURCE: 200 * MB, TARGET: 200 * MB}
    for _ in range(8):
        cycle(rig)
    announce(rig, announcing, plans)
    assert announcing.deferred is not None
    assert announcing.deferred.keys() == {KEY}
    assert {*announcing.waiting_for_capacity} == {KEY}, "it only waits"
    rig.run_ramps()
    announcing.submit([move()])
    rig.now_s += 5.0
    rig.cycle()
    assert announcing.deferred == {}
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_MAX, CEILING)


def test_warmup_that_the_write_budget_delays_defers_the_step() -> None:
    rig, announcing, plans = rig_of()
    rig.throttles.rates = {SOURCE: CEILING, TARGET: CEILING}
    for _ in range(4):
        cycle(rig)
    rig.loop._ramps._writes_per_s_max = rig.loop._ramps._budget = rig.loop._ramps._budget_max = 1.0
    announce(rig, announcing, plans)
    assert announcing.deferred is not None
    assert "the tuner first has to lower" in announcing.deferred[KEY]
    assert {*announcing.waiting_for_capacity} == {KEY}


def test_override_warms_up_as_the_window_fills() -> None:
    for stands in (False, True):
        rig, announcing, plans = rig_of()
        rig.orders.latest = Orders(overrides={SOURCE: Override(24 * MB, NOW_MS + 10**9, "kim")})
        if stands:
            rig.throttles.rates = {SOURCE: 24 * MB, TARGET: 24 * MB}
            for _ in range(4):
                cycle(rig)
        announce(rig, announcing, plans)
        assert announcing.deferred == {}
        assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (2 * MB, TWELFTH)
        begin(rig, announcing)
        rig.run_ramps()
        assert Reason.OVERRIDDEN in cycle(rig)
        assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (24 * MB, CEILING)


def test_ceiling_that_was_lowered_lowers_plan_and_override() -> None:
    rig, announcing, plans = rig_of()
    rig.orders.latest = Orders(overrides={SOURCE: Override(CEILING, NOW_MS + 10**9, "kim")})
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    rig.set_ceiling(20 * MB)
    rig.loop.connect_plans(dict, PrepareHandshake(), lambda: plans)
    cycle(rig)
    rig.run_ramps()
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (20 * MB, 20 * MB)
    rig.orders.latest = Orders(overrides={TARGET: Override(CEILING, NOW_MS + 10**9, "kim")})
    cycle(rig)
    rig.run_ramps()
    assert rig.throttles.rates[TARGET] == 20 * MB, "an order of a file with a higher ceiling"


def test_side_that_was_idle_within_a_plan_warms_up_again() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    other = move(partition=5, leader=2, replicas=(1, 2), adding=(1,), removing=(), isr=(2,))
    rig.live.moves = (other,)  # The step on these sides has ended, and another goes on elsewhere.
    for _ in range(4):
        cycle(rig)
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_MAX, CEILING)
    announcing.submit([move()])
    cycle(rig)
    assert announcing.deferred == {}
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]) == (LEADER_TWELFTH, TWELFTH)


def test_side_that_was_idle_for_some_seconds_warms_up_partly() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    cycle(rig)
    rig.live.moves = ()
    announcing.last_copied_at_s[TARGET] = rig.now_s + 3.0
    announcing.submit([move()])
    rig.now_s += 6.0
    rig.cycle()
    assert rig.throttles.rates[TARGET] == round(CEILING * (1 - 3 / 12)), "the executor has looked since"
    assert rig.throttles.rates[SOURCE] == round(LEADER_MAX * (1 - 6 / 12))


def test_leader_that_takes_over_starts_from_a_twelfth() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    cycle(rig)
    assert rig.throttles.rates[STANDBY] == LEADER_TWELFTH
    rig.live.moves = (replace(move(), leader=2),)
    cycle(rig)
    assert rig.throttles.rates[STANDBY] == LEADER_TWELFTH
    rig.run_ramps()
    assert rig.throttles.rates[STANDBY] == LEADER_MAX


# -- what is decided ------------------------------------------------------------------------------------------------------


def decided(
    side: BrokerSide = SOURCE, throttle: PlanThrottle | None = None, memory: Memory | None = None, **more: Any
) -> Decision:
    """About one side of the standard move, which is a plan's here."""
    seen = replace(observation(live()), plan_moves={KEY: throttle or PlanThrottle()}, **more)
    _, decisions = decide(seen, memory or Memory(), PLAN_LIMITS, StallLimits())
    (found,) = (
        d for d in decisions if isinstance(d, SetRate | Hold | StartRate) and (d.broker, d.side) == side
    )  # fmt: skip
    return found


def test_plan_side_needs_no_measurement_for_its_rate() -> None:
    found = decided(move_signals={}, broker_signals={})
    assert isinstance(found, SetRate)
    assert (found.reason, found.setpoint_bytes_per_s) == (Reason.PLAN_RATE, LEADER_MAX)
    assert "10.0 MB/s → 44.2 MB/s: the rate of a rheostat plan" in found.text


def test_rate_of_a_plan_does_not_decay_without_signals() -> None:
    rig, announcing, plans = rig_of()
    announce(rig, announcing, plans)
    begin(rig, announcing)
    rig.run_ramps()
    written = len(rig.writes())
    for _ in range(60):
        rig.now_ms += 5_000
        cycle(rig)
        rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == LEADER_MAX
    assert len(rig.writes()) == written, "nothing is turned to and fro"


def test_override_comes_before_the_rate_of_a_plan() -> None:
    order = Orders(overrides={SOURCE: Override(9 * MB, NOW_MS + 60_000, "kim")})
    found = decided(orders=order)
    assert (found.reason, found.setpoint_bytes_per_s) == (Reason.OVERRIDDEN, 9 * MB)  # type: ignore[union-attr]


def test_rate_of_a_plan_does_not_raise_another_tools_move() -> None:
    both = live(moves=(move(), move(partition=5)))
    assert decided(live=both).reason is not Reason.PLAN_RATE
    assert decided(live=both, throttle=PlanThrottle(6 * MB)).reason is Reason.PLAN_RATE, "but it lowers it"


def test_rescue_never_goes_above_the_throttle_of_a_plan() -> None:
    at_plan_rate = live({SOURCE: 11_040_000, TARGET: 12 * MB})
    memory = Memory(owned={SOURCE: owned(None, 11_040_000), TARGET: owned(None, 12 * MB)})
    for side in (SOURCE, TARGET):
        found = decided(side, throttle=SLOW, live=at_plan_rate, memory=memory)
        assert isinstance(found, Hold), found


@pytest.mark.parametrize(
    ("throttles", "loosest"),
    [
        ([], None),
        ([PlanThrottle()], CEILING),
        ([SLOW, PlanThrottle(6 * MB)], 12 * MB),
        ([SLOW, PlanThrottle(unthrottled=True)], None),
    ],
)
def test_highest_plan_rate_is_that_of_any_active_plan(throttles: list[PlanThrottle], loosest: int | None) -> None:
    assert highest_plan_rate_bytes_per_s([plan(each) for each in throttles], PLAN_LIMITS, NOW_MS) == loosest


def test_highest_plan_rate_leaves_out_plans_that_wait() -> None:
    waiting = plan(PlanThrottle(unthrottled=True))
    waiting = replace(waiting, head=replace(waiting.head, not_before_ms=NOW_MS + 1))
    assert highest_plan_rate_bytes_per_s([waiting], PLAN_LIMITS, NOW_MS) is None
    assert highest_plan_rate_bytes_per_s([plan(SLOW), waiting], PLAN_LIMITS, NOW_MS) == 12 * MB
    assert highest_plan_rate_bytes_per_s([plan(SLOW), waiting], PLAN_LIMITS, NOW_MS + 1) is None, "it has started"


def test_lowest_throttle_of_several_plans_holds() -> None:
    other = move(partition=1, leader=2)
    plan_moves = {KEY: SLOW, ("orders", 1): PlanThrottle()}
    moves = (move(), other)
    assert plan_rates(moves, plan_moves, PLAN_LIMITS) == {SOURCE: 12 * MB, (2, L): CEILING, TARGET: 12 * MB}
    paced = {SOURCE: 11_040_000, (2, L): LEADER_MAX, TARGET: 12 * MB}
    assert plan_setpoints(moves, plan_moves, PLAN_LIMITS) == paced
    steered = replace(PLAN_LIMITS, closed_loop=True)
    assert plan_setpoints(moves, plan_moves, steered) == plan_rates(moves, plan_moves, steered)


def test_plan_that_has_ended_throttles_nothing() -> None:
    assert list_requested_moves([plan(asked=False)]) == {}
    assert list_requested_moves([plan(SLOW)]) == {KEY: SLOW}
