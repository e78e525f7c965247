"""How much of what clients have felt lately does the p99 that Kafka tells know already, and what has it not forgotten yet?

Intuition: Kafka makes its p99 of a reservoir that forgets a request's weight in a minute and its tail in several. So it goes
up soon, comes down late, and is smooth however unevenly clients are served: what comes and goes within seconds is inside it.
The mean of a window remembers nothing older than the window. Two things follow from the two together.

    Where the mean has sunk well below what it was while the p99 was made, clients have been relieved, and the p99 has not heard
    of it: it sinks with the mean here, and what it remembers takes nothing more from the move. A p99 that goes beyond what it was
    then is news.

    A p99 of this moment has to be kept a long way from its objective, as the next may be another by a third. One that stands
    still while the mean goes up and down holds those moments already, and may come nearer to it.

Invariant: what is felt is never more than the p99. Where no mean is measured, everything is as if there were none.

Vocabulary:
    mean        ms, of the requests of the newest window.
    remembered  the mean of the worst that the p99 is still made of. A hundredth of the requests makes a p99, so what was worst
                stays in it for as long as it is a hundredth of the reservoir: twice the time in which weights fall by e, and more.
    swing       by how much a step differs from the one before, as a share; of the mean, and of the p99.
    momentary   how much of the p99 is of this moment, 0 to 1: all of it where it swings nearly as the mean does.
"""

from __future__ import annotations

import math
from dataclasses import field

from tuner.control.throttle.objective import LawLimits
from tuner.control.throttle.steering.latest_step import Steps, with_mean
from tuner.core.value import value

# Yammer's ExponentiallyDecayingReservoir, of which Kafka makes its percentiles: weights fall by e in 1 ÷ 0.015 s. A third of what
# it holds is a hundredth after three and a half times that; twice forgets too early rather than too late.
_REMEMBERS_S = 2.0 / 0.015
# Of the mean's swing: from the one on the p99's is the same, for the newest step of a mean is a difference and errs; up to the
# other it is that of a memory. Real brokers come down to a tenth within a minute of a move, a p99 without memory stays above.
_ALIKE, _UNLIKE = 0.5, 0.2
_SWING_START = 0.1  # Of both: the p99 is taken to be momentary until it is seen not to be.


@value
class LatencyFilter:
    """By the producers of one broker; ``mean_ms`` is None where nothing is known of them."""

    mean_ms: float | None = None
    remembered_ms: float = 0.0
    steps: Steps = field(default_factory=Steps)
    p99_ms: float = 0.0
    worst_p99_ms: float = 0.0  # When the mean was what is remembered.
    mean_swing: float = _SWING_START
    p99_swing: float = _SWING_START


def with_window(
    felt: LatencyFilter, mean_ms: float | None, p99_ms: float, step_s: float, steps: int, whole: bool, limits: LawLimits
) -> LatencyFilter:
    """What is known after one more window.

    Args:
        mean_ms: of its requests; None where it was not measured, or next to nobody wrote.
        p99_ms: as Kafka tells it with this window.
        step_s: since the window before.
        steps: how many of them the window spans.
        whole: no look was lost since the window before.
    """
    if mean_ms is None or p99_ms <= 0.0:
        return LatencyFilter()
    newest = with_mean(felt.steps if whole else Steps(), mean_ms, steps)
    if felt.mean_ms is None:
        return LatencyFilter(mean_ms, mean_ms, newest, p99_ms, p99_ms)
    forgets = 1.0 - math.exp(-step_s / _REMEMBERS_S)
    remembered_ms, worst_p99_ms = felt.remembered_ms + forgets * (mean_ms - felt.remembered_ms), felt.worst_p99_ms
    if mean_ms >= remembered_ms:
        remembered_ms, worst_p99_ms = mean_ms, p99_ms
    mean_swing, p99_swing = felt.mean_swing, felt.p99_swing
    if whole:
        apart_ms = abs((newest.newest or 0.0) - (felt.steps.newest or 0.0))
        mean_swing += limits.swing_gain * (min(1.0, apart_ms / max(mean_ms, 1e-9)) - mean_swing)
        p99_swing += limits.swing_gain * (min(1.0, abs(p99_ms - felt.p99_ms) / p99_ms) - p99_swing)
    return LatencyFilter(mean_ms, remembered_ms, newest, p99_ms, worst_p99_ms, mean_swing, p99_swing)


def felt_ms(p99_ms: float, felt: LatencyFilter, limits: LawLimits) -> float:
    """The p99 without what it remembers of a time that is over."""
    if felt.mean_ms is None or felt.mean_ms >= limits.relieved_ratio * felt.remembered_ms:
        return p99_ms
    # Higher than it was then: that is no memory of it.
    if p99_ms > felt.worst_p99_ms:
        return p99_ms
    # What is of this moment has come down by itself.
    share = momentary(felt)
    return p99_ms * (share + (1.0 - share) * felt.mean_ms / felt.remembered_ms)


def momentary(felt: LatencyFilter) -> float:
    if felt.mean_ms is None:
        return 1.0
    alike = felt.p99_swing / max(felt.mean_swing, 1e-9)
    return min(1.0, max(0.0, (alike - _UNLIKE) / (_ALIKE - _UNLIKE)))
