"""Keeps results of the previous snapshot, so that a cycle computes only the changes.

On a large cluster tens of thousands of partitions move, and nearly all moves are the same objects as in the previous snapshot. So
the cache finds the moves that began or ended by object identity, adjusts its counts by these moves, and reuses the results for
unchanged objects.

Invariant: the cache changes no decision. The tuner passes the same ``CycleCache`` in each cycle. With a new cache, as in a replay,
the decisions are the same, but take longer.
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

R = TypeVar("R")
RecordedReplicas = Mapping[tuple[str, int], frozenset[int]]
PairsBySide = Mapping[Side, frozenset[Pair]]


class IdentityMemo(Generic[R]):
    """Caches the last result of a function for each topic, valid for identical argument objects."""

    def __init__(self, function: Callable[..., R]) -> None:
        self._function = function
        self._results: dict[str, tuple[tuple[Any, ...], R]] = {}

    def result_for(self, topic: str, *arguments: Any) -> R:
        """Returns the function's result for the arguments: the cached result if all arguments are the same objects as before."""
        cached = self._results.get(topic)
        if cached is not None and all(map(is_, cached[0], arguments)):
            return cached[1]
        result = self._function(*arguments)
        self._results[topic] = (arguments, result)
        return result

    def retain(self, topics: Collection[str]) -> None:
        """Deletes the results of all other topics."""
        if len(self._results) > len(topics):
            self._results = {topic: cached for topic, cached in self._results.items() if topic in topics}


class CopyPaths:
    """Counts the moves on each path from a leader to a destination.

    Attributes:
        leaderless: number of moves without a leader.
        destinations_of: destinations of each leader.
    """

    def __init__(self) -> None:
        self.leaderless = 0
        self.destinations_of: dict[int, set[int]] = {}
        self._moves: dict[int, dict[int, int]] = {}  # Destination → leader → number of moves.
        self._leaders: dict[int, list[int]] = {}  # Destination → sorted leaders, filled on first request.

    @property
    def destinations(self) -> Collection[int]:
        return self._moves.keys()

    def sides(self) -> list[BrokerSide]:
        """Returns the leader sides of all sources, then the follower sides of all destinations, each sorted by broker."""
        leaders: list[BrokerSide] = [(broker, Side.LEADER) for broker in sorted(self.destinations_of)]
        return leaders + [(broker, Side.FOLLOWER) for broker in sorted(self._moves)]

    def leaders_of(self, destination: int) -> Sequence[int]:
        """Returns the sorted leaders that the destination copies from."""
        leaders = self._leaders.get(destination)
        if leaders is None:
            leaders = self._leaders[destination] = sorted(self._moves.get(destination, ()))
        return leaders

    def add(self, moves: Sequence[PartitionMove], count: int) -> None:
        """Adds ``count`` to every path of the moves: 1 for moves that began, −1 for moves that ended."""
        for move in moves:
            leader = move.leader
            if leader < 0:
                self.leaderless += count
                continue
            for destination in move.adding:
                if destination != leader:
                    self._add_to_path(leader, destination, count)

    def _add_to_path(self, leader: int, destination: int, count: int) -> None:
        by_leader = self._moves.setdefault(destination, {})
        before = by_leader.get(leader, 0)
        by_leader[leader] = before + count
        if before == 0:
            self.destinations_of.setdefault(leader, set()).add(destination)
            self._leaders.pop(destination, None)
        elif before + count == 0:
            self._delete_path(leader, destination)

    def _delete_path(self, leader: int, destination: int) -> None:
        del self._moves[destination][leader]
        if not self._moves[destination]:
            del self._moves[destination]
        self.destinations_of[leader].discard(destination)
        if not self.destinations_of[leader]:
            del self.destinations_of[leader]
        self._leaders.pop(destination, None)


class CycleCache:
    """The results that one controller keeps from cycle to cycle.

    Attributes:
        paths: number of moves on each path from a leader to a destination.
        topics: moves of each topic. A tuple is replaced as soon as one of its moves differs.
        required: memo of the replicas that have to be listed.
        missing: memo of the pairs that are required and not on the current lists.
        unneeded: memo of the managed pairs that are no longer required.
        external: memo of the current lists without the managed pairs.
    """

    def __init__(self) -> None:
        self.paths = CopyPaths()
        self.topics: dict[str, tuple[PartitionMove, ...]] = {}
        self.required: IdentityMemo[RequiredReplicas] = IdentityMemo(required_replicas)
        self.missing: IdentityMemo[PairsBySide] = IdentityMemo(_missing_pairs)
        self.unneeded: IdentityMemo[PairsBySide] = IdentityMemo(_unneeded_pairs)
        self.external: IdentityMemo[TopicThrottle] = IdentityMemo(TopicThrottle.without)
        self._listed_moves_cache: CycleCache | None = None
        self._moves: tuple[PartitionMove, ...] = ()
        self._new_moves: Sequence[PartitionMove] = ()
        # The mapping of the controller's state that has the replicas of all moves except ``_new_moves``; None: unknown.
        self._recorded: RecordedReplicas | None = None

    def follow(self, moves: tuple[PartitionMove, ...]) -> None:
        """Updates the cache to the moves of a new snapshot."""
        if moves is self._moves:
            return
        added, removed = diff_sequences(self._moves, moves)
        # Moves are added before others are removed, so that a path on which one move replaces another is not deleted in between.
        self.paths.add(added, 1)
        self.paths.add(removed, -1)
        self._update_topics(removed, added)
        if self._new_moves:
            # ``mark_recorded`` was not called for the previous new moves. So no mapping has all moves except ``added``.
            self._recorded = None
        self._new_moves, self._moves = added, moves

    def for_listed_moves(self) -> CycleCache:
        """Returns the cache for the moves that throttled-replica lists must name, a subset of all moves."""
        if self._listed_moves_cache is None:
            self._listed_moves_cache = CycleCache()
        return self._listed_moves_cache

    def moves_not_in(self, recorded: RecordedReplicas) -> Sequence[PartitionMove]:
        """Returns the moves that ``recorded`` may lack: the new moves if ``recorded`` was marked last, else all moves."""
        return self._new_moves if recorded is self._recorded else self._moves

    def mark_recorded(self, recorded: RecordedReplicas) -> None:
        """Notes that ``recorded`` has all current moves."""
        self._recorded, self._new_moves = recorded, ()

    def _update_topics(self, removed: Sequence[PartitionMove], added: Sequence[PartitionMove]) -> None:
        removed_ids = set(map(id, removed))
        added_by_topic: dict[str, list[PartitionMove]] = {move.topic: [] for move in removed}
        for move in added:
            added_by_topic.setdefault(move.topic, []).append(move)
        for topic, new_moves in added_by_topic.items():
            moves = (*(move for move in self.topics.get(topic, ()) if id(move) not in removed_ids), *new_moves)
            if moves:
                self.topics[topic] = moves
            else:
                del self.topics[topic]


def _missing_pairs(required: RequiredReplicas, current: TopicThrottle) -> PairsBySide:
    missing: dict[Side, frozenset[Pair]] = {}
    for side in Side:
        replicas = current.for_side(side)
        missing[side] = pairs_missing_from(required.for_side(side), replicas.pairs)
        if replicas.all_replicas:
            missing[side] = frozenset()
    return missing


def _unneeded_pairs(managed: TopicThrottle, required: RequiredReplicas) -> PairsBySide:
    return {side: pairs_missing_from(managed.for_side(side).pairs, required.for_side(side)) for side in Side}
