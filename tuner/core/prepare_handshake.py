"""Passes the next steps of plans from their executor to the tuner's cycle, and the cycle's answer back to the executor.

A move must not begin before its throttle is set. So there are three steps:

1. The executor submits the moves that it is about to request.
2. The cycle sets the throttles for these moves, and answers which of the moves it defers.
3. The executor requests the other moves from Kafka.

Executor and cycle run in one thread, one after the other, so there is no lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tuner.core.cluster import BrokerSide, PartitionMove
from tuner.core.reassignment_plan import TopicPartition


class PrepareHandshake:
    """The moves that the executor has submitted, and the answer of the tuner's cycle.

    Attributes:
        moves: moves that the executor is about to request.
        deferred: moves that must not begin yet, with the reason; None: no cycle has answered.
        waiting_for_capacity: the deferred moves that only wait for other moves to end.
        urgent: the moves of partitions below min.insync.replicas, whose producers Kafka refuses.
        last_copied_at_s: when the executor last saw a step of a plan copy through a side; monotonic time.
        step_ended: a step of a plan has ended since the last cycle, while other steps continue.
    """

    def __init__(self) -> None:
        self.moves: Sequence[PartitionMove] = ()
        self.deferred: Mapping[TopicPartition, str] | None = None
        self.waiting_for_capacity: Collection[TopicPartition] = ()
        self.urgent: Collection[TopicPartition] = ()
        self.last_copied_at_s: dict[BrokerSide, float] = {}
        self.step_ended = False

    def submit(self, moves: Sequence[PartitionMove], urgent: Collection[TopicPartition] = ()) -> None:
        """Replaces the submitted moves, and forgets the answer to the earlier moves."""
        self.moves, self.urgent = moves, urgent
        self.deferred, self.waiting_for_capacity = None, ()

    def clear(self) -> None:
        """Forgets the moves: the executor has requested them, or will not request them."""
        self.submit(())

    @property
    def is_pending(self) -> bool:
        """Whether the cycle has yet to answer."""
        return bool(self.moves) and self.deferred is None

    def answer(
        self, deferred: Mapping[TopicPartition, str], waiting_for_capacity: Collection[TopicPartition] = ()
    ) -> None:
        """Stores the answer of a cycle.

        Args:
            deferred: the submitted moves that must not begin, with the reason.
            waiting_for_capacity: the deferred moves that only wait for room on a list, or for a rate that is being lowered.
        """
        self.deferred, self.waiting_for_capacity = deferred, waiting_for_capacity
