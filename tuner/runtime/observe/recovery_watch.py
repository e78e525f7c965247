"""Watches for recovering replicas in a thread of its own, and adds them to the snapshots of the cluster.

A cycle of the controller never waits for this thread. The cycle uses the result of the last check, which is one or two seconds old.
A result older than ``_AGE_S_MAX`` is treated as empty, so that the tuner throttles no replica because of an outdated result.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import structlog

from streaming.shared.kafka.recovery import RecoveringReplicas, RecoveryFinder
from streaming.shared.kafka.values import ClusterError, PartitionState
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.reassignment_plan import TopicPartition

log = structlog.get_logger("tuner")

_STOP_S_MAX = 2.0
# An older result is not used: a partition may be below min.insync.replicas by now, so nothing may be throttled.
_AGE_S_MAX = 30.0


class RecoveryWatch:
    """Looks for recovering replicas until ``stop``; see streaming/shared/kafka/recovery.py."""

    def __init__(self, finder: RecoveryFinder) -> None:
        self._finder = finder
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: str | None = None  # Error of the last check.
        self._moves: dict[TopicPartition, PartitionMove] = {}
        self._taken = RecoveringReplicas()
        self._recoveries: tuple[PartitionMove, ...] = ()

    def start(self) -> None:
        thread = threading.Thread(
            target=self._finder.run, args=(self._stop, self._report), name="recovery-watch", daemon=True
        )
        self._thread = thread
        thread.start()

    def stop(self) -> None:
        """Ends the thread. A check in progress may continue for a while, and its result is dropped."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_STOP_S_MAX)

    @property
    def has_news(self) -> bool:
        """Whether the result has changed since the last ``take``: further replicas recover, or unknown sizes are known now."""
        return self._finder.result.number != self._taken.number

    def take(self) -> frozenset[str]:
        """Takes the result of the last check for the next snapshot. Returns the topics whose throttled-replica lists the snapshot
        needs.

        Objects that have not changed since the last call are reused.
        """
        result = self._finder.result
        if self._finder.age_s > _AGE_S_MAX:
            result = RecoveringReplicas(number=result.number)
        if result.partitions is not self._taken.partitions:
            self._moves = {(s.topic, s.partition): self._move_of(s) for s in result.partitions}
            self._recoveries = tuple(self._moves.values())
        self._taken = result
        return frozenset(topic for topic, _ in self._moves)

    def add_to(self, live: LiveCluster) -> LiveCluster:
        """Returns the snapshot with the recovering replicas of the last ``take``."""
        taken = self._taken
        if not (self._recoveries or taken.stuck):
            return live
        return replace(
            live,
            recoveries=self._recoveries,
            min_in_sync=taken.min_in_sync,
            lacking_bytes=taken.lacking_bytes,
            recoveries_left_out=taken.left_out,
            stuck_recoveries=taken.stuck,
        )

    def _move_of(self, state: PartitionState) -> PartitionMove:
        move = PartitionMove(
            topic=state.topic,
            partition=state.partition,
            leader=state.leader,
            replicas=state.replicas,
            adding=state.recovering,
            removing=(),
            isr=state.isr,
            recovering=state.recovering,
        )
        known = self._moves.get((state.topic, state.partition))
        return known if known == move else move

    def _report(self, error: ClusterError | None) -> None:
        """Logs an error unless it repeats the last error."""
        text = None if error is None else str(error)
        if text is not None and text != self._error:
            log.warning("some recovering replicas cannot be read, so the tuner does not throttle them", error=text)
        self._error = text
