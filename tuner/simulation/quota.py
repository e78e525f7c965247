"""Simulates Kafka's replication quotas sample by sample, with the sensors of all sides of all brokers in one array.

A sensor is a row of buckets, and each bucket is filled for one second. The rate of a sensor is the sum of its buckets ÷ the age of
the oldest bucket. A bucket is emptied ``samples`` seconds after its last record. Kafka checks the rate before a fetch, and records
the bytes after the fetch. So all bytes that the quota still allows in the window pass at the speed of the link.

Invariant: with one record per tick and checks at any time, the results equal the results of Kafka 4.2's ``SampledStat`` and
``SimpleRate``. Within a tick the age of the window grows, and each bucket is emptied at its own time. Several records of a tick are
merged: their bytes are spread evenly from the first to the last record.

Terms:
    sensor    side × brokers + broker; leaders first.
    held      bytes in the window at the start of the tick, plus all bytes recorded since.
    room      bytes that may pass before the next check fails; negative if it fails already.
    new       bytes recorded since the start of the tick.
    elapsed   seconds that the rate is divided by; at least one sample.
    leaving   bytes of the buckets that are emptied before the end of the tick.
    after     as a suffix (``leave_after_s``): seconds since the start of the tick.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Bools, Floats, Ints

_NEVER = np.inf
_ROUNDING_MS = 1e-6


class SimulatedQuotas:
    """All sensors and their bounds. Within a tick: ``begin``, then checks and records in any order, then ``end``."""

    def __init__(self, sensors: int, *, samples: int = 11, sample_s: float = 1.0) -> None:
        """
        Args:
            samples: ``replication.quota.window.num``.
            sample_s: ``replication.quota.window.size.seconds``.
        """
        # The following six are rows of one array, because a check reads all of them.
        self._state: Floats = np.zeros((6, sensors))
        self.bound_bytes_per_s, self.held_bytes = self._state[0], self._state[1]
        self._age_s = self._state[2]  # At the start of the tick: age of the oldest bucket.
        self._staying_age_s = self._state[3]  # At the start of the tick: age of the oldest bucket that is not leaving.
        self._leaving_bytes, self._leave_after_s = self._state[4], self._state[5]
        self.bound_bytes_per_s[:] = np.inf
        self._leave_after_s[:] = _NEVER
        self._sample_ms = sample_s * 1000
        self._expire_ms = samples * self._sample_ms
        # By sensor and bucket; there are ``samples`` full buckets and the bucket that is being filled.
        shape = (sensors, samples + 1)
        self._bytes: Floats = np.zeros(shape)
        self._start_ms: Floats = np.full(shape, _NEVER)  # ``_NEVER``: the bucket was not used yet.
        self._last_ms: Floats = np.full(shape, _NEVER)  # Time of the last record.
        self._current: Ints = np.zeros(sensors, dtype=np.int64)  # Index of the bucket that is being filled.
        self._rows: Ints = np.arange(sensors)
        self.elapsed_s: Floats = np.full(sensors, sample_s)
        self.new_bytes: Floats = np.zeros(sensors)
        # When the first and the last of the new bytes passed, since the start of the tick.
        self._first_s: Floats = np.full(sensors, _NEVER)
        self._last_s: Floats = np.full(sensors, -_NEVER)
        self._now_ms = 0.0

    def begin(self, now_ms: int, tick_s: float) -> None:
        """Starts a tick at ``now_ms``: empties old buckets, and finds the buckets that will be emptied within ``tick_s``."""
        self._now_ms = now_ms
        self.new_bytes[:] = 0.0
        self._first_s[:] = _NEVER
        self._last_s[:] = -_NEVER
        expires_in_ms = self._last_ms + (self._expire_ms - now_ms)
        expired = expires_in_ms <= _ROUNDING_MS
        if expired.any():
            self._bytes[expired] = 0.0
            self._start_ms[expired] = now_ms
            self._last_ms[expired] = now_ms
        self._bytes.sum(axis=1, out=self.held_bytes)
        self._age_s[:] = (now_ms - np.minimum(self._start_ms.min(axis=1), now_ms)) / 1000.0
        self.elapsed_s = np.maximum(self._age_s, self._sample_ms / 1000.0)
        leaving = (expires_in_ms < tick_s * 1000.0) & ~expired
        self._set_leaving(leaving, expires_in_ms, now_ms)

    def _set_leaving(self, leaving: Bools, expires_in_ms: Floats, now_ms: int) -> None:
        """Sets the state that depends on the leaving buckets."""
        self._leave_after_s[:] = _NEVER
        rows = self._rows[leaving.any(axis=1)]
        if len(rows) == 0:
            return
        # Simplification: if two buckets of one sensor leave in the same tick, which is rare, both leave at the later time.
        row_leaving = leaving[rows]
        self._leave_after_s[rows] = np.where(row_leaving, expires_in_ms[rows], 0.0).max(axis=1) / 1000.0
        self._leaving_bytes[rows] = np.where(row_leaving, self._bytes[rows], 0.0).sum(axis=1)
        oldest_ms = np.where(row_leaving, _NEVER, self._start_ms[rows]).min(axis=1)
        self._staying_age_s[rows] = (now_ms - np.minimum(oldest_ms, now_ms)) / 1000.0

    def room_at(self, sensors: Ints, after_s: Floats) -> tuple[Floats, Floats]:
        """Returns the room of each of ``sensors`` at ``after_s``, and the bytes/s by which the room grows.

        The growth is 0 while the window is younger than one sample.
        """
        bound, held, age_s, staying_age_s, leaving, leave_after_s = self._state.take(sensors, axis=1)
        # A thread that slept for whole seconds since the last record wakes just as the bucket is emptied, and finds it empty.
        has_left = after_s >= leave_after_s - _ROUNDING_MS / 1000.0
        age_s = np.where(has_left, staying_age_s, age_s) + after_s
        sample_s = self._sample_ms / 1000.0
        room: Floats = bound * np.maximum(age_s, sample_s) - held + has_left * leaving
        return room, np.where(age_s >= sample_s, bound, 0.0)

    def opens_after_s(self, sensors: Ints, after_s: Floats, room: Floats, grows: Floats) -> Floats:
        """Returns when in this tick each sensor lets bytes pass again if nothing is recorded; ∞: not in this tick.

        Args:
            sensors: the sensors.
            after_s, room, grows: the time of the check, and the result of ``room_at``.
        """
        by_growth_s: Floats = after_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO)
        leave_after_s = self._leave_after_s[sensors]
        leaves = np.isfinite(leave_after_s)
        if not np.count_nonzero(leaves):
            return by_growth_s
        # Without a leaving bucket, only the growth of the room opens the sensor. With a leaving bucket, the growth counts only if
        # it opens the sensor before the bucket is emptied. Otherwise the room is computed again from the time at which it is
        # emptied.
        in_time = (after_s < leave_after_s) & (by_growth_s < leave_after_s)
        by_growth_s = np.where(~leaves | in_time, by_growth_s, _NEVER)
        from_s = np.where(leaves, np.maximum(after_s, leave_after_s), 0.0)
        room, grows = self.room_at(sensors, from_s)
        by_leaving_s = from_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO)
        return np.where(leaves, np.minimum(by_growth_s, by_leaving_s), by_growth_s)

    def record(self, sent_bytes: Floats, first_s: Floats, last_s: Floats) -> None:
        """Records bytes by sensor; the next check counts them.

        Args:
            sent_bytes: the bytes that have passed.
            first_s: when the first of these bytes passed, since the start of the tick; ignored for a sensor without bytes.
            last_s: when the last of these bytes passed, since the start of the tick.
        """
        self.new_bytes += sent_bytes
        self.held_bytes += sent_bytes
        has_bytes = sent_bytes > 0
        np.minimum(self._first_s, first_s, out=self._first_s, where=has_bytes)
        np.maximum(self._last_s, last_s, out=self._last_s, where=has_bytes)

    def end(self) -> None:
        """Ends the tick: adds the recorded bytes to the current bucket, and bytes after its end to the next bucket."""
        rows = self._rows[self.new_bytes > 0]
        if len(rows) == 0:
            return
        first_ms, last_ms = (self._now_ms + 1000.0 * after_s[rows] for after_s in (self._first_s, self._last_s))
        new, current = self.new_bytes[rows], self._current[rows]
        start_ms = self._start_ms[rows, current]
        unused = start_ms == _NEVER
        bucket_end_ms = np.where(unused, first_ms, start_ms + self._sample_ms)
        fits = last_ms < bucket_end_ms - _ROUNDING_MS  # All bytes passed before the end of the current bucket.
        before_end_ms = np.maximum(bucket_end_ms - first_ms, 0.0)
        current_share = np.where(
            fits, 1.0, before_end_ms / np.maximum(last_ms - first_ms, before_end_ms + _ROUNDING_MS)
        )
        in_current = current_share > 0.0
        self._bytes[rows, current] += np.where(in_current, new * current_share, 0.0)
        self._last_ms[rows[in_current], current[in_current]] = np.minimum(last_ms, bucket_end_ms)[in_current]
        # The remaining bytes start the next bucket, or the first bucket of an unused sensor.
        overflows = ~fits
        if overflows.any():
            following = np.where(unused, current, (current + 1) % self._bytes.shape[1])[overflows]
            rows = rows[overflows]
            self._current[rows] = following
            self._bytes[rows, following] = (new * (1.0 - current_share))[overflows]
            self._start_ms[rows, following] = np.maximum(first_ms, bucket_end_ms)[overflows]
            self._last_ms[rows, following] = last_ms[overflows]

    @property
    def rate_bytes_per_s(self) -> Floats:
        """The rate that the broker reports as ``byte-rate``."""
        rate: Floats = self.held_bytes / self.elapsed_s
        return rate
