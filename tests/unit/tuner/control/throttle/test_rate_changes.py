"""No stall is diagnosed from measurements before the last rate change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_rig import Rig
from tuner_cases import (
    LIMITS,
    NOW_MS,
    SOURCE,
    STALL,
    TARGET,
    WELL,
    broker_signal,
    live,
    move_signal,
    observation,
    owned,
    traced,
)

from tuner.control.throttle.decision import Decision, Reason
from tuner.control.throttle.policy import RESCUE_REASONS, decide
from tuner.control.throttle.rate_changes import track_rate_changes
from tuner.control.throttle.state import Memory, RateSince
from tuner.core.cluster import BrokerSide, Setpoint
from tuner.core.throttle_limits import MB

DIAGNOSES = RESCUE_REASONS | {
    Reason.STALLED_NOT_THROTTLE_BOUND,
    Reason.STALLED_DESTINATION_BOUND,
    Reason.STALLED_SOURCE_BOUND,
    Reason.STALLED_REPLICA_DEAD,
    Reason.STALLED_FETCHER_BOUND,
    Reason.STALLED_UNTHROTTLED,
}
KNOWN = {SOURCE: RateSince(10 * MB, 7), TARGET: RateSince(10 * MB, 7)}
# Time must be lost for this long before a move counts as stalled, whatever it gains.
EVIDENCE_S_MIN = STALL.stalled_lost_s


def seen(
    rates: Mapping[BrokerSide, float], memory: Memory | None = None, **others: Any
) -> Mapping[BrokerSide, RateSince]:
    cluster = live(rates)
    return track_rate_changes(replace(observation(cluster), **others), cluster, memory or Memory(rates_since=KNOWN))


@pytest.mark.parametrize(
    ("rates", "others", "since"),
    [
        ({SOURCE: 10 * MB, TARGET: 10 * MB}, {}, KNOWN),
        ({SOURCE: 20 * MB, TARGET: 10 * MB}, {}, {**KNOWN, SOURCE: RateSince(20 * MB, NOW_MS)}),
        ({TARGET: 10 * MB}, {}, {**KNOWN, SOURCE: RateSince(None, NOW_MS)}),
        (
            {SOURCE: 10 * MB, TARGET: 10 * MB},
            {"ramping": frozenset({SOURCE})},
            {**KNOWN, SOURCE: RateSince(10 * MB, NOW_MS)},
        ),
        # The control law changes its rates every second around a mean.
        ({SOURCE: 20 * MB, TARGET: 10 * MB}, {"setpoints": {SOURCE: Setpoint(19 * MB, False, False)}}, KNOWN),
    ],
)
def test_rates_since_notes_each_change(
    rates: Mapping[BrokerSide, float], others: dict[str, Any], since: Mapping[BrokerSide, RateSince]
) -> None:
    assert seen(rates, **others) == since


def test_rates_since_of_an_unchanged_cluster_is_the_same_object() -> None:
    assert seen({SOURCE: 10 * MB, TARGET: 10 * MB}) is KNOWN


def test_first_observed_rate_is_new_only_after_interrupted_ramp() -> None:
    memory = Memory(owned={SOURCE: owned(10 * MB, 40 * MB, 10 * MB, 20 * MB), TARGET: owned(10 * MB, 10 * MB)})
    assert seen({SOURCE: 20 * MB, TARGET: 10 * MB}, memory) == {
        SOURCE: RateSince(20 * MB, NOW_MS),
        TARGET: RateSince(10 * MB, 0),
    }


def test_throttle_on_a_move_that_had_none_is_no_change() -> None:
    memory = Memory(rates_since={SOURCE: RateSince(None, 0)})
    assert seen({SOURCE: 20 * MB}, memory) == {SOURCE: RateSince(20 * MB, 0)}


def test_ramp_cut_by_stale_signals_causes_no_diagnosis() -> None:
    """The window that comes after the ramp spans the stall before it: it tells nothing about the rate that stands now."""
    rig = Rig()
    rig.signals.moves = {SOURCE: move_signal(*SOURCE, age_s=6.0), TARGET: move_signal(*TARGET, age_s=6.0)}
    assert Reason.STALLED_THROTTLE_BOUND in rig.cycle()
    for _ in range(4):
        rig.now_s += 0.5
        rig.loop.tick()
    rig.now_ms += 10_000
    assert set(rig.cycle()) == {Reason.SIGNALS_STALE}
    assert not rig.loop.next_due_s(), "the ramp has ended on the way"
    assert 10 * MB < rig.throttles.rates[SOURCE] < 50 * MB
    rig.now_ms += 5_000
    # The newest sample is from the ramp, and most of the window from before it.
    steps = tuple(traced([0.0] * 6, start_ms=rig.now_ms - 34_000))
    fresh: dict[str, Any] = {"sampled_at_ms": rig.now_ms - 4_000, "steps": steps}
    rig.signals.moves = {side: replace(signal, **fresh) for side, signal in rig.signals.moves.items()}
    rig.signals.brokers = {
        broker: replace(signal, sampled_at_ms=rig.now_ms - 4_000) for broker, signal in rig.signals.brokers.items()
    }
    assert set(rig.cycle()) == {Reason.WATCHING}


def test_measure_of_before_a_lower_rate_raises_nothing() -> None:
    """A rescued move was lowered to 12 MB/s a moment ago; Kafka's mean of 11 s still says 20 MB/s."""
    memory = Memory(stalls={3: WELL}, rescued=frozenset({3}), rates_since={SOURCE: RateSince(20 * MB, 7)})
    cluster = live({SOURCE: 12 * MB})
    brokers = [broker_signal(1, leader=20 * MB, age_s=0.0), broker_signal(3, follower=20 * MB, age_s=0.0)]
    memory, decisions = decide(observation(cluster, brokers=brokers), memory, LIMITS, STALL)
    assert not {decision.reason for decision in decisions} & DIAGNOSES
    later = observation(cluster, brokers=brokers, now_ms=NOW_MS + 10_000)
    assert not {decision.reason for decision in decide(later, memory, LIMITS, STALL)[1]} & DIAGNOSES


