"""Computes the total rate of all tenants from the pressure on the controller. The pressure is 1 at the objective.

    cap    samples × window × cost × total ≤ ``burst_ms_max``. A full bucket lets its whole burst through before any feedback could
           react. With this cap, all buckets spent at once keep the controller busy for at most ``burst_ms_max``.
    raise  by half of the remaining headroom, at most one step, and only while some quota limits a tenant. The total also stays
           below a rate that was too high before (the known limit).
    cut    at once, in proportion to the excess. Two cases differ:
           - Brokers fall behind in applying metadata: the total is cut to less than the rate that they sustain.
           - Probe latency or request forwarding misses its objective: the cut is at least one step, but stops at a minimum.

Invariant: the total stays between ``rate_per_s_min`` and its cap. Missing measurements never raise it. A total that limits no
tenant is not raised.

Terms:
    total    partitions/s that all tenants together may create or delete.
    binding  the total limits at least one tenant.
    base     the part of the total that is in use. A cut starts from the base, because cutting an unused part would change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.control.mutation_quota.apply_lag import (
    TotalInputs,
    is_creeping_up,
    is_falling_behind,
    is_first_lag_breach,
    known_limit_per_s,
    sustained_per_s,
    with_known_limit,
)
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy
from tuner.control.mutation_quota.state import LearnedCost, TotalRate
from tuner.core.controller import ControllerObjective
from tuner.core.controller_pressure import Measure, Pressure


@dataclass(frozen=True, slots=True)
class _Cycle:
    """The inputs of one cycle besides the total and the pressure.

    Attributes:
        hold_is_over: ``settle_s`` has passed since the last cut.
    """

    inputs: TotalInputs
    base_per_s: float
    cap_per_s: float
    now_ms: int
    limits: MutationLimits
    hold_is_over: bool

    def bounded(self, rate_per_s: float) -> float:
        return _bound(rate_per_s, self.cap_per_s, self.limits)


def burst_cap_per_s(cost: LearnedCost, objective: ControllerObjective, limits: MutationLimits) -> float:
    """Returns the highest total, in partitions/s, at which all buckets together hold ``burst_ms_max`` of controller time.

    The quotas may add up to more than the total (``over_allocation``), so the cap holds only while few tenants burst at once, as
    KIP-599 assumes. With an over-allocation of 1 it always holds.
    """
    bucket_s = limits.samples * limits.window_s * (1 + limits.deadband_ratio)
    cap = objective.burst_ms_max / (bucket_s * cost.partition_total_ms)
    return max(limits.rate_per_s_min, min(limits.rate_per_s_max, cap))


def initial_total(
    pressure: Pressure, recent_per_s: float, cap: float, now_ms: int, limits: MutationLimits
) -> TotalRate:
    """Returns the first total: a little above the recent rate, or less if the pressure is already too high."""
    if pressure.ratio <= 1:
        rate = max(limits.rate_per_s_start, limits.demand_slack * recent_per_s)
    elif _is_light_load(recent_per_s, limits):
        rate = limits.rate_per_s_safe
    else:
        rate = recent_per_s / pressure.ratio
    return TotalRate(_bound(rate, cap, limits), changed_at_ms=now_ms)


def next_total(
    total: TotalRate,
    pressure: Pressure,
    inputs: TotalInputs,
    heartbeat_timeouts: bool,
    binding: bool,
    recent_per_s: float,
    cap: float,
    now_ms: int,
    limits: MutationLimits,
) -> tuple[TotalRate, QuotaReason]:
    """Returns the total after one more window, and the reason.

    Args:
        heartbeat_timeouts: the controller counted heartbeats of brokers that timed out.
        recent_per_s: sum of the tenants' rates, which decay slowly.
        cap: upper limit of the total, from ``burst_cap_per_s``.
    """
    rate = total.rate_per_s
    hold_is_over = now_ms - total.cut_at_ms >= limits.settle_s * 1000
    # A total that limits no tenant has no effect until it is cut to the rate in use.
    base = rate if binding else min(rate, limits.demand_slack * recent_per_s)
    cycle = _Cycle(inputs, base_per_s=base, cap_per_s=cap, now_ms=now_ms, limits=limits, hold_is_over=hold_is_over)
    # Rules in order of urgency; only the first one that applies is used. Brokers are about to be fenced, so the controller is
    # relieved at once, even if a tenant gets less than its share.
    if heartbeat_timeouts and hold_is_over:
        return _cut_to(total, base * limits.largest_cut_factor, QuotaReason.HEARTBEAT_TIMEOUTS, cycle)
    minimum = min(cap, _forwarding_minimum_per_s(inputs, limits))
    forwarding_is_full = _forwarding_ratio(inputs) >= limits.forwarding_target_ratio
    # The total is below the minimum of cuts for forwarding, because an earlier cut was for another measure. Now forwarding is the
    # worst measure, and it does not justify so low a total, so the total rises to forwarding's minimum.
    if pressure.measure is Measure.FORWARDING and forwarding_is_full and rate < minimum and binding and hold_is_over:
        return replace(total, rate_per_s=cycle.bounded(minimum), changed_at_ms=now_ms), QuotaReason.AT_MINIMUM
    if pressure.ratio > 1:
        if _is_light_load(recent_per_s, limits) and not (binding or inputs.a_tenant_is_limited):
            return _limit_to_safe_rate(total, cycle)
        next_rate, reason = _respond_to_excess(total, pressure, cycle)
        # The total is at the minimum of cuts for the worst measure, the probe latency. If forwarding also misses its objective, the
        # total may be cut further, because forwarding's minimum is lower.
        if reason is QuotaReason.AT_MINIMUM and inputs.forwarding is not None and inputs.forwarding.ratio > 1:
            return _respond_to_excess(total, inputs.forwarding, cycle)
        return next_rate, reason
    if rate > cap:
        return replace(total, rate_per_s=cap), QuotaReason.OVER_CAP
    if binding and hold_is_over and (early := _cut_in_advance(total, pressure, cycle)) is not None:
        return early
    return _raise(total, pressure, cycle, binding=binding)


def _limit_to_safe_rate(total: TotalRate, cycle: _Cycle) -> tuple[TotalRate, QuotaReason]:
    """Lowers an unused total to the safe rate. The few mutations do not cause the pressure, but a burst would add to it."""
    safe = cycle.limits.rate_per_s_safe
    if total.rate_per_s <= safe:
        return total, QuotaReason.NOT_BINDING
    if not (cycle.hold_is_over and cycle.inputs.is_new_window):
        return total, QuotaReason.SETTLING
    return _cut_to(total, safe, QuotaReason.OVER_OBJECTIVE, cycle)


def _respond_to_excess(total: TotalRate, pressure: Pressure, cycle: _Cycle) -> tuple[TotalRate, QuotaReason]:
    """Cuts the total because the pressure exceeds its objective, unless an earlier cut has not taken full effect yet."""
    inputs, base, now_ms, limits = cycle.inputs, cycle.base_per_s, cycle.now_ms, cycle.limits
    # If almost no mutations arrive, they do not cause the pressure, so no known limit is noted.
    in_use = base >= limits.rate_per_s_learnable
    limit_age_ms = now_ms - total.known_limit_at_ms
    if in_use and is_falling_behind(pressure, inputs) and limit_age_ms >= limits.settle_s * 1000:
        total = with_known_limit(total, base, inputs, now_ms, limits)
        drained = limits.drain_ratio * sustained_per_s(base, inputs, limits)
        return _cut_to(total, drained, QuotaReason.OVER_OBJECTIVE, cycle)
    # A backlog takes time to drain. If the pressure falls, the arrival rate is low enough, and no further cut is needed.
    previous = inputs.previous_pressure
    receding = previous is not None and pressure.ratio < limits.receding_ratio * previous
    if not inputs.is_new_window or not cycle.hold_is_over or receding or _is_covered_by_near_cut(pressure, cycle):
        return total, QuotaReason.SETTLING
    # At this rate tenants do not cause the delay. A further cut would only make small tenants wait for their own quota.
    minimum = min(cycle.cap_per_s, _minimum_per_s(pressure, inputs, limits))
    if total.rate_per_s <= minimum:
        return total, QuotaReason.AT_MINIMUM
    # A tail latency gives no early warning before it misses the objective, so the rate is noted as a known limit.
    if pressure.measure is Measure.CREATE_PROBE and in_use:
        total = with_known_limit(total, base, inputs, now_ms, limits)
    rate = max(minimum, base * _cut_factor(pressure, inputs, limits))
    return _cut_to(total, rate, QuotaReason.OVER_OBJECTIVE, cycle)


def _is_covered_by_near_cut(pressure: Pressure, cycle: _Cycle) -> bool:
    """Returns whether a recent small cut near the objective (``near_cut_at_ms``) is likely to end the excess.

    The window still covers the time before that cut, so the pressure does not show its whole effect yet.
    """
    limits = cycle.limits
    cut_ratios = {Measure.CREATE_PROBE: limits.probe_step_ratio, Measure.FORWARDING: 1 - limits.smallest_cut_factor}
    if pressure.measure not in cut_ratios:  # The other measures cause no such cut.
        return False
    is_recent = cycle.now_ms - cycle.inputs.near_cut_at_ms < limits.settle_s * 1000
    return is_recent and pressure.ratio * (1 - cut_ratios[pressure.measure]) <= 1


def _cut_in_advance(total: TotalRate, pressure: Pressure, cycle: _Cycle) -> tuple[TotalRate, QuotaReason] | None:
    """Cuts the total a little before the objective is missed; None if nothing is near its objective."""
    inputs, rate, now_ms, limits = cycle.inputs, total.rate_per_s, cycle.now_ms, cycle.limits
    # Otherwise the lag would grow further, and a larger cut would be needed once it exceeds the objective.
    if is_creeping_up(pressure, inputs, limits):
        # The quotas in Kafka may be lower than the total by one deadband, so a smaller cut of the total might not reach them.
        factor = limits.smallest_cut_factor - limits.deadband_ratio
        total = with_known_limit(total, rate, inputs, now_ms, limits)
        return _cut(total, rate * factor, cycle), QuotaReason.FALLING_BEHIND
    reduced = _reduce_near_objective(rate, inputs, limits)
    if reduced >= rate or not inputs.is_new_window:
        return None
    if now_ms - total.changed_at_ms < limits.settle_s * 1000:
        return total, QuotaReason.SETTLING
    # ``cut_at_ms`` stays, so that an urgent cut may follow at once. No known limit is noted, because the objective was not missed.
    return replace(total, rate_per_s=cycle.bounded(reduced), changed_at_ms=now_ms), QuotaReason.NEAR_OBJECTIVE


def _raise(total: TotalRate, pressure: Pressure, cycle: _Cycle, *, binding: bool) -> tuple[TotalRate, QuotaReason]:
    """Raises the total if there is headroom, some tenant is limited, and the last change has taken effect."""
    inputs, rate, now_ms, limits = cycle.inputs, total.rate_per_s, cycle.now_ms, cycle.limits
    probe_is_full = inputs.probe_likely_ratio >= limits.probe_target_ratio
    forwarding_is_full = _forwarding_ratio(inputs) >= limits.forwarding_target_ratio
    if probe_is_full or forwarding_is_full or pressure.ratio >= _target_ratio(pressure, limits):
        return total, QuotaReason.WITHIN_OBJECTIVE
    if not binding:
        return total, QuotaReason.NOT_BINDING
    if rate >= cycle.cap_per_s:
        return total, QuotaReason.AT_CAP
    # Tenants wait, but brokers forwarded nothing for 30 s. This is a stalled controller and no sign of headroom.
    if inputs.forwarding is not None and inputs.forwarding.ratio <= 0:
        return total, QuotaReason.SETTLING
    # The window must cover the last change. A fluctuating measure must have left headroom during the whole window.
    last_ms = max(total.changed_at_ms, inputs.no_headroom_at_ms)
    if not cycle.hold_is_over or now_ms - last_ms < limits.settle_s * 1000:
        return total, QuotaReason.SETTLING
    distance = limits.smallest_cut_factor * known_limit_per_s(total, now_ms, limits) - rate
    if distance <= limits.deadband_ratio * rate:
        return total, QuotaReason.NEAR_KNOWN_LIMIT
    largest = max(distance / 2, limits.deadband_ratio * rate)
    step = min(_raise_step(rate, pressure, inputs.probe_ratio, limits), largest)
    return replace(total, rate_per_s=cycle.bounded(rate + step), changed_at_ms=now_ms), QuotaReason.HEADROOM_AVAILABLE


def _raise_step(rate: float, pressure: Pressure, probe_ratio: float, limits: MutationLimits) -> float:
    """Returns the size of a raise, in partitions/s."""
    largest, ratio = rate / limits.largest_cut_factor - rate, pressure.ratio
    if ratio <= 0:
        return largest
    target = limits.forwarding_target_ratio if pressure.measure is Measure.FORWARDING else limits.target_ratio
    half_of_headroom = rate * (target / ratio - 1) / 2
    if probe_ratio < 0.5:  # The probe latency is far from its objective and does not limit the raise.
        return min(largest, half_of_headroom)
    # Over a wide range of rates the probe latency equals one commit time, so its distance from the objective says little.
    small_step = min(largest, limits.probe_step_ratio * rate)
    return small_step if pressure.measure is Measure.CREATE_PROBE else min(small_step, half_of_headroom)


def _cut_factor(pressure: Pressure, inputs: TotalInputs, limits: MutationLimits) -> float:
    # One value of the lag does not show by how much the rate is too high, and may come from a burst that is already over.
    if is_first_lag_breach(pressure, inputs):
        return limits.smallest_cut_factor
    # A tail latency hardly changes over a wide range of rates, so a smaller cut than the last raise would have no effect.
    factor_max = 1 - limits.probe_step_ratio if pressure.measure is Measure.CREATE_PROBE else limits.smallest_cut_factor
    return min(factor_max, max(limits.largest_cut_factor, 1 / pressure.ratio))


def _reduce_near_objective(rate: float, inputs: TotalInputs, limits: MutationLimits) -> float:
    """Returns the rate less one small step if the probe latency or forwarding is likely to exceed its objective soon."""
    reduced = rate
    if inputs.probe_spread_known and inputs.probe_likely_ratio > 1:
        minimum = _probe_minimum_per_s(inputs, limits)
        reduced = min(reduced, max(minimum, rate * (1 - limits.probe_step_ratio)))
    if inputs.forwarding is not None and inputs.forwarding.ratio > limits.forwarding_near_ratio:
        minimum = _forwarding_minimum_per_s(inputs, limits)
        reduced = min(reduced, max(minimum, rate * limits.smallest_cut_factor))
    return reduced


def _minimum_per_s(pressure: Pressure, inputs: TotalInputs, limits: MutationLimits) -> float:
    """Returns the minimum of cuts for this measure, in partitions/s; 0 for measures of the controller's own load."""
    match pressure.measure:
        case Measure.CREATE_PROBE:
            return _probe_minimum_per_s(inputs, limits) if pressure.ratio <= limits.probe_far_ratio else 0.0
        case Measure.FORWARDING:
            return _forwarding_minimum_per_s(inputs, limits)
        case _:
            return 0.0


