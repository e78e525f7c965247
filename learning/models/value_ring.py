"""Keeps the hourly values of many series for five weeks. Each column is one series; NaN: not known."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from learning.models.periods import KEPT_HOURS, Floats


class ValueRing:
    """The values of the newest hours, as a ring buffer with a row for each hour."""

    def __init__(self, hours: int = KEPT_HOURS) -> None:
        self._rows = np.full((hours, 0), np.nan, dtype=np.float32)
        self._newest = 0

    @property
    def columns(self) -> int:
        return self._rows.shape[1]

    def widen(self, columns: int) -> None:
        """Adds empty series until there are ``columns`` of them."""
        self._rows = widened(self._rows, columns)

    def append(self, values: Floats) -> None:
        """Adds the values of the next hour."""
        self._newest = (self._newest + 1) % len(self._rows)
        self._rows[self._newest] = values

    def before(self, hours: int) -> Floats:
        """Returns the values of the hour that is ``hours`` before the newest hour."""
        if hours >= len(self._rows):
            return np.full(self.columns, np.nan, dtype=np.float32)
        row: Floats = self._rows[(self._newest - hours) % len(self._rows)]
        return row

    def mean_before(self, hours: Iterable[int]) -> Floats:
        """Returns the means of the known values of several hours; each of ``hours`` is a distance from the newest hour."""
        return mean_of_known(np.stack([self.before(hour) for hour in hours]))

    def largest(self) -> Floats:
        """Returns the largest value of each series; 0 if none is known."""
        largest: Floats = np.fmax.reduce(self._rows, axis=0, initial=0.0)
        return largest


def mean_of_known(rows: Floats) -> Floats:
    """Returns the means of the known values over the first axis; NaN where no value is known."""
    known = ~np.isnan(rows)
    count = known.sum(axis=0)
    total = np.where(known, rows, 0.0).sum(axis=0)
    means: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
    return means


def widened(values: Floats, columns: int, fill: float = np.nan) -> Floats:
    """Returns the array with further columns (last axis), filled with ``fill``."""
    missing = columns - values.shape[-1]
    if missing <= 0:
        return values
    padding = [(0, 0)] * (values.ndim - 1) + [(0, missing)]
    return np.pad(values, padding, constant_values=fill)
