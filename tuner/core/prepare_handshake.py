"""Between the executor of plans and the tuner's cycle: what is about to be asked for, and what the cycle says to it.

Both run in one thread, one after the other, so nothing here is locked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tuner.core.cluster import BrokerSide, PartitionMove
from tuner.core.reassignment_plan import TopicPartition


class PrepareHandshake:
    def __init__(self) -> None:
        self.moves: Sequence[PartitionMove] = ()
        self.deferred: Mapping[TopicPartition, str] | None = None  # None: no cycle has seen to the moves yet.
        self.waiting_for_capacity: Collection[TopicPartition] = ()  # Of them, what only waits for others to be done.
        self.urgent: Collection[TopicPartition] = ()  # Of them, what producers wait for.
        # When the executor last saw steps of plans run through a side, on the clock of both.
        self.last_copied_at_s: dict[BrokerSide, float] = {}
        self.step_ended = False  # A step of ours has, since the last cycle, and others go on.

    def submit(self, moves: Sequence[PartitionMove], urgent: Collection[TopicPartition] = ()) -> None:
        self.moves, self.deferred, self.waiting_for_capacity, self.urgent = moves, None, (), urgent

    def clear(self) -> None:
        """They have been asked for, or never will be."""
        self.moves, self.deferred, self.waiting_for_capacity, self.urgent = (), None, (), ()

    @property
    def is_pending(self) -> bool:
        return bool(self.moves) and self.deferred is None

    def answer(self, withheld: Mapping[TopicPartition, str], without_room: Collection[TopicPartition] = ()) -> None:
        """
        Args:
            withheld: which of ``moves`` must not begin, and why.
            without_room: of them, what only waits: for room on a list, or for a rate that is being lowered.
        """
        self.deferred, self.waiting_for_capacity = withheld, without_room