def _forwarding_minimum_per_s(inputs: TotalInputs, limits: MutationLimits) -> float:
    # Request forwarding is proportional to the mutation rate, so even cuts to a very low rate help.
    return inputs.unmanaged_per_s + max(limits.light_load_ratio * limits.rate_per_s_safe, inputs.guaranteed_per_s)


def _probe_minimum_per_s(inputs: TotalInputs, limits: MutationLimits) -> float:
    # While the excess is moderate, guaranteed rates are not cut. Unmanaged tenants use their part of the total in any case.
    return inputs.unmanaged_per_s + max(limits.rate_per_s_safe, inputs.guaranteed_per_s)


def _forwarding_ratio(inputs: TotalInputs) -> float:
    return 0.0 if inputs.forwarding is None else inputs.forwarding.ratio


def _target_ratio(pressure: Pressure, limits: MutationLimits) -> float:
    targets = {Measure.CREATE_PROBE: limits.probe_target_ratio, Measure.FORWARDING: limits.forwarding_target_ratio}
    return targets.get(pressure.measure, limits.target_ratio)


def _is_light_load(recent_per_s: float, limits: MutationLimits) -> bool:
    return recent_per_s <= limits.light_load_ratio * limits.rate_per_s_safe


def decay_total(total: TotalRate, stale_s: float, limits: MutationLimits) -> TotalRate:
    """Returns the total after ``stale_s`` seconds of missing signals beyond ``decay_age_s``."""
    return replace(total, rate_per_s=max(limits.rate_per_s_min, total.rate_per_s * limits.decay_per_s**stale_s))


