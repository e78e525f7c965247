"""Keeps the highest rate (bytes/s) that each broker has handled in one direction while its clients' latency was normal.

The rate of the busiest half-minute of each day is kept for five weeks. From the third week on, the rate counts with a weight that
halves every two weeks. So a lower but newer rate eventually replaces it.
"""

from __future__ import annotations

import numpy as np

from learning.models.periods import KEPT_HOURS, Floats
from learning.models.value_ring import widened

DAY_H = 24
IN_ORDER_RATIO = 1.5
# A latency is normal up to max(IN_ORDER_RATIO × baseline, baseline + IN_ORDER_MS). The sum matters for short latencies.
IN_ORDER_MS = 5.0
_DAYS = KEPT_HOURS // DAY_H
_FRESH_DAYS = 14.0
_HALF_LIFE_DAYS = 14.0


class ProvenCapacity:
    """The proven capacity of all brokers in one direction; each column is a broker."""

    def __init__(self) -> None:
        self._bytes_per_s = np.zeros((_DAYS, 0), dtype=np.float32)  # By day, as a ring buffer.
        self._hours = np.zeros((_DAYS, 0), dtype=np.int64)

    def widen(self, brokers: int) -> None:
        self._bytes_per_s = widened(self._bytes_per_s, brokers, fill=0.0)
        self._hours = np.pad(self._hours, ((0, 0), (0, brokers - self._hours.shape[1])))

    def learn(self, hour: int, bytes_per_s: Floats, p99_ms: Floats, usual_p99_ms: Floats) -> None:
        """Learns the highest rates (bytes/s) of one period of ``hour`` (since 1970), by broker; NaN: not known.

        Args:
            p99_ms: the latency of the broker's clients at the highest rate.
            usual_p99_ms: the baseline of this hour.
        """
        is_in_order = p99_ms <= np.maximum(IN_ORDER_RATIO * usual_p99_ms, usual_p99_ms + IN_ORDER_MS)
        rates = np.where(is_in_order, np.nan_to_num(bytes_per_s), 0.0)
        row = hour // DAY_H % _DAYS
        is_old = self._hours[row] // DAY_H != hour // DAY_H
        is_larger = (rates > 0.0) & (is_old | (rates > self._bytes_per_s[row]))
        self._bytes_per_s[row] = np.where(is_larger, rates, np.where(is_old, 0.0, self._bytes_per_s[row]))
        self._hours[row] = np.where(is_larger | is_old, hour, self._hours[row])

    def forget(self, broker: int) -> None:
        """Forgets the rates of a broker (column), because its hardware or its load has changed."""
        self._bytes_per_s[:, broker] = 0.0

    def at(self, hour: int, broker: int) -> tuple[float, int] | None:
        """Returns the proven rate (bytes/s) of one broker and the hour (since 1970) of its measurement; None if there is none."""
        ages_days = np.maximum(0.0, (hour - self._hours[:, broker]) / DAY_H)
        weights = 0.5 ** (np.maximum(0.0, ages_days - _FRESH_DAYS) / _HALF_LIFE_DAYS)
        counted = np.where(ages_days < _DAYS, self._bytes_per_s[:, broker] * weights, 0.0)
        best = int(counted.argmax())
        if counted[best] <= 0.0:
            return None
        return float(self._bytes_per_s[best, broker]), int(self._hours[best, broker])
