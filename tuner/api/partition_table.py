"""The partitions of one plan with their state and times, in compact arrays: a plan may have 200,000 of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
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


_SortKey = Callable[[int], tuple[float, int]]
_ORDERS_MAX = 8
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
        # The order of the last pages that were asked for; empty after each change.
        self._orders: dict[tuple[Sorting, str], array[int]] = {}

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
        ordered = self._orders.get((sorting, find))
        if ordered is None:
            places: Iterable[int] = range(len(self)) if not find else self._matching(find)
            ordered = array("i", sorted(places, key=self._key(sorting.by), reverse=sorting.is_descending))
            self._orders = {} if len(self._orders) >= _ORDERS_MAX else self._orders
            self._orders[(sorting, find)] = ordered
        return [self._row(place) for place in ordered[offset : offset + limit]], len(ordered)

    def _matching(self, find: str) -> Iterator[int]:
        whole = [find in topic for topic in self._topics]
        for place, (topic, partition) in enumerate(zip(self._topic, self._partition, strict=True)):
            if whole[topic] or find in f"{self._topics[topic]}-{partition}":
                yield place

    def _key(self, by: str) -> _SortKey:
        if by == "name":
            order = sorted(range(len(self._topics)), key=self._topics.__getitem__)
            ranks = {number: rank for rank, number in enumerate(order)}
            return lambda place: (ranks[self._topic[place]], self._partition[place])
        if by == "duration":
            return lambda place: (max(0, self._ended[place] - self._started[place]), place)
        columns: dict[str, Sequence[float]] = {
            "state": self._state,
            "size": self._size,
            "started": self._started,
            "ended": self._ended,
        }
        column = columns[by]
        return lambda place: (column[place], place)

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
        """Returns the place of a partition that is about to change; a new one if it is not known."""
        self._orders.clear()
        number = self._topic_numbers.get(topic)
        if number is None:
            number = self._topic_numbers[topic] = len(self._topics)
            self._topics.append(topic)
        place = self._places.get((number, partition))
        if place is None:
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
