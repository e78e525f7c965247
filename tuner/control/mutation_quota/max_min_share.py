"""Who gets how much of what the controller bears: weighted max–min fairness, exactly.

Intuition: water poured into vessels of different widths that stand on one floor and are joined below. It stands equally high in
all of them, but in those that are full sooner, and in those that had more in them before. The height is the same for all who
could use more: whoever has less than another of the same weight has all it wants.

    share = min(want, max(floor, weight × λ)), with the one λ at which the shares add up to the whole

Invariant: shares add up to the whole, or to all wants where these are less. No share is above its want, none is below its floor
(or its want, where that is less) unless the floors alone are more than the whole: then every floor is cut by the same factor.

Vocabulary:
    want    what a tenant could use at most; infinite where it is held back and nobody knows.
    floor   what it was promised.
    λ       the water's height: the rate for a weight of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    demand: float
    weight: float = 1.0
    guaranteed: float = 0.0

    def __post_init__(self) -> None:
        assert self.weight > 0
        assert self.demand >= 0
        assert 0 <= self.guaranteed < math.inf

    @property
    def guaranteed_demand(self) -> float:
        return min(self.demand, self.guaranteed)


@dataclass(frozen=True, slots=True)
class Sharing:
    shares: tuple[float, ...]  # In the order of the claims.
    rate_per_weight: float  # λ; infinite where everybody has all it wants.
    guarantees_cut: bool = False  # The floors alone were more than the whole.


def share_max_min(whole: float, claims: Sequence[Claim]) -> Sharing:
    """In n log n: between two heights at which a vessel begins or ends to fill, the water rises evenly."""
    assert whole >= 0
    promised = math.fsum(claim.guaranteed_demand for claim in claims)
    if promised > whole:
        factor = whole / promised
        return Sharing(tuple(claim.guaranteed_demand * factor for claim in claims), 0.0, guarantees_cut=True)
    if math.fsum(claim.demand for claim in claims) <= whole:
        return Sharing(tuple(claim.demand for claim in claims), math.inf)
    level = _level(whole - promised, claims)
    return Sharing(tuple(min(claim.demand, max(claim.guaranteed, claim.weight * level)) for claim in claims), level)


def _level(left: float, claims: Sequence[Claim]) -> float:
    """λ, with so much to pour in after every floor is served; the wants are more than that."""
    heights: list[tuple[float, float]] = []  # (height at which the width changes, by how much)
    for claim in claims:
        if claim.demand > claim.guaranteed:
            heights.append((claim.guaranteed / claim.weight, claim.weight))
            if claim.demand < math.inf:
                heights.append((claim.demand / claim.weight, -claim.weight))
    # At one height, where two may meet by rounding, nobody leaves before having joined.
    heights.sort(key=lambda at: (at[0], -at[1]))
    level, width, joined = 0.0, 0.0, 0
    for height, change in heights:
        if joined > 0 and left < width * (height - level):
            break
        left -= width * (height - level) if joined > 0 else 0.0
        level = height
        # Counted beside the sum of widths, which after many that came and went is not quite 0 when it should be.
        joined += 1 if change > 0 else -1
        width = width + change if joined > 0 else 0.0
    return level + max(0.0, left) / width if width > 0 else level
