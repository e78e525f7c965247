"""The sentence about a latency limit."""

from __future__ import annotations

import pytest

from tuner.core.latency_limit import LatencyLimit, LatencySource


@pytest.mark.parametrize(("ms", "text"), [(9.0, "9"), (12.345, "12.3"), (123.4, "123"), (2_000.4, "2000")])
def test_text_has_the_limit_and_the_baseline_without_exponents(ms: float, text: str) -> None:
    limit = LatencyLimit(ms, LatencySource.BASELINE, ms)
    assert limit.text == f"clients may have a p99 of {text} ms ({text} ms without copies)"
