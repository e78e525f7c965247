"""Finds lasting changes and unusual values of one hourly measure, with river's ADWIN and a running quantile.

The measure is compared with its usual value at the same hour of the day, so a daily pattern is not reported as a change. The
difference between the two, called the residual, is log(value ÷ usual value). An hour of the day has a residual once the measure has
been known at this hour on two earlier days.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass

from river import drift, stats

_DAY_H = 24
_DAYS_KNOWN = 2
_MEMORY_DAYS = 14.0  # The usual value is a mean over about two weeks, so it follows slow changes.
# ADWIN: the probability of a false alarm (river's default), and the shortest part (hours) into which it may split its window.
_DELTA = 0.002
_PART_HOURS_MIN = 12
_KEPT_HOURS = 168  # Only the last week is searched for a change. Earlier calls have found an older change.
# After ADWIN's alarm the size of the change is examined for these hours: as long as the shortest part of ADWIN's window.
_SUSPECT_HOURS = 12
_LASTING_LOG_MIN = math.log(1.4)  # A change by a smaller factor is of no use to an operator.
# A value is unusual if its residual is at least log(2), and at least 1.5 × the 99 % quantile of the residuals.
_UNUSUAL_LOG_MIN = math.log(2.0)
_UNUSUAL_QUANTILE = 0.99
_UNUSUAL_FACTOR = 1.5
_UNUSUAL_AFTER_HOURS = 72  # With fewer hours the quantile is simply the largest of a few values.


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A lasting change, or an unusual value.

    Attributes:
        is_unusual: it is a single unusual value, not a lasting change.
        before: the usual value.
        after: the new level, or the unusual value.
        since_hour: hour (since 1970) of the first value after the change, or of the unusual value.
    """

    is_unusual: bool
    before: float
    after: float
    since_hour: int


class ChangeWatch:
    """Watches one measure of one broker or tenant."""

    def __init__(self, negligible: float) -> None:
        """
        Args:
            negligible: differences between values below ``negligible`` do not matter to operators, so they hardly count.
        """
        self._negligible = negligible
        self._usual = [0.0] * _DAY_H
        self._seen = [0] * _DAY_H
        self._residuals: deque[tuple[int, float]] = deque(maxlen=_KEPT_HOURS)
        self._suspect_hours = 0
        self._reset()

    def learn(self, hour: int, value: float) -> FoundChange | None:
        """Learns the value of an hour (since 1970); NaN: not known. Returns the change or unusual value that this hour reveals."""
        if math.isnan(value):
            return None
        level = math.log(value + self._negligible)
        slot = hour % _DAY_H
        residual = level - self._usual[slot]
        is_known = self._seen[slot] >= _DAYS_KNOWN
        self._seen[slot] += 1
        self._usual[slot] += residual / min(self._seen[slot], _MEMORY_DAYS)
        if not is_known:
            return None
        unusual = self._find_unusual(hour, value, residual)
        self._residuals.append((hour, residual))
        self._adwin.update(residual)
        # ADWIN often finds a change in its first hours, when its size is not clear yet.
        self._suspect_hours = _SUSPECT_HOURS if self._adwin.drift_detected else self._suspect_hours - 1
        return (self._find_change(value, residual) if self._suspect_hours > 0 else None) or unusual

    def _reset(self) -> None:
        self._adwin = drift.ADWIN(delta=_DELTA, clock=1, min_window_length=_PART_HOURS_MIN)
        self._quantile = stats.Quantile(_UNUSUAL_QUANTILE)
        self._was_unusual = False
        self._suspect_hours = 0
        self._residuals.clear()

    def _find_unusual(self, hour: int, value: float, residual: float) -> FoundChange | None:
        usually_below = self._quantile.get() or 0.0
        is_unusual = (
            len(self._residuals) >= _UNUSUAL_AFTER_HOURS
            and residual >= _UNUSUAL_LOG_MIN
            and residual >= _UNUSUAL_FACTOR * usually_below
        )
        self._quantile.update(residual)
        is_first, self._was_unusual = is_unusual and not self._was_unusual, is_unusual
        if not is_first:
            return None
        return FoundChange(is_unusual=True, before=self._value_without(value, residual), after=value, since_hour=hour)

    def _find_change(self, value: float, residual: float) -> FoundChange | None:
        """Returns the change between the two most different parts of the last week, unless the change is small.

        After a change the new level becomes the usual value.
        """
        residuals = [value for _, value in self._residuals]
        if len(residuals) < 2 * _PART_HOURS_MIN:
            return None
        split = _most_different_parts(residuals)
        before, after = residuals[:split], residuals[split:]
        change = statistics.median(after) - statistics.median(before)
        if abs(change) < _LASTING_LOG_MIN:
            return None
        since_hour = self._residuals[split][0]
        self._usual = [usual + change for usual in self._usual]
        self._reset()
        # ``before`` and ``after`` are the values that this hour of the day would have had at the old and at the new level.
        return FoundChange(
            is_unusual=False,
            before=self._value_without(value, residual - statistics.median(before)),
            after=self._value_without(value, residual - statistics.median(after)),
            since_hour=since_hour,
        )

    def _value_without(self, value: float, deviation: float) -> float:
        """Returns the value of the hour if its residual were smaller by ``deviation``."""
        return max(0.0, (value + self._negligible) * math.exp(-deviation) - self._negligible)


def _most_different_parts(values: list[float]) -> int:
    """Returns the index that splits a series into two parts whose means differ most, in units of their standard errors."""
    total, size = math.fsum(values), len(values)
    before = 0.0
    best, best_difference = _PART_HOURS_MIN, -1.0
    for split in range(1, size - _PART_HOURS_MIN + 1):
        before += values[split - 1]
        difference = abs(before - total * split / size) / math.sqrt(split * (size - split))
        if split >= _PART_HOURS_MIN and difference > best_difference:
            best, best_difference = split, difference
    return best
