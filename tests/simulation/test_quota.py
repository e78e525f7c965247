"""The quota window, sample by sample, by the rules of Kafka's SampledStat and SimpleRate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.simulation.quota import SimulatedQuotas

TICK_S = 0.25
NOW = np.zeros(2)  # All that is recorded passed when the tick began.


def room_at(quotas: SimulatedQuotas, after_s: float) -> float:
    return float(quotas.room_at(np.array([0]), np.array([after_s]))[0][0])


def opens_after_s(quotas: SimulatedQuotas, asked_s: Sequence[float]) -> np.ndarray:
    """Returns the times for the first sensors."""
    sensors, after_s = np.arange(len(asked_s)), np.array(asked_s)
    return quotas.opens_after_s(sensors, after_s, *quotas.room_at(sensors, after_s))


class OneSensor:
    """A plain Python version of Kafka's rules for one sensor."""

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
def test_quota_array_equals_single_sensor_reference(happens: list[tuple[int, float]], samples: int) -> None:
    quotas, plain = SimulatedQuotas(2, samples=samples), OneSensor(samples)
    now_ms = 0
    for ticks, value in happens:
        now_ms += 250 * ticks
        quotas.begin(now_ms, TICK_S)
        assert quotas.rate_bytes_per_s[1] == pytest.approx(plain.rate(now_ms))
        quotas.record(np.array([0.0, value]), NOW, NOW)
        quotas.end()
        if value > 0:
            plain.record(now_ms, value)


def test_quota_check_lags_and_one_more_fetch_passes() -> None:
    quotas = SimulatedQuotas(1)
    quotas.bound_bytes_per_s[0] = 5e6
    quotas.begin(0, TICK_S)
    quotas.record(np.array([4e6]), NOW[:1], NOW[:1])
    assert room_at(quotas, 0.1) == 1e6
    quotas.record(np.array([4e6]), NOW[:1], NOW[:1])
    assert room_at(quotas, 0.1) == -3e6


def filled(moments_ms: list[int]) -> SimulatedQuotas:
    """Quotas with 4 MB at each moment, bounded at 5 MB/s."""
    quotas = SimulatedQuotas(1)
    quotas.bound_bytes_per_s[0] = 5e6
    for at_ms in moments_ms:
        quotas.begin(at_ms, TICK_S)
        quotas.record(np.array([4e6]), NOW[:1], NOW[:1])
        quotas.end()
    return quotas


def test_room_grows_within_a_tick() -> None:
    quotas = filled([0])
    quotas.begin(2000, TICK_S)
    assert room_at(quotas, 0.0) == pytest.approx(2.0 * 5e6 - 4e6)
    assert room_at(quotas, 0.2) == pytest.approx(2.2 * 5e6 - 4e6)


def test_sample_expires_within_its_tick() -> None:
    """The last record of the sample is at 0.1 s, so it expires at 11.1 s; the next sample starts at 3 s."""
    quotas = filled([100, 3000])
    quotas.begin(11_000, TICK_S)
    assert room_at(quotas, 0.05) == pytest.approx(10.95 * 5e6 - 8e6)
    assert room_at(quotas, 0.15) == pytest.approx(8.15 * 5e6 - 4e6)


def test_sample_starts_with_first_record_of_tick() -> None:
    quotas = SimulatedQuotas(1)
    quotas.begin(0, TICK_S)
    quotas.record(np.array([1e6]), np.array([0.05]), np.array([0.15]))
    quotas.record(np.array([3e6]), np.array([0.10]), np.array([0.25]))
    quotas.end()
    # It began at 0.05 s, so the rate divides by 1.95 s at 2 s.
    quotas.begin(2000, TICK_S)
    assert quotas.rate_bytes_per_s[0] == pytest.approx(4e6 / 1.95)


def test_tick_that_fills_a_sample_starts_the_next() -> None:
    """A sample from 0.1 s is full at 1.1 s: half of the bytes from 1.0 s to 1.2 s belong to it and expire at 12.1 s."""
    quotas = SimulatedQuotas(1)
    quotas.begin(100, TICK_S)
    quotas.record(np.array([1e6]), NOW[:1], NOW[:1])
    quotas.end()
    quotas.begin(1000, TICK_S)
    quotas.record(np.array([8e6]), NOW[:1], np.array([0.2]))
    quotas.end()
    quotas.begin(12_050, TICK_S)
    assert quotas.held_bytes[0] == pytest.approx(9e6)
    quotas.begin(12_150, TICK_S)
    assert quotas.held_bytes[0] == pytest.approx(4e6)
    quotas.begin(12_250, TICK_S)
    assert quotas.held_bytes[0] == 0.0


def test_full_window_blocks_lower_bound_until_samples_expire() -> None:
    quotas = SimulatedQuotas(1)
    for second in range(20):
        quotas.begin(second * 1000, TICK_S)
        quotas.record(np.array([20e6]), NOW[:1], NOW[:1])
        quotas.end()
    quotas.bound_bytes_per_s[0] = 5e6
    silent_s = 0
    for second in range(20, 40):
        quotas.begin(second * 1000, TICK_S)
        if room_at(quotas, 0.0) >= 0.0:
            break
        silent_s += 1
    assert silent_s == 8


@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(0.0, 3e6)), min_size=1, max_size=60),
    st.floats(0.0, 0.9 * TICK_S),
)
def test_opens_after_s_is_the_first_moment_with_room(happens: list[tuple[int, float]], asked_s: float) -> None:
    quotas, now_ms = SimulatedQuotas(2, samples=3), 0
    quotas.bound_bytes_per_s[:] = 1e6
    for ticks, value in happens:
        now_ms += 250 * ticks
        quotas.begin(now_ms, TICK_S)
        quotas.record(np.array([value, 0.0]), NOW, NOW)
        opens_s = float(opens_after_s(quotas, [asked_s])[0])
        assert opens_s >= asked_s
        for after_s in np.linspace(asked_s, TICK_S, 20):
            if after_s < opens_s - 1e-6:
                assert room_at(quotas, float(after_s)) < 1.0
        if opens_s < TICK_S:
            assert room_at(quotas, opens_s + 1e-6) >= -1.0
        quotas.end()


def test_small_late_record_delays_sample_expiry() -> None:
    """A burst of 12 MB under 1 MB/s: room returns only when the sample expires, 3 s after its last record."""
    quotas = SimulatedQuotas(2, samples=3)
    quotas.bound_bytes_per_s[:] = 1e6
    quotas.begin(0, TICK_S)
    quotas.record(np.array([12e6, 0.0]), NOW, NOW)
    quotas.end()
    quotas.begin(2_800, TICK_S)
    opens_s = opens_after_s(quotas, [0.1, 0.1])
    assert opens_s[0] == pytest.approx(0.2)
    assert opens_s[1] == pytest.approx(0.1)
