"""The partitions of one plan with their states and times, in compact arrays, because a plan may have 200,000 partitions.

A partition has the same index in all arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import IntEnum
from heapq import nlargest, nsmallest
from itertools import compress
from operator import and_, or_
from typing import NamedTuple


class PlanPartitionState(IntEnum):
    """The state of a partition of a plan, as the journal records it. The page sorts partitions by these numbers."""

    MOVING = 0
    WAITING = 1
    GIVEN_UP = 2
    ROLLED_BACK = 3
    ARRIVED = 4


class PartitionRow(NamedTuple):
    """One partition of a plan.

    Attributes:
        target: the replicas of the newest step or, without a step, the replicas of the plan; empty if not known.
        size_bytes: None if not known.
        started_ms: start of the partition's first step, epoch; 0 if there is none.
        ended_ms: end of the partition's last step, epoch; 0 if there is none.
    """

    topic: str
    partition: int
    state: PlanPartitionState
    target: tuple[int, ...]
    size_bytes: float | None
    started_ms: int
    ended_ms: int


class Sorting(NamedTuple):
    """How rows are sorted: by name, size, start, end, time or state."""

    by: str
    is_descending: bool


_MATCHES_MAX = 4
_HEAP_ROWS_MAX = 2_000  # Up to this row, a heap is several times as fast as a sort of 200,000 rows.
SORTS = ("name", "state", "size", "started", "ended", "duration")


class PartitionTable:
    """The partitions of one plan."""

    def __init__(self) -> None:
        self._topics: list[str] = []
        self._topic_numbers: dict[str, int] = {}
        self._targets: list[tuple[int, ...]] = [()]
        self._target_numbers: dict[tuple[int, ...], int] = {(): 0}
        self._index_by_partition: dict[tuple[int, int], int] = {}
        self._topic, self._partition, self._target = array("i"), array("i"), array("i")
        self._state = array("B")
        self._size = array("d")
        self._started, self._ended = array("q"), array("q")
        # By searched text: the indexes of the matching partitions. A new partition clears them.
        self._matches: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._state)

    def plan(self, topic: str, partition: int, target: Sequence[int], size_bytes: float) -> None:
        """Records the target and the size of a partition of the plan."""
        index = self._index_of(topic, partition)
        self._size[index] = size_bytes
        if not self._target[index]:
            self._target[index] = self._number_of_target(tuple(target))

    def start(self, topic: str, partition: int, target: Sequence[int], at_ms: int) -> None:
        """Records that a step was requested."""
        index = self._index_of(topic, partition)
        self._target[index] = self._number_of_target(tuple(target))
        self._state[index] = PlanPartitionState.MOVING
        if not self._started[index]:
            self._started[index] = at_ms

    def end(self, topic: str, partition: int, state: PlanPartitionState, at_ms: int) -> None:
        """Records the result of a step."""
        index = self._index_of(topic, partition)
        self._state[index] = state
        self._ended[index] = at_ms

    def count(self, state: PlanPartitionState) -> int:
        return self._state.tobytes().count(state)

    def page(self, sorting: Sorting, find: str, offset: int, limit: int) -> tuple[list[PartitionRow], int]:
        """Returns one page of the rows, and the number of rows that match.

        Args:
            find: only partitions whose name, such as ``orders-7``, contains this text.
        """
        indexes: Sequence[int] = self._matching(find) if find else range(len(self))
        # The key is a function in C, because a function in Python takes five times as long. The sort and the heap both keep the
        # order of equal rows.
        key, end = self._column(sorting.by).__getitem__, offset + limit
        if end > _HEAP_ROWS_MAX:
            ordered = sorted(indexes, key=key, reverse=sorting.is_descending)
        else:
            ordered = (nlargest if sorting.is_descending else nsmallest)(end, indexes, key=key)
        return [self._row(index) for index in ordered[offset:end]], len(indexes)

    def _matching(self, find: str) -> array[int]:
        """Returns the indexes of the partitions whose name contains the text.

        There are three cases: the topic contains the text; the number contains the text; or the text consists of the end of the
        topic, a hyphen and the beginning of the number.
        """
        indexes = self._matches.get(find)
        if indexes is None:
            end, hyphen, beginning = find.rpartition("-")
            numbers = set(self._partition)
            in_topic = [find in topic for topic in self._topics]
            at_end = [bool(hyphen) and topic.endswith(end) for topic in self._topics]
            in_number = {number: find in str(number) for number in numbers}
            at_beginning = {number: str(number).startswith(beginning) for number in numbers}
            matches = map(in_topic.__getitem__, self._topic)
            if any(in_number.values()):
                matches = map(or_, matches, map(in_number.__getitem__, self._partition))
            if any(at_end):
                across = map(and_, map(at_end.__getitem__, self._topic), map(at_beginning.__getitem__, self._partition))
                matches = map(or_, matches, across)
            self._matches = {} if len(self._matches) >= _MATCHES_MAX else self._matches
            indexes = self._matches[find] = array("i", compress(range(len(self)), matches))
        return indexes

    def _column(self, by: str) -> Sequence[float]:
        """Returns the values by which the rows are sorted, one for each index."""
        if by == "name":
            order = sorted(range(len(self._topics)), key=self._topics.__getitem__)
            ranks = {number: rank << 32 for rank, number in enumerate(order)}
            return [ranks[topic] + partition for topic, partition in zip(self._topic, self._partition, strict=True)]
        if by == "duration":
            return [max(0, end - start) for start, end in zip(self._started, self._ended, strict=True)]
        columns: dict[str, Sequence[float]] = {
            "state": self._state,
            "size": self._size,
            "started": self._started,
            "ended": self._ended,
        }
        return columns[by]

    def _row(self, index: int) -> PartitionRow:
        size = self._size[index]
        return PartitionRow(
            self._topics[self._topic[index]],
            self._partition[index],
            PlanPartitionState(self._state[index]),
            self._targets[self._target[index]],
            size if size >= 0 else None,
            self._started[index],
            self._ended[index],
        )

    def _index_of(self, topic: str, partition: int) -> int:
        """Returns the index of a partition. Adds the partition if it is not known."""
        number = self._topic_numbers.get(topic)
        if number is None:
            number = self._topic_numbers[topic] = len(self._topics)
            self._topics.append(topic)
        index = self._index_by_partition.get((number, partition))
        if index is None:
            self._matches.clear()
            index = self._index_by_partition[(number, partition)] = len(self._state)
            self._topic.append(number)
            self._partition.append(partition)
            self._target.append(0)
            self._state.append(PlanPartitionState.WAITING)
            self._size.append(-1.0)
            self._started.append(0)
            self._ended.append(0)
        return index

    def _number_of_target(self, target: tuple[int, ...]) -> int:
        number = self._target_numbers.get(target)
        if number is None:
            number = self._target_numbers[target] = len(self._targets)
            self._targets.append(target)
        return number
