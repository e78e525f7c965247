"""Max–min fairness in exact arithmetic: a slow and simple reference for the tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tuner.control.mutation_quota.max_min_share import Claim


def oracle(whole: Fraction, claims: Sequence[Claim]) -> list[Fraction]:
    """Returns the shares: all shares grow in proportion to their weights until each claim is full."""
    most = sum((Fraction(c.guaranteed) + 1 for c in claims), Fraction(0)) + whole + 1  # Acts as infinity.
    wants = [min(Fraction(c.demand), most) if c.demand < math.inf else most for c in claims]
    floors = [min(want, Fraction(c.guaranteed)) for want, c in zip(wants, claims, strict=True)]
    weights = [Fraction(c.weight) for c in claims]
    if sum(floors) > whole:
        return [floor * whole / sum(floors) for floor in floors]
    fixed: dict[int, Fraction] = {}
    while len(fixed) < len(claims):
        free = [i for i in range(len(claims)) if i not in fixed]
        level = (whole - sum(fixed.values(), Fraction(0))) / sum((weights[i] for i in free), Fraction(0))
        # Claims whose guarantee is above the level are fixed first: that can only lower the level of the others.
        above = [i for i in free if floors[i] > weights[i] * level]
        full = [i for i in free if wants[i] < weights[i] * level]
        # Fixing both kinds at once may be wrong for one of them, so the kind with the larger sum comes first.
        over = sum((floors[i] - weights[i] * level for i in above), Fraction(0))
        under = sum((weights[i] * level - wants[i] for i in full), Fraction(0))
        if not above and not full:
            return [fixed.get(i, weights[i] * level) for i in range(len(claims))]
        fixed |= {i: floors[i] for i in above} if over >= under else {i: wants[i] for i in full}
    return [fixed[i] for i in range(len(claims))]