def find_size_limit(
    partitions: float | None, replicas: float | None, policy: MutationPolicy
) -> tuple[float | None, int | None]:
    """Returns the present count and its limit: partitions if ``partitions_max`` is set, else replicas."""
    if policy.partitions_max is not None:
        return partitions, policy.partitions_max
    return replicas, policy.replicas_max


def size_brake_ratio(partitions: float | None, policy: MutationPolicy, replicas: float | None = None) -> float | None:
    """Returns the factor for the total near the size limit: 1 far from it, 0 at it; None if the count is not measured."""
    count, limit = find_size_limit(partitions, replicas, policy)
    if limit is None:
        return 1.0
    if count is None:
        return None
    if count >= limit:
        return 0.0
    near = policy.partitions_near_ratio * limit
    return min(1.0, (limit - count) / (limit - near))


def _cut_to(total: TotalRate, rate: float, reason: QuotaReason, cycle: _Cycle) -> tuple[TotalRate, QuotaReason]:
    """Returns the total after a cut with its reason; unchanged, and ``AT_MINIMUM``, if it cannot be lower."""
    if total.rate_per_s <= cycle.limits.rate_per_s_min:
        return total, QuotaReason.AT_MINIMUM
    return _cut(total, rate, cycle), reason


def _cut(total: TotalRate, rate: float, cycle: _Cycle) -> TotalRate:
    return replace(total, rate_per_s=cycle.bounded(rate), changed_at_ms=cycle.now_ms, cut_at_ms=cycle.now_ms)


def _bound(rate: float, cap: float, limits: MutationLimits) -> float:
    return max(limits.rate_per_s_min, min(rate, cap))
