"""The rules for one side in their order: for every reason its situation, and the text for operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tuner_cases import (
    LIMITS,
    NOW_MS,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    UNSEEN,
    WELL,
    F,
    L,
    broker_signal,
    live,
    move,
    move_signal,
    observation,
    traced,
)

from streaming.shared.contract import BrokerSignal, MoveSignal, ThrottledBy
from tuner.control.throttle.decision import Decision, Hold, Reason, SetRate
from tuner.control.throttle.side_rules import decide_sides
from tuner.control.throttle.stall_states import judge_stalls
from tuner.control.throttle.state import Memory, StallState
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, LiveCluster, Setpoint
from tuner.core.throttle_limits import MB, ThrottleLimits

# E1: a leader-side throttle of 4.5 where keeping up takes 6; nothing on the follower side.
E1_RATES = {SOURCE: 4.5 * MB}
E1_SIGNALS = (
    move_signal(*SOURCE, remaining=159 * MB),
    move_signal(*TARGET, remaining=159 * MB, steady_state=0, listed=0),
)
E1_BROKERS = (broker_signal(1, leader=4.6 * MB), broker_signal(3, follower=0))


def decide(
    side: BrokerSide = SOURCE,
    cluster: LiveCluster | None = None,
    signals: Iterable[MoveSignal] | None = None,
    brokers: Iterable[BrokerSignal] | None = None,
    *,
    stalls: Mapping[int, StallState] | None = None,
    busy: Iterable[BrokerSide] = (),
    limits: ThrottleLimits = LIMITS,
    **memory: Any,
) -> Decision:
    view = MovesView(
        observation(cluster or live(), signals, brokers, busy=busy),
        cluster or live(),
        limits,
    )
    remembered = Memory(stalls=stalls or dict.fromkeys(view.destinations, WELL), **memory)
    [decision] = decide_sides([side], view, remembered, STALL)
    return decision


E1: dict[str, Any] = {"cluster": live(E1_RATES), "signals": E1_SIGNALS, "brokers": E1_BROKERS, "stalls": {3: STALLED}}


def e1(side: BrokerSide = SOURCE, **others: Any) -> Decision:
    return decide(side, **E1, **others)


# -- a test for every reason -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steers", [False, True])
def test_preexisting_throttle_is_preserved_if_configured(steers: bool) -> None:
    respects = replace(LIMITS, adopts_existing=False, closed_loop=steers)
    decision = e1(preexisting_rates={SOURCE: 4_500_000}, limits=respects)
    assert isinstance(decision, Hold)
    assert decision.reason is Reason.PRESERVED
    assert decision.text == "broker 1 leader throttle: 4.50 MB/s was set before the move and is preserved"


def test_throttle_of_the_move_is_not_preexisting() -> None:
    """The operator's 2 MB/s were overwritten by ``--execute --throttle`` of the move."""
    respects = replace(LIMITS, adopts_existing=False)
    assert e1(preexisting_rates={SOURCE: 2_000_000}, limits=respects).reason is Reason.STALLED_BELOW_STEADY_STATE
    assert e1(limits=respects).reason is Reason.STALLED_BELOW_STEADY_STATE


def test_preexisting_throttle_is_adopted_by_default() -> None:
    assert e1(preexisting_rates={SOURCE: 4_500_000}).reason is Reason.STALLED_BELOW_STEADY_STATE


def test_moves_that_progress_hold_the_rate() -> None:
    decision = decide()
    assert decision == Hold(1, L, Reason.PROGRESSING, decision.text)
    assert decision.text == "broker 1 leader throttle: progressing under 10.0 MB/s: 600 MB remain"


@pytest.mark.parametrize("side", [SOURCE, TARGET])
def test_unreadable_settings_or_missing_broker_hold(side: BrokerSide) -> None:
    unreadable = live(unreadable=[side[0]])
    assert decide(side, unreadable, stalls={3: STALLED}).reason is Reason.SETTINGS_UNREADABLE
    gone = live(brokers={1, 2, 3} - {side[0]})
    assert decide(side, gone, stalls={3: STALLED}).reason is Reason.BROKER_DOWN


IDLE = [broker_signal(1, leader=2 * MB), broker_signal(3, follower=2 * MB)]
STALE_BROKERS = [broker_signal(1, leader=9.9 * MB, age_s=60), broker_signal(3)]
FULL = {SOURCE: 50 * MB, TARGET: 50 * MB}


