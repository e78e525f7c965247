"""Gives a limited number of places, for example columns of arrays, to the ids that were seen most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Places:
    """The ids that have a place, in the order in which they got it.

    An id keeps its place until ``give_anew``. A new id gets a place while one is free.
    """

    def __init__(self, places_max: int) -> None:
        self.ids: list[int] = []
        self._places_max = places_max
        self._places: dict[int, int] = {}

    def add(self, ids: Iterable[int]) -> None:
        """Gives a place to each id that has none, while places are free."""
        for number in ids:
            if len(self.ids) >= self._places_max:
                return
            if number not in self._places:
                self._places[number] = len(self.ids)
                self.ids.append(number)

    def give_anew(self, newest_day: Sequence[Ids], before: Sequence[Ids]) -> None:
        """Takes all places back, and gives them to the ids that are in most periods of the newest day.

        Ids that are in equally many are ordered by the periods before. So ids of a few periods, for example of a forged one,
        take no place from ids that are in all of them.

        Args:
            newest_day: the ids of each period of the newest day.
            before: those of the earlier periods that count.
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
