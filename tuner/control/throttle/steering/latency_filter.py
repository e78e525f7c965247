"""Removes the memory of earlier peaks from Kafka's produce p99, and tells how fast the p99 reacts.

Kafka computes percentiles from an exponentially decaying reservoir (Yammer metrics). So the p99 rises quickly, falls over
minutes, and is smooth. The mean of the newest window has no such memory. A comparison of p99 and mean gives two corrections:

1. If the mean has fallen well below the mean at the time of the worst p99, clients have recovered. The p99 is scaled down with
   the mean. A p99 above that worst p99 is new information and is not scaled.
2. If the mean varies from step to step while the p99 stays flat, the p99 already contains those variations. Then the p99 may be
   closer to the objective (see headroom.py).

Invariant: the corrected p99 never exceeds Kafka's. Without a measured mean it equals Kafka's.

Terms:
    variation       change of a value from one step to the next, as a share of the value.
    fast component  share of the p99 (0 to 1) that follows the newest step; 1 if the p99 varies nearly as much as the mean.
"""

from __future__ import annotations

import math
from dataclasses import field

from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.latest_step import StepRates, append_step_from_mean
from tuner.core.value import value

# In Yammer's ExponentiallyDecayingReservoir weights fall by the factor e in τ = 1 ÷ 0.015 s. A peak that fills a third of the
# reservoir shrinks to a hundredth, and so stops mattering for the p99, after 3.5 τ. The 2 τ used here forget a peak too early
# rather than too late.
_PEAK_MEMORY_S = 2.0 / 0.015
# Variation of the p99 ÷ variation of the mean. From the first ratio on, the fast component is 1. Below the second ratio it is 0:
# the p99 only repeats the past. On real brokers the ratio falls to a tenth within a minute of a move.
_FAST_RATIO, _SLOW_RATIO = 0.5, 0.2
_VARIATION_START = 0.1  # Equal for mean and p99, so the p99 counts as fast until measurements show otherwise.


@value
class LatencyFilter:
    """The filter's state for the producers of one broker; all defaults if their mean latency is not known.

    Attributes:
        mean_ms: mean latency of the newest window; None if that is not known.
        peak_mean_ms: mean latency at the worst p99; decays towards ``mean_ms``.
        steps: mean latency by step, ms.
        p99_ms: Kafka's newest p99.
        peak_p99_ms: the p99 at ``peak_mean_ms``.
        mean_variation: smoothed variation of the mean.
        p99_variation: smoothed variation of the p99.
    """

    mean_ms: float | None = None
    peak_mean_ms: float = 0.0
    steps: StepRates = field(default_factory=StepRates)
    p99_ms: float = 0.0
    peak_p99_ms: float = 0.0
    mean_variation: float = _VARIATION_START
    p99_variation: float = _VARIATION_START


def update_filter(
    before: LatencyFilter,
    mean_ms: float | None,
    p99_ms: float,
    step_s: float,
    steps_in_window: int,
    no_signal_lost: bool,
    limits: ControlLimits,
) -> LatencyFilter:
    """Returns the state after one more window.

    Args:
        before: the state after the window before.
        mean_ms: mean latency of the window; None if it was not measured or hardly anything was written.
        p99_ms: Kafka's p99 at the end of the window.
        step_s: seconds since the window before.
        steps_in_window: how many steps the window spans.
        no_signal_lost: no signal was lost since the window before.
    """
    if mean_ms is None or p99_ms <= 0.0:
        return LatencyFilter()
    steps = append_step_from_mean(before.steps if no_signal_lost else StepRates(), mean_ms, steps_in_window)
    if before.mean_ms is None:
        return LatencyFilter(mean_ms, peak_mean_ms=mean_ms, steps=steps, p99_ms=p99_ms, peak_p99_ms=p99_ms)
    decay = 1.0 - math.exp(-step_s / _PEAK_MEMORY_S)
    peak_mean_ms = before.peak_mean_ms + decay * (mean_ms - before.peak_mean_ms)
    peak_p99_ms = before.peak_p99_ms
    if mean_ms >= peak_mean_ms:
        peak_mean_ms, peak_p99_ms = mean_ms, p99_ms
    mean_variation, p99_variation = before.mean_variation, before.p99_variation
    if no_signal_lost:
        mean_change_ms = abs((steps.newest or 0.0) - (before.steps.newest or 0.0))
        mean_variation += limits.variation_gain * (min(1.0, mean_change_ms / max(mean_ms, 1e-9)) - mean_variation)
        p99_variation += limits.variation_gain * (min(1.0, abs(p99_ms - before.p99_ms) / p99_ms) - p99_variation)
    return LatencyFilter(mean_ms, peak_mean_ms, steps, p99_ms, peak_p99_ms, mean_variation, p99_variation)


def current_p99_ms(p99_ms: float, state: LatencyFilter, limits: ControlLimits) -> float:
    """Returns the p99 (ms) without the reservoir's memory of an earlier peak."""
    if state.mean_ms is None or state.mean_ms >= limits.mean_relief_ratio * state.peak_mean_ms:
        return p99_ms
    # A p99 above the remembered peak is new information, not memory.
    if p99_ms > state.peak_p99_ms:
        return p99_ms
    # The fast component of the p99 has fallen by itself, so only the remainder is scaled down.
    fast = fast_component(state)
    return p99_ms * (fast + (1.0 - fast) * state.mean_ms / state.peak_mean_ms)


def fast_component(state: LatencyFilter) -> float:
    """Returns the share of the p99 (0 to 1) that follows the newest step."""
    if state.mean_ms is None:
        return 1.0
    ratio = state.p99_variation / max(state.mean_variation, 1e-9)
    return min(1.0, max(0.0, (ratio - _SLOW_RATIO) / (_FAST_RATIO - _SLOW_RATIO)))
