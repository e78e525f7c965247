"""Kafka's replication quota, sample by sample: every side of every broker has a sensor, and all of them are one array.

Intuition: a sensor is a row of buckets, each filled for one second. The rate is all that the buckets hold, over the age of
the oldest; a bucket is emptied ``samples`` seconds after its last drop. Nothing is checked but the rate before a fetch, and
nothing is recorded but the bytes after it, so whatever fits into the window passes at line rate.

Invariant: the same as ``SampledStat`` and ``SimpleRate`` of Kafka 4.2 for records and checks at the times of ticks. All that
happens within one tick has the tick's time.

Vocabulary:
    sensor    side × brokers + broker; leaders first.
    held      bytes in the window now.
    new       bytes recorded since the tick began.
    elapsed   seconds that the rate divides by; never less than one sample.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.numbers import Bools, Floats, Ints

_NEVER = np.inf


class Quotas:
    def __init__(self, sensors: int, *, samples: int = 11, sample_s: float = 1.0) -> None:
        """
        Args:
            samples: ``replication.quota.window.num``.
            sample_s: ``replication.quota.window.size.seconds``.
        """
        self.bound_bytes_per_s: Floats = np.full(sensors, np.inf)
        self._sample_ms = sample_s * 1000
        self._expire_ms = samples * self._sample_ms
        shape = (sensors, samples + 1)  # "samples" whole ones and the one being filled.
        self._bytes: Floats = np.zeros(shape)
        self._start_ms: Floats = np.full(shape, _NEVER)  # A bucket not used yet.
        self._last_ms: Floats = np.full(shape, _NEVER)
        self._current: Ints = np.zeros(sensors, dtype=np.int64)
        self._rows: Ints = np.arange(sensors)
        self.held_bytes: Floats = np.zeros(sensors)
        self.elapsed_s: Floats = np.full(sensors, sample_s)
        self.new_bytes: Floats = np.zeros(sensors)
        self._now_ms = 0.0

    def begin(self, now_ms: int) -> None:
        """Time has come to ``now_ms``: what is too old leaves the window."""
        self._now_ms = now_ms
        self.new_bytes[:] = 0.0
        expired = now_ms - self._last_ms >= self._expire_ms
        if expired.any():
            self._bytes[expired] = 0.0
            self._start_ms[expired] = now_ms
            self._last_ms[expired] = now_ms
        self.held_bytes = self._bytes.sum(axis=1)
        oldest_ms = np.minimum(self._start_ms.min(axis=1), now_ms)
        self.elapsed_s = np.maximum(now_ms - oldest_ms, self._sample_ms) / 1000.0

    def record(self, sent_bytes: Floats) -> None:
        """Bytes that have passed just now, per sensor; the next check sees them."""
        self.new_bytes += sent_bytes
        self.held_bytes += sent_bytes

    def end(self) -> None:
        """What was recorded since ``begin`` goes into the bucket of that time."""
        rows = self._rows[self.new_bytes > 0]
        if len(rows) == 0:
            return
        now_ms, current = self._now_ms, self._current[rows]
        start_ms = self._start_ms[rows, current]
        unused = start_ms == _NEVER
        complete = now_ms - start_ms >= self._sample_ms
        current = np.where(complete, (current + 1) % self._bytes.shape[1], current)
        self._current[rows] = current
        fresh = complete | unused
        self._bytes[rows, current] = np.where(fresh, 0.0, self._bytes[rows, current]) + self.new_bytes[rows]
        self._start_ms[rows, current] = np.where(fresh, now_ms, self._start_ms[rows, current])
        self._last_ms[rows, current] = now_ms

    @property
    def rate_bytes_per_s(self) -> Floats:
        """What the broker reports as ``byte-rate``."""
        return self.held_bytes / self.elapsed_s

    @property
    def exceeded(self) -> Bools:
        return self.held_bytes > self.bound_bytes_per_s * self.elapsed_s

    @property
    def room_bytes(self) -> Floats:
        """What may still pass before the next check fails; infinite where nothing limits."""
        return np.maximum(self.bound_bytes_per_s * self.elapsed_s - self.held_bytes, 0.0)
