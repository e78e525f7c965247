"""Kafka's replication quota, sample by sample: every side of every broker has a sensor, and all of them are one array.

Intuition: a sensor is a row of buckets, each filled for one second. The rate is all that the buckets hold, over the age of
the oldest; a bucket is emptied ``samples`` seconds after its last drop. Nothing is checked but the rate before a fetch, and
nothing is recorded but the bytes after it, so whatever fits into the window passes at line rate.

Invariant: the same as ``SampledStat`` and ``SimpleRate`` of Kafka 4.2 for one record a tick and checks at any moment of it:
within a tick the window goes on growing, and a bucket is emptied when its time comes and not with the next tick. Several
records of one tick are put together: what passed is spread evenly from the first of them to the last.

Vocabulary:
    sensor    side × brokers + broker; leaders first.
    held      bytes in the window when the tick began, and all that was recorded since.
    new       bytes recorded since the tick began.
    elapsed   seconds that the rate divides by; never less than one sample.
    leaving   bytes of the buckets that are emptied before the tick ends.
    after     seconds since the tick began.
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
        # One row each, in one array, as a check reads all of them.
        self._facts: Floats = np.zeros((6, sensors))
        self.bound_bytes_per_s, self.held_bytes = self._facts[0], self._facts[1]
        self._age_s = self._facts[2]  # Of the oldest bucket, when the tick began ...
        self._age_left_s = self._facts[3]  # ... and of the oldest that is not leaving.
        self._leaving_bytes, self._leave_after_s = self._facts[4], self._facts[5]
        self.bound_bytes_per_s[:] = np.inf
        self._leave_after_s[:] = _NEVER
        self._sample_ms = sample_s * 1000
        self._expire_ms = samples * self._sample_ms
        shape = (sensors, samples + 1)  # "samples" whole ones and the one being filled.
        self._bytes: Floats = np.zeros(shape)
        self._start_ms: Floats = np.full(shape, _NEVER)  # A bucket not used yet.
        self._last_ms: Floats = np.full(shape, _NEVER)
        self._current: Ints = np.zeros(sensors, dtype=np.int64)
        self._rows: Ints = np.arange(sensors)
        self.elapsed_s: Floats = np.full(sensors, sample_s)
        self.new_bytes: Floats = np.zeros(sensors)
        self._first_s: Floats = np.full(sensors, _NEVER)  # Of the new bytes, after.
        self._last_s: Floats = np.full(sensors, -_NEVER)
        self._now_ms = 0.0

    def begin(self, now_ms: int, tick_s: float) -> None:
        """Time has come to ``now_ms``: what is too old leaves the window, and what will be within ``tick_s`` is known."""
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
        self._foresee(leaving, left_ms, now_ms)

    def _foresee(self, leaving: Bools, left_ms: Floats, now_ms: int) -> None:
        self._leave_after_s[:] = _NEVER
        rows = self._rows[leaving.any(axis=1)]
        if len(rows) == 0:
            return
        # Two buckets of one sensor hardly ever leave in one tick; then both leave with the later one.
        those = leaving[rows]
        self._leave_after_s[rows] = np.where(those, left_ms[rows], 0.0).max(axis=1) / 1000.0
        self._leaving_bytes[rows] = np.where(those, self._bytes[rows], 0.0).sum(axis=1)
        oldest_ms = np.where(those, _NEVER, self._start_ms[rows]).min(axis=1)
        self._age_left_s[rows] = (now_ms - np.minimum(oldest_ms, now_ms)) / 1000.0

    def room_at(self, sensors: Ints, after_s: Floats) -> tuple[Floats, Floats]:
        """At ``after_s``, by sensor asked.

        Returns:
            Bytes that may pass before the next check fails, negative when it fails already; and by how many bytes/s they
            grow: not at all while the window is younger than one sample.
        """
        bound, held, age_s, age_left_s, leaving, leave_after_s = self._facts.take(sensors, axis=1)
        # Who has slept for whole seconds since the last drop wakes just as it leaves, and finds it gone.
        gone = after_s >= leave_after_s - _ROUNDING_MS / 1000.0
        age_s = np.where(gone, age_left_s, age_s) + after_s
        sample_s = self._sample_ms / 1000.0
        room: Floats = bound * np.maximum(age_s, sample_s) - held + gone * leaving
        return room, np.where(age_s >= sample_s, bound, 0.0)

    def opens_after_s(self, sensors: Ints, after_s: Floats, room: Floats, grows: Floats) -> Floats:
        """When in this tick each lets pass again, if nothing is recorded; infinite: not in it.

        Args:
            after_s, room, grows: when it was asked, and what ``room_at`` said.
        """
        found: Floats = after_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO)
        leave_after_s = self._leave_after_s[sensors]
        leaves = np.isfinite(leave_after_s)
        if not np.count_nonzero(leaves):
            return found
        # From the earlier of the two moments it wins if it ends before the drop; else it goes on from the drop.
        found = np.where((after_s < leave_after_s) & (found < leave_after_s), found, _NEVER)
        found = np.where(leaves, found, after_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO))
        from_s = np.where(leaves, np.maximum(after_s, leave_after_s), 0.0)
        room, grows = self.room_at(sensors, from_s)
        opens_s = from_s + np.maximum(-room, 0.0) / np.maximum(grows, NEARLY_ZERO)
        return np.where(leaves, np.minimum(found, opens_s), found)

    def record(self, sent_bytes: Floats, first_s: Floats, last_s: Floats) -> None:
        """What has passed just now, per sensor; the next check sees it.

        Args:
            first_s: after which the first of ``sent_bytes`` passed; means nothing where there are none.
            last_s: after which the last of them did.
        """
        self.new_bytes += sent_bytes
        self.held_bytes += sent_bytes
        some = sent_bytes > 0
        np.minimum(self._first_s, first_s, out=self._first_s, where=some)
        np.maximum(self._last_s, last_s, out=self._last_s, where=some)

    def end(self) -> None:
        """What was recorded since ``begin`` goes into its bucket, and into the next one from when that is due."""
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
        stays = early > 0.0
        self._bytes[rows, current] += np.where(stays, new * early, 0.0)
        self._last_ms[rows[stays], current[stays]] = np.minimum(last_ms, due_ms)[stays]
        # The others begin a bucket: the next one, or the very first.
        late = ~whole
        if late.any():
            rows, following = rows[late], np.where(unused, current, (current + 1) % self._bytes.shape[1])[late]
            self._current[rows] = following
            self._bytes[rows, following] = (new * (1.0 - early))[late]
            self._start_ms[rows, following] = np.maximum(first_ms, due_ms)[late]
            self._last_ms[rows, following] = last_ms[late]

    @property
    def rate_bytes_per_s(self) -> Floats:
        """What the broker reports as ``byte-rate``."""
        rate: Floats = self.held_bytes / self.elapsed_s
        return rate
