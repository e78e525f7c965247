"""Tests that moving replicas are recorded by topic, so that a joining partition does not write the whole move."""

from __future__ import annotations

from dataclasses import replace

from loop_rig import FakeJournal
from tuner_cases import LIMITS, NOW_MS

from tuner.control.throttle.state import Memory
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.recorder import ThrottleRecorder

SEEN = {("orders", 0): frozenset({1, 2, 3}), ("payments", 0): frozenset({1, 2})}


def recorder_of(journal: FakeJournal) -> ThrottleRecorder:
    return ThrottleRecorder(journal, Memory(), LIMITS, Clock(lambda: NOW_MS / 1000, lambda: 0.0), dry_run=False)


def test_record_writes_only_topics_that_grew() -> None:
    journal = FakeJournal([])
    recorder = recorder_of(journal)
    first = Memory(moving_replicas=SEEN)
    recorder.record((), first)
    recorder.record((), replace(first, idle_snapshots=1, moving_replicas=first.moving_replicas))
    more = replace(first, moving_replicas={**SEEN, ("orders", 1): frozenset({1, 3})})
    recorder.record((), more)
    assert journal.events == [("memory", ()), ("seen", ("orders",))]
    assert recorder.memory == more


def test_record_with_removed_replicas_is_written_whole() -> None:
    journal = FakeJournal([])
    recorder = recorder_of(journal)
    first = Memory(moving_replicas=SEEN)
    recorder.record((), first)
    recorder.record((), replace(first, moving_replicas={}))
    recorder.record((), replace(first, moving_replicas=SEEN, throttled=True))
    assert [event for event, _ in journal.events] == ["memory", "memory", "memory"]
    assert journal.memories[-1].moving_replicas == SEEN
