"""Old, missing or contradictory signals, one case per row: rates hold, then decay, and never rise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_rig import RAISED, Rig, raised
from test_steering_tick import loaded, seconds, steered
from tuner_cases import (
    LIMITS,
    NOW_MS,
    SEEN,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    WELL,
    broker_signal,
    live,
    move,
    move_signal,
    observation,
    owned,
)

from streaming.shared.contract import BrokerSignal, MoveSignal, ThrottledBy
from tuner.control.throttle.decision import Decision, Hold, Reason, SetRate
from tuner.control.throttle.diagnosis.signal_sanity import find_contradictions
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.core.cluster import Observation
from tuner.core.throttle_limits import MB, ThrottleLimits

MOVES = (move_signal(*SOURCE), move_signal(*TARGET, steady_state=3 * MB))
BROKERS = (loaded(1), loaded(2), loaded(3))
RESCUES = Memory(moving_replicas=SEEN, throttled=True, stalls={3: STALLED})


def aged(signals: Iterable[MoveSignal], age_s: float) -> tuple[MoveSignal, ...]:
    return tuple(replace(s, sampled_at_ms=NOW_MS - round(age_s * 1000)) for s in signals)


@dataclass(frozen=True)
class Case:
    name: str
    moves: tuple[MoveSignal, ...]
    brokers: tuple[BrokerSignal, ...]
    source: Reason
    target: Reason
    target_steered: Reason | None = None  # The law goes by each side's own measurements.


STALE, MISSING, CONTRADICT = Reason.SIGNALS_STALE, Reason.SIGNALS_MISSING, Reason.SIGNALS_CONTRADICT
GOES_ON = Reason.STALLED_THROTTLE_BOUND

CASES = [
    Case("all of it is 20 s old", aged(MOVES, 20.0), BROKERS, STALE, STALE),
    Case("all of it is an hour ahead", aged(MOVES, -3600.0), BROKERS, STALE, STALE),
    Case("nothing ever came", (), (), MISSING, MISSING),
    Case("the destination is missing without a reason", MOVES[:1], BROKERS, MISSING, MISSING),
    Case("the source is missing without a reason", MOVES[1:], BROKERS, MISSING, MISSING, GOES_ON),
    Case(
        "one scrape of six, which tells no rate",
        tuple(replace(s, samples=1, completeness=0.17, steady_state_bytes_per_s=None) for s in MOVES),
        BROKERS, MISSING, MISSING,
    ),
    Case(
        "no size of a replica is known",
        tuple(replace(s, remaining_bytes=None) for s in MOVES), BROKERS, MISSING, MISSING,
    ),
    Case(
        "the signals tell of no move",
        tuple(replace(s, moving_partitions=0) for s in MOVES), BROKERS, CONTRADICT, CONTRADICT,
    ),
    Case(
        "more is replicated than passes the network",
        MOVES, (replace(loaded(1), reassignment_out_bytes_per_s=300.0 * MB, leader_throttled_bytes_per_s=9.5 * MB),
                *BROKERS[1:]),
        CONTRADICT, GOES_ON,
    ),
    Case(
        "more is throttled than passes the network",
        MOVES, (*BROKERS[:2], replace(loaded(3), follower_throttled_bytes_per_s=300.0 * MB)),
        GOES_ON, CONTRADICT,
    ),
    Case(
        "more is replicated than passes the network, in the newest step alone",
        MOVES, (replace(loaded(1), step_s=5.0, step_reassignment_out_bytes_per_s=300.0 * MB, step_network_out_bytes_per_s=9.5 * MB),
                *BROKERS[1:]),
        CONTRADICT, GOES_ON,
    ),
    Case(
        "much is sent and little received",
        MOVES, tuple(replace(s, reassignment_out_bytes_per_s=40.0 * MB) for s in BROKERS), CONTRADICT, CONTRADICT,
    ),
    Case(
        "little is sent and much received",
        MOVES, tuple(replace(s, reassignment_in_bytes_per_s=40.0 * MB) for s in BROKERS), CONTRADICT, CONTRADICT,
    ),
    Case("all of it is well", MOVES, BROKERS, GOES_ON, GOES_ON),
]  # fmt: skip


def decided(seen: Observation, memory: Memory, limits: ThrottleLimits = LIMITS) -> list[Decision]:
    return list(decide(seen, memory, limits, STALL)[1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stall_is_rescued_only_with_fresh_signals(case: Case) -> None:
    found = {(d.broker, d.side): d for d in decided(observation(live(), case.moves, case.brokers), RESCUES)}  # type: ignore[union-attr]
    raised_sides = {side for side, d in found.items() if isinstance(d, SetRate)}
    wanted = {side for side, reason in ((SOURCE, case.source), (TARGET, case.target)) if reason is GOES_ON}
    assert raised_sides <= wanted
    if case.name == "all of it is well":
        assert raised_sides == {SOURCE, TARGET}
    for side, reason in ((SOURCE, case.source), (TARGET, case.target)):
        if reason is not GOES_ON:
            assert isinstance(found[side], Hold)
        if reason is CONTRADICT:
            assert found[side].reason is CONTRADICT
    # What holds says so by its own name on at least one of the two ends.
    if GOES_ON not in (case.source, case.target):
        assert case.source in {d.reason for d in found.values()}


@pytest.mark.parametrize("case", CASES[:-1], ids=lambda case: case.name)
def test_closed_loop_raises_nothing_without_signals(case: Case) -> None:
    rig = steered()
    rig.signals.moves = {(s.broker, s.side): s for s in case.moves}
    rig.signals.brokers = {s.broker: s for s in case.brokers}
    rig.cycle()
    for _ in range(4):
        rig.now_s += 1.0
        rig.now_ms += 1000
        rig.loop.tick()
    for side, reason in ((SOURCE, case.source), (TARGET, case.target_steered or case.target)):
        if reason is not GOES_ON:
            assert rig.throttles.rates[side] <= 10 * MB, side


def test_contradiction_holds_then_lowers_rate_to_minimum() -> None:
    rig = steered()
    rig.cycle()
    seconds(rig, 20)
    stood = rig.throttles.rates[SOURCE]
    assert stood > 15 * MB
    rates = []
    for _ in range(120):
        rig.signals.brokers = {b: replace(loaded(b), reassignment_out_bytes_per_s=400.0 * MB) for b in (1, 2, 3)}
        seconds(rig, 5)
        assert Reason.SIGNALS_CONTRADICT in rig.cycle()
        rates.append(rig.throttles.rates[SOURCE])
    assert rates == sorted(rates, reverse=True)
    assert rates[1] >= 0.9 * stood, "it holds first"
    assert rates[-1] == pytest.approx(7.2 * MB, rel=0.1), "1.2 times the 6 MB/s that keep up"


def test_throttle_to_down_destination_may_fall_but_not_rise() -> None:
    """Nothing is copied, but what stands there waits for broker 3 to come back."""
    rig = steered()
    rig.cycle()
    seconds(rig, 20)
    stood, written = rig.throttles.rates[SOURCE], rig.throttles.rates[TARGET]
    assert stood > 15 * MB
    rig.throttles.brokers = {1, 2}
    rates = []
    for cycle in range(60):
        rig.signals.brokers = {1: loaded(1, 100 * MB if cycle > 10 else 75 * MB)}
        rig.signals.moves = {SOURCE: rig.signals.moves[SOURCE]}
        seconds(rig, 5)
        assert set(rig.cycle()) == {Reason.BROKER_DOWN}
        rates.append(rig.throttles.rates[SOURCE])
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.6 * stood
    assert rig.throttles.rates[TARGET] == written, "no rate is written to a broker that is down"


# -- rescued, and then not seen any more ----------------------------------------------------------------------------------


def unseen_for(rig: Rig, age_s: float) -> list[Decision]:
    rig.now_ms = NOW_MS + round(age_s * 1000)
    decisions = list(rig.loop.cycle())
    rig.run_ramps()
    return decisions


def test_unmeasured_rescue_rate_holds_then_decays_by_tenths() -> None:
    rig = raised()
    assert {d.reason for d in unseen_for(rig, 55.0)} == {Reason.SIGNALS_STALE}
    assert rig.throttles.rates[SOURCE] == 50 * MB
    [source, _] = unseen_for(rig, 70.0)
    assert isinstance(source, SetRate)
    assert (source.reason, source.setpoint_bytes_per_s) == (Reason.STALE_DECAY, 45 * MB)
    assert source.text == (
        "broker 1 leader throttle 50.0 MB/s → 45.0 MB/s: its last measurements are 72 s old, so the raised rate falls step by step to "
        "10.0 MB/s"
    )
    assert rig.throttles.rates[SOURCE] == 45 * MB
    for step in range(40):
        unseen_for(rig, 80.0 + 5 * step)
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}, "the rates from before the rescue"
    rig.events.clear()
    assert {d.reason for d in unseen_for(rig, 500.0)} == {Reason.SIGNALS_STALE}
    assert rig.writes() == []


def test_early_cycles_do_not_speed_up_decay() -> None:
    rig = raised()
    for second in range(20):
        unseen_for(rig, 70.0 + second)
    assert rig.throttles.rates[SOURCE] == round(50 * MB * 0.9**5)


def test_rate_of_previous_tuner_decays_without_signals() -> None:
    """The tuner restarted, and the stream has stopped meanwhile."""
    rig = raised()
    rig.signals.moves, rig.signals.brokers = {}, {}
    rig.cycle()
    assert {d.reason for d in unseen_for(rig, 55.0)} == {Reason.SIGNALS_MISSING}
    [source, _] = unseen_for(rig, 70.0)
    assert isinstance(source, SetRate)
    assert source.text == (
        "broker 1 leader throttle 50.0 MB/s → 45.0 MB/s: no measurements for 70 s, so the raised rate falls step by step to 10.0 MB/s"
    )
    for step in range(40):
        unseen_for(rig, 80.0 + 5 * step)
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    rig.die_and_start_again()
    assert rig.loop.memory.unmeasured_since_ms == {}


def test_new_batch_is_not_stale() -> None:
    """Nothing moved through this broker for a while, so no signal was due."""
    rig = raised()
    between, rig.signals.moves, rig.signals.brokers = rig.live.moves, {}, {}
    rig.live.moves = (move(topic="payments", leader=2, replicas=(2, 4), adding=(4,), removing=(), isr=(2,)),)
    for age_s in (0.0, 60.0, 120.0):
        unseen_for(rig, age_s)
    rig.live.moves = between
    assert {d.reason for d in unseen_for(rig, 125.0)} == {Reason.SIGNALS_MISSING}
    assert rig.throttles.rates[SOURCE] == 50 * MB


def test_decay_stops_at_the_draining_rate() -> None:
    """The earlier rate of 10 MB/s would stall the move again: steady-state replication takes 20 MB/s."""
    rig = raised()
    rig.signals.moves = {
        SOURCE: move_signal(*SOURCE, steady_state=20 * MB),
        TARGET: move_signal(*TARGET, steady_state=3 * MB),
    }
    for step in range(60):
        unseen_for(rig, 80.0 + 5 * step)
    assert rig.throttles.rates == {SOURCE: 24 * MB, TARGET: 10 * MB}


def test_ramp_of_decay_is_not_stopped_by_stale_signals() -> None:
    rig = raised()
    rig.now_ms = NOW_MS + 70_000
    rig.loop.cycle()
    rig.now_s += 0.5
    rig.loop.tick()
    rig.loop.cycle()
    assert {d.reason for d in rig.loop.cycle()} == {Reason.RATE_IS_CHANGING}
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 45 * MB


def test_ramp_stops_at_any_signal_age() -> None:
    rig = Rig(Memory(stalls={3: STALLED}))
    rig.cycle()
    rig.now_s += 0.5
    rig.loop.tick()
    stands = rig.throttles.rates[SOURCE]
    rig.now_ms = NOW_MS + 70_000
    rig.loop.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] <= stands


@pytest.mark.parametrize(
    "memory",
    [
        replace(RAISED, owned={}),
        replace(RAISED, owned={}, externally_owned_until_ms={SOURCE: NOW_MS + 10**9, TARGET: NOW_MS + 10**9}),
    ],
    ids=["never owned", "externally owned"],
)
def test_externally_owned_rate_does_not_decay(memory: Memory) -> None:
    rig = Rig(memory)
    for step in range(10):
        unseen_for(rig, 80.0 + 5 * step)
    assert rig.writes() == []


def test_decay_ends_when_signals_return() -> None:
    rig = raised()
    unseen_for(rig, 70.0)
    rig.signals.moves = {s: replace(m, sampled_at_ms=rig.now_ms - 2000) for s, m in rig.signals.moves.items()}
    rig.signals.brokers = {b: replace(s, sampled_at_ms=rig.now_ms - 2000) for b, s in rig.signals.brokers.items()}
    assert Reason.STALE_DECAY not in {d.reason for d in rig.loop.cycle()}


@given(
    st.floats(0, 600, allow_nan=False),
    st.integers(1, 100 * MB),
    st.none() | st.integers(1, 100 * MB),
    st.floats(0, 60 * MB, allow_nan=False),
)
def test_stale_signals_never_raise_a_rate(age_s: float, stands: int, before: int | None, steady_state: float) -> None:
    memory = replace(RAISED, owned={SOURCE: owned(before, stands)}, stalls={3: WELL})
    signals = aged((move_signal(*SOURCE, steady_state=steady_state), MOVES[1]), age_s)
    found = decided(observation(live({SOURCE: stands}), signals), memory)
    if age_s > 15.0:
        assert not [d for d in found if isinstance(d, SetRate) and d.setpoint_bytes_per_s >= stands]


# -- doubts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "into", "doubted"),
    [
        (40.0, 40.0, False),
        (40.0, 14.0, False),  # Their windows end at different times.
        (40.0, 13.0, True),
        (9.0, 0.0, False),  # Clumps.
        (10.1, 0.0, True),
    ],
)
def test_sent_and_received_bytes_are_compared(out: float, into: float, doubted: bool) -> None:
    one = replace(loaded(1), reassignment_out_bytes_per_s=out * MB, reassignment_in_bytes_per_s=0.0)
    none = {b: replace(loaded(b, caught=0.0), network_in_bytes_per_s=90.0 * MB) for b in (2, 3)}
    other = replace(none[3], reassignment_in_bytes_per_s=into * MB)
    found = find_contradictions([SOURCE], live(), {1: one, 2: none[2], 3: other}, {}, NOW_MS, LIMITS)
    assert bool(found) is doubted


def test_sums_are_not_compared_if_a_broker_is_missing() -> None:
    lone = {1: replace(loaded(1), reassignment_out_bytes_per_s=40.0 * MB), 2: loaded(2)}
    assert find_contradictions([SOURCE], live(), lone, {}, NOW_MS, LIMITS) == {}
    assert find_contradictions([SOURCE], live(), {**lone, 3: replace(broker_signal(3))}, {}, NOW_MS, LIMITS) == {}


def test_overcounting_measure_is_doubted_only_above_total_traffic() -> None:
    busy = replace(loaded(1), throttled_by=ThrottledBy.REPLICATION, leader_throttled_bytes_per_s=60.0 * MB)
    assert find_contradictions([SOURCE], live(), {1: busy}, {}, NOW_MS, LIMITS) == {}
