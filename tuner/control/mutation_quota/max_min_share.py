"""Shares a total rate among tenants by weighted max–min fairness, exactly.

    share = min(demand, max(guaranteed, weight × λ)), where λ is the value at which the shares add up to the total

Invariant:
    - The shares add up to min(total, sum of all demands).
    - No share exceeds its demand.
    - No share is below min(guaranteed, demand), unless the sum of these minima exceeds the total. Then each share is its minimum
      times the same factor.

Terms:
    demand      the most that a tenant could use; infinite while it is backlogged, because its demand cannot be measured.
    guaranteed  the rate that the operator has configured as the tenant's minimum (``rate_per_s_min``).
    λ           the rate for a weight of 1 (``rate_per_weight``); the same for all tenants that could use more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """One tenant's claim to a share; the module's docstring explains its fields."""

    demand: float
    weight: float = 1.0
    guaranteed: float = 0.0

    def __post_init__(self) -> None:
        assert self.weight > 0
        assert self.demand >= 0
        assert 0 <= self.guaranteed < math.inf

    @property
    def guaranteed_demand(self) -> float:
        """Returns the part of the demand that the guaranteed rate covers."""
        return min(self.demand, self.guaranteed)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The result.

    Attributes:
        shares: in the order of the claims.
        rate_per_weight: λ; infinite if all demands are met.
        guarantees_cut: the guaranteed rates alone exceed the total.
    """

    shares: tuple[float, ...]
    rate_per_weight: float
    guarantees_cut: bool = False


def share_max_min(total: float, claims: Sequence[Claim]) -> Sharing:
    """Returns the share of each claim, in O(n log n)."""
    assert total >= 0
    guaranteed = math.fsum(claim.guaranteed_demand for claim in claims)
    if guaranteed > total:
        factor = total / guaranteed
        return Sharing(tuple(claim.guaranteed_demand * factor for claim in claims), 0.0, guarantees_cut=True)
    if math.fsum(claim.demand for claim in claims) <= total:
        return Sharing(tuple(claim.demand for claim in claims), math.inf)
    rate = _find_rate_per_weight(total - guaranteed, claims)
    return Sharing(tuple(min(claim.demand, max(claim.guaranteed, claim.weight * rate)) for claim in claims), rate)


def _find_rate_per_weight(remaining: float, claims: Sequence[Claim]) -> float:
    """Returns λ by raising it from 0 until the remaining rate is used up.

    A share equals its guaranteed rate while λ is below guaranteed ÷ weight. It equals its demand while λ is above demand ÷ weight.
    Between these two values of λ the claim is active: its share grows in proportion to λ. The loop visits the two values of all
    claims in ascending order.

    Args:
        remaining: the rate left after all guaranteed rates; less than the remaining demand.
    """
    events: list[tuple[float, float]] = []  # (λ, change of the sum of the active weights)
    for claim in claims:
        if claim.demand > claim.guaranteed:
            events.append((claim.guaranteed / claim.weight, claim.weight))
            if claim.demand < math.inf:
                events.append((claim.demand / claim.weight, -claim.weight))
    # Because of rounding, a claim can become active and inactive at the same λ. Then it becomes active first.
    events.sort(key=lambda event: (event[0], -event[1]))
    rate, active_weight, active_count = 0.0, 0.0, 0
    # Rounding may leave ``active_weight`` above 0 when no claim is active, so ``active_count`` counts the active claims.
    for next_rate, weight_change in events:
        growth = active_weight * (next_rate - rate) if active_count > 0 else 0.0
        if growth > remaining:
            break
        remaining -= growth
        rate = next_rate
        active_count += 1 if weight_change > 0 else -1
        active_weight = active_weight + weight_change if active_count > 0 else 0.0
    return rate + max(0.0, remaining) / active_weight if active_weight > 0 else rate
