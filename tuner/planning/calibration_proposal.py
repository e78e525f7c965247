"""Estimates from the steps of a calibration the rates that the controller sustains, and proposes a quota.

The estimate of a kind lies between the highest rate that kept the objective and the lowest that did not. It is the rate at which
the pressure would be 1, if the logarithm of the pressure grows in proportion to that of the rate. The two rates are its spread.

The proposal follows KIP-599. The worst case decides: the kind and size with the lowest rate that was kept. A reserve is left for
the load that the calibration did not have. Tenants are rarely active at the same time, so their quotas may add
up to more than the total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.token_bucket import MutationQuota
from tuner.planning.calibration_steps import MutationKind, StepResult, bracket_of

RESERVE_RATIO = 0.2  # Share of the measured rate: elections and configuration changes also need the controller.
OVER_ALLOCATION = 2.0  # As tuner.mutation_quota.over_allocation.


@dataclass(frozen=True, slots=True)
class MutationRateEstimate:
    """The rate that the controller sustains for one kind and size, in partitions/s.

    Attributes:
        rate_per_s: the rate at the objective; None: even the lowest rate exceeded it.
        low_per_s: the highest rate that kept the objective; None: no rate did.
        high_per_s: the lowest rate that exceeded the objective; None: no rate did, so the true rate is at least ``rate_per_s``.
        limited_by: the measure that ended the search, as text; empty: the calibration's own bounds ended it.
        steps: number of measured steps.
    """

    kind: MutationKind
    size: int
    rate_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    limited_by: str
    steps: int


@dataclass(frozen=True, slots=True)
class QuotaProposal:
    """The proposed numbers, and the estimate that they are derived from.

    Attributes:
        total_per_s: the total rate of all tenants together.
        tenant_per_s: ``controller_mutation_rate`` of each tenant.
        burst: partitions that a tenant may create at once, from a full bucket.
        burst_s: how long the controller needs for such a burst, at the measured rate.
    """

    worst: MutationRateEstimate
    total_per_s: float
    tenants: int
    tenant_per_s: float
    burst: float
    burst_s: float


def estimate_rates(steps: Sequence[StepResult]) -> list[MutationRateEstimate]:
    """Returns an estimate for each kind and size that was measured, by size, in the order of ``MutationKind``."""
    sizes = sorted({step.size for step in steps})
    pairs = [(kind, size) for size in sizes for kind in MutationKind]
    return [
        _estimate(steps, kind, size)
        for kind, size in pairs
        if any((step.kind, step.size) == (kind, size) for step in steps)
    ]


def propose_quota(
    estimates: Sequence[MutationRateEstimate], tenants: int, samples: int, window_s: float
) -> QuotaProposal | None:
    """Returns the proposal; None if no rate kept the objective.

    Args:
        tenants: number of tenants among which the total is divided.
        samples: controller.quota.window.num; ``window_s`` is controller.quota.window.size.seconds.
    """
    kept = [(estimate.low_per_s, estimate) for estimate in estimates if estimate.low_per_s is not None]
    # If a kind exceeds the objective even at its lowest rate, no quota can keep the objective.
    if not kept or len(kept) < len(estimates):
        return None
    low_per_s, worst = min(kept, key=lambda each: each[0])
    total = round_down((1 - RESERVE_RATIO) * low_per_s)
    tenant = round_down(min(total, OVER_ALLOCATION * total / tenants))
    burst = MutationQuota(rate_per_s=tenant, samples=samples, window_s=window_s).burst
    return QuotaProposal(worst, total, tenants, tenant, burst, burst / low_per_s)


def round_down(value: float) -> float:
    """Returns the value with two significant digits, rounded down, because a quota must not exceed what was measured."""
    digits = 1 - math.floor(math.log10(value))
    factor = 10.0**digits
    return math.floor(value * factor + 1e-9) / factor


def _estimate(steps: Sequence[StepResult], kind: MutationKind, size: int) -> MutationRateEstimate:
    bracket = bracket_of(steps, kind, size)
    low, high = bracket.low_per_s, bracket.high_per_s
    rate, limited_by = low, ""
    if high is not None:
        worst = max(bracket.exceeded, key=lambda step: step.pressure or 0.0)
        limited_by = _limit_text(worst)
        if low is not None:
            rate = _interpolate(low, high, bracket.kept, worst)
    own = sum((step.kind, step.size) == (kind, size) for step in steps)
    return MutationRateEstimate(kind, size, rate, low, high, limited_by, own)


def _limit_text(exceeded: StepResult) -> str:
    if exceeded.exceeds_objective:
        return exceeded.text
    return "the load could not be measured" if exceeded.is_unmeasured else "the requests did not keep up with the rate"


def _interpolate(low: float, high: float, kept: Sequence[StepResult], exceeded: StepResult) -> float:
    """Returns the rate at which the pressure is 1, between the two rates."""
    if not exceeded.exceeds_objective and not exceeded.is_unmeasured:
        return min(high, max(low, exceeded.achieved_per_s))
    below, above = max((step.pressure or 0.0 for step in kept), default=0.0), exceeded.pressure
    if above is None or above <= 1 or below <= 0 or below >= 1:
        return low if below >= 1 else math.sqrt(low * high)
    share = math.log(1 / below) / math.log(above / below)
    return float(low * (high / low) ** share)
