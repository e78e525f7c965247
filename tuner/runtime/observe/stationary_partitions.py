"""What throttles hold back that does not move: replicas of listed partitions that were in sync, and come back.

Intuition: a "*" that an operator has put on a topic's lists names all of its replicas, whether they move or not. After a broker's
restart they come back through the throttle, and where writes wait for them somebody has to know. To read all partitions at every
look would be a look at everything; they are read with the full looks, and in between only while writes wait, of listed topics.

Invariant: only what can come back counts: a replica on a living broker whose disk is there. What could not be read anew is as it
was, so that nothing is closed for want of a look.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.throttle_settings import TopicThrottle
from tuner.core.cluster import BrokerSide, PartitionMove

# While writes wait, of listed topics: on a large cluster that is a good part of a full look.
LOOK_EVERY = 3


class StationaryPartitions:
    def __init__(self) -> None:
        self.sides: Mapping[int, frozenset[BrokerSide]] = {}  # By leader.
        self._waited: Collection[int] = ()
        self._looks = 0  # Since it was read.

    def is_due(self, *, waits: Collection[int], went: bool) -> bool:
        """Whether a look that is not full should read listed topics.

        Args:
            waits: brokers that say that writes wait for replicas, or that have a throttle open for some.
            went: what moved until now, with a replica out of sync, does not any more.
        """
        self._looks += 1
        return went or (bool(waits) and (self._looks >= LOOK_EVERY or not set(waits).issubset(self._waited)))

    def looked(self, *, waits: Collection[int]) -> None:
        """The look went well."""
        self._waited = waits

    def read(
        self,
        states: Iterable[PartitionState],
        lists: Mapping[str, TopicThrottle],
        moving: Collection[tuple[str, int]],
        brokers: Collection[int],
    ) -> None:
        self._looks = 0
        found: dict[int, set[BrokerSide]] = {}
        for state in states:
            if len(state.isr) == len(state.replicas) or state.topic not in lists or state.leader < 0:
                continue
            if (state.topic, state.partition) in moving:
                continue
            sides = _sides(state, lists[state.topic], brokers)
            if sides:
                found.setdefault(state.leader, set()).update(sides)
        sides_now = {leader: frozenset(sides) for leader, sides in found.items()}
        # The object that it was, where it says the same.
        self.sides = self.sides if self.sides == sides_now else sides_now


def _sides(state: PartitionState, lists: TopicThrottle, brokers: Collection[int]) -> Sequence[BrokerSide]:
    lost = [b for b in state.replicas if b not in state.isr and b not in state.offline and b in brokers]
    found = [(b, Side.FOLLOWER) for b in lost if lists.follower.includes(state.partition, b)]
    if lost and lists.leader.includes(state.partition, state.leader):
        found.append((state.leader, Side.LEADER))
    return found


def has_lost(move: PartitionMove) -> bool:
    """Whether a replica is out of sync that the move does not add."""
    return any(b not in move.isr and b not in move.adding for b in move.replicas)
