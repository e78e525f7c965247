"""The time of topic creations under a quota: the KIP's experiment, cases by hand, and the bound of every bucket."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.controller_cost import KRAFT, ZOOKEEPER, ControllerCost
from tuner.core.token_bucket import MutationQuota, TokenBucket
from tuner.planning.quota_time import (
    Creation,
    rate_per_s_max,
    simulate_creation,
    steady_busy_ratio,
)

KIP = Creation(topics=5_000, partitions_per_topic=4, topics_per_request=50, requests_per_s=10)


def test_simulate_creation_kips_experiment_takes_two_minutes() -> None:
    felt = simulate_creation(KIP, None, ZOOKEEPER)
    assert felt.admitted_s == pytest.approx(9.9)
    assert felt.done_s == pytest.approx(120.0)
    assert felt.wait_s_max == pytest.approx(110.1, abs=0.1)  # All but what was done in the ten seconds of asking.
    assert felt.busy_ratio == pytest.approx(1.0)


def test_simulate_creation_single_request_takes_two_minutes() -> None:
    felt = simulate_creation(Creation(5_000, 4, 5_000), None, ZOOKEEPER)
    assert felt.done_s == pytest.approx(120.0)
    assert felt.wait_s_max == pytest.approx(120.0)


def test_simulate_creation_quota_admits_burst_then_throttles() -> None:
    """(4,999 topics × 4 − burst 55) ÷ 5/s; of 55 tokens 14 topics leave −1, so the fifteenth waits."""
    felt = simulate_creation(KIP, MutationQuota(5), ZOOKEEPER)
    assert felt.at_once == 14
    assert felt.admitted_s == pytest.approx((4_999 * 4 - 55) / 5)
    assert felt.wait_s_max == pytest.approx(14 * 0.024)
    assert felt.throttled_s == pytest.approx(felt.admitted_s, abs=10)
    assert steady_busy_ratio(KIP, MutationQuota(5), ZOOKEEPER) == pytest.approx(0.03)


def test_simulate_creation_empty_bucket_admits_next_topic() -> None:
    """A bucket of 5: the first topic leaves 0 and the second −5; the third waits a second for that."""
    felt = simulate_creation(Creation(3, 5), MutationQuota(5, samples=1), KRAFT)
    assert (felt.at_once, felt.admitted_s) == (2, 1.0)


def test_simulate_creation_quota_above_capacity_lets_queue_grow() -> None:
    quota = MutationQuota(200)
    assert steady_busy_ratio(KIP, quota, ZOOKEEPER) == pytest.approx(1.2)
    felt = simulate_creation(KIP, quota, ZOOKEEPER)
    assert felt.done_s == pytest.approx(120.0)
    assert felt.wait_s_max == pytest.approx(120 - (19_996 - 2_200) / 200, abs=0.1)


def test_simulate_creation_kraft_cost_per_topic_and_partition() -> None:
    assert simulate_creation(KIP, None, KRAFT).work_s == pytest.approx(5_000 * 0.0009 + 20_000 * 0.00006)


def test_simulate_creation_counts_cost_of_requests() -> None:
    cost = ControllerCost(per_request_ms=10)
    assert simulate_creation(Creation(5, 1, 2), None, cost).work_s == pytest.approx(0.03)
    assert simulate_creation(Creation(5, 1, 2), None, cost).done_s == pytest.approx(0.03)


def test_rate_per_s_max_is_the_largest_with_short_wait() -> None:
    rate = rate_per_s_max(Creation(5_000, 4), ZOOKEEPER, 0.5, 11, 1)
    assert rate is not None
    # Twenty topics pass at once and are 0.48 s of work; the next, 0.024 s more, may not pass in the first 0.004 s.
    assert rate == pytest.approx(80 / 11.004, rel=1e-6)
    assert simulate_creation(Creation(5_000, 4), MutationQuota(rate * 0.999), ZOOKEEPER).wait_s_max <= 0.5
    assert simulate_creation(Creation(5_000, 4), MutationQuota(rate * 1.001), ZOOKEEPER).wait_s_max > 0.5


@pytest.mark.parametrize(
    ("creation", "cost", "rate"),
    [
        (Creation(10, 100), ZOOKEEPER, None),  # One topic alone takes too long: no quota helps.
        (Creation(10, 4), KRAFT, 40.0),  # All topics together take little time: any quota is enough.
    ],
)
def test_rate_per_s_max_extremes(creation: Creation, cost: ControllerCost, rate: float | None) -> None:
    assert rate_per_s_max(creation, cost, 0.5, 11, 1) == rate


@settings(deadline=None)
@given(
    topics=st.integers(1, 300),
    size=st.integers(1, 50),
    rate=st.floats(0.5, 500),
    per_request=st.integers(1, 60),
    asked=st.none() | st.floats(0.1, 20),
)
def test_simulate_creation_any_input_keeps_bounds(
    topics: int, size: int, rate: float, per_request: int, asked: float | None
) -> None:
    creation, quota = Creation(topics, size, per_request, asked), MutationQuota(rate)
    felt, free = simulate_creation(creation, quota, KRAFT), simulate_creation(creation, None, KRAFT)
    least = ((topics - 1) * size - quota.burst) / rate
    offered = 0.0 if asked is None else ((topics - 1) // per_request) / asked
    assert felt.admitted_s >= max(least, offered, 0.0) - 1e-6
    if asked is None:
        assert felt.admitted_s == pytest.approx(max(least, 0.0), abs=1e-6)
    assert felt.work_s == free.work_s
    assert felt.done_s >= felt.admitted_s
    assert felt.wait_s_max <= free.wait_s_max + 1e-9
    assert 1 <= felt.at_once <= topics


@settings(deadline=None)
@given(
    topics=st.integers(1, 200),
    size=st.integers(1, 50),
    rate=st.floats(0.5, 500),
    samples=st.integers(1, 100),
    per_request=st.integers(1, 60),
    asked=st.none() | st.floats(0.1, 20),
)
def test_simulate_creation_matches_token_bucket_of_kip_599(
    topics: int, size: int, rate: float, samples: int, per_request: int, asked: float | None
) -> None:
    """The same creation with a client that asks Kafka's bucket for every topic, and sleeps as long as it is told."""
    quota = MutationQuota(rate, samples)
    bucket, now_ms = TokenBucket.full(quota, 0.0), 0.0
    for topic in range(topics):
        if asked is not None:
            now_ms = max(now_ms, topic // per_request / asked * 1000)
        tokens = bucket.refilled(quota, now_ms).tokens
        if not bucket.admits(quota, now_ms):
            assert bucket.throttle_ms(quota, now_ms) == pytest.approx(-tokens / rate * 1000, abs=0.51)
            now_ms -= tokens / rate * 1000
        bucket = bucket.with_admitted(quota, size, now_ms)
    felt = simulate_creation(Creation(topics, size, per_request, asked), quota, KRAFT)
    assert felt.admitted_s == pytest.approx(now_ms / 1000, abs=1e-6)
