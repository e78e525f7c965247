"""Detects brokers that fall behind in applying metadata, and remembers the mutation rate that they could sustain.

The apply lag is the delay with which a broker applies the records of the metadata log. The lag stays low up to the highest rate
that the brokers sustain, and grows without end above this rate. Therefore only the growth of the lag reveals the sustained rate:

    lag growth       growth of the lag, in seconds per second; 0 unless the lag is the worst measure, the one that comes closest
                     to its limit in the controller's objective
    sustained rate   rate at which mutations arrive × (1 − lag growth)
    known limit      the sustained rate when the objective was last exceeded. After t seconds it has risen by
                     (t/T)³ × max(known limit, start rate), where T is ``known_limit_memory_s``.

Invariant: no function of this module raises the total. A shrinking lag does not prove that the sustained rate is higher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import TotalRate
from tuner.core.controller_pressure import Measure, Pressure


@dataclass(frozen=True, slots=True)
class TotalInputs:
    """The inputs of the total rate besides the pressure: its trend, the probe, forwarding, and the tenants' rates.

    Attributes:
        previous_pressure: pressure in the previous window; None: no previous window, or another node was the controller.
        lag_growth_ratio: growth of the lag, in seconds per second; 0 if the lag is not the worst measure.
        previous_lag_ms: lag in the previous window; None: not measured.
        is_new_window: no earlier cycle has used this window.
        probe_ratio: creation probe latency ÷ objective; 0: not configured or not measured.
        probe_likely_ratio: the value that ``probe_ratio`` may soon reach by random fluctuation alone (probe_margin.py).
        probe_spread_known: the fluctuation of ``probe_ratio`` was measured for long enough.
        near_cut_at_ms: when the total was last cut because probe latency or forwarding came near its objective.
        no_headroom_at_ms: when probe latency or forwarding last allowed no raise.
        forwarding: pressure of request forwarding at the brokers; None: not configured or not measured.
        guaranteed_per_s: sum of the tenants' guaranteed rates, each at most the tenant's demand.
        unmanaged_per_s: rate of the tenants that no managed quota limits.
        a_tenant_is_limited: at least one tenant is limited by its quota.
    """

    previous_pressure: float | None = None
    lag_growth_ratio: float = 0.0
    previous_lag_ms: float | None = None
    is_new_window: bool = True
    probe_ratio: float = 0.0
    probe_likely_ratio: float = 0.0
    probe_spread_known: bool = True
    near_cut_at_ms: int = 0
    no_headroom_at_ms: int = 0
    forwarding: Pressure | None = None
    guaranteed_per_s: float = 0.0
    unmanaged_per_s: float = 0.0
    a_tenant_is_limited: bool = False


def lag_growth_ratio(pressure: Pressure, previous_lag_ms: float | None, since_ms: int) -> float:
    """Returns the growth of the lag in seconds per second; 0 if another measure is the worst.

    Other measures are means over overlapping windows. The difference of two of their values is no growth rate.

    Args:
        since_ms: time between the previous and the present value of the lag.
    """
    if pressure.measure is not Measure.APPLY_LAG or previous_lag_ms is None or since_ms <= 0:
        return 0.0
    return (pressure.measured - previous_lag_ms) / since_ms


def is_falling_behind(pressure: Pressure, inputs: TotalInputs) -> bool:
    """Returns whether the lag exceeds its objective in two windows in a row and still grows. One window may contain a burst."""
    # ``lag_growth_ratio`` is above 0 only if the lag is the worst measure. So ``pressure`` is the pressure of the lag.
    return (
        inputs.is_new_window
        and pressure.ratio > 1
        and inputs.lag_growth_ratio > 0
        and (inputs.previous_pressure or 0.0) > 1
    )


def is_creeping_up(pressure: Pressure, inputs: TotalInputs, limits: MutationLimits) -> bool:
    """Returns whether the lag is within its objective, but would exceed it before a cut takes effect.

    To exclude a random value, the lag must also exceed the lag of an idle controller in this window and in the previous one.
    """
    if not inputs.is_new_window or inputs.lag_growth_ratio <= 0 or inputs.previous_lag_ms is None:
        return False
    is_idle = min(pressure.measured, inputs.previous_lag_ms) <= limits.idle_lag_ms_max
    expected_ms = pressure.measured + 1000 * limits.settle_s * inputs.lag_growth_ratio
    return not is_idle and expected_ms > pressure.objective


def is_first_lag_breach(pressure: Pressure, inputs: TotalInputs) -> bool:
    """Returns whether the lag exceeds its objective in this window but did not in the previous one."""
    return pressure.measure is Measure.APPLY_LAG and (inputs.previous_pressure or 0.0) <= 1


def known_limit_per_s(total: TotalRate, now_ms: int, limits: MutationLimits) -> float:
    """Returns the known limit, raised with its age; infinite if the objective was never exceeded."""
    if total.known_limit_per_s is None:
        return math.inf
    age_ratio = max(0, now_ms - total.known_limit_at_ms) / 1000 / limits.known_limit_memory_s
    # A very low limit would hardly rise in proportion to itself, so the increase is at least (age ratio)³ × the start rate.
    return total.known_limit_per_s + max(total.known_limit_per_s, limits.rate_per_s_start) * age_ratio**3


def sustained_per_s(arrival_per_s: float, inputs: TotalInputs, limits: MutationLimits) -> float:
    """Returns the rate that the brokers sustain: arrival rate × (1 − lag growth).

    One window may be an outlier, so the result is at least arrival rate × ``largest_cut_factor``.
    """
    return arrival_per_s * max(limits.largest_cut_factor, 1 - inputs.lag_growth_ratio)


def with_known_limit(
    total: TotalRate, arrival_per_s: float, inputs: TotalInputs, now_ms: int, limits: MutationLimits
) -> TotalRate:
    """Returns the total with a new known limit: the lower of the sustained rate and the known limit so far."""
    limit = min(sustained_per_s(arrival_per_s, inputs, limits), known_limit_per_s(total, now_ms, limits))
    return replace(total, known_limit_per_s=limit, known_limit_at_ms=now_ms)