def signals(source: Mapping[str, Any] | None = None, target: Mapping[str, Any] | None = None) -> list[MoveSignal]:
    return [move_signal(*SOURCE, **(source or {})), move_signal(*TARGET, **(target or {}))]


@pytest.mark.parametrize(
    ("situation", "reason", "texts"),
    [
        ({**E1, "externally_owned_until_ms": {SOURCE: NOW_MS + 1_800_000}}, Reason.EXTERNALLY_OWNED, ["another 30 min"]),
        ({**E1, "busy": [SOURCE]}, Reason.RATE_IS_CHANGING, []),
        ({"signals": [move_signal(*SOURCE)]}, Reason.SIGNALS_MISSING, ["broker 3 (follower side)"]),
        ({"signals": signals({"remaining": None})}, Reason.SIGNALS_MISSING, []),
        ({"signals": signals({"steady_state": None})}, Reason.SIGNALS_MISSING, []),
        ({"signals": signals({"age_s": 47})}, Reason.SIGNALS_STALE, ["broker 1 are 47 s old"]),
        ({"signals": signals(target={"age_s": 16})}, Reason.SIGNALS_STALE, ["broker 3 are 16 s old"]),
        ({"cluster": live({})}, Reason.STALLED_UNTHROTTLED, ["the move onto broker 3 has stalled"]),
        (
            {"signals": signals({"steady_state": 55 * MB})}, Reason.INFEASIBLE,
            ["steady-state replication alone takes 55.0 MB/s, and the ceiling is 50.0 MB/s", "tuner.rate_bytes_per_s_max"],
        ),
        ({"signals": signals({"steady_state": 50 * MB}), "stalls": {3: UNSEEN}}, Reason.INFEASIBLE, []),
        ({"stalls": {3: StallState(observed_s=0.0)}}, Reason.WATCHING, ["the tuner judges the move after 24 s at one rate; 0 s have passed"]),
        ({"stalls": {3: StallState(observed_s=23.9)}}, Reason.WATCHING, ["the tuner judges the move after 24 s at one rate; 24 s have passed"]),
        ({"stalls": {3: StallState(observed_s=24.0)}}, Reason.PROGRESSING, []),
        ({"brokers": IDLE}, Reason.STALLED_NOT_THROTTLE_BOUND, ["only 2.00 MB/s of it is used"]),
        ({"brokers": []}, Reason.STALLED_NOT_THROTTLE_BOUND, ["its use is not measured"]),
        ({"brokers": STALE_BROKERS}, Reason.STALLED_NOT_THROTTLE_BOUND, ["its use is not measured"]),
        (
            {"cluster": live(FULL), "brokers": [broker_signal(1, leader=50 * MB)]}, Reason.AT_CEILING, ["600 MB remain"],
        ),
    ],
)  # fmt: skip
def test_held_side_has_the_reason_of_its_situation(situation: dict[str, Any], reason: Reason, texts: list[str]) -> None:
    decision = decide(**{"stalls": {3: STALLED}, **situation})
    assert decision.reason is reason
    assert all(text in decision.text for text in texts), decision.text


@pytest.mark.parametrize("side", [SOURCE, TARGET])
def test_missing_signals_hold_the_side(side: BrokerSide) -> None:
    other = [s for s in (move_signal(*SOURCE), move_signal(*TARGET)) if (s.broker, s.side) != side]
    decision = decide(side, signals=other, stalls={3: STALLED})
    assert decision.reason is Reason.SIGNALS_MISSING
    assert f"no measurements of broker {side[0]} ({side[1]} side) yet" in decision.text


@pytest.mark.parametrize(
    ("rates", "listed"),
    [
        ({TARGET: 10 * MB}, 1),  # A list without a rate throttles nothing …
        ({SOURCE: 10 * MB, TARGET: 10 * MB}, 0),  # … nor does a rate without a list.
    ],
)
def test_rate_without_list_is_not_throttled(rates: dict[BrokerSide, float], listed: int) -> None:
    signals = [move_signal(*SOURCE, listed=listed), move_signal(*TARGET)]
    assert decide(SOURCE, live(rates), signals).reason is Reason.NOT_THROTTLED