@given(
    looks=st.lists(
        st.tuples(
            st.sampled_from([4, 10, 20, 40]),  # MB/s of the leader's throttle,
            st.sampled_from([4, 10, 20, 40]),  # and of the follower's.
            st.sampled_from([0.0, 0.5, 5.0, 30.0]),  # MB/s that the destination gains in the step after this look.
            st.integers(0, 3),  # Steps by which the signals of this look are late.
            st.booleans(),  # A ramp is under way on the leader's side.
        ),
        min_size=8,
        max_size=24,
    ),
)
def test_no_diagnosis_rests_on_steps_from_before_a_change(looks: list[tuple[int, int, float, int, bool]]) -> None:
    gained = [look[2] * MB for look in looks]
    trace = traced([0.0] * 6 + gained, start_ms=NOW_MS - 30_000)
    memory, rates, changed_ms = Memory(), (0, 0), NOW_MS - 30_000
    for number, (leader, follower, _, late, ramp) in enumerate(looks):
        now_ms = NOW_MS + 5_000 * number
        if number and (ramp or rates != (leader, follower)):
            changed_ms = now_ms
        rates = (leader, follower)
        newest = 6 + number - late
        steps = tuple(trace[max(0, newest - 5) : newest])
        sampled: dict[str, Any] = {"sampled_at_ms": steps[-1].at_ms}
        signals = [replace(move_signal(*side, steps=steps), **sampled) for side in (SOURCE, TARGET)]
        brokers = [
            replace(broker_signal(1, leader=gained[number]), **sampled),
            replace(broker_signal(3, follower=gained[number]), **sampled),
        ]
        cluster = live({SOURCE: leader * MB, TARGET: follower * MB})
        busy = {SOURCE} if ramp else set()
        look = observation(cluster, signals, brokers, busy=busy, now_ms=now_ms)
        decisions: tuple[Decision, ...]
        memory, decisions = decide(look, memory, LIMITS, STALL)
        stalled_reasons = {decision.reason for decision in decisions} & (DIAGNOSES - {Reason.RESCUE_NEEDS_MORE})
        if now_ms - changed_ms < 1000 * EVIDENCE_S_MIN:
            assert not stalled_reasons, f"look {number}: the rates changed {(now_ms - changed_ms) / 1000:.0f} s ago"
