"""KIP-599's token bucket: the KIP's example, measurements of Kafka 4.2, and properties of every bucket."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuner.core.token_bucket import MeanRate, MutationQuota, TokenBucket

KIP = MutationQuota(rate_per_s=5, samples=100, window_s=1)


def test_kip_burst_of_560_leaves_minus_60_tokens() -> None:
    """KIP-599: "The burst of 560 mutations brings the number of tokens to -60. The throttle time is -(-60) / 5 = 12s"."""
    assert KIP.burst == 500
    after = TokenBucket.full(KIP, 0).with_admitted(KIP, 560, 0)
    assert after.tokens == -60
    assert after.throttle_ms(KIP, 0) == 12_000
    assert not after.admits(KIP, 11_999)
    assert after.admits(KIP, 12_000)


def test_mean_rate_throttle_time_is_shorter_than_its_refusal() -> None:
    """KIP-599: "the average rate won't go back until the samples at time T is discarded ... 100 secs in our case"."""
    rate = MeanRate().with_burst(560, 0)
    assert rate.per_s(KIP, 0) == pytest.approx(5.6)
    assert rate.throttle_s(KIP, 0) == pytest.approx(12.0)
    assert rate.refused_s(KIP, 0) == pytest.approx(100.0)
    assert rate.per_s(KIP, 99_999) == pytest.approx(5.6)
    assert rate.per_s(KIP, 100_000) == 0.0
    assert rate.refused_s(KIP, 60_000) == pytest.approx(40.0)


def test_mean_rate_at_quota_is_not_throttled() -> None:
    rate = MeanRate().with_burst(500, 0)
    assert rate.throttle_s(KIP, 0) == 0.0
    assert rate.refused_s(KIP, 0) == 0.0


def test_throttle_time_waits_for_expiring_samples() -> None:
    rate = MeanRate().with_burst(300, 0).with_burst(260, 50_000)
    assert rate.refused_s(KIP, 50_000) == pytest.approx(50.0)  # 260 are below 500.


def test_measurement_at_5_per_second_is_reproduced() -> None:
    """Kafka 4.2: six requests of 10 passed in 0.6 s, the seventh was refused with 515 ms."""
    quota = MutationQuota(5)
    bucket = TokenBucket.full(quota, 0)
    for at_ms in range(0, 600, 100):
        assert bucket.admits(quota, at_ms)
        bucket = bucket.with_admitted(quota, 10, at_ms)
    assert bucket.tokens == pytest.approx(-2.5)
    assert not bucket.admits(quota, 500)
    assert bucket.throttle_ms(quota, 500) == 500


def test_tiny_quota_causes_long_token_debt() -> None:
    """Kafka 4.2 at 0.001/s: one partition, and a minute later tokens −0.94 and 942 s to wait."""
    quota = MutationQuota(0.001)
    bucket = TokenBucket.full(quota, 0).with_admitted(quota, 1, 0)
    assert bucket.refilled(quota, 60_000).tokens == pytest.approx(-0.929)
    assert bucket.throttle_ms(quota, 60_000) == pytest.approx(929_000)


def test_raised_quota_refills_past_time_at_new_rate() -> None:
    low, high = MutationQuota(1), MutationQuota(10)
    empty = TokenBucket.full(low, 0).with_admitted(low, 11, 0)
    assert empty.tokens == 0.0
    assert empty.refilled(high, 5_000).tokens == 50.0
    assert empty.refilled(high, 60_000).tokens == 110.0


def test_lowered_quota_removes_excess_tokens_at_once() -> None:
    low, high = MutationQuota(1), MutationQuota(10)
    assert TokenBucket.full(high, 0).refilled(low, 0).tokens == 11.0


@settings(deadline=None)
@given(
    rate=st.floats(0.1, 1_000),
    samples=st.integers(1, 100),
    takes=st.lists(st.tuples(st.floats(0, 10_000), st.floats(0, 5_000)), max_size=30),
)
def test_bucket_is_bounded_and_throttle_time_suffices(
    rate: float, samples: int, takes: list[tuple[float, float]]
) -> None:
    quota = MutationQuota(rate, samples)
    bucket, now_ms = TokenBucket.full(quota, 0), 0.0
    for after_ms, partitions in takes:
        now_ms += after_ms
        wait_ms = bucket.throttle_ms(quota, now_ms)
        assert bucket.admits(quota, now_ms + wait_ms + 1)
        assert (wait_ms == 0) or not bucket.admits(quota, now_ms)
        bucket = bucket.with_admitted(quota, partitions, now_ms)
        assert bucket.tokens <= quota.burst


@settings(deadline=None)
@given(rate=st.floats(0.1, 1_000), size=st.integers(5, 500), seconds=st.integers(1, 60))
def test_long_run_admissions_are_bounded_by_rate_and_burst(rate: float, size: int, seconds: int) -> None:
    quota = MutationQuota(rate)
    bucket, passed = TokenBucket.full(quota, 0), 0
    for second in range(seconds):
        while bucket.admits(quota, second * 1000):
            bucket = bucket.with_admitted(quota, size, second * 1000)
            passed += size
    assert passed <= quota.burst + rate * seconds + size + 1e-6


@settings(deadline=None)
@given(
    rate=st.floats(0.1, 1_000),
    bursts=st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5)), max_size=10),
    later_ms=st.floats(0, 20_000),
)
@example(rate=1.0, bursts=[(65_528.9, 1_000.0)], later_ms=1_000.0)
@example(rate=1.0, bursts=[(251_144.11740476938, 12.0)], later_ms=0.0)
def test_mean_rate_quota_admits_within_its_window(
    rate: float, bursts: list[tuple[float, float]], later_ms: float
) -> None:
    quota = MutationQuota(rate)
    recorded = MeanRate(tuple(sorted(bursts)))
    now_ms = max((at_ms for at_ms, _ in bursts), default=0.0) + later_ms
    assert 0 <= recorded.refused_s(quota, now_ms) <= quota.span_s
