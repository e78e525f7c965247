"""The partitions of one plan with their state and times, in compact arrays: a plan may have 200,000 of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import IntEnum
from heapq import nlargest, nsmallest
from itertools import compress
from operator import and_, or_
from typing import NamedTuple


class PlanPartitionState(IntEnum):
    """What the journal says about a partition of a plan. The order is that of the page."""

    MOVING = 0
    WAITING = 1
    GIVEN_UP = 2
    ROLLED_BACK = 3
    ARRIVED = 4


class PartitionRow(NamedTuple):
    """One partition of a plan.

    Attributes:
        target: the replicas of the newest step, or those of the plan; empty: not known.
        size_bytes: None: not known.
        started_ms, ended_ms: of its first and of its last step, epoch; 0: none.
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
_HEAP_ROWS_MAX = 2_000  # So far a heap is several times as fast as a sort of 200,000 rows.
SORTS = ("name", "state", "size", "started", "ended", "duration")


class PartitionTable:
    """The partitions of one plan."""

    def __init__(self) -> None:
        self._topics: list[str] = []
        self._topic_numbers: dict[str, int] = {}
        self._targets: list[tuple[int, ...]] = [()]
        self._target_numbers: dict[tuple[int, ...], int] = {(): 0}
        self._places: dict[tuple[int, int], int] = {}
        self._topic, self._partition, self._target = array("i"), array("i"), array("i")
        self._state = array("B")
        self._size = array("d")
        self._started, self._ended = array("q"), array("q")
        # By text: the places that match it, until a place is added.
        self._matches: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._state)

    def plan(self, topic: str, partition: int, target: Sequence[int], size_bytes: float) -> None:
        """Notes a partition of the plan."""
        place = self._place(topic, partition)
        self._size[place] = size_bytes
        if not self._target[place]:
            self._target[place] = self._number_of_target(tuple(target))

    def start(self, topic: str, partition: int, target: Sequence[int], at_ms: int) -> None:
        """Notes that a step was requested."""
        place = self._place(topic, partition)
        self._target[place] = self._number_of_target(tuple(target))
        self._state[place] = PlanPartitionState.MOVING
        if not self._started[place]:
            self._started[place] = at_ms

    def end(self, topic: str, partition: int, state: PlanPartitionState, at_ms: int) -> None:
        """Notes how a step has ended."""
        place = self._place(topic, partition)
        self._state[place] = state
        self._ended[place] = at_ms

    def count(self, state: PlanPartitionState) -> int:
        return self._state.tobytes().count(state)

    def page(self, sorting: Sorting, find: str, offset: int, limit: int) -> tuple[list[PartitionRow], int]:
        """Returns one page of the rows, and the number of rows that match.

        Args:
            find: only partitions whose name, such as ``orders-7``, contains this text.
        """
        places: Sequence[int] = self._matching(find) if find else range(len(self))
        # The key is a function in C: a function in Python takes five times as long. Each way keeps the order of equal rows.
        key, end = self._column(sorting.by).__getitem__, offset + limit
        if end > _HEAP_ROWS_MAX:
            ordered = sorted(places, key=key, reverse=sorting.is_descending)
        else:
            ordered = (nlargest if sorting.is_descending else nsmallest)(end, places, key=key)
        return [self._row(place) for place in ordered[offset:end]], len(places)

    def _matching(self, find: str) -> array[int]:
        """Returns the places whose name contains the text.

        The text is in the topic, or in the number, or it is an end of the topic, a hyphen and a beginning of the number.
        """
        places = self._matches.get(find)
        if places is None:
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
            places = self._matches[find] = array("i", compress(range(len(self)), matches))
        return places

    def _column(self, by: str) -> Sequence[float]:
        """Returns the value of each place that the rows are sorted by."""
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

    def _row(self, place: int) -> PartitionRow:
        size = self._size[place]
        return PartitionRow(
            self._topics[self._topic[place]],
            self._partition[place],
            PlanPartitionState(self._state[place]),
            self._targets[self._target[place]],
            size if size >= 0 else None,
            self._started[place],
            self._ended[place],
        )

    def _place(self, topic: str, partition: int) -> int:
        """Returns the place of a partition; a new one if it is not known."""
        number = self._topic_numbers.get(topic)
        if number is None:
            number = self._topic_numbers[topic] = len(self._topics)
            self._topics.append(topic)
        place = self._places.get((number, partition))
        if place is None:
            self._matches.clear()
            place = self._places[(number, partition)] = len(self._state)
            self._topic.append(number)
            self._partition.append(partition)
            self._target.append(0)
            self._state.append(PlanPartitionState.WAITING)
            self._size.append(-1.0)
            self._started.append(0)
            self._ended.append(0)
        return place

    def _number_of_target(self, target: tuple[int, ...]) -> int:
        number = self._target_numbers.get(target)
        if number is None:
            number = self._target_numbers[target] = len(self._targets)
            self._targets.append(target)
        return number
