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
of how it wavers at it.

Vocabulary:
    ratio    felt ÷ objective
    spread   of the ratio at one total, as a share of it: a standard deviation, of looks that have nothing in common.
"""

from __future__ import annotations

import math

from tuner.model.felt_window import WINDOW_S
from tuner.model.mutation import MutationLimits

_FAR = 0.5  # Of the objective: below it a little more work doubles what is felt, which is no wavering.
_ODD = 0.2  # Of one look what differs by more counts as this: a storm that begins or ends.


def spread_after(spread: float, before: float | None, ratio: float, since_s: float, limits: MutationLimits) -> float:
    """After one more look.

    Args:
        before: the ratio by the look before, ``since_s`` ago; None: there was none, or much may have come and gone.
    """
    if before is None or since_s <= 0 or min(before, ratio) < _FAR:
        return spread
    new = min(1.0, since_s / WINDOW_S)
    apart = min(_ODD, abs(math.log(ratio / before)))
    # Of two windows that share all but ``new`` of what is in them, the difference has 2 × new of the variance of one.
    found = apart**2 / (2 * new)
    known = math.exp(-since_s / limits.felt_spread_s)
    return math.sqrt(known * spread**2 + (1 - known) * found)


def likely_ratio(ratio: float, spread: float, limits: MutationLimits) -> float:
    """What it may well be by one of the next looks."""
    return ratio * (1 + limits.felt_sure * spread)
