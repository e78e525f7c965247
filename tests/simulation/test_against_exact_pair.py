"""The simulator at its usual tick equals the event-driven model of one pair of brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from exact_pair import exact_phases
from lab_worlds import BOTH, ROUND_TRIP_S, F, at_moments

from benchmarks.bursts.methods import MOMENTS, Method, Phases, each, in_one_step, linear, typical
from streaming.shared.contract import Side
from tuner.simulation.world import FetchSettings

RAMP_22 = linear(22, 0.5)


def silence_s(p: Phases) -> float:
    return p.down.between(0, 14).silence_s()


def peak_mb(p: Phases) -> float:
    return p.up.between(0, 4).peak_mb(2.0)


def echo_mb(p: Phases) -> float:
    return p.up.between(9, 16).peak_mb(2.0)


@pytest.mark.parametrize("samples", [11, 3])
@pytest.mark.parametrize("sides", [BOTH, (F,)])
@pytest.mark.parametrize("method", [in_one_step, RAMP_22])
@pytest.mark.parametrize("read", [silence_s, peak_mb, echo_mb])
def test_tick_length_does_not_change_typical_rates(
    read: Callable[[Phases], float], method: Method, sides: tuple[Side, ...], samples: int
) -> None:
    fetch = FetchSettings(quota_samples=samples, round_trip_s=ROUND_TRIP_S)
    exact = [exact_phases(method, sides, moments, samples=samples, seed=i) for i, moments in enumerate(MOMENTS)]
    assert typical(read, at_moments(method, sides, 250, fetch)) == pytest.approx(
        typical(read, exact), rel=0.15, abs=0.5
    )


def test_silence_after_step_matches_the_exact_model() -> None:
    """The silences range from 3 s to 11 s; the shortest, the quartiles and the longest are compared."""
    exact = each(silence_s, [exact_phases(in_one_step, BOTH, moments, seed=i) for i, moments in enumerate(MOMENTS)])
    found = each(silence_s, at_moments(in_one_step, BOTH, 250))
    assert found[::3] == pytest.approx(exact[::3], rel=0.25, abs=0.5)
