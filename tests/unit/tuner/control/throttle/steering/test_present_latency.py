"""The present p99, from sources that remember and sources that do not."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.steering.present_latency import PresentLatency, low_latency_ms, update_latency
from tuner.core.broker_baseline import BrokerBaseline

STEP_S = 5.0
# Of a real broker whose link filled up: the mean in ms and the p99 that Kafka reported, every 5 s.
REAL_QUIET = [(2.0, 26.0)] * 12
REAL_RISE = [(3.2, 27.0), (5.0, 33.0), (7.6, 34.0), (10.2, 39.7), (13.1, 42.7), (17.2, 46.7), (17.8, 46.0)]
REAL_FALL = [
    (17.0, 46.0),
    (16.0, 46.0),
    (13.6, 46.0),
    (11.8, 46.0),
    (10.3, 46.0),
    (9.9, 46.7),
    (9.2, 46.0),
    (9.0, 47.0),
]
Signals = list[tuple[float | None, float]]


def present(signals: Signals, baseline: BrokerBaseline | None = None) -> float:
    """Returns the present p99 after (mean, p99) pairs, in ms."""
    state = PresentLatency()
    for mean_ms, p99_ms in signals:
        state = update_latency(state, mean_ms, p99_ms, STEP_S, baseline)
    return state.p99_ms


VARYING = [4.0 + 4.0 * (k % 3) for k in range(60)]


def test_p99_of_the_moment_is_used_as_it_is() -> None:
    assert present([(mean, 4.6 * mean) for mean in [*VARYING, 20.0]]) == pytest.approx(92.0)
    assert present([(mean, 4.6 * mean) for mean in [*VARYING, 3.0]]) == pytest.approx(13.8)


@pytest.mark.parametrize("baseline", [None, BrokerBaseline(26.0, 2.0), BrokerBaseline(26.0)])
def test_p99_that_a_real_broker_remembers_is_lowered_once_its_mean_falls(baseline: BrokerBaseline | None) -> None:
    assert present([*REAL_QUIET, *REAL_RISE], baseline) == 46.0
    lowered = present([*REAL_QUIET, *REAL_RISE, *REAL_FALL], baseline)
    # The mean is 7 of 15.8 ms above its quiet value, and the p99 was 20 ms above its own.
    assert lowered == pytest.approx(26.0 + 21.0 * 7.0 / 15.8, rel=0.05)


def test_slow_seconds_are_forgotten_after_minutes() -> None:
    state = PresentLatency()
    for mean_ms, p99_ms in [*REAL_QUIET, *REAL_RISE, *[(9.0, 46.0)] * 60]:
        state = update_latency(state, mean_ms, p99_ms, STEP_S, BrokerBaseline(26.0, 2.0))
    assert state.peaks == ((0.0, 9.0),)
    assert state.p99_ms == 46.0, "it is that of the last minutes, in which the mean did not change"


@pytest.mark.parametrize(
    ("mean_ms", "spread_ms", "p99_ms"), [(30.0, 8.0, 400.0), (5.0, 2.0, 100.0), (10.0, 3.0, 300.0)]
)
def test_slow_requests_beside_a_noisy_mean_are_not_taken_for_memory(
    mean_ms: float, spread_ms: float, p99_ms: float
) -> None:
    """One of a hundred requests waits for a slow disk all the time; the mean varies for other reasons."""
    random = Random(5)
    signals: Signals = [(max(0.5, random.gauss(mean_ms, spread_ms)), p99_ms) for _ in range(200)]
    lowered = [
        present(signals[:count], BrokerBaseline(2.0 * mean_ms, mean_ms)) < 0.75 * p99_ms for count in range(50, 200)
    ]
    assert sum(lowered) <= 0.02 * len(lowered)


@pytest.mark.parametrize("mean", [None, 0.0, 5e-324])
def test_without_a_mean_the_reported_p99_is_used(mean: float | None) -> None:
    assert present([(8.0, 40.0), (mean, 60.0)]) == 60.0


def test_unknown_p99_stays_unknown() -> None:
    assert present([(8.0, 40.0), (8.0, 0.0)]) == 0.0


def test_low_values_outlive_a_signal_without_a_mean() -> None:
    state = PresentLatency()
    for mean_ms, p99_ms in [(4.0, 20.0), (None, 0.0), (9.0, 60.0)]:
        state = update_latency(state, mean_ms, p99_ms, STEP_S, None)
    assert (state.low_mean_ms, state.low_p99_ms) == (pytest.approx(4.03, rel=0.01), pytest.approx(20.2, rel=0.01))
    assert low_latency_ms(0.0, 0.0) == 0.0


@given(
    st.lists(st.tuples(st.none() | st.floats(1e-3, 1e5), st.floats(0.0, 1e6)), min_size=1, max_size=60),
    st.none() | st.builds(BrokerBaseline, st.none() | st.floats(0.01, 1e6), st.none() | st.floats(0.01, 1e6)),
)
def test_present_p99_is_never_above_the_reported_one(signals: Signals, baseline: BrokerBaseline | None) -> None:
    assert 0.0 <= present(signals, baseline) <= signals[-1][1]
