"""The margin of the create probe follows the measured variation of its latency."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.probe_margin import (
    current_spread,
    is_spread_known,
    likely_ratio,
    update_spread,
    update_trend,
)
from tuner.control.mutation_quota.probe_window import WINDOW_S
from tuner.control.mutation_quota.state import ProbeTrend

LIMITS = MutationLimits()
LOOK_S = 5.0


def sliding(sigma: float, looks: int, seed: int, trend: float = 0.0) -> list[float]:
    """Means over sliding windows of independent samples; disjoint windows have the standard deviation sigma."""
    parts = round(WINDOW_S / LOOK_S)
    rng = np.random.default_rng(seed)
    drawn = 0.8 * (1 + sigma * math.sqrt(parts) * rng.standard_normal(looks + parts))
    return [float(drawn[n : n + parts].mean()) * (1 + trend) ** n for n in range(looks)]


def seen(ratios: list[float], start: float = LIMITS.probe_spread_start, every_s: float = LOOK_S) -> list[float]:
    spreads = [start, start]
    for before, ratio in itertools.pairwise(ratios):
        spreads.append(update_spread(spreads[-1], before, ratio, every_s, LIMITS))
    return spreads


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.08])
def test_spread_of_disjoint_windows_is_estimated_from_overlapping_ones(sigma: float) -> None:
    found = [np.sqrt(np.mean(np.square(seen(sliding(sigma, 600, seed))[100:]))) for seed in range(5)]
    assert np.mean(found) == pytest.approx(sigma, rel=0.15)


def test_spread_does_not_depend_on_window_overlap() -> None:
    every = sliding(0.05, 3_000, 1)
    for apart in (1, 2, 3, 6, 12):
        looks = seen(every[::apart], every_s=apart * LOOK_S)
        assert np.sqrt(np.mean(np.square(looks[50:]))) == pytest.approx(0.05, rel=0.25), apart


def test_initial_spread_is_a_tenth_and_fades_within_minutes() -> None:
    spreads = seen([0.8] * 60)
    assert spreads[1] == LIMITS.probe_spread_start
    assert spreads[6] > 0.07
    assert spreads[-1] < 0.015


def test_repeated_rise_from_far_below_counts_as_spread() -> None:
    """Even if most measurements equal the one before."""
    assert seen([0.4, 0.4, 0.95, 0.95, 0.95, 0.95, 0.4] * 10)[-1] > 0.1


def test_start_of_a_storm_is_soon_forgotten() -> None:
    spreads = seen([*[0.8] * 100, *[3.0] * 60])
    assert spreads[101] < 0.07
    assert spreads[-1] < 0.02


def test_single_outlier_causes_no_margin() -> None:
    spreads = seen([*[0.8] * 100, 3.0, *[0.8] * 6])
    assert 0.8 * (1 + LIMITS.probe_margin_spreads * max(spreads[100:])) < 1


def test_steady_rise_hardly_counts_as_spread() -> None:
    """A rise of a tenth in half a minute, as after a raise."""
    assert seen([0.6 * 1.1 ** (n / 6) for n in range(18)], start=0.0)[-1] < 0.03


def test_likely_ratio_exceeds_ratio_by_the_spread() -> None:
    assert likely_ratio(ProbeTrend(0.8, spread=0.0), LIMITS) == 0.8
    assert likely_ratio(ProbeTrend(0.8, spread=0.1), LIMITS) == pytest.approx(
        0.8 * (1 + 0.1 * LIMITS.probe_margin_spreads)
    )
    assert likely_ratio(ProbeTrend(0.8), LIMITS) == likely_ratio(
        ProbeTrend(0.8, spread=LIMITS.probe_spread_start), LIMITS
    )
    assert likely_ratio(ProbeTrend(spread=0.1), LIMITS) == 0.0


# -- cycle by cycle ------------------------------------------------------------------------------------------------------


def looked(
    ratios: Sequence[float | None],
    *,
    total_changed_at_ms: int = 0,
    felt: ProbeTrend | None = None,
    at_s: float = 1_000.0,
) -> ProbeTrend:
    made = felt or ProbeTrend()
    for n, ratio in enumerate(ratios):
        made = update_trend(made, ratio, round(1000 * (at_s + n * LOOK_S)), LOOK_S, total_changed_at_ms, LIMITS)
    return made


CALM = looked([0.8] * 100)


def test_growing_first_window_does_not_count_as_spread() -> None:
    assert looked([0.7, 0.9, 0.6, 0.95, 0.7, 0.9]).spread is None
    assert looked([0.7, 0.9, 0.6, 0.95, 0.7, 0.9, 0.8]).spread is not None
    assert current_spread(CALM, LIMITS) < 0.01


def test_spread_is_known_when_initial_value_has_faded() -> None:
    """A constant ratio slightly below the objective never counts as near it."""
    ratios = [0.93] * 60
    first = next(n for n in range(60) if is_spread_known(looked(ratios[:n]), LIMITS))
    assert WINDOW_S + 2 * LIMITS.decay_age_s <= first * LOOK_S <= WINDOW_S + 2 * LIMITS.decay_age_s + 2 * LOOK_S
    assert likely_ratio(looked(ratios[:first]), LIMITS) < 1


def test_no_spread_is_learned_far_below_objective() -> None:
    """After a quiet start the first storm has no margin for a spread that was never observed."""
    quiet = looked([0.1, 0.45, 0.2, 0.49, 0.02] * 20)
    assert (quiet.spread, quiet.learned_s) == (None, 0.0)
    assert not is_spread_known(looked([0.9], felt=quiet, at_s=1_500.0), LIMITS)


@pytest.mark.parametrize("since_s", [0.0, -3.0])
def test_spread_needs_time_between_measurements(since_s: float) -> None:
    found = update_trend(CALM, 0.9, 1_500_000, since_s, 0, LIMITS)
    assert (found.spread, found.learned_s) == (CALM.spread, CALM.learned_s)


def test_change_by_total_update_does_not_count_as_spread() -> None:
    falls = [0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5]
    turned = looked(falls, felt=CALM, at_s=1_500.0, total_changed_at_ms=1_499_000)
    assert (turned.spread, turned.learned_s) == (CALM.spread, CALM.learned_s)
    assert current_spread(looked(falls, felt=CALM, at_s=1_500.0), LIMITS) > current_spread(CALM, LIMITS)


def test_gap_in_measurements_keeps_the_spread() -> None:
    gone = looked([None], felt=CALM, at_s=1_500.0)
    assert (gone.ratio, gone.spread, gone.learned_s) == (None, CALM.spread, CALM.learned_s)
    assert not is_spread_known(gone, LIMITS)
    again = looked([0.9], felt=gone, at_s=1_505.0)
    assert (again.ratio, again.spread, again.since_ms) == (0.9, CALM.spread, 1_505_000)


def test_first_measurement_after_a_gap_keeps_the_spread() -> None:
    after = update_trend(CALM, 0.95, 1_600_000, None, 0, LIMITS)
    assert (after.ratio, after.spread, after.since_ms) == (0.95, CALM.spread, 1_600_000)
