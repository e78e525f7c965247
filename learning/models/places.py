"""Assigns a limited number of places (such as the columns of an array) to the ids that occur in the most periods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Places:
    """The ids that have a place. A place is an index from 0.

    An id keeps its place until ``reassign``. A new id gets a place while one is free.
    """

    def __init__(self, places_max: int) -> None:
        self.ids: list[int] = []
        self._places_max = places_max
        self._places: dict[int, int] = {}

    def add(self, ids: Iterable[int]) -> None:
        """Assigns free places to the ids that have none."""
        for number in ids:
            if len(self.ids) >= self._places_max:
                return
            if number not in self._places:
                self._places[number] = len(self.ids)
                self.ids.append(number)

    def reassign(self, newest_day: Sequence[Ids], before: Sequence[Ids]) -> None:
        """Reassigns all places to the ids that are in the most periods of the newest day.

        A tie is decided by the earlier periods. So an id that is in only a few periods, for example in a forged one, takes no place
        from an id that is in all periods.

        Args:
            newest_day: the ids of each period of the newest day.
            before: the ids of each earlier period that decides ties.
        """
        self.ids, self._places = [], {}
        if not newest_day and not before:
            return
        ids, found_at = np.unique(np.concatenate([*newest_day, *before]), return_inverse=True)
        size = sum(len(period) for period in newest_day)
        in_newest = np.bincount(found_at[:size], minlength=len(ids))
        in_before = np.bincount(found_at[size:], minlength=len(ids))
        self.add(ids[np.lexsort((ids, -in_before, -in_newest))].tolist())

    def of(self, ids: Ids) -> Ids:
        """Returns the place of each id; -1 if it has none."""
        return np.array([self._places.get(number, -1) for number in ids.tolist()], dtype=np.int64)
