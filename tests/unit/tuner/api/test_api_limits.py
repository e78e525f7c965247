"""Token buckets limit the requests of one caller."""

from __future__ import annotations

import pytest
from api_rig import READ_TOKEN, Clock, Rig, bearer
from hypothesis import given
from hypothesis import strategies as st

from tuner.api.limits import RequestRate, TokenBuckets


def test_bucket_passes_burst_then_its_rate() -> None:
    clock = Clock()
    buckets = TokenBuckets(RequestRate(per_s=2.0, burst=3.0), clock)
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    clock.now_s += 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0.0, 0.5]
    assert buckets.take("b") == 0.0  # Somebody else's is full.
    clock.now_s += 3600
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]  # And never holds more than the burst.


def test_number_of_remembered_callers_is_bounded() -> None:
    buckets = TokenBuckets(RequestRate(per_s=1.0, burst=1.0), Clock(), callers_max=10)
    for number in range(1000):
        buckets.take(str(number))
    assert len(buckets._buckets) == 10


@given(st.lists(st.floats(0, 5), max_size=60))
def test_passed_requests_never_exceed_burst_and_rate(pauses_s: list[float]) -> None:
    clock = Clock()
    buckets = TokenBuckets(RequestRate(per_s=1.5, burst=4.0), clock)
    passed = 0
    for pause_s in pauses_s:
        clock.now_s += pause_s
        passed += buckets.take("a") == 0.0
    assert passed <= 4.0 + 1.5 * sum(pauses_s) + 1e-6


def test_refused_frequent_request_has_retry_after() -> None:
    clock = Clock()
    rig = Rig(reads=TokenBuckets(RequestRate(per_s=0.5, burst=2.0), clock))
    answers = [rig.get("/api/v1/reasons") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].headers["retry-after"] == "2"
    assert answers[2].json() == {"detail": "too many requests from this address: send fewer"}
    assert answers[2].headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("announced", [True, False])
def test_too_large_body_is_refused_with_and_without_length(announced: bool) -> None:
    rig = Rig()
    rig.cycle()
    body = b'{"broker": 1, "x": "' + b"x" * 20_000 + b'"}'
    headers = {**bearer("operate-0123456789abcdef"), "content-type": "application/json"}
    pieces = iter([body[:9000], body[9000:]])
    answer = rig.http.post("/api/v1/override", content=body if announced else pieces, headers=headers)
    assert answer.status_code == 413
    assert answer.json() == {"detail": "the body is larger than 16384 bytes"}
    assert rig.get("/api/v1/status", READ_TOKEN).status_code == 200
