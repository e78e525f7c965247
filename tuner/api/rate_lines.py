"""The rate of each throttle over weeks, as the journal records it: one point for each change.

The points of one throttle form a line. A line divides time into equal steps. Changes within one step share one point, which has the
rate of the last change. A line keeps ``POINTS_MAX`` points; a full line doubles its step, so that it still covers the whole time.
Therefore the lines of a thousand brokers need 50 MB at most.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tuner.core.cluster import BrokerSide

POINTS_MAX = 2_048
_STEP_MS = 10_000
_SIDES_MAX = 4_000  # A client with random broker ids must not fill the memory.
_NAN = math.nan


class RatePoint(NamedTuple):
    """The rate from ``at_ms`` on; None if there is no throttle, or the rate is not known."""

    at_ms: int
    bytes_per_s: float | None


class _Line:
    """The points of one throttle, in the order of the journal."""

    def __init__(self) -> None:
        self.times_ms = array("q")
        self.rates = array("d")
        self._step_ms = _STEP_MS
        self._is_ordered = True  # False if times decrease in the journal, after a clock was set back.

    def add(self, at_ms: int, rate: float) -> None:
        if self.times_ms and 0 <= at_ms - self.times_ms[-1] < self._step_ms and not math.isnan(rate):
            self.rates[-1] = rate
            return
        self._is_ordered = self._is_ordered and (not self.times_ms or at_ms >= self.times_ms[-1])
        self.times_ms.append(at_ms)
        self.rates.append(rate)
        while len(self.times_ms) > POINTS_MAX:
            self._thin()

    def in_order(self) -> tuple[array[int], array[float]]:
        """Returns times and rates in order of time."""
        if self._is_ordered:
            return self.times_ms, self.rates
        order = sorted(range(len(self.times_ms)), key=self.times_ms.__getitem__)
        return array("q", [self.times_ms[place] for place in order]), array("d", [self.rates[place] for place in order])

    def _thin(self) -> None:
        self._step_ms *= 2
        times_ms, rates = self.times_ms, self.rates
        self.times_ms, self.rates = array("q"), array("d")
        for at_ms, rate in zip(times_ms, rates, strict=True):
            if self.times_ms and 0 <= at_ms - self.times_ms[-1] < self._step_ms:
                self.rates[-1] = rate
            else:
                self.times_ms.append(at_ms)
                self.rates.append(rate)


class RateLines:
    """The lines of all throttles. The caller locks."""

    def __init__(self) -> None:
        self._lines: dict[BrokerSide, _Line] = {}

    def add(self, side: BrokerSide, at_ms: int, bytes_per_s: float | None) -> None:
        """Adds a rate; None if the throttle was removed."""
        line = self._lines.get(side)
        if line is None:
            if len(self._lines) >= _SIDES_MAX:
                return
            line = self._lines[side] = _Line()
        line.add(at_ms, _NAN if bytes_per_s is None else float(bytes_per_s))

    def points(self, side: BrokerSide, from_ms: int, to_ms: int, steps_max: int) -> list[RatePoint]:
        """Returns the points of a range in order of time. The first point is the rate at the beginning of the range.

        Args:
            steps_max: the number of steps into which the range is divided. A step with more than three changes returns only its
                lowest, highest and last rate, so that a long range hides no peak.
        """
        line = self._lines.get(side)
        if line is None:
            return []
        times_ms, rates = line.in_order()
        begin, end = bisect_right(times_ms, from_ms), bisect_right(times_ms, to_ms)
        before, inside = rates[:begin], zip(times_ms[begin:end], rates[begin:end], strict=True)
        step_ms = max(1, (to_ms - from_ms) // steps_max + 1)
        shown: list[RatePoint] = [_point(from_ms, before[-1])] if before else []
        step: list[tuple[int, float]] = []
        for point in inside:
            if step and (point[0] - from_ms) // step_ms != (step[0][0] - from_ms) // step_ms:
                shown += _extremes(step)
                step = []
            step.append(point)
        return [*shown, *_extremes(step)]


def _extremes(step: Sequence[tuple[int, float]]) -> list[RatePoint]:
    """Returns the points with the lowest, the highest and the last rate of a step, in order of time."""
    if len(step) <= 3:
        return [_point(*point) for point in step]
    known = [point for point in step if not math.isnan(point[1])]
    chosen = {step[-1]}
    if known:
        chosen |= {min(known, key=lambda point: point[1]), max(known, key=lambda point: point[1])}
    return [_point(*point) for point in sorted(chosen, key=lambda point: point[0])]


def _point(at_ms: int, rate: float) -> RatePoint:
    return RatePoint(at_ms, None if math.isnan(rate) else round(rate))
