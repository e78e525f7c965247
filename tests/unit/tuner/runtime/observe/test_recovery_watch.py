"""The watch for recovering replicas: what it adds to a snapshot, and what it reuses."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.kafka.recovery import RecoveringReplicas, RecoveryFinder
from tuner.core.cluster import LiveCluster
from tuner.runtime.observe.recovery_watch import RecoveryWatch

STATE = PartitionState("orders", 0, leader=1, replicas=(1, 2, 3), isr=(1, 2), recovering=(3,))
LIVE = LiveCluster(frozenset({1, 2, 3}))


class Finder:
    def __init__(self) -> None:
        self.result = RecoveringReplicas()
        self.age_s = 1.0


def watch_of(finder: Finder) -> RecoveryWatch:
    return RecoveryWatch(cast("RecoveryFinder", finder))


def test_snapshot_without_recoveries_is_unchanged() -> None:
    watch = watch_of(Finder())
    assert watch.take() == frozenset()
    assert watch.add_to(LIVE) is LIVE


def test_snapshot_gets_recoveries_minimum_and_bytes() -> None:
    finder = Finder()
    watch = watch_of(finder)
    finder.result = RecoveringReplicas((STATE,), {"orders": 2}, {("orders", 0): 7}, number=1)
    assert watch.has_news
    assert watch.take() == {"orders"}
    assert not watch.has_news
    live = watch.add_to(LIVE)
    (recovery,) = live.recoveries
    assert (recovery.adding, recovery.recovering, recovery.isr) == ((3,), (3,), (1, 2))
    assert live.min_in_sync == {"orders": 2}
    assert live.lacking_bytes == {("orders", 0): 7}


def test_unchanged_recoveries_keep_their_objects() -> None:
    finder = Finder()
    watch = watch_of(finder)
    other = replace(STATE, partition=1)
    finder.result = RecoveringReplicas((STATE, other), number=1)
    watch.take()
    before = watch.add_to(LIVE).recoveries
    finder.result = RecoveringReplicas((replace(STATE), replace(other, isr=(1,))), number=1)
    watch.take()
    after = watch.add_to(LIVE).recoveries
    assert after[0] is before[0]
    assert after[1].isr == (1,)


def test_snapshot_has_the_recoveries_of_the_last_take() -> None:
    """The lists of the topics were read for these recoveries; a topic found meanwhile waits for the next snapshot."""
    finder = Finder()
    watch = watch_of(finder)
    watch.take()
    finder.result = RecoveringReplicas((STATE,), number=1)
    assert watch.add_to(LIVE).recoveries == ()


def test_old_result_throttles_nothing_until_the_next_look() -> None:
    """A partition may have fallen below min.insync.replicas since the last look."""
    finder = Finder()
    watch = watch_of(finder)
    finder.result = RecoveringReplicas((STATE,), number=1)
    watch.take()
    finder.age_s = 31.0
    assert watch.take() == frozenset()
    assert watch.add_to(LIVE) is LIVE
    assert not watch.has_news
    finder.age_s = 1.0
    assert watch.take() == {"orders"}
    assert watch.add_to(LIVE).recoveries
