"""Tests that managed list entries are recorded by topic, so that a joining partition does not write the whole memory."""

from __future__ import annotations

from loop_rig import FakeJournal
from tuner_cases import LIMITS, throttle

from tuner.control.throttle.state import Memory
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.recorder import ThrottleRecorder

SEEN = {(topic, p): frozenset({1, 2, 3}) for topic in "ab" for p in range(500)}
LISTED = {topic: throttle([(p, 1) for p in range(500)], [(p, 3) for p in range(500)]) for topic in "ab"}


def test_record_writes_only_changed_lists() -> None:
    journal = FakeJournal([])
    recorder = ThrottleRecorder(journal, Memory(), LIMITS, Clock(lambda: 0.0, lambda: 0.0), dry_run=False)
    recorder.record((), Memory(moving_replicas=SEEN, listed=LISTED))
    assert len(journal.memories) == 1
    left = throttle([(0, 1)], [(0, 3)])
    recorder.record((), Memory(moving_replicas=SEEN, listed={**LISTED, "b": left}))
    assert (len(journal.memories), journal.listed) == (1, {"b": left})
    recorder.record((), Memory(moving_replicas=SEEN, listed={"a": LISTED["a"]}))
    assert (len(journal.memories), journal.listed) == (1, {"b": throttle()})
