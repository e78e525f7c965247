"""The window, sample by sample, by the rules of Kafka's SampledStat and SimpleRate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.simulation.quota import Quotas


class OneSensor:
    """The same rules for one sensor in plain Python, as a reading of Kafka's classes."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.rows: list[list[float]] = []  # [bytes, start, last]
        self.current = 0

    def record(self, now_ms: int, value: float) -> None:
        if not self.rows:
            self.rows.append([0.0, now_ms, now_ms])
        elif now_ms - self.rows[self.current][1] >= 1000:
            self.current = (self.current + 1) % (self.samples + 1)
            if self.current >= len(self.rows):
                self.rows.append([0.0, now_ms, now_ms])
            else:
                self.rows[self.current] = [0.0, now_ms, now_ms]
        self.rows[self.current][0] += value
        self.rows[self.current][2] = now_ms

    def rate(self, now_ms: int) -> float:
        for row in self.rows:
            if now_ms - row[2] >= self.samples * 1000:
                row[:] = [0.0, now_ms, now_ms]
        oldest_ms = min([now_ms, *(row[1] for row in self.rows)])
        return sum(row[0] for row in self.rows) / (max(now_ms - oldest_ms, 1000) / 1000)


@given(
    st.lists(st.tuples(st.integers(1, 8), st.sampled_from([0.0, 1e6, 5e6])), min_size=1, max_size=120),
    st.sampled_from([3, 11]),
)
def test_the_array_is_the_sensor(happens: list[tuple[int, float]], samples: int) -> None:
    quotas, plain = Quotas(2, samples=samples), OneSensor(samples)
    now_ms = 0
    for ticks, value in happens:
        now_ms += 250 * ticks
        quotas.begin(now_ms)
        assert quotas.rate_bytes_per_s[1] == pytest.approx(plain.rate(now_ms))
        quotas.record(np.array([0.0, value]))
        quotas.end()
        if value > 0:
            plain.record(now_ms, value)


def test_a_check_sees_what_was_recorded_a_moment_ago_and_one_fetch_more_passes() -> None:
    quotas = Quotas(1)
    quotas.bound_bytes_per_s[0] = 5e6
    quotas.begin(0)
    quotas.record(np.array([4e6]))
    assert not quotas.exceeded[0]
    assert quotas.room_bytes[0] == 1e6
    quotas.record(np.array([4e6]))
    assert quotas.exceeded[0]
    assert quotas.room_bytes[0] == 0.0


def test_a_full_window_at_a_lower_bound_is_used_up_until_its_samples_leave() -> None:
    quotas = Quotas(1)
    for second in range(20):
        quotas.begin(second * 1000)
        quotas.record(np.array([20e6]))
        quotas.end()
    quotas.bound_bytes_per_s[0] = 5e6
    silent_s = 0
    for second in range(20, 40):
        quotas.begin(second * 1000)
        if not quotas.exceeded[0]:
            break
        silent_s += 1
    assert silent_s == 8
