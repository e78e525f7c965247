"""What was worked out of the look before, kept so that only what has changed since is worked out again.

Intuition: of tens of thousands of partitions nearly all move as they did a look before, and are the objects that they were. So
what came and what went is found by identity, counts go up and down by that, and what was asked about the very same objects a
look before has the answer that it had.

Invariant: it changes no decision. Whoever decides again and again hands the same ``CycleCache`` in each time; with a new one, as a
replay has it, everything is found to be the same, only later.

Vocabulary:
    came   moves that the look before did not have, or had otherwise.
    path   from a leader to a destination, for as many moves as take it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_
from typing import Any, Generic, TypeVar

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import Pair, TopicThrottle
from tuner.control.throttle.incremental.sequence_diff import diff_sequences
from tuner.control.throttle.replica_lists.required import RequiredReplicas, pairs_missing_from, required_replicas
from tuner.core.cluster import BrokerSide, PartitionMove

A = TypeVar("A")
Seen = Mapping[tuple[str, int], frozenset[int]]
Pairs = Mapping[Side, frozenset[Pair]]


class IdentityMemo(Generic[A]):
    """The last answer about each topic, good for as long as it is asked of the same objects."""

    def __init__(self, work: Callable[..., A]) -> None:
        self._work = work
        self._known: dict[str, tuple[tuple[Any, ...], A]] = {}

    def answer_for(self, topic: str, *given: Any) -> A:
        known = self._known.get(topic)
        if known is not None and all(map(is_, known[0], given)):
            return known[1]
        answer = self._work(*given)
        self._known[topic] = (given, answer)
        return answer

    def retain(self, topics: Collection[str]) -> None:
        """Only about these it is asked again."""
        if len(self._known) > len(topics):
            self._known = {topic: known for topic, known in self._known.items() if topic in topics}


class CopyPaths:
    """Who copies from whom."""

    def __init__(self) -> None:
        self.leaderless = 0  # Moves.
        self.destinations_of: dict[int, set[int]] = {}  # By leader.
        self._moves: dict[int, dict[int, int]] = {}  # Destination → leader → how many.
        self._leaders: dict[int, list[int]] = {}  # Sorted, made where they are asked for.

    @property
    def destinations(self) -> Collection[int]:
        return self._moves.keys()

    def sides(self) -> list[BrokerSide]:
        """Leaders first, each by its number."""
        leaders: list[BrokerSide] = [(broker, Side.LEADER) for broker in sorted(self.destinations_of)]
        return leaders + [(broker, Side.FOLLOWER) for broker in sorted(self._moves)]

    def leaders_of(self, destination: int) -> Sequence[int]:
        """Sorted."""
        leaders = self._leaders.get(destination)
        if leaders is None:
            leaders = self._leaders[destination] = sorted(self._moves.get(destination, ()))
        return leaders

    def change(self, moves: Sequence[PartitionMove], by: int) -> None:
        for move in moves:
            leader = move.leader
            if leader < 0:
                self.leaderless += by
                continue
            for destination in move.adding:
                if destination != leader:
                    self._change(leader, destination, by)

    def _change(self, leader: int, destination: int, by: int) -> None:
        onto = self._moves.setdefault(destination, {})
        before = onto.get(leader, 0)
        onto[leader] = before + by
        if before == 0:
            self.destinations_of.setdefault(leader, set()).add(destination)
            self._leaders.pop(destination, None)
        elif before + by == 0:
            self._end(leader, destination)

    def _end(self, leader: int, destination: int) -> None:
        del self._moves[destination][leader]
        if not self._moves[destination]:
            del self._moves[destination]
        self.destinations_of[leader].discard(destination)
        if not self.destinations_of[leader]:
            del self.destinations_of[leader]
        self._leaders.pop(destination, None)


class CycleCache:
    def __init__(self) -> None:
        self.paths = CopyPaths()
        self.topics: dict[str, tuple[PartitionMove, ...]] = {}  # Another tuple where another move is in it.
        self.required: IdentityMemo[RequiredReplicas] = IdentityMemo(required_replicas)
        self.missing: IdentityMemo[Pairs] = IdentityMemo(_missing)  # Of what is needed, on lists as they stand.
        self.unneeded: IdentityMemo[Pairs] = IdentityMemo(_done)  # Of ours, what is needed no more.
        self.others: IdentityMemo[TopicThrottle] = IdentityMemo(
            TopicThrottle.without
        )  # On lists as they stand, without ours.
        self._some: CycleCache | None = None
        self._moves: tuple[PartitionMove, ...] = ()
        self._came: Sequence[PartitionMove] = ()
        self._seen: Seen | None = None  # In which all of ``_moves`` but ``_came`` are.

    def follow(self, moves: tuple[PartitionMove, ...]) -> None:
        """From now on these move."""
        if moves is self._moves:
            return
        came, went = diff_sequences(self._moves, moves)
        # What came first goes after: a path that only changes hands does not end on the way.
        self.paths.change(came, 1)
        self.paths.change(went, -1)
        self._sort_by_topic(went, came)
        if self._came:
            self._seen = None  # Nobody has put these into it.
        self._came, self._moves = came, moves

    def for_listed_moves(self) -> CycleCache:
        """What is kept of those moves alone that have to be listed, where it is not all of them."""
        if self._some is None:
            self._some = CycleCache()
        return self._some

    def moves_not_in(self, seen: Seen) -> Sequence[PartitionMove]:
        """Moves that may not be in ``seen`` yet."""
        return self._came if seen is self._seen else self._moves

    def mark_recorded(self, seen: Seen) -> None:
        """All that moves is in it."""
        self._seen, self._came = seen, ()

    def _sort_by_topic(self, went: Sequence[PartitionMove], came: Sequence[PartitionMove]) -> None:
        gone = set(map(id, went))
        joined: dict[str, list[PartitionMove]] = {move.topic: [] for move in went}
        for move in came:
            joined.setdefault(move.topic, []).append(move)
        for topic, new in joined.items():
            moves = (*(move for move in self.topics.get(topic, ()) if id(move) not in gone), *new)
            if moves:
                self.topics[topic] = moves
            else:
                del self.topics[topic]


def _missing(needed: RequiredReplicas, stands: TopicThrottle) -> Pairs:
    return {
        side: frozenset()
        if stands.for_side(side).all_replicas
        else pairs_missing_from(needed.of(side), stands.for_side(side).pairs)
        for side in Side
    }


def _done(ours: TopicThrottle, needed: RequiredReplicas) -> Pairs:
    return {side: pairs_missing_from(ours.for_side(side).pairs, needed.of(side)) for side in Side}
