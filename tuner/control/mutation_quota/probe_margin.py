"""Measures how much the latency of the creation probes fluctuates, and derives how far below its objective the latency must stay.

The latency is the p90 of a few hundred requests, so it fluctuates even at a constant total rate. It is measured over a sliding
window of 30 s. Two consecutive windows share most of their requests, so their latencies differ too little. The module scales this
difference up to the difference between two windows without common requests.

    likely ratio = ratio × (1 + margin_spreads × spread)    the ratio that random fluctuation alone may soon reach

A likely ratio above 1 causes a small cut of the total rate. A likely ratio below ``probe_target_ratio`` allows a raise
(total_rate.py).

Invariant: the margin is never negative, and no single measurement determines it. A measurement is not used if its ratio is below
``_RATIO_MIN``, or shortly after a change of the total rate.

Terms:
    ratio           latency ÷ objective.
    margin_spreads  width of the margin, in spreads (limits.probe_margin_spreads).
    spread          relative standard deviation of the ratio between independent windows at a constant total.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.probe_window import WINDOW_S
from tuner.control.mutation_quota.state import ProbeTrend

# Lower ratios are not used: far below the objective a small change of the load changes the ratio much. This is not fluctuation.
_RATIO_MIN = 0.5
_SPREAD_MAX = 0.2  # Upper limit of one measurement's spread: a larger difference means that a load has begun or ended.


def update_trend(
    previous: ProbeTrend | None,
    ratio: float | None,
    at_ms: int,
    elapsed_s: float | None,
    total_changed_at_ms: int,
    limits: MutationLimits,
) -> ProbeTrend:
    """Returns the trend after one more measurement.

    Args:
        ratio: the new measurement; None: not configured or not measured.
        elapsed_s: time since the previous measurement; None: there was none, or it was too long ago.
        total_changed_at_ms: the last change of the total rate. Its effect on the latency takes ``settle_s`` to show.
    """
    trend = previous or ProbeTrend()
    if ratio is None:
        return replace(trend, ratio=None, since_ms=0)
    if trend.ratio is None or elapsed_s is None:
        return replace(trend, ratio=ratio, since_ms=at_ms)
    # A measurement is used only if its whole window lies after the start of this series, and the total has not changed recently.
    window_is_incomplete = at_ms - trend.since_ms < 1000 * WINDOW_S
    total_changed_recently = at_ms - total_changed_at_ms <= 1000 * limits.settle_s
    if window_is_incomplete or total_changed_recently or elapsed_s <= 0 or max(trend.ratio, ratio) < _RATIO_MIN:
        return replace(trend, ratio=ratio)
    spread = update_spread(current_spread(trend, limits), trend.ratio, ratio, elapsed_s, limits)
    return replace(trend, ratio=ratio, spread=spread, learned_s=trend.learned_s + elapsed_s)


def is_spread_known(trend: ProbeTrend, limits: MutationLimits) -> bool:
    """Returns whether the spread was measured for so long that its initial value hardly influences it."""
    return trend.ratio is not None and trend.learned_s >= 2 * limits.decay_age_s


def current_spread(trend: ProbeTrend, limits: MutationLimits) -> float:
    """Returns the measured spread, or its initial value."""
    return limits.probe_spread_start if trend.spread is None else trend.spread


def update_spread(
    spread: float, previous_ratio: float, ratio: float, elapsed_s: float, limits: MutationLimits
) -> float:
    """Returns the spread after one more measurement, ``elapsed_s`` (above 0) after the previous one."""
    new_share = min(1.0, elapsed_s / WINDOW_S)
    change = math.log(max(_RATIO_MIN, ratio) / max(_RATIO_MIN, previous_ratio))
    # If ``new_share`` of the requests of two windows differ, the variance of ``change`` is 2 × new_share × the variance of one
    # window.
    variance = min(_SPREAD_MAX**2, change**2 / (2 * new_share))
    old_weight = math.exp(-elapsed_s / limits.decay_age_s)
    return math.sqrt(old_weight * spread**2 + (1 - old_weight) * variance)


def likely_ratio(trend: ProbeTrend, limits: MutationLimits) -> float:
    """Returns the ratio that random fluctuation alone may soon reach; 0 if no ratio is measured."""
    if trend.ratio is None:
        return 0.0
    return trend.ratio * (1 + limits.probe_margin_spreads * current_spread(trend, limits))
