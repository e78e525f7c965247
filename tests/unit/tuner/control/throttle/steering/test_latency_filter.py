"""The latency filter: the part of Kafka's p99 that is old, and its fast component, from the mean of the same window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.headroom import next_margin
from tuner.control.throttle.steering.latency_filter import LatencyFilter, current_p99_ms, fast_component, update_filter

LIMITS = ControlLimits()
WAITS_MS = st.floats(0.1, 500.0)


def after(*told: tuple[float | None, float], steps: int = 1) -> LatencyFilter:
    """Of (mean, p99) every five seconds; a window of one step is its own newest step."""
    felt = LatencyFilter()
    for mean_ms, p99_ms in told:
        felt = update_filter(felt, mean_ms, p99_ms, 5.0, steps, True, LIMITS)
    return felt


def test_latency_falls_after_relief_before_p99_reservoir_forgets() -> None:
    """Two minutes at 12 ms, then 4: the p99 still tells 45, of which a third is left."""
    felt = after(*[(12.0, 45.0)] * 24, (4.0, 45.0))
    assert felt.peak_mean_ms == pytest.approx(12.0 - 8.0 * 0.0368, abs=0.01)
    assert current_p99_ms(45.0, felt, LIMITS) == pytest.approx(45.0 * 4.0 / 11.71, abs=0.05)


def test_burst_counts_while_it_determines_the_p99() -> None:
    """As seen on real brokers: 20 ms in the burst after 3, and 9 after it, while the p99 stood at 48 for a minute. A mean over as long
    would have forgotten half of the burst before it was over."""
    burst = [(3.0, 30.0)] * 12 + [(20.0, 49.0)] * 9
    for minute_s in (15, 30, 60):
        felt = after(*burst, *[(9.0, 48.0)] * (minute_s // 5))
        assert current_p99_ms(48.0, felt, LIMITS) < 35.0, minute_s


def test_p99_above_its_remembered_maximum_counts_at_once() -> None:
    """One window of 200 ms, as a broker collects memory, of which the p99 hears nothing; and then clients begin to wait."""
    pause = [(10.0, 36.0)] * 12 + [(200.0, 36.0)] + [(10.0, 36.0)] * 6
    assert current_p99_ms(40.0, after(*pause, (13.0, 40.0)), LIMITS) == 40.0
    assert current_p99_ms(36.0, after(*pause), LIMITS) < 10.0


def test_slightly_lower_mean_is_no_relief() -> None:
    assert current_p99_ms(45.0, after(*[(12.0, 45.0)] * 24, (11.6, 45.0)), LIMITS) == 45.0
    # One that is lower by a sixth is: else the p99 would go up by as much when it comes back to that, and be a miss.
    assert current_p99_ms(45.0, after(*[(12.0, 45.0)] * 24, (10.0, 45.0)), LIMITS) == pytest.approx(37.7, abs=0.1)


def test_rising_mean_does_not_lower_the_p99() -> None:
    assert current_p99_ms(20.0, after(*[(4.0, 20.0)] * 12, (40.0, 20.0)), LIMITS) == 20.0


def test_faded_memory_reports_the_measured_latency() -> None:
    """Ten minutes after the relief the mean is what it is remembered to be, and so is the p99."""
    felt = after(*[(12.0, 45.0)] * 24, *[(4.0, 18.0)] * 120)
    assert current_p99_ms(18.0, felt, LIMITS) == 18.0


def test_filter_without_a_mean_returns_the_p99() -> None:
    felt = after((None, 45.0), (None, 20.0))
    assert felt == LatencyFilter()
    assert current_p99_ms(45.0, felt, LIMITS) == 45.0
    assert fast_component(felt) == 1.0


def test_mean_is_learned_anew_after_one_missing_window() -> None:
    felt = after(*[(12.0, 45.0), (6.0, 45.0)] * 20, (None, 45.0), (12.0, 45.0))
    assert felt == LatencyFilter(12.0, 12.0, felt.steps, 45.0, 45.0)
    assert fast_component(felt) == 1.0


def test_steady_p99_over_varying_mean_includes_the_peaks() -> None:
    assert fast_component(after(*[(12.0, 45.0), (9.0, 45.5)] * 15)) == 0.0


def test_p99_that_varies_with_mean_is_current() -> None:
    assert fast_component(after(*[(10.0, 46.0), (8.0, 36.8)] * 15)) == 1.0


def test_fast_component_needs_several_windows() -> None:
    assert fast_component(after((12.0, 45.0), (9.0, 45.0), (12.0, 45.0))) > 0.0


def test_newest_step_is_derived_from_window_mean() -> None:
    """Four steps of 5 ms and then one of 30 make a mean of 10."""
    felt = after((5.0, 30.0), (10.0, 30.0), steps=5)
    assert felt.steps.newest == pytest.approx(30.0, abs=1.0)
    assert felt.mean_variation == pytest.approx(0.1 + 0.15 * (1.0 - 0.1))


@given(st.lists(st.tuples(st.none() | WAITS_MS, st.floats(0.0, 500.0)), min_size=1, max_size=40))
def test_estimated_latency_never_exceeds_the_p99(told: list[tuple[float | None, float]]) -> None:
    felt = after(*told)
    p99_ms = told[-1][1]
    assert 0.0 <= current_p99_ms(p99_ms, felt, LIMITS) <= p99_ms
    assert 0.0 <= fast_component(felt) <= 1.0


@given(st.floats(0.02, 0.3), st.floats(1.0001, 10.0), st.floats(0.0, 1.0), st.booleans())
def test_margin_grows_when_objective_is_missed(margin: float, ratio: float, share: float, tight: bool) -> None:
    usual = next_margin(margin, ratio, True, LIMITS, low_headroom=tight)
    assert next_margin(margin, ratio, True, LIMITS, low_headroom=tight, fast_component=share) == usual


@given(st.floats(-0.04, 0.3), st.floats(0.0, 3.0), st.floats(0.0, 1.0), st.booleans())
def test_margin_stays_within_its_bounds(margin: float, ratio: float, share: float, fills: bool) -> None:
    assert -0.04 <= next_margin(margin, ratio, fills, LIMITS, fast_component=share) <= LIMITS.margin_max


@given(st.floats(-0.04, 0.3), st.floats(0.0, 3.0))
def test_default_margin_is_a_tenth_and_two_percent(margin: float, ratio: float) -> None:
    assert next_margin(margin, ratio, True, LIMITS) >= LIMITS.margin_min


def test_p99_that_includes_peaks_may_approach_the_objective() -> None:
    assert next_margin(0.05, 0.8, True, LIMITS) == pytest.approx(0.052)
    assert next_margin(0.05, 0.8, True, LIMITS, fast_component=0.5) == pytest.approx(0.05)
    assert next_margin(0.05, 0.95, True, LIMITS, fast_component=0.0) == pytest.approx(0.05)
    assert (
        next_margin(0.05, 0.9, True, LIMITS, fast_component=0.0)
        < 0.05
        < next_margin(0.05, 1.0, True, LIMITS, fast_component=0.0)
    )


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2, 0.0])
def test_correction_halfway_to_objective_is_independent_of_aim(share: float) -> None:
    aim = max(LIMITS.latency_aim, min(LIMITS.latency_aim_max, 1.0 - share * (1.0 - LIMITS.latency_aim)))
    halfway = next_margin(0.05, (1.0 + aim) / 2, True, LIMITS, fast_component=share)
    assert halfway == pytest.approx(0.05 + LIMITS.margin_gain * (1.0 - LIMITS.latency_aim) / 2)