@pytest.mark.parametrize(
    ("by", "moving", "listed", "counts"),
    [
        (ThrottledBy.QUOTA, 2, 1, True),
        (ThrottledBy.REASSIGNMENT, 1, 1, True),
        # Bytes of a move that is in no list, too: no measure of this throttle.
        (ThrottledBy.REASSIGNMENT, 2, 1, False),
        # All replication: a busy cluster's is above any throttle.
        (ThrottledBy.REPLICATION, 1, 1, False),
    ],
)
@pytest.mark.parametrize("side", [SOURCE, TARGET])
def test_substitute_metric_that_counts_too_much_raises_nothing(
    side: BrokerSide, by: ThrottledBy, moving: int, listed: int, counts: bool
) -> None:
    brokers = [
        replace(broker_signal(1, leader=9.9 * MB), throttled_by=by.value),
        replace(broker_signal(3, follower=9.9 * MB), throttled_by=by.value),
    ]
    signals = [
        move_signal(*SOURCE, moving=moving, listed=listed),
        move_signal(*TARGET, steady_state=3 * MB, moving=moving, listed=listed),
    ]
    decision = decide(side, signals=signals, brokers=brokers, stalls={3: STALLED})
    if counts:
        assert decision.reason is Reason.STALLED_THROTTLE_BOUND
    else:
        assert decision.reason is Reason.STALLED_NOT_THROTTLE_BOUND
        assert "its use is not measured" in decision.text


def test_throttle_below_steady_state_is_raised_without_measurement() -> None:
    brokers = [replace(b, throttled_by=ThrottledBy.REPLICATION.value) for b in E1_BROKERS]
    decision = decide(SOURCE, live(E1_RATES), E1_SIGNALS, brokers, stalls={3: STALLED})
    assert decision.reason is Reason.STALLED_BELOW_STEADY_STATE


def test_stalled_below_steady_state() -> None:
    """The text has the numbers of E1."""
    decision = e1()
    assert isinstance(decision, SetRate)
    assert (decision.current_bytes_per_s, decision.setpoint_bytes_per_s) == (4_500_000, 21_900_000)
    assert decision.reason is Reason.STALLED_BELOW_STEADY_STATE
    assert decision.text == (
        "broker 1 leader throttle 4.50 MB/s → 21.9 MB/s: the move onto broker 3 has stalled (20 s of progress lost); "
        "4.50 MB/s is not above the 6.00 MB/s of steady-state replication, in-sync followers included, so the move would never end; "
        "159 MB remain"
    )


def test_stalled_throttle_bound() -> None:
    decision = decide(stalls={3: STALLED})  # 9.5 of 10 MB/s are used.
    assert isinstance(decision, SetRate)
    # T = 600 ÷ 44 = 13.6 s, so this side, being the slowest, goes to the ceiling.
    assert (decision.setpoint_bytes_per_s, decision.reason) == (50_000_000, Reason.STALLED_THROTTLE_BOUND)
    assert "this throttle limits the move" in decision.text


def test_other_side_is_raised_before_it_limits_the_move() -> None:
    decision = decide(TARGET, stalls={3: STALLED})
    assert isinstance(decision, SetRate)
    assert decision.reason is Reason.STALLED_THROTTLE_BOUND
    assert "this throttle is raised too, so that it does not limit the move next" in decision.text


def test_raise_below_a_tenth_is_within_deadband() -> None:
    """20 MB/s are needed and 19 are set: a change below a tenth is not worth a write to the metadata log."""
    signals = [move_signal(*SOURCE, remaining=140 * MB), move_signal(*TARGET, remaining=0, steady_state=3 * MB)]
    brokers = [broker_signal(1, leader=18 * MB)]
    held = decide(cluster=live({SOURCE: 19 * MB}), signals=signals, brokers=brokers, stalls={3: STALLED})
    assert held.reason is Reason.WITHIN_DEADBAND
    raised = decide(cluster=live({SOURCE: 18 * MB}), signals=signals, brokers=brokers, stalls={3: STALLED})
    assert isinstance(raised, SetRate)
    assert raised.setpoint_bytes_per_s == 20 * MB


def test_rescue_needs_more() -> None:
    """The rescue ended the stall, but then the write rate doubled."""
    decision = decide(stalls={3: UNSEEN}, rescued=frozenset({3}))
    assert isinstance(decision, SetRate)
    assert decision.reason is Reason.RESCUE_NEEDS_MORE
    assert "600 MB remain, and steady-state replication takes 6.00 MB/s" in decision.text


# -- the order of the rungs --------------------------------------------------------------------------------------------


