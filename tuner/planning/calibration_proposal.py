"""Estimates from the steps of a calibration the rates that the controller sustains, and proposes a quota.

The estimate for a kind of mutation lies between ``low``, the highest rate that was kept, and ``high``, the lowest rate that failed
(calibration_steps.py). It is the rate at which the pressure would be 1 if log(pressure) is a linear function of log(rate) between
the two rates. ``low`` and ``high`` show how uncertain the estimate is.

The proposal follows KIP-599. It uses the kind and size with the lowest ``low``, and leaves a reserve for load that was absent
during the calibration. Tenants are rarely active at the same time, so their quotas may add up to more than the total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.token_bucket import MutationQuota
from tuner.planning.calibration_steps import MutationKind, StepResult, bracket_of

RESERVE_RATIO = 0.2  # Share of the measured rate: elections and configuration changes also need the controller.
OVER_ALLOCATION = 2.0  # The same as the default of tuner.mutation_quota.over_allocation.


@dataclass(frozen=True, slots=True)
class MutationRateEstimate:
    """The rate that the controller sustains for one kind and size, in partitions/s.

    Attributes:
        rate_per_s: the rate at which the pressure is 1; None: even the lowest rate failed.
        low_per_s: the highest rate that was kept; None: no rate was kept.
        high_per_s: the lowest rate that failed; None: no rate failed, so the true rate is at least ``rate_per_s``.
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
        worst: the estimate with the lowest rate that was kept.
        total_per_s: the total rate of all tenants together.
        tenant_per_s: ``controller_mutation_rate`` of each tenant.
        burst: partitions that a tenant may create at once, from a full bucket.
        burst_s: seconds that the controller needs for this burst, at the rate ``worst.low_per_s``.
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
    """Returns the proposal; None if there is a kind and size for which no rate was kept.

    Args:
        tenants: number of tenants among which the total is divided.
        samples: controller.quota.window.num.
        window_s: controller.quota.window.size.seconds.
    """
    kept = [(estimate.low_per_s, estimate) for estimate in estimates if estimate.low_per_s is not None]
    # If a kind fails even at its lowest rate, the controller cannot keep its objective under any quota.
    if not kept or len(kept) < len(estimates):
        return None
    low_per_s, worst = min(kept, key=lambda pair: pair[0])
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
        worst = max(bracket.failed, key=lambda step: step.pressure or 0.0)
        limited_by = _limit_text(worst)
        if low is not None:
            rate = _interpolate(low, high, bracket.kept, worst)
    step_count = sum((step.kind, step.size) == (kind, size) for step in steps)
    return MutationRateEstimate(kind, size, rate, low, high, limited_by, step_count)


def _limit_text(failed: StepResult) -> str:
    if failed.exceeds_objective:
        return failed.text
    return "the load could not be measured" if failed.is_unmeasured else "the requests did not keep up with the rate"


def _interpolate(low: float, high: float, kept: Sequence[StepResult], failed: StepResult) -> float:
    """Returns the rate between ``low`` and ``high`` at which the pressure is 1.

    Args:
        kept: the steps at the rate ``low``.
        failed: the worst step at the rate ``high``.
    """
    if not failed.exceeds_objective and not failed.is_unmeasured:
        return min(high, max(low, failed.achieved_per_s))
    below, above = max((step.pressure or 0.0 for step in kept), default=0.0), failed.pressure
    if above is None or above <= 1 or below <= 0 or below >= 1:
        return low if below >= 1 else math.sqrt(low * high)
    share = math.log(1 / below) / math.log(above / below)
    return float(low * (high / low) ** share)
