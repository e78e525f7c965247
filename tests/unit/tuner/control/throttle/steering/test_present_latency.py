"""The present p99, from sources that remember and sources that do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.steering.present_latency import PresentLatency, update_latency

STEP_S = 5.0


def present(signals: list[tuple[float | None, float]]) -> float:
    """Returns the present p99 after (mean, p99) pairs, in ms."""
    state = PresentLatency()
    for mean_ms, p99_ms in signals:
        state = update_latency(state, mean_ms, p99_ms, STEP_S)
    return state.p99_ms


def reservoir(means: list[float]) -> list[tuple[float | None, float]]:
    """Returns the means with a p99 that follows them over minutes, as Kafka's does."""
    weight, remembered, found = STEP_S * 0.015, means[0], []
    for mean in means:
        remembered += weight * (mean - remembered)
        found.append((mean, 4.6 * remembered))
    return found


VARYING = [4.0 + 4.0 * (k % 3) for k in range(60)]


def test_p99_of_the_moment_is_used_as_it_is() -> None:
    assert present([(mean, 4.6 * mean) for mean in [*VARYING, 20.0]]) == pytest.approx(92.0)
    assert present([(mean, 4.6 * mean) for mean in [*VARYING, 3.0]]) == pytest.approx(13.8)


def test_p99_of_minutes_is_lowered_once_clients_have_recovered() -> None:
    signals = reservoir([*VARYING, *[30.0] * 6, *[4.0] * 4])
    reported = signals[-1][1]
    assert present(signals) < 0.6 * reported
    assert present(signals) == pytest.approx(4.6 * 4.0, rel=0.4)


@pytest.mark.parametrize("mean", [None, 0.0])
def test_without_a_mean_the_reported_p99_is_used(mean: float | None) -> None:
    assert present([(8.0, 40.0), (mean, 60.0)]) == 60.0


def test_unknown_p99_stays_unknown() -> None:
    assert present([(8.0, 40.0), (8.0, 0.0)]) == 0.0


@given(st.lists(st.tuples(st.none() | st.floats(1e-3, 1e5), st.floats(0.0, 1e6)), min_size=1, max_size=60))
def test_present_p99_is_never_above_the_reported_one(signals: list[tuple[float | None, float]]) -> None:
    assert 0.0 <= present(signals) <= signals[-1][1]
