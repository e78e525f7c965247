"""Events for webhooks: moves that are found, stall and end, and what the tuner writes."""

from __future__ import annotations

from dataclasses import replace

from tuner_cases import NOW_MS, SOURCE, STALLED, WELL, live, move, observation

from tuner.api.webhook_events import ACTED_EVERY_MS, EventTracker
from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.state import Memory
from tuner.core.cluster import ClusterUnreadable, Observation
from tuner.core.throttle_limits import MB

RAISE = SetRate(*SOURCE, 10 * MB, 20 * MB, Reason.STALLED_THROTTLE_BOUND, "broker 1 leader throttle 10 → 20: stalled")


def at(after_ms: int = 0, moves: int = 1) -> Observation:
    return observation(live(moves=tuple(move(partition=p) for p in range(moves))), now_ms=NOW_MS + after_ms)


def kinds(tracker: EventTracker, seen: Observation, memory: Memory | None = None) -> list[str]:
    return [event.kind for event in tracker.events(seen, memory or Memory())]


def test_moves_are_found_once_and_done_once() -> None:
    tracker = EventTracker()
    assert kinds(tracker, at(moves=0)) == []
    (found,) = tracker.events(at(moves=7), Memory())
    assert found.text == "partitions move: orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"
    assert found.details == {"partitions": 7, "topics": 1}
    assert kinds(tracker, at(moves=3)) == []
    assert kinds(tracker, at(moves=0)) == ["done"]
    assert kinds(tracker, at(moves=0)) == []
    assert kinds(tracker, at(moves=1)) == ["found"]


def test_cluster_that_is_not_read_ends_no_move() -> None:
    tracker = EventTracker()
    assert kinds(tracker, at()) == ["found"]
    assert kinds(tracker, replace(at(), live=ClusterUnreadable("no broker"))) == []
    assert kinds(tracker, at()) == []


def test_each_new_stall_is_one_event() -> None:
    tracker = EventTracker()
    kinds(tracker, at())
    (stall,) = tracker.events(at(), Memory(stalls={3: STALLED, 2: WELL}))
    assert (stall.kind, stall.details) == ("stalled", {"brokers": [3]})
    assert kinds(tracker, at(), Memory(stalls={3: STALLED})) == []
    assert kinds(tracker, at(), Memory(stalls={3: STALLED, 2: STALLED})) == ["stalled"]
    assert kinds(tracker, at(), Memory(stalls={3: WELL})) == []
    assert kinds(tracker, at(), Memory(stalls={3: STALLED})) == ["stalled"]


def test_acts_are_summed_up_to_one_event_a_minute() -> None:
    tracker = EventTracker()
    kinds(tracker, at())
    tracker.note_actions([(RAISE, None)])
    (first,) = tracker.events(at(), Memory())
    assert first.details == {"written": 1, "failed": 0, "last_failure": None}
    assert "broker 1 leader throttle" in first.text
    for _ in range(3):
        tracker.note_actions([(RAISE, None), (RAISE, "no right")])
        assert kinds(tracker, at(ACTED_EVERY_MS - 1)) == []
    (second,) = tracker.events(at(ACTED_EVERY_MS), Memory())
    assert (second.details["written"], second.details["failed"]) == (3, 3)
    assert "no right" in second.details["last_failure"]
