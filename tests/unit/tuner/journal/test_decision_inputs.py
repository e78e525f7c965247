"""The inputs of a decision in its journal entry: a leader has those of all its destinations; each is encoded once."""

from __future__ import annotations

from dataclasses import asdict

from tuner_cases import LIMITS, NOW_MS, STALLED, WELL, F, L, broker_signal, live, move, move_signal, observation

from tuner.control.throttle.state import Memory
from tuner.core.cluster import ClusterUnreadable, Observation
from tuner.journal.decision_inputs import DecisionInputs

MOVES = (
    move("orders", 0, leader=1, adding=(3,)),
    move("orders", 1, leader=1, adding=(4,)),
    move("pay", 0, leader=2, adding=(4,)),
)
SEEN = observation(live(moves=MOVES), [move_signal(1, L), move_signal(4, F)], [broker_signal(1)])
MEMORY = Memory(stalls={3: WELL, 4: STALLED, 9: WELL})


def test_decision_inputs_leader_has_stalls_of_its_destinations() -> None:
    stood = DecisionInputs(SEEN, MEMORY, LIMITS)
    leader, other, follower = stood.for_side((1, L)), stood.for_side((2, L)), stood.for_side((4, F))
    assert leader == {
        "move": asdict(SEEN.move_signals[(1, L)]),
        "broker": asdict(SEEN.broker_signals[1]),
        "stalls": {"3": asdict(WELL), "4": asdict(STALLED)},
        "limits": asdict(LIMITS),
    }
    assert (other["move"], other["broker"], list(other["stalls"])) == (None, None, ["4"])
    assert (follower["broker"], list(follower["stalls"])) == (None, ["4"])
    assert leader["stalls"]["4"] is other["stalls"]["4"] is follower["stalls"]["4"]
    assert leader["limits"] is follower["limits"]


def test_decision_inputs_unreadable_cluster_has_no_destinations() -> None:
    stood = DecisionInputs(Observation(NOW_MS, ClusterUnreadable("away")), MEMORY, LIMITS)
    assert stood.for_side((1, L))["stalls"] == {}
    assert list(stood.for_side((9, F))["stalls"]) == ["9"]


def test_decision_inputs_is_about_its_observation_and_memory() -> None:
    stood = DecisionInputs(SEEN, MEMORY, LIMITS)
    assert stood.is_about(SEEN, MEMORY)
    assert not stood.is_about(SEEN, Memory(stalls=dict(MEMORY.stalls)))
    assert not stood.is_about(observation(live(moves=MOVES)), MEMORY)
