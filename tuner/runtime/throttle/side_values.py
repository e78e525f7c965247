"""Keeps a value for each side, and computes it again after a minute.

A forecast changes slowly. Each call computes a few sides only, because a large cluster has thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Generic, TypeVar

from streaming.shared.contract import MoveSignal
from tuner.core.cluster import BrokerSide

KEEP_MS = 60_000
SIDES_PER_CALL = 40

T = TypeVar("T")


class SideValues(Generic[T]):
    """Computes the values of the sides in turn. A side that has no value yet has no entry."""

    def __init__(self, sides_per_call: int | None = SIDES_PER_CALL) -> None:
        """
        Args:
            sides_per_call: how many values one call computes at most; None means all.
        """
        self._sides_per_call = sides_per_call
        self._values: Mapping[BrokerSide, T] = {}
        self._computed_ms: dict[BrokerSide, int] = {}

    def update(
        self,
        moves: Mapping[BrokerSide, MoveSignal],
        now_ms: int,
        compute: Callable[[BrokerSide, MoveSignal], T | None],
    ) -> Mapping[BrokerSide, T]:
        """Returns the values of the sides in ``moves``.

        Args:
            compute: returns the value of a side; None if the side has no value.
        """
        # ``abs``: a clock that is set back must not stop the computation.
        due = (side for side in moves if abs(now_ms - self._computed_ms.get(side, now_ms - KEEP_MS)) >= KEEP_MS)
        changed = {side: compute(side, moves[side]) for side in islice(due, self._sides_per_call)}
        if changed or len(self._computed_ms) > len(moves):
            self._computed_ms.update(dict.fromkeys(changed, now_ms))
            self._computed_ms = {side: at_ms for side, at_ms in self._computed_ms.items() if side in moves}
            values = {**self._values, **changed}
            # A new mapping only for new values: the recording of inputs compares the mappings of two cycles.
            self._values = {s: value for s, value in values.items() if s in moves and value is not None}
        return self._values
