"""When a broker gets its leaders back: after it has caught up, one group at a time, while its clients do not wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tuner_cases import NOW_MS, broker_signal

from streaming.shared.contract import BrokerSignal
from tuner.control.leadership.decision import ElectLeaders, HoldElection, LeadershipDecision, LeadershipReason
from tuner.control.leadership.policy import (
    CAUGHT_UP_S,
    SETTLE_S,
    LeadershipLimits,
    LeadershipMemory,
    LeadershipView,
    decide_election,
    record_election,
)
from tuner.control.leadership.reason_texts import LEADERSHIP_REASON_TEXTS
from tuner.control.leadership.survey import GROUP_MAX, LeaderSurvey, survey_leaders
from tuner.control.throttle.objective import Objective
from tuner.core.vetoes import Veto

BROKER = 3
WAITING = tuple(("orders", partition) for partition in range(40))
SURVEY = LeaderSurvey({BROKER: len(WAITING)}, {BROKER: WAITING}, {BROKER: 100, 1: 100})
LIMITS = LeadershipLimits(acts=True, objective=Objective(latency_ms=100.0), signal_age_s_max=30.0)
CAUGHT_UP = LeadershipMemory(caught_up_since_ms={BROKER: NOW_MS - round(1000 * CAUGHT_UP_S)})
LATER_MS = NOW_MS + round(1000 * (SETTLE_S + 5))


class State(NamedTuple):
    """A partition as Kafka describes it."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def signal(**fields: Any) -> BrokerSignal:
    return replace(broker_signal(BROKER, p99=20.0), client_in_bytes_per_s=1e6, **fields)


def view(**fields: Any) -> LeadershipView:
    inputs = {"survey": SURVEY, "electing": frozenset(), "brokers": frozenset((1, 2, 3)), "signals": {BROKER: signal()}}
    return LeadershipView(**{"now_ms": NOW_MS, **inputs, **fields})


def decide(
    memory: LeadershipMemory = CAUGHT_UP, limits: LeadershipLimits = LIMITS, **fields: Any
) -> LeadershipDecision:
    return decide_election(view(**fields), memory, limits)[1]


def test_survey_finds_what_an_election_would_give_back() -> None:
    states = [
        State("a", 0, 1, (3, 1), (3, 1)),
        State("a", 1, 3, (3, 1), (1, 3)),  # Leads already.
        State("a", 2, 1, (3, 1), (1,)),  # Not in sync.
        State("a", 3, -1, (3, 1), ()),  # Has no leader, and an election of the preferred one would not help.
        State("b", 0, 1, (3, 1, 2), (1, 3)),  # Is being reassigned: broker 2 is added.
        State("c", 0, 1, (), ()),  # A broker with old metadata.
    ]
    survey = survey_leaders(states, {("b", 0): (2,)})
    assert survey.displaced == {3: 1}
    assert survey.next_partitions == {3: (("a", 0),)}
    assert survey.preferred == {3: 5}
    assert survey.out_of_sync == {3: 2, 1: 1}
    assert survey.displaced_count == 1


def test_group_is_a_tenth_of_the_partitions_that_prefer_the_broker() -> None:
    decision = decide()
    assert isinstance(decision, ElectLeaders)
    assert (decision.broker, decision.partitions, decision.reason) == (BROKER, WAITING[:10], LeadershipReason.CAUGHT_UP)
    assert decision.text == (
        "broker 3 has caught up, and its produce latency is 20% of the objective: it gets the leadership of 10 of 40 partitions"
    )


@pytest.mark.parametrize(("preferred", "size"), [(1, 1), (11, 2), (1_000_000, GROUP_MAX)])
def test_group_has_bounds(preferred: int, size: int) -> None:
    states = [State("orders", partition, 1, (BROKER, 1), (1, BROKER)) for partition in reversed(range(1_000))]
    survey = survey_leaders(states, {})
    assert survey.displaced == {BROKER: 1_000}
    decision = decide(survey=replace(survey, preferred={BROKER: preferred}))
    assert isinstance(decision, ElectLeaders)
    assert decision.partitions == tuple(("orders", partition) for partition in range(size))
    assert "of 1000 partitions" in decision.text


def test_next_group_waits_for_a_signal_that_shows_the_last_one() -> None:
    memory = record_election(CAUGHT_UP, BROKER, NOW_MS)
    early = signal(sampled_at_ms=NOW_MS + round(1000 * SETTLE_S) - 1)
    assert decide(memory, now_ms=LATER_MS, signals={BROKER: early}).reason is LeadershipReason.SETTLING
    late = signal(sampled_at_ms=NOW_MS + round(1000 * SETTLE_S))
    assert isinstance(decide(memory, now_ms=LATER_MS, signals={BROKER: late}), ElectLeaders)