def test_ladder_keeps_the_order_of_its_rungs() -> None:
    """Everything is wrong at once; one after the other is set right, and the next reason shows."""
    bad = ThrottleLimits(rate_bytes_per_s_max=20 * MB, rate_bytes_per_s_min=1 * MB)  # Keeping up takes 25.
    theirs = {SOURCE: NOW_MS + 60_000}
    old = [move_signal(*SOURCE, age_s=60, remaining=None), move_signal(*TARGET)]
    unmeasured = [move_signal(*SOURCE, remaining=None), move_signal(*TARGET)]
    hopeless = [move_signal(*SOURCE, steady_state=25 * MB), move_signal(*TARGET, steady_state=3 * MB)]
    measured = [move_signal(*SOURCE), move_signal(*TARGET, steady_state=3 * MB)]
    bare, blind, seen = live({}), live({}, unreadable=[1]), live()
    idle, used = [broker_signal(1, leader=0)], [broker_signal(1, leader=10 * MB)]
    stalled, busy = {"stalls": {3: STALLED}}, {"busy": [SOURCE]}
    ladder = [
        decide(SOURCE, blind, old, idle, **stalled, **busy, limits=bad, externally_owned_until_ms=theirs),
        decide(SOURCE, bare, old, idle, **stalled, **busy, limits=bad, externally_owned_until_ms=theirs),
        decide(SOURCE, bare, [], idle, **stalled, **busy, limits=bad),
        decide(SOURCE, bare, old, idle, **stalled, **busy, limits=bad),
        decide(SOURCE, bare, unmeasured, idle, **stalled, **busy, limits=bad),
        decide(SOURCE, seen, unmeasured, idle, **stalled, **busy, limits=bad),
        decide(SOURCE, seen, hopeless, idle, **stalled, **busy, limits=bad),
        decide(SOURCE, seen, measured, idle, **stalled, **busy),
        decide(SOURCE, seen, measured, idle, stalls={3: UNSEEN}),
        decide(SOURCE, seen, measured, idle, stalls={3: WELL}),
        decide(SOURCE, seen, measured, idle, **stalled),
        decide(SOURCE, seen, measured, used, **stalled),
    ]
    assert [decision.reason for decision in ladder] == [
        Reason.SETTINGS_UNREADABLE,
        Reason.EXTERNALLY_OWNED,
        Reason.SIGNALS_MISSING,
        Reason.SIGNALS_STALE,
        Reason.STALLED_UNTHROTTLED,
        Reason.SIGNALS_MISSING,
        Reason.INFEASIBLE,
        Reason.RATE_IS_CHANGING,
        Reason.WATCHING,
        Reason.PROGRESSING,
        Reason.STALLED_NOT_THROTTLE_BOUND,
        Reason.STALLED_THROTTLE_BOUND,
    ]


# -- more than one of each ---------------------------------------------------------------------------------------------

FAN_OUT = (move(partition=0, adding=(3,)), move(partition=1, adding=(4,), replicas=(4, 2, 1)))
FAN_SIGNALS = (
    move_signal(*SOURCE, steady_state=12 * MB),
    move_signal(3, F, remaining=300 * MB, steady_state=3 * MB),
    move_signal(4, F, remaining=300 * MB, steady_state=3 * MB),
)


def fan_out(side: BrokerSide, stalls: Mapping[int, StallState]) -> Decision:
    cluster = live({SOURCE: 20 * MB, (3, F): 20 * MB, (4, F): 20 * MB}, moves=FAN_OUT, brokers=(1, 2, 3, 4))
    return decide(side, cluster, FAN_SIGNALS, [broker_signal(1, leader=20 * MB)], stalls=stalls)


def test_one_stalled_destination_raises_its_leader() -> None:
    decision = fan_out(SOURCE, {3: WELL, 4: STALLED})
    assert isinstance(decision, SetRate)
    assert "onto broker 4 has stalled" in decision.text


def test_healthy_destination_is_not_raised() -> None:
    assert fan_out((3, F), {3: WELL, 4: STALLED}).reason is Reason.PROGRESSING


def test_stall_text_names_all_destinations() -> None:
    assert "onto brokers 3, 4 has stalled" in fan_out(SOURCE, {3: STALLED, 4: STALLED}).text


def test_watching_lasts_for_the_shortest_observation() -> None:
    assert fan_out(SOURCE, {3: WELL, 4: StallState(observed_s=10)}).reason is Reason.WATCHING


def test_view_has_the_sides_of_all_moves() -> None:
    view = MovesView(observation(live(moves=FAN_OUT)), live(moves=FAN_OUT), LIMITS)
    assert view.sides == [(1, L), (3, F), (4, F)]
    assert view.destinations == {3, 4}
    assert view.destinations_through(SOURCE) == {3, 4}
    assert view.sides_of(3) == [(1, L), (3, F)]


