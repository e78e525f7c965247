"""Passes the next steps of plans from their executor to the tuner's cycle, and the answer back.

A move must not begin before its throttle is set. So the executor submits its moves, the cycle sets their throttles and answers, and
then the executor requests from Kafka the moves that the cycle has not deferred. Both run in one thread, one after the other, so
there is no lock.
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
        waiting_for_capacity: the deferred moves that only wait for others to end.
        urgent: the moves that producers wait for.
        last_copied_at_s: when the executor last saw a step of a plan copy through a side, on the monotonic clock of both.
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
        """Replaces the moves, and forgets the answer to the earlier ones."""
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
