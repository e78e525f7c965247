"""A stall whose replicas wait for the remote storage: named as such, whatever the throttles are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tuner_cases import LIMITS, NOW_MS, SOURCE, STALL, STALLED, TARGET, broker_signal, live, move_signal, observation

from streaming.shared.contract import BrokerSignal, MoveStep
from tuner.control.throttle.decision import Decision, Reason
from tuner.control.throttle.side_rules import decide_sides
from tuner.control.throttle.stall_states import judge_stalls
from tuner.control.throttle.state import Memory
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB, ThrottleLimits

IDLE = (broker_signal(1, leader=0), broker_signal(3, follower=0))
LOW = {SOURCE: 4 * MB, TARGET: 4 * MB}  # Below the 6 MB/s of steady-state replication.
HIGH = {SOURCE: 50 * MB, TARGET: 50 * MB}


def decide(
    rates: Mapping[BrokerSide, float],
    brokers: tuple[BrokerSignal, ...] = IDLE,
    *,
    waiting: int = 2,
    limits: ThrottleLimits = LIMITS,
) -> list[Decision]:
    follower = replace(move_signal(*TARGET, moving=2), await_remote_partitions=waiting)
    seen = observation(live(rates), (move_signal(*SOURCE, moving=2), follower), brokers)
    return decide_sides([SOURCE, TARGET], MovesView(seen, live(rates), limits), Memory(stalls={3: STALLED}), STALL)


@pytest.mark.parametrize("rates", [LOW, HIGH, {}], ids=["below steady state", "high", "no throttle"])
@pytest.mark.parametrize("closed_loop", [False, True])
def test_stall_without_remote_state_is_never_a_throttle_problem(
    rates: Mapping[BrokerSide, float], closed_loop: bool
) -> None:
    for decision in decide(rates, limits=replace(LIMITS, closed_loop=closed_loop)):
        assert decision.reason is Reason.STALLED_REMOTE_STORAGE
        assert "because of the remote storage, not because of a throttle: 2 replicas of tiered topics" in decision.text
        assert "broker 3" in decision.text


@pytest.mark.parametrize("used", [(4 * MB, 0), (0, 4 * MB)], ids=["leader", "follower"])
def test_used_up_throttle_explains_why_replicas_are_empty(used: tuple[int, int]) -> None:
    brokers = (broker_signal(1, leader=used[0]), broker_signal(3, follower=used[1]))
    assert {d.reason for d in decide(LOW, brokers)} == {Reason.STALLED_BELOW_STEADY_STATE}


def test_throttle_of_other_copying_replicas_is_raised() -> None:
    assert {d.reason for d in decide(LOW, waiting=1)} == {Reason.STALLED_BELOW_STEADY_STATE}


def test_some_waiting_replicas_are_named_if_no_throttle_limits() -> None:
    for decision in decide(HIGH, waiting=1):
        assert decision.reason is Reason.STALLED_REMOTE_STORAGE
        assert "1 replica of tiered topics" in decision.text


def test_unknown_use_of_the_follower_throttle_proves_nothing() -> None:
    old: Any = (broker_signal(1, leader=0), broker_signal(3, follower=0, age_s=60))
    assert Reason.STALLED_REMOTE_STORAGE not in {d.reason for d in decide(LOW, old)}


def test_stall_without_tiered_topics_is_explained_as_before() -> None:
    assert {d.reason for d in decide(HIGH, waiting=0)} == {Reason.STALLED_NOT_THROTTLE_BOUND}


@pytest.mark.parametrize(("waiting", "stalls"), [(1, True), (0, False)])
def test_empty_replica_is_not_near_its_end(waiting: int, stalls: bool) -> None:
    """A tenth of a megabyte remains, as when nearly everything is in the remote storage."""
    steps = tuple(MoveStep(NOW_MS - 5_000 * age, 5.0, 0.0, 0.0, 0.1 * MB) for age in reversed(range(6)))
    follower = move_signal(*TARGET, remaining=0.1 * MB, steady_state=0, steps=steps)
    signals = (move_signal(*SOURCE, steady_state=0), replace(follower, await_remote_partitions=waiting))
    view = MovesView(observation(live(HIGH), signals, IDLE), live(HIGH), LIMITS)
    assert judge_stalls(view, Memory(), STALL)[3].stalled is stalls