@pytest.mark.parametrize(
    "bystander",
    [
        move(adding=(), removing=(2,)),  # Only leaves.
        move(adding=(3,), leader=3),  # The new replica leads already, so it fetches nothing.
    ],
)
def test_view_ignores_moves_that_copy_nothing(bystander: Any) -> None:
    cluster = live(moves=(bystander,))
    assert MovesView(observation(cluster), cluster, LIMITS).sides == []


def test_raise_stays_between_current_rate_and_ceiling() -> None:
    for rate in (1, 4.5, 10, 30, 44, 45, 50, 80):
        decision = decide(
            cluster=live({SOURCE: rate * MB, TARGET: rate * MB}),
            brokers=[broker_signal(1, leader=rate * MB), broker_signal(3, follower=rate * MB)],
            stalls={3: STALLED},
        )
        if isinstance(decision, SetRate):
            assert rate * MB < decision.setpoint_bytes_per_s <= 50 * MB


# -- the judge, joined to the view -------------------------------------------------------------------------------------


def judged(
    cluster: LiveCluster, signals: Iterable[MoveSignal], memory: Memory | None = None, busy: Iterable[BrokerSide] = ()
) -> Mapping[int, StallState]:
    view = MovesView(observation(cluster, signals, busy=busy), cluster, LIMITS)
    return judge_stalls(view, memory or Memory(), STALL)


def dead_stop(dt_s: float = 5.0, count: int = 7) -> tuple[Any, ...]:
    return tuple(traced([0.0] * count, dt_s=dt_s, start_ms=NOW_MS - 40_000))


def test_judge_finds_a_standstill_in_the_destinations_steps() -> None:
    states = judged(live(), [move_signal(*SOURCE), move_signal(*TARGET, steps=dead_stop())])
    assert states[3].stalled
    assert states[3].observed_s == 35.0


def test_judge_expects_the_rate_of_the_limiting_side() -> None:
    """2 MB/s gained: half of what the leader's 10 − 6 allow, a quarter of what the follower's 11 − 3 do."""
    steps = tuple(traced([2 * MB] * 20, start_ms=NOW_MS - 110_000))
    signals = [move_signal(*SOURCE), move_signal(*TARGET, steady_state=3 * MB, steps=steps)]
    tight = judged(live({SOURCE: 10 * MB, TARGET: 11 * MB}), signals)
    loose = judged(live({SOURCE: 14 * MB, TARGET: 11 * MB}), signals)
    assert (tight[3].stalled, loose[3].stalled) == (False, True)


def test_judge_shares_a_leaders_surplus_among_destinations() -> None:
    """20 − 12 leave 4 for each of two: 2.5 is well, although it would not be of 8."""
    steps = tuple(traced([2.5 * MB] * 20, start_ms=NOW_MS - 110_000))
    signals = [FAN_SIGNALS[0], move_signal(3, F, listed=0, steps=steps), move_signal(4, F, listed=0, steps=steps)]
    cluster = live({SOURCE: 20 * MB}, moves=FAN_OUT, brokers=(1, 2, 3, 4))
    assert {d: s.stalled for d, s in judged(cluster, signals).items()} == {3: False, 4: False}


def test_judge_keeps_the_state_without_fresh_steps() -> None:
    before = StallState(lost_s=9.0, judged_until_ms=NOW_MS - 90_000, observed_s=30.0)
    signals = [move_signal(*SOURCE), move_signal(*TARGET, age_s=60, steps=dead_stop())]
    assert judged(live(), signals, Memory(stalls={3: before})) == {3: before}


def test_judge_forgets_destinations_without_moves() -> None:
    assert set(judged(live(), [], Memory(stalls={3: STALLED, 9: STALLED}))) == {3}


@pytest.mark.parametrize("busy", [SOURCE, TARGET])
def test_judge_restarts_its_count_after_a_ramp(busy: BrokerSide) -> None:
    steps = dead_stop()
    signals = [move_signal(*SOURCE), move_signal(*TARGET, steps=steps)]
    states = judged(live(), signals, Memory(stalls={3: STALLED}), busy=[busy])
    assert states == {3: StallState(judged_until_ms=max(NOW_MS, steps[-1].at_ms))}
    assert judged(live(), signals, Memory(stalls=states)) == states  # Its steps are not judged afterwards either.


