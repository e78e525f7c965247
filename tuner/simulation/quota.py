"""Simulates Kafka's replication quotas sample by sample, with the sensors of all sides of all brokers in one array.

A sensor is a row of buckets, each filled for one second. The rate is the sum of the buckets divided by the age of the oldest.
A bucket is emptied ``samples`` seconds after its last record. Kafka checks the rate before a fetch and records the bytes after
it. So everything that fits into the window passes at line rate.

Invariant: equal to ``SampledStat`` and ``SimpleRate`` of Kafka 4.2 for one record per tick and checks at any moment. Within a
tick the window keeps growing, and a bucket is emptied at its own time. Several records of a tick are merged: their bytes are spread
evenly from the first to the last.

Terms:
    sensor    side × brokers + broker; leaders first.
    held      bytes in the window at the start of the tick, plus all recorded since.
    new       bytes recorded since the start of the tick.
    elapsed   seconds that the rate is divided by; at least one sample.
    leaving   bytes of the buckets that are emptied before the end of the tick.
    after     seconds since the start of the tick.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Bools, Floats, Ints

_NEVER = np.inf
_ROUNDING_MS = 1e-6


class SimulatedQuotas:
    def __init__(self, sensors: int, *, samples: int = 11, sample_s: float = 1.0) -> None:
        """
        Args:
            samples: ``replication.quota.window.num``.
            sample_s: ``replication.quota.window.size.seconds``.
        """
        # One row each, in one array, because a check reads all of them.
        self._state: Floats = np.zeros((6, sensors))
        self.bound_bytes_per_s, self.held_bytes = self._state[0], self._state[1]
        self._age_s = self._state[2]  # Age of the oldest bucket at the start of the tick ...
        self._age_left_s = self._state[3]  # ... and of the oldest bucket that is not leaving.
        self._leaving_bytes, self._leave_after_s = self._state[4], self._state[5]
        self.bound_bytes_per_s[:] = np.inf
        self._leave_after_s[:] = _NEVER
        self._sample_ms = sample_s * 1000
        self._expire_ms = samples * self._sample_ms
        shape = (sensors, samples + 1)  # ``samples`` whole buckets and the one being filled.
        self._bytes: Floats = np.zeros(shape)
        self._start_ms: Floats = np.full(shape, _NEVER)  # Never: the bucket was not used yet.
        self._last_ms: Floats = np.full(shape, _NEVER)
        self._current: Ints = np.zeros(sensors, dtype=np.int64)
        self._rows: Ints = np.arange(sensors)
        self.elapsed_s: Floats = np.full(sensors, sample_s)
        self.new_bytes: Floats = np.zeros(sensors)
        self._first_s: Floats = np.full(sensors, _NEVER)  # When the first of the new bytes passed, after.
        self._last_s: Floats = np.full(sensors, -_NEVER)
        self._now_ms = 0.0

    def begin(self, now_ms: int, tick_s: float) -> None:
        """Starts a tick at ``now_ms``: empties old buckets, and finds leaves_row that will be emptied within ``tick_s``."""
        self._now_ms = now_ms
        self.new_bytes[:] = 0.0
        self._first_s[:] = _NEVER
        self._last_s[:] = -_NEVER
        left_ms = self._last_ms + (self._expire_ms - now_ms)
        expired = left_ms <= _ROUNDING_MS
        if expired.any():
            self._bytes[expired] = 0.0
            self._start_ms[expired] = now_ms
            self._last_ms[expired] = now_ms
        self._bytes.sum(axis=1, out=self.held_bytes)
        self._age_s[:] = (now_ms - np.minimum(self._start_ms.min(axis=1), now_ms)) / 1000.0
        self.elapsed_s = np.maximum(self._age_s, self._sample_ms / 1000.0)
        leaving = (left_ms < tick_s * 1000.0) & ~expired
        self._find_leaving(leaving, left_ms, now_ms)

    def _find_leaving(self, leaving: Bools, left_ms: Floats, now_ms: int) -> None:
        self._leave_after_s[:] = _NEVER
        rows = self._rows[leaving.any(axis=1)]
        if len(rows) == 0:
            return
        # Two buckets of one sensor rarely leave in the same tick; then both leave at the later time.
        leaves_row = leaving[rows]
        self._leave_after_s[rows] = np.where(leaves_row, left_ms[rows], 0.0).max(axis=1) / 1000.0
        self._leaving_bytes[rows] = np.where(leaves_row, self._bytes[rows], 0.0).sum(axis=1)
        oldest_ms = np.where(leaves_row, _NEVER, self._start_ms[rows]).min(axis=1)
        self._age_left_s[rows] = (now_ms - np.minimum(oldest_ms, now_ms)) / 1000.0

    def room_at(self, sensors: Ints, after_s: Floats) -> tuple[Floats, Floats]:
        """Returns what each of ``sensors`` lets through at ``after_s``.

        Returns:
            Bytes that may pass before the next check fails, negative if it fails already; and the bytes/s by which they grow, which
            is 0 while the window is younger than one sample.
        """
        bound, held, age_s, age_left_s, leaving, leave_after_s = self._state.take(sensors, axis=1)
        # A thread that slept for whole seconds since the last record wakes just as the bucket leaves, and finds it empty.
        gone = after_s >= leave_after_s - _ROUNDING_MS / 1000.0
        age_s = np.where(gone, age_left_s, age_s) + after_s
        sample_s = self._sample_ms / 1000.0
        room: Floats = bound * np.maximum(age_s, sample_s) - held + gone * leaving
        return room, np.where(age_s >= sample_s, bound, 0.0)

    def opens_after_s(self, sensors: Ints, after_s: Floats, room: Floats, grows: Floats) -> Floats:
        """Returns when in this tick each sensor lets bytes pass again if nothing is recorded; ∞: not in this tick.

        Args:
            sensors: the sensors.
            after_s, room, grows: the time of the check, and the result of ``room_at``.
        """
        opens_s_by_growth: Floats = after_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO)
        leave_after_s = self._leave_after_s[sensors]
        leaves = np.isfinite(leave_after_s)
        if not np.count_nonzero(leaves):
            return opens_s_by_growth
        # Growth alone opens it if that ends before the bucket leaves; else the time counts from when the bucket leaves.
        opens_s_by_growth = np.where(
            (after_s < leave_after_s) & (opens_s_by_growth < leave_after_s), opens_s_by_growth, _NEVER
        )
        opens_s_by_growth = np.where(
            leaves, opens_s_by_growth, after_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO)
        )
        from_s = np.where(leaves, np.maximum(after_s, leave_after_s), 0.0)
        room, grows = self.room_at(sensors, from_s)
        opens_s = from_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO)
        return np.where(leaves, np.minimum(opens_s_by_growth, opens_s), opens_s_by_growth)

    def record(self, sent_bytes: Floats, first_s: Floats, last_s: Floats) -> None:
        """Records bytes by sensor; the next check sees them.

        Args:
            sent_bytes: what has passed.
            first_s: when the first of these bytes passed, after; ignored where there are none.
            last_s: when the last of them passed, after.
        """
        self.new_bytes += sent_bytes
        self.held_bytes += sent_bytes
        some = sent_bytes > 0
        np.minimum(self._first_s, first_s, out=self._first_s, where=some)
        np.maximum(self._last_s, last_s, out=self._last_s, where=some)

    def end(self) -> None:
        """Ends the tick: moves the recorded bytes into the current bucket, and into the next one from its start on."""
        rows = self._rows[self.new_bytes > 0]
        if len(rows) == 0:
            return
        first_ms, last_ms = (self._now_ms + 1000.0 * after_s[rows] for after_s in (self._first_s, self._last_s))
        new, current = self.new_bytes[rows], self._current[rows]
        start_ms = self._start_ms[rows, current]
        unused = start_ms == _NEVER
        due_ms = np.where(unused, first_ms, start_ms + self._sample_ms)
        whole = last_ms < due_ms - _ROUNDING_MS
        early_ms = np.maximum(due_ms - first_ms, 0.0)
        early = np.where(whole, 1.0, early_ms / np.maximum(last_ms - first_ms, early_ms + _ROUNDING_MS))
        in_current = early > 0.0
        self._bytes[rows, current] += np.where(in_current, new * early, 0.0)
        self._last_ms[rows[in_current], current[in_current]] = np.minimum(last_ms, due_ms)[in_current]
        # The others start a bucket: the next one, or the first.
        late = ~whole
        if late.any():
            rows, following = rows[late], np.where(unused, current, (current + 1) % self._bytes.shape[1])[late]
            self._current[rows] = following
            self._bytes[rows, following] = (new * (1.0 - early))[late]
            self._start_ms[rows, following] = np.maximum(first_ms, due_ms)[late]
            self._last_ms[rows, following] = last_ms[late]

    @property
    def rate_bytes_per_s(self) -> Floats:
        """The rate that the broker reports as ``byte-rate``."""
        rate: Floats = self.held_bytes / self.elapsed_s
        return rate
