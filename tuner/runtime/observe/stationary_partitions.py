"""Finds throttles that slow down replicas of stationary partitions, which do not move: replicas that left the ISR and catch up.

An operator may put "*" in a topic's throttled-replica list. The "*" names all replicas of the topic, even replicas of stationary
partitions. After a broker's restart these replicas catch up through the throttle, and producers may wait for them. Reading all
partitions for every snapshot would be too slow, so partitions are read with each full scan. Between two full scans, partitions are
read only while producers wait, and only for topics with lists.

Invariant: only replicas that can catch up are considered: the broker is alive and the disk is online. Between two reads the last
result stays, so that no throttle is lowered just because no read took place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.throttle_settings import TopicThrottle
from tuner.core.cluster import BrokerSide, PartitionMove

# Number of snapshots between two reads while producers wait. On a large cluster a read takes almost as long as a full scan.
READ_EVERY = 3


class StationaryPartitions:
    """The throttled sides of stationary partitions with a replica that catches up.

    Attributes:
        sides: throttled sides (broker, and its role as leader or follower), by the broker that leads the partition.
    """

    def __init__(self) -> None:
        self.sides: Mapping[int, frozenset[BrokerSide]] = {}
        self._last_waiting_brokers: Collection[int] = ()
        self._snapshots = 0  # Number of snapshots since the last read.

    def is_due(self, *, waiting_brokers: Collection[int], lost_move_ended: bool) -> bool:
        """Returns whether a snapshot without a full scan should read the topics with lists. Call it once for each snapshot.

        Args:
            waiting_brokers: brokers whose producers wait for replicas, or whose throttle was opened for this reason.
            lost_move_ended: a move has ended while one of its old replicas was out of sync, so this replica is now stationary.
        """
        self._snapshots += 1
        return lost_move_ended or (
            bool(waiting_brokers)
            and (self._snapshots >= READ_EVERY or not set(waiting_brokers).issubset(self._last_waiting_brokers))
        )

    def note_snapshot(self, *, waiting_brokers: Collection[int]) -> None:
        """Notes that a snapshot has succeeded."""
        self._last_waiting_brokers = waiting_brokers

    def read(
        self,
        states: Iterable[PartitionState],
        lists: Mapping[str, TopicThrottle],
        moving: Collection[tuple[str, int]],
        brokers: Collection[int],
    ) -> None:
        """Updates ``sides``.

        Args:
            states: partitions. Only partitions on ``lists`` that are not in ``moving`` are considered.
            brokers: the brokers that are alive.
        """
        self._snapshots = 0
        by_leader: dict[int, set[BrokerSide]] = {}
        for state in states:
            if len(state.isr) == len(state.replicas) or state.topic not in lists or state.leader < 0:
                continue
            if (state.topic, state.partition) in moving:
                continue
            sides = _throttled_sides(state, lists[state.topic], brokers)
            if sides:
                by_leader.setdefault(state.leader, set()).update(sides)
        sides_now = {leader: frozenset(sides) for leader, sides in by_leader.items()}
        # An equal result keeps its identity, so that caches recognize it.
        self.sides = self.sides if self.sides == sides_now else sides_now


def _throttled_sides(state: PartitionState, lists: TopicThrottle, brokers: Collection[int]) -> Sequence[BrokerSide]:
    lost = [b for b in state.replicas if b not in state.isr and b not in state.offline and b in brokers]
    sides = [(b, Side.FOLLOWER) for b in lost if lists.follower.includes(state.partition, b)]
    if lost and lists.leader.includes(state.partition, state.leader):
        sides.append((state.leader, Side.LEADER))
    return sides


def has_lost(move: PartitionMove) -> bool:
    """Returns whether a replica that the move does not add has left the ISR."""
    return any(b not in move.isr and b not in move.adding for b in move.replicas)
