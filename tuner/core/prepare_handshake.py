"""Between the executor of plans and the tuner's cycle: what is about to be asked for, and what the cycle says to it.

Both run in one thread, one after the other, so nothing here is locked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tuner.core.cluster import BrokerSide, PartitionMove
from tuner.core.reassignment_plan import Key


class PrepareHandshake:
    def __init__(self) -> None:
        self.moves: Sequence[PartitionMove] = ()
        self.withheld: Mapping[Key, str] | None = None  # None: no cycle has seen to the moves yet.
        self.without_room: Collection[Key] = ()  # Of them, what only waits for others to be done.
        self.urgent: Collection[Key] = ()  # Of them, what producers wait for.
        # When the executor last saw steps of plans run through a side, on the clock of both.
        self.carried_at_s: dict[BrokerSide, float] = {}
        self.ended = False  # A step of ours has, since the last cycle, and others go on.

    def begin(self, moves: Sequence[PartitionMove], urgent: Collection[Key] = ()) -> None:
        self.moves, self.withheld, self.without_room, self.urgent = moves, None, (), urgent

    def end(self) -> None:
        """They have been asked for, or never will be."""
        self.moves, self.withheld, self.without_room, self.urgent = (), None, (), ()

    @property
    def waits(self) -> bool:
        return bool(self.moves) and self.withheld is None

    def seen_to(self, withheld: Mapping[Key, str], without_room: Collection[Key] = ()) -> None:
        """
        Args:
            withheld: which of ``moves`` must not begin, and why.
            without_room: of them, what only waits: for room on a list, or for a rate that is being lowered.
        """
        self.withheld, self.without_room = withheld, without_room