def test_judge_ignores_ramps_on_other_sides() -> None:
    signals = [move_signal(*SOURCE), move_signal(*TARGET, steps=dead_stop())]
    assert judged(live(), signals, busy=[(2, L)])[3].stalled


# -- what is wrong today -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(move_signal(*SOURCE, steady_state=9 * MB, age_s=60), id="stale"),
        pytest.param(move_signal(*SOURCE, steady_state=None), id="not measured"),
    ],
)
def test_judge_finds_no_stall_with_an_unmeasured_leader(source: MoveSignal) -> None:
    """1 MB/s is all that the leader lets through, and 1 MB/s comes: well, though the follower side would allow 47."""
    steps = tuple(traced([1 * MB] * 20, start_ms=NOW_MS - 110_000))
    signals = [source, move_signal(*TARGET, steady_state=3 * MB, steps=steps)]
    assert not judged(live({SOURCE: 10 * MB, TARGET: 50 * MB}), signals)[3].stalled


def test_stall_with_an_unmeasured_leader_holds() -> None:
    signals = [move_signal(*SOURCE, age_s=60), move_signal(*TARGET, steady_state=3 * MB)]
    brokers = [broker_signal(1, leader=10 * MB), broker_signal(3, follower=2 * MB)]
    decision = decide(TARGET, signals=signals, brokers=brokers, stalls={3: STALLED})
    assert decision.reason in (Reason.SIGNALS_STALE, Reason.SIGNALS_MISSING)


def test_small_raise_above_steady_state_is_written() -> None:
    signals = [move_signal(*SOURCE, steady_state=47 * MB), move_signal(*TARGET, steady_state=3 * MB)]
    decision = decide(cluster=live({SOURCE: 46 * MB, TARGET: 50 * MB}), signals=signals, stalls={3: STALLED})
    assert isinstance(decision, SetRate)
    assert decision.setpoint_bytes_per_s == 50 * MB


def test_progress_above_the_ceiling_is_not_infeasible() -> None:
    """Somebody set 100 where we may set 50; keeping up takes 60."""
    signals = [move_signal(*SOURCE, steady_state=60 * MB), move_signal(*TARGET, steady_state=3 * MB)]
    decision = decide(cluster=live({SOURCE: 100 * MB, TARGET: 100 * MB}), signals=signals, stalls={3: WELL})
    assert decision.reason is Reason.PROGRESSING


def test_unthrottled_side_names_the_limiting_throttle() -> None:
    """E5: follower list only, q = 2, W = 3."""
    signals = [move_signal(*SOURCE, steady_state=0, listed=0), move_signal(*TARGET, steady_state=3 * MB)]
    cluster = live({TARGET: 2 * MB})
    assert isinstance(decide(TARGET, cluster, signals, stalls={3: STALLED}), SetRate)
    assert decide(SOURCE, cluster, signals, stalls={3: STALLED}).reason is not Reason.STALLED_UNTHROTTLED


def test_dead_destination_does_not_hold_the_others() -> None:
    cluster = live({SOURCE: 10 * MB}, moves=FAN_OUT, brokers=(1, 2, 4))  # 3 is down: no signal, no settings.
    signals = [FAN_SIGNALS[0], FAN_SIGNALS[2]]
    decision = decide(SOURCE, cluster, signals, [broker_signal(1, leader=10 * MB)], stalls={3: UNSEEN, 4: STALLED})
    assert isinstance(decision, SetRate)


@pytest.mark.parametrize(
    ("courses", "stalled"),
    [
        ({SOURCE: Setpoint(6.6 * MB), TARGET: Setpoint(11 * MB)}, False),
        ({SOURCE: Setpoint(6.6 * MB, inputs_stale=True), TARGET: Setpoint(11 * MB)}, True),
        ({SOURCE: Setpoint(6.6 * MB)}, True),
    ],
)
def test_judge_expects_only_the_surplus_of_steered_sides(courses: Mapping[BrokerSide, Setpoint], stalled: bool) -> None:
    """0.4 MB/s of the 0.6 that the leader's throttle leaves: less than half of the 1 MB/s expected of other sides."""
    steps = tuple(traced([0.4 * MB] * 34, start_ms=NOW_MS - 180_000))
    signals = [move_signal(*SOURCE), move_signal(*TARGET, steps=steps)]
    cluster = live({SOURCE: 6.6 * MB, TARGET: 11 * MB})
    view = MovesView(replace(observation(cluster, signals), setpoints=courses), cluster, LIMITS)
    assert judge_stalls(view, Memory(), STALL)[3].stalled is stalled