def test_broker_waits_until_it_has_been_in_sync_for_a_minute() -> None:
    behind = replace(SURVEY, out_of_sync={BROKER: 7})
    memory, decision = decide_election(view(survey=behind), CAUGHT_UP, LIMITS)
    assert (decision.broker, decision.reason) == (BROKER, LeadershipReason.CATCHES_UP)
    assert "7 of its replicas are not in sync yet" in decision.text
    memory, decision = decide_election(view(), memory, LIMITS)
    assert decision.reason is LeadershipReason.JUST_CAUGHT_UP
    now_ms = NOW_MS + round(1000 * CAUGHT_UP_S)
    fresh = {BROKER: signal(sampled_at_ms=now_ms)}
    assert isinstance(decide_election(view(now_ms=now_ms, signals=fresh), memory, LIMITS)[1], ElectLeaders)


def test_broker_gets_all_its_leaders_before_another_one_begins() -> None:
    survey = LeaderSurvey({1: 40, BROKER: 5}, {1: WAITING, BROKER: WAITING[:5]}, {1: 100, BROKER: 100})
    memory = LeadershipMemory(caught_up_since_ms={1: 0, BROKER: 0})
    signals = {BROKER: signal(), 1: replace(signal(), broker=1)}
    decision = decide(memory, survey=survey, signals=signals)
    assert decision.broker == 1, "the broker that lacks the most leaders begins"
    memory = record_election(memory, BROKER, 0)
    assert decide(memory, survey=survey, signals=signals).broker == BROKER
    behind = replace(survey, out_of_sync={BROKER: 1})
    assert decide(memory, survey=behind, signals=signals).broker == 1, "a broker that fell back delays no other"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"electing": None}, LeadershipReason.PARTITIONS_UNREADABLE),
        ({"survey": LeaderSurvey()}, LeadershipReason.LEADERS_IN_PLACE),
        ({"electing": frozenset((2,))}, LeadershipReason.KAFKA_ELECTS),
        ({"pause": "root"}, LeadershipReason.PAUSED),
        ({"signals": {}}, LeadershipReason.LOAD_NOT_MEASURED),
        ({"signals": {BROKER: signal(sampled_at_ms=NOW_MS - 31_000)}}, LeadershipReason.LOAD_NOT_MEASURED),
        ({"signals": {BROKER: signal(produce_p99_ms=None)}}, LeadershipReason.LOAD_NOT_MEASURED),
        ({"signals": {BROKER: signal(produce_p99_ms=61.0)}}, LeadershipReason.CLIENTS_WAIT),
        ({"signals": {BROKER: signal(request_handler_idle_ratio=0.29)}}, LeadershipReason.HANDLERS_BUSY),
        ({"vetoes": (Veto("budget", "hold", "is used up"),)}, LeadershipReason.VETOED),
    ],
)
def test_nothing_is_elected_without_each_condition(fields: dict[str, Any], reason: LeadershipReason) -> None:
    decision = decide(**fields)
    assert isinstance(decision, HoldElection)
    assert decision.reason is reason


def test_watch_names_the_group_and_elects_none() -> None:
    decision = decide(limits=replace(LIMITS, acts=False))
    assert isinstance(decision, HoldElection)
    assert decision.reason is LeadershipReason.WATCHED
    assert "10 of 40 partitions; not done, as tuner.leadership is watch" in decision.text


def test_without_objective_latency_does_not_count() -> None:
    slow = {BROKER: signal(produce_p99_ms=5_000.0)}
    assert isinstance(decide(limits=replace(LIMITS, objective=None), signals=slow), ElectLeaders)


def test_clock_that_was_set_back_delays_no_more_than_a_minute() -> None:
    memory = replace(CAUGHT_UP, caught_up_since_ms={BROKER: NOW_MS + 10**9}, elected_at_ms=NOW_MS + 10**9)
    memory, decision = decide_election(view(), memory, LIMITS)
    assert decision.reason is LeadershipReason.JUST_CAUGHT_UP
    now_ms = NOW_MS + round(1000 * CAUGHT_UP_S)
    fresh = {BROKER: signal(sampled_at_ms=now_ms)}
    assert isinstance(decide_election(view(now_ms=now_ms, signals=fresh), memory, LIMITS)[1], ElectLeaders)


def test_each_reason_has_its_text() -> None:
    assert set(LEADERSHIP_REASON_TEXTS) == set(LeadershipReason)
