"""Measures how smoothly the throttles work in a run: how much their rates vary, and how evenly bytes pass under them.

The simulator and the benchmarks on real brokers use these functions. They only compute; they read no clock and no cluster.

Terms, for one throttle (a leader or follower side of a broker) and one interval i of the recording:

    r  rate that is set at the end of the interval, bytes/s; ∞: no throttle is set
    p  bytes/s that passed and count against the throttle
    Δ  length of the interval in seconds

Only intervals in which the side has bytes to copy ("work") are used, because without work nothing passes at any rate.

    rate variation   Σ over minutes (Σ |r_i − r_(i−1)| − |Σ (r_i − r_(i−1))|) ÷ mean of r ÷ minutes     1/min
    burst            max p ÷ r                                                                          ratio
    undershoot       Σ Δ·max(0, r − p) ÷ Σ Δ·r                                                          ratio
    silence          the longest time in which nothing passes                                           s
    writes           settings written ÷ brokers ÷ minutes                                               1/min

The rate variation is the total variation minus the net change of each minute. So only changes that are reversed count. A ramp, or
the reaction to a change of the load, counts 0. A rate that rises by 3 % and falls again every two seconds has a variation of
1.8/min.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.simulation.numbers import Bools, Floats

TREND_S = 60.0  # The net change within this time is the trend, which does not count as variation.


@dataclass(frozen=True, slots=True)
class Calm:
    """The measures of one run; None: the run has no throttle, or the measure was not recorded.

    Attributes:
        rate_variation_per_min: total variation of a rate beyond its trend ÷ its mean, per minute; as mean of all throttles, each
            weighted by the time in which it has work.
        burst_ratio_max: the highest value of (bytes that passed ÷ bytes that the rate allows), over all intervals and throttles.
        undershoot_ratio: bytes that the rates allow and that did not pass ÷ bytes that the rates allow. It is computed for the
            throttles of leaders and for those of followers, and the smaller value is used. The kind with the larger value is set
            with a margin above the copy's rate, so it does not limit the copy.
        silence_s_max: longest time in seconds in which nothing passes although work is left.
        config_writes_per_broker_min: settings written per broker and minute of the moves.
    """

    rate_variation_per_min: float | None = None
    burst_ratio_max: float | None = None
    undershoot_ratio: float | None = None
    silence_s_max: float | None = None
    config_writes_per_broker_min: float | None = None


@dataclass(frozen=True, slots=True)
class ThrottleSeries:
    """The recorded throttles of one kind, leaders or followers.

    Arrays have a row for each interval and a column for each throttle.
    """

    step_s: Floats  # One length for each interval.
    rate_bytes_per_s: Floats
    passed_bytes_per_s: Floats
    has_work: Bools  # At any time of the interval.

    @property
    def is_limiting(self) -> Bools:
        """By interval and throttle: True if a rate is set and work is left."""
        return self.has_work & np.isfinite(self.rate_bytes_per_s)


class Silence:
    """Follows the silence of several sides, interval by interval."""

    def __init__(self, sides: int) -> None:
        self._spans_s: Floats = np.zeros(sides)
        self.longest_s = 0.0

    def add(self, is_silent: Bools, step_s: float) -> None:
        """Adds an interval.

        Args:
            is_silent: by side: it has work left, and nothing passed.
            step_s: length of the interval.
        """
        self._spans_s = np.where(is_silent, self._spans_s + step_s, 0.0)
        self.longest_s = max(self.longest_s, float(self._spans_s.max(initial=0.0)))


def rate_variation_per_min(*kinds: ThrottleSeries) -> float | None:
    """Returns the rate variation of all throttles, weighted by time; None if no rate is ever set."""
    variation, minutes = 0.0, 0.0
    for series in kinds:
        is_limiting = series.is_limiting
        rate = np.where(is_limiting, series.rate_bytes_per_s, 0.0)
        limiting_s = series.step_s @ is_limiting  # By throttle: the time in which a rate is set and work is left.
        is_set = limiting_s > 0
        if not is_set.any():
            continue
        mean = (series.step_s @ rate)[is_set] / limiting_s[is_set]
        changes = np.diff(rate, axis=0) * (is_limiting[1:] & is_limiting[:-1])
        variation += float((_beyond_trend(changes, series.step_s)[is_set] / np.maximum(mean, 1.0)).sum())
        minutes += float(limiting_s.sum()) / 60.0
    return variation / minutes if minutes > 0 else None


def _beyond_trend(changes: Floats, step_s: Floats) -> Floats:
    """Returns by throttle the changes of its rate in bytes/s, minus the net change of each minute."""
    if len(changes) == 0:
        return np.zeros(changes.shape[1])
    starts_s = np.cumsum(step_s) - step_s
    minute = np.floor(starts_s[1:] / TREND_S)
    firsts = np.flatnonzero(np.diff(minute, prepend=-1.0))
    total = np.add.reduceat(np.abs(changes), firsts, axis=0)
    net = np.add.reduceat(changes, firsts, axis=0)
    beyond: Floats = (total - np.abs(net)).sum(axis=0)
    return beyond


def burst_ratio_max(*kinds: ThrottleSeries) -> float | None:
    """Returns the highest ratio of passed bytes to allowed bytes of any interval; None if no rate is ever set."""
    ratios = [
        float(
            (
                series.passed_bytes_per_s[series.is_limiting]
                / np.maximum(series.rate_bytes_per_s[series.is_limiting], 1.0)
            ).max()
        )
        for series in kinds
        if series.is_limiting.any()
    ]
    return max(ratios, default=None)


def undershoot_ratio(*kinds: ThrottleSeries) -> float | None:
    """Returns the undershoot of leaders or of followers, whichever is smaller; None if no rate is ever set.

    The first and the last interval of a side's work are left out, because the side has work only in a part of them.
    """
    ratios = []
    for series in kinds:
        work = series.has_work
        inner = np.zeros_like(work)
        inner[1:-1] = work[:-2] & work[1:-1] & work[2:]
        inner &= series.is_limiting
        allowed = series.step_s @ np.where(inner, series.rate_bytes_per_s, 0.0)
        missing = np.where(inner, np.maximum(series.rate_bytes_per_s - series.passed_bytes_per_s, 0.0), 0.0)
        if allowed.sum() > 0:
            ratios.append(float((series.step_s @ missing).sum() / allowed.sum()))
    return min(ratios, default=None)


def writes_per_broker_min(writes: int, brokers: int, duration_s: float) -> float:
    """Returns the settings written per broker and minute; a run shorter than a second counts as a second."""
    return writes / brokers / (max(duration_s, 1.0) / 60.0)
