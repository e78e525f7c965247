"""What do producers feel now, and how far below its objective must that be kept?

Intuition: the p99 that Kafka tells is of a reservoir that forgets a request's weight in a minute and its tail in several. So it
comes down long after clients have been relieved, and it is smooth however unevenly they are served. The mean of a window
remembers nothing older than the window. Where that has sunk well below what it was while the p99 was made, the p99 has not
heard of it yet, and sinks with it here. And how far it goes up and down from step to step says how near the p99 may be
let to its objective: a latency that swings by a sixth has to be kept a long way off, one that stands still has not.

Invariant: what is felt is never more than the p99 and never less than the share of it that the mean has kept; the aim is never
nearer to the objective than ``latency_aim_max``, and where no mean is measured p99 and aim are those of the limits alone.

Vocabulary:
    mean        ms, of the requests of the newest window.
    remembered  the same with Kafka's memory: a mean whose weights fall as the reservoir's do.
    swing       how much the newest step of the mean differs from the one before, as a share of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tuner.decide.newest import Steps, with_mean
from tuner.model.objectives import LawLimits

# Yammer's ExponentiallyDecayingReservoir, of which Kafka makes its percentiles: weights fall by e in 1 ÷ 0.015 s.
_REMEMBERS_S = 1.0 / 0.015


@dataclass(frozen=True, slots=True)
class Felt:
    """Of the producers of one broker; nothing is known of them before their first mean."""

    steps: Steps = field(default_factory=Steps)
    mean_ms: float | None = None
    remembered_ms: float | None = None
    swing: float | None = None


def with_window(felt: Felt, mean_ms: float | None, step_s: float, steps: int, whole: bool, limits: LawLimits) -> Felt:
    """What is known after one more window.

    Args:
        mean_ms: of its requests; None where it was not measured, or nobody wrote.
        step_s: since the window before.
        steps: how many of them the window spans.
        whole: no look was lost since the window before.
    """
    if mean_ms is None:
        return Felt()
    newest = with_mean(felt.steps if whole else Steps(), mean_ms, steps)
    if felt.remembered_ms is None:
        # It is calm only once it has been seen to be.
        return Felt(newest, mean_ms, mean_ms, (1.0 - limits.latency_aim) / limits.swings)
    forgets = 1.0 - math.exp(-step_s / _REMEMBERS_S)
    remembered = felt.remembered_ms + forgets * (mean_ms - felt.remembered_ms)
    swing = felt.swing if felt.swing is not None else 0.0
    before, now = felt.steps.newest, newest.newest
    if whole and before is not None and now is not None:
        swing += limits.swing_gain * (min(1.0, abs(now - before) / max(mean_ms, 1e-9)) - swing)
    return Felt(newest, mean_ms, remembered, swing)


def felt_ms(p99_ms: float, felt: Felt, limits: LawLimits) -> float:
    """The p99 without what it remembers of a time that is over."""
    if felt.mean_ms is None or not felt.remembered_ms:
        return p99_ms
    kept = felt.mean_ms / felt.remembered_ms
    return p99_ms * kept if kept < limits.relieved_ratio else p99_ms


def aim(felt: Felt, limits: LawLimits) -> float:
    """Of the objective: where the p99 is to be held."""
    if felt.swing is None:
        return limits.latency_aim
    return min(limits.latency_aim_max, max(limits.latency_aim, 1.0 - limits.swings * felt.swing))
