"""How near may what others feel come to its objective, if it is to stay within it?

Intuition: a boat moored below a bridge. How high its mast stands now says little; how much it bobs says how far below the bridge
it has to lie. On a quiet canal that is a hand's breadth, on a choppy one an arm's length. Whoever always leaves an arm's length
is safe, and moors half as many boats as the canal has room for.

What others feel is the tail of a few hundred requests, and when storms come is chance: with the same total it is another from one
half minute to the next. How much so is seen: the figure is of a window of half a minute that slides, so from one look to the next a
part of the window is new, and it wavers by that part's share of what two windows that have nothing in common would differ by.

    likely   what it may be by one of the next looks, if nothing changes: ratio × (1 + sure × spread)
    near     the likely is over the objective
    room     the likely is below the aim

Invariant: a margin is never below 0, and never what a single odd look makes of it. What is far below the objective says nothing
of how it wavers at it, and what a change of the total has made of it is no wavering.

Vocabulary:
    ratio    felt ÷ objective
    spread   of the ratio at one total, as a share of it: a standard deviation, of looks that have nothing in common.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.probe_window import WINDOW_S
from tuner.control.mutation_quota.state import ProbeTrend

_FAR = 0.5  # Of the objective: below it a little more work doubles what is felt, which is no wavering.
_SPREAD_MAX = 0.2  # That a look is taken to say: whatever differs by more has begun or ended.


def update_trend(
    before: ProbeTrend | None,
    ratio: float | None,
    at_ms: int,
    since_s: float | None,
    total_changed_at_ms: int,
    limits: MutationLimits,
) -> ProbeTrend:
    """After one more look.

    Args:
        since_s: the look before; None: there was none, or much may have come and gone since.
        total_changed_at_ms: when the total was last turned, which takes its time to be seen whole.
    """
    before = before or ProbeTrend()
    if ratio is None:
        return replace(before, ratio=None, since_ms=0)
    if before.ratio is None or since_s is None:
        return replace(before, ratio=ratio, since_ms=at_ms)
    # What the first looks are made of is a window that grows.
    grows, turned = (
        at_ms - before.since_ms < 1000 * WINDOW_S,
        at_ms - total_changed_at_ms <= 1000 * limits.hold_after_cut_s,
    )
    if grows or turned or since_s <= 0 or max(before.ratio, ratio) < _FAR:
        return replace(before, ratio=ratio)
    spread = update_spread(current_spread(before, limits), before.ratio, ratio, since_s, limits)
    return replace(before, ratio=ratio, spread=spread, learned_s=before.learned_s + since_s)


def is_spread_known(felt: ProbeTrend, limits: MutationLimits) -> bool:
    """Whether what it was taken to be is nearly forgotten."""
    return felt.ratio is not None and felt.learned_s >= 2 * limits.probe_spread_memory_s


def current_spread(felt: ProbeTrend, limits: MutationLimits) -> float:
    return limits.probe_spread_start if felt.spread is None else felt.spread


def update_spread(spread: float, before: float, ratio: float, since_s: float, limits: MutationLimits) -> float:
    """After one more look, ``since_s`` (above 0) after the one that found ``before``."""
    new = min(1.0, since_s / WINDOW_S)
    apart = math.log(max(_FAR, ratio) / max(_FAR, before))
    # Of two windows that share all but ``new`` of what is in them, the difference has 2 × new of the variance of one.
    found = min(_SPREAD_MAX**2, apart**2 / (2 * new))
    known = math.exp(-since_s / limits.probe_spread_memory_s)
    return math.sqrt(known * spread**2 + (1 - known) * found)


def likely_ratio(felt: ProbeTrend, limits: MutationLimits) -> float:
    """What it may well be by one of the next looks; 0 where it is not known."""
    return 0.0 if felt.ratio is None else felt.ratio * (1 + limits.probe_margin_spreads * current_spread(felt, limits))
