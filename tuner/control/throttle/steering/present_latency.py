"""Computes the present p99 of produce requests from the p99 that Kafka reports, which may cover minutes.

Collectors differ in the time that a p99 covers. Kafka's histogram covers the requests of the last minutes with decreasing weights
(Yammer's exponentially decaying reservoir), so its p99 falls slowly after a burst. Other sources report the p99 of the newest step
or moment. The mean latency of a window comes from two counters and has no such memory.

The ratio of p99 and mean tells the sources apart. If p99 ÷ (mean with the weights of the reservoir) varies much less than p99 ÷
(mean of the newest window), the p99 is that of the last minutes. The present p99 is then the newest mean times the former ratio.

Invariant: the present p99 never exceeds the reported one. Without a measured mean it equals the reported one.
"""

from __future__ import annotations

import math

from tuner.core.value import value

_RESERVOIR_S = 1.0 / 0.015  # Weights in Yammer's reservoir fall by the factor e in this time.
_RATIO_S = 60.0  # Time over which the ratios are averaged.
_VARIANCE_START = 0.1  # Of both ratios, so the p99 counts as present until measurements show otherwise.
_MEMORY_VARIANCES = 2.0  # A smaller quotient of the two variances is chance.


@value
class LogRatio:
    """The logarithm of p99 ÷ mean, its mean and variance over time."""

    mean: float
    variance: float = _VARIANCE_START


@value
class PresentLatency:
    """The latency of the producers of one broker.

    Attributes:
        p99_ms: the present p99; 0 if it is not known.
        reservoir_mean_ms: mean latency with the weights of Kafka's reservoir.
        window_ratio, reservoir_ratio: p99 ÷ mean of the newest window, and p99 ÷ ``reservoir_mean_ms``; None without a mean.
    """

    p99_ms: float = 0.0
    reservoir_mean_ms: float = 0.0
    window_ratio: LogRatio | None = None
    reservoir_ratio: LogRatio | None = None


def update_latency(before: PresentLatency, mean_ms: float | None, p99_ms: float, step_s: float) -> PresentLatency:
    """Returns the state after one more signal.

    Args:
        before: the state before.
        mean_ms: mean latency of the signal's window; None if it is not known.
        p99_ms: the p99 that the signal reports; 0 if it is not known.
        step_s: seconds since the signal before.
    """
    if mean_ms is None or mean_ms <= 0.0 or p99_ms <= 0.0:
        return PresentLatency(p99_ms)
    if before.window_ratio is None or before.reservoir_ratio is None:
        ratio = LogRatio(_log_ratio(p99_ms, mean_ms))
        return PresentLatency(p99_ms, mean_ms, ratio, ratio)
    weight = 1.0 - math.exp(-step_s / _RESERVOIR_S)
    reservoir_mean_ms = before.reservoir_mean_ms + weight * (mean_ms - before.reservoir_mean_ms)
    window_ratio = _update_ratio(before.window_ratio, _log_ratio(p99_ms, mean_ms), step_s)
    reservoir_ratio = _update_ratio(before.reservoir_ratio, _log_ratio(p99_ms, reservoir_mean_ms), step_s)
    remembers = window_ratio.variance > _MEMORY_VARIANCES * reservoir_ratio.variance
    present_ms = min(p99_ms, mean_ms * math.exp(reservoir_ratio.mean)) if remembers else p99_ms
    return PresentLatency(present_ms, reservoir_mean_ms, window_ratio, reservoir_ratio)


def _log_ratio(p99_ms: float, mean_ms: float) -> float:
    # No latency is a million times another; a source that reports one is wrong.
    return math.log(min(1e6, max(1e-6, p99_ms / mean_ms)))


def _update_ratio(before: LogRatio, log_ratio: float, step_s: float) -> LogRatio:
    weight = 1.0 - math.exp(-step_s / _RATIO_S)
    error = log_ratio - before.mean
    return LogRatio(before.mean + weight * error, before.variance + weight * (error * error - before.variance))
