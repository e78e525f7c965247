"""Tests the control law for copies between log directories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_dir_cases import LIMITS, copying_signal
from tuner_cases import NOW_MS

from streaming.shared.contract import BrokerSignal
from tuner.control.log_dir.decision import LogDirReason
from tuner.control.log_dir.law import (
    FALL,
    FAST_RISE_MAX,
    RISE_MAX,
    SETTLE_S,
    LogDirLaw,
    RateBounds,
    first_rate,
    next_rate,
    rate_bounds,
    update_law,
)
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.steering.latency_ratio import latency_ratio
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.latency_limit import LatencyLimit
from tuner.core.throttle_limits import MB

BOUNDS = RateBounds(5 * MB, 100 * MB)
RATE = 20 * MB
OBJECTIVE_MS = 50.0
WELL = 1 + FAST_RISE_MAX / 3  # At a latency of 40 % of the objective, two thirds of the way to the aim of 60 %.


@pytest.mark.parametrize(
    ("signal", "rate", "reason"),
    [
        (copying_signal(), WELL * RATE, LogDirReason.CLIENTS_WELL),
        (copying_signal(p99=60.0), (1 - FALL) * RATE, LogDirReason.CLIENTS_WAIT),
        (copying_signal(idle=0.2), (1 - FALL) * RATE, LogDirReason.HANDLERS_BUSY),
        (copying_signal(idle=0.35), RATE, LogDirReason.NEAR_OBJECTIVE),
        (copying_signal(p99=40.0), RATE, LogDirReason.NEAR_OBJECTIVE),
        (copying_signal(10.0 * MB), RATE, LogDirReason.NOT_THROTTLE_LIMITED),
        (copying_signal(idle=None), WELL * RATE, LogDirReason.CLIENTS_WELL),
        # Clients that hardly write have an old p99, which says nothing.
        (copying_signal(p99=900.0, client_in_bytes_per_s=10.0), (1 + FAST_RISE_MAX) * RATE, LogDirReason.CLIENTS_WELL),
    ],
)
def test_next_rate_follows_clients_and_handlers(signal: BrokerSignal, rate: float, reason: LogDirReason) -> None:
    law = update_law(LogDirLaw(), signal, None)
    ratio = latency_ratio(law.latency, signal, LatencyLimit(OBJECTIVE_MS))
    assert ratio is not None
    found = next_rate(law, RATE, signal, ratio, BOUNDS, NOW_MS, LIMITS)
    assert (found.bytes_per_s, found.reason) == (round(rate), reason)


def test_next_rate_waits_for_the_effect_of_a_fall_and_then_rises_in_small_steps() -> None:
    slow, well = copying_signal(p99=60.0), copying_signal()
    fallen = next_rate(LogDirLaw(), RATE, slow, 1.2, BOUNDS, NOW_MS, LIMITS)
    soon, later = NOW_MS + 5_000, NOW_MS + round(SETTLE_S * 1000)
    assert next_rate(fallen.law, RATE, slow, 1.2, BOUNDS, soon, LIMITS).reason is LogDirReason.SETTLING
    assert next_rate(fallen.law, RATE, well, 0.3, BOUNDS, soon, LIMITS).reason is LogDirReason.SETTLING
    assert next_rate(fallen.law, RATE, slow, 1.2, BOUNDS, later, LIMITS).bytes_per_s == round((1 - FALL) * RATE)
    assert next_rate(fallen.law, RATE, well, 0.3, BOUNDS, later, LIMITS).bytes_per_s == round((1 + RISE_MAX / 2) * RATE)


def test_rate_bounds_minimum_is_above_the_write_rate_and_never_above_the_ceiling() -> None:
    assert rate_bounds(0.0, LIMITS) == (5 * MB, 100 * MB)
    assert rate_bounds(20 * MB, LIMITS).min_bytes_per_s == LIMITS.min_rate_over_steady_state * 20 * MB
    assert rate_bounds(500 * MB, LIMITS) == (100 * MB, 100 * MB)


@pytest.mark.parametrize(
    ("signal", "measured"),
    [
        (copying_signal(p99=None), None),
        (copying_signal(p99=None, client_in_bytes_per_s=None), None),
        (copying_signal(p99=None, client_in_bytes_per_s=10.0), 0.0),
        (copying_signal(p99=25.0), 0.5),
    ],
)
def test_latency_ratio_unmeasured_latency_is_unknown(signal: object, measured: float | None) -> None:
    assert isinstance(signal, BrokerSignal)
    law = update_law(LogDirLaw(), signal, None)
    assert latency_ratio(law.latency, signal, LatencyLimit(OBJECTIVE_MS)) == measured


def test_first_rate_is_half_of_the_traffic_or_the_minimum_if_clients_wait() -> None:
    signal = copying_signal(80.0 * MB)
    assert first_rate(signal, 0.2, BOUNDS) == 40 * MB
    assert first_rate(signal, 1.5, BOUNDS) == 5 * MB
    assert first_rate(copying_signal(900.0 * MB), 0.2, BOUNDS) == 100 * MB


@given(
    st.integers(1, 10**10), st.floats(0, 5), st.none() | st.floats(0, 1), st.none() | st.floats(0, 1e10), st.floats(0, 1e9),
    st.integers(-100_000, 100_000), st.booleans(),
)  # fmt: skip
def test_next_rate_stays_within_bounds(
    rate: int, ratio: float, idle: float | None, copied: float | None, written: float, since_ms: int, has_waited: bool
) -> None:
    bounds, signal = rate_bounds(written, LIMITS), copying_signal(copied, idle=idle)
    law = LogDirLaw(lowered_at_ms=NOW_MS - since_ms, has_waited=has_waited)
    found = next_rate(law, rate, signal, ratio, bounds, NOW_MS, LIMITS).bytes_per_s
    assert bounds.min_bytes_per_s - 1 <= found <= bounds.max_bytes_per_s + 1
    if ratio > 1.0 and rate >= bounds.min_bytes_per_s:
        assert found <= rate, "clients that wait raise no rate"


def test_law_on_a_disk_keeps_clients_within_their_objective_most_of_the_time() -> None:
    """A disk of 100 MB/s, of which clients use 30: their latency grows as the disk fills."""
    law, rate, now_ms = LogDirLaw(), 5 * MB, NOW_MS
    rates, misses = [], 0
    for _ in range(400):
        now_ms += 5_000
        use = min(0.99, (30 * MB + rate) / (100 * MB))
        p99_ms = 4.0 / (1.0 - use)
        signal = replace(copying_signal(float(rate), p99=p99_ms), sampled_at_ms=now_ms)
        law = update_law(law, signal, None)
        ratio = latency_ratio(law.latency, signal, LatencyLimit(OBJECTIVE_MS))
        assert ratio is not None
        law, rate, _ = next_rate(law, rate, signal, ratio, BOUNDS, now_ms, LIMITS)
        rates.append(rate)
        misses += p99_ms > OBJECTIVE_MS
    # The objective allows 92 % of the disk: 62 MB/s for the copies.
    settled = rates[100:]
    assert misses <= 0.05 * len(rates)
    assert sum(settled) / len(settled) >= 0.75 * 62 * MB
    assert next(number for number, rate in enumerate(rates) if rate >= 40 * MB) <= 20, "it rises within minutes"


def test_rise_counts_where_the_limit_follows_from_a_baseline() -> None:
    signal = copying_signal()
    law = update_law(LogDirLaw(), signal, None)
    limit = Objective().latency_limit(BrokerBaseline(law.latency.p99_ms), 0.0)
    assert latency_ratio(law.latency, signal, limit) == 0.0
    assert latency_ratio(law.latency, signal, None) is None
