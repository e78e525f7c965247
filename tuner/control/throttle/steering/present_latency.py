"""Computes the current p99 of produce requests from the p99 that Kafka reports, which covers minutes.

Kafka's histogram covers the requests of the last minutes with decreasing weights (Yammer's exponentially decaying reservoir). A few
slow seconds remain more than 1 % of these requests for two minutes, so this p99 shows the slowest seconds of the last two minutes.
Some collectors report another p99, which covers only the newest step. The mean latency of a window comes from two counters, so it
always covers only this window.

A rise is the difference of a latency from its baseline without copies. If the reported p99 covers minutes:

    current p99 = baseline + rise of the reported p99 × (current rise of the mean ÷ largest recent rise of the mean)

Two line fits show which p99 a collector reports. The rise of a p99 that covers minutes is proportional to the largest recent rise
of the mean. The rise of the other p99 is proportional to the current rise of the mean.

Invariant: the current p99 never exceeds the reported p99. Without a measured mean it equals the reported p99.
"""

from __future__ import annotations

import math

from tuner.core.broker_baseline import LATENCY_MS_MIN, BrokerBaseline
from tuner.core.value import value

# For this time, five slow seconds are at least 1 % of the weights in Yammer's reservoir.
_PEAK_S = 135.0
_PEAKS_MAX = 8
_FIT_S = 120.0  # Time over which the lines are fitted.
# Smallest peak of the mean, as a multiple of the mean without copies. A smaller peak is noise, because the mean of few requests
# varies by a third.
_PEAK_RATIO_MIN = 2.0
# A fit is better than the other only if the squared errors differ by this factor. A smaller difference is noise.
_CLEARLY_BETTER = 2.0
# Weights of a lower and of a higher value in the smoothed minimum of a latency.
_LOWER_WEIGHT, _HIGHER_WEIGHT = 0.3, 0.01


@value
class LineFit:
    """A line through the origin, fitted by least squares with weights that fall over time: sums of x·x and x·y."""

    xx: float = 0.0
    xy: float = 0.0

    def error(self, yy: float) -> float:
        """Returns the sum of squared errors; ``yy`` is the sum of y·y."""
        return yy - self.xy * self.xy / self.xx if self.xx > 0.0 else yy


@value
class PresentLatency:
    """The latency of the producers of one broker.

    Attributes:
        p99_ms: the current p99; 0: not known.
        mean_ms: the mean latency of the newest window; 0 if it is not known.
        peaks: windows of the last minutes, as (age in s, mean latency in ms). A window is kept only while no later mean is higher.
        moment_fit: fit of the p99's rise to the current rise of the mean.
        peak_fit: fit of the p99's rise to the largest recent rise of the mean.
        yy: the sum of the squared rises of the p99.
        low_p99_ms: smoothed minimum of the current p99, used while the baseline is not known; 0: not measured yet.
        low_mean_ms: the same for the mean.
    """

    p99_ms: float = 0.0
    mean_ms: float = 0.0
    peaks: tuple[tuple[float, float], ...] = ()
    moment_fit: LineFit = LineFit()
    peak_fit: LineFit = LineFit()
    yy: float = 0.0
    low_p99_ms: float = 0.0
    low_mean_ms: float = 0.0


def update_latency(
    before: PresentLatency,
    mean_ms: float | None,
    p99_ms: float,
    step_s: float,
    baseline: BrokerBaseline | None,
) -> PresentLatency:
    """Returns the state after one more signal.

    Args:
        before: the previous state.
        mean_ms: mean latency of the signal's window; None if it is not known.
        p99_ms: the p99 that the signal reports; 0 if it is not known.
        step_s: seconds since the previous signal.
        baseline: the broker's usual latency without copies; None: not known.
    """
    if mean_ms is None or mean_ms < LATENCY_MS_MIN or p99_ms <= 0.0:
        low_p99_ms = low_latency_ms(p99_ms, before.low_p99_ms)
        return PresentLatency(p99_ms, low_p99_ms=low_p99_ms, low_mean_ms=before.low_mean_ms)
    older = tuple(
        (age_s + step_s, peak_ms) for age_s, peak_ms in before.peaks if age_s + step_s <= _PEAK_S and peak_ms > mean_ms
    )
    peaks = (*older[: _PEAKS_MAX - 1], (0.0, mean_ms))
    known_p99_ms = baseline.p99_ms if baseline is not None else None
    known_mean_ms = baseline.mean_ms if baseline is not None else None
    p99_floor_ms, mean_floor_ms = known_p99_ms or before.low_p99_ms, known_mean_ms or before.low_mean_ms
    if p99_floor_ms == 0.0 or mean_floor_ms == 0.0:  # The first signal.
        p99_floor_ms, mean_floor_ms = p99_ms, mean_ms
    rise, peak_rise = max(0.0, mean_ms - mean_floor_ms), max(0.0, peaks[0][1] - mean_floor_ms)
    p99_rise = max(0.0, p99_ms - p99_floor_ms)
    kept = math.exp(-step_s / _FIT_S)
    moment_fit, peak_fit = (
        _fit(before.moment_fit, rise, p99_rise, kept),
        _fit(before.peak_fit, peak_rise, p99_rise, kept),
    )
    yy = kept * before.yy + p99_rise * p99_rise
    present_ms = p99_ms
    is_peak = peaks[0][1] > _PEAK_RATIO_MIN * mean_floor_ms
    if is_peak and p99_rise > 0.0 and _CLEARLY_BETTER * peak_fit.error(yy) <= moment_fit.error(yy):
        present_ms = min(p99_ms, p99_floor_ms + p99_rise * rise / peak_rise)
    return PresentLatency(
        present_ms,
        mean_ms,
        peaks,
        moment_fit,
        peak_fit,
        yy,
        low_latency_ms(present_ms, before.low_p99_ms),
        low_latency_ms(mean_ms, before.low_mean_ms),
    )


def low_latency_ms(latency_ms: float, before_ms: float) -> float:
    """Returns the smoothed minimum of a latency after one more value; 0 while no value was measured.

    The result follows lower values quickly and higher values slowly, so that a single low sample does not determine it.
    """
    if latency_ms <= 0.0 or before_ms <= 0.0:
        return max(latency_ms, before_ms)
    weight = _LOWER_WEIGHT if latency_ms < before_ms else _HIGHER_WEIGHT
    low_ms: float = before_ms * (latency_ms / before_ms) ** weight
    return low_ms


def _fit(before: LineFit, x: float, y: float, kept: float) -> LineFit:
    return LineFit(kept * before.xx + x * x, kept * before.xy + x * y)
