"""Learns the produce p99 of each broker's clients while no broker copies replicas, by hour of the week and by hour of the day.

A baseline is exp(mean of log(p99)), because a single long pause hardly changes this mean. The newest weeks have the most weight.
"""

from __future__ import annotations

import numpy as np

from learning.models.periods import Floats
from learning.models.value_ring import widened

WEEK_H, DAY_H = 168, 24
_P99_MS_MIN = 1e-3  # A smaller latency is not a measurement, and its logarithm would distort the mean.
_KNOWN_AFTER = 2  # A mean is used once it contains this many values.
# Lowest weight of the newest value in each mean. So the mean by hour of the week covers about three weeks, the mean by hour of the
# day about seven days, and the mean of the last hours about six hours. All of them follow slow changes.
_WEEK_WEIGHT, _DAY_WEIGHT, _RECENT_WEIGHT = 1 / 3, 1 / 7, 1 / 6


class UsualLatency:
    """The baseline of all brokers; each column is a broker."""

    def __init__(self) -> None:
        self._week = _HourlyMeans(WEEK_H, _WEEK_WEIGHT)
        self._day = _HourlyMeans(DAY_H, _DAY_WEIGHT)
        self._recent = _HourlyMeans(1, _RECENT_WEIGHT)
        self._all = (self._week, self._day, self._recent)

    def widen(self, brokers: int) -> None:
        for means in self._all:
            means.widen(brokers)

    def learn(self, hour: int, p99_ms: Floats) -> None:
        """Learns the p99 of an hour (since 1970), by broker; NaN: not known, or replicas were copied in this hour."""
        logs = np.log(p99_ms)
        for means in self._all:
            means.learn(hour, logs)

    def begin_again(self, broker: int, p99_ms: float) -> None:
        """Replaces the baseline of one broker (column) by a new level, after a lasting change of its latency."""
        for means in self._all:
            means.forget(broker)
        self._recent.values[:, broker] = np.log(max(p99_ms, _P99_MS_MIN))

    def p99_ms(self, hour: int) -> Floats:
        """Returns the baseline of an hour (since 1970), by broker; NaN: not known."""
        week, weeks = self._week.at(hour)
        day, days = self._day.at(hour)
        recent, _ = self._recent.at(hour)
        logs = np.where(weeks >= _KNOWN_AFTER, week, np.where(days >= _KNOWN_AFTER, day, recent))
        return np.exp(logs)


class _HourlyMeans:
    """The mean of each hour of a cycle (a week, a day, or one hour), by broker.

    A mean of few values is their arithmetic mean. Later the newest value has the weight ``weight_min`` (exponential mean).
    """

    def __init__(self, cycle_h: int, weight_min: float) -> None:
        self.values = np.full((cycle_h, 0), np.nan, dtype=np.float32)
        self._counts = np.zeros((cycle_h, 0), dtype=np.float32)
        self._weight_min = weight_min

    def widen(self, brokers: int) -> None:
        self.values = widened(self.values, brokers)
        self._counts = widened(self._counts, brokers, fill=0.0)

    def learn(self, hour: int, values: Floats) -> None:
        row = hour % len(self.values)
        is_known = ~np.isnan(values)
        self._counts[row] += is_known
        weights = np.maximum(1.0 / np.maximum(self._counts[row], 1.0), self._weight_min)
        before = np.where(self._counts[row] > 1, self.values[row], 0.0)
        after = before + weights * (values - before)
        self.values[row] = np.where(is_known, after, self.values[row])

    def forget(self, broker: int) -> None:
        self.values[:, broker] = np.nan
        self._counts[:, broker] = 0.0

    def at(self, hour: int) -> tuple[Floats, Floats]:
        """Returns the means of an hour, and the number of values in each mean."""
        row = hour % len(self.values)
        return self.values[row], self._counts[row]
