"""Updates the total rate after one more signal of the controller.

In each cycle the module learns the costs of topics and partitions, tracks the controller's load, and reports why the total changes.

Invariant: each signal is used once to learn the costs, and at most once to change the total. After a change, the total stays
constant for longer than a signal is valid (``settle_s`` > ``hold_age_s``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.apply_lag import TotalInputs, lag_growth_ratio
from tuner.control.mutation_quota.cost_model import initial_cost, learn_from_window
from tuner.control.mutation_quota.decision import QuotaReason, TotalRateReport
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.probe_margin import is_spread_known, likely_ratio, update_trend
from tuner.control.mutation_quota.state import ControllerWindow, MutationMemory, ProbeTrend, TotalRate
from tuner.control.mutation_quota.tenant_status import TenantStatus, claim_of, used_per_s
from tuner.control.mutation_quota.total_rate import burst_cap_per_s, initial_total, next_total
from tuner.core.controller_pressure import Pressure, create_probe_ratio, forwarding_pressure


@dataclass(frozen=True, slots=True)
class ControllerUpdate:
    """The newest signal of the active controller.

    Attributes:
        active_since_ms: when this node became the controller; 0: it was the controller when the tuner started.
        metered_per_s: sum of the rates in Kafka's tenant metrics now.
    """

    signal: ControllerSignal
    pressure: Pressure
    active_since_ms: int
    metered_per_s: float


def update_total(
    view: QuotaView,
    update: ControllerUpdate,
    memory: MutationMemory,
    tenants: Sequence[TenantStatus],
    policy: MutationPolicy,
    *,
    braked: bool,
) -> tuple[MutationMemory, TotalRateReport]:
    """Returns the state with the new total and learned costs, and the report.

    Args:
        braked: quotas are lower than the total permits, because the cluster is near its partition limit (the size brake in
            total_rate.py), or they are not raised, because a measure is missing. Then a limited tenant is no reason to raise the
            total.
    """
    limits, signal, pressure = policy.limits, update.signal, update.pressure
    last_window = memory.window
    recent_per_s = math.fsum(t.state.rate_per_s for t in tenants)
    is_new = last_window is None or signal.node != last_window.node or signal.sampled_at_ms > last_window.sampled_at_ms
    comparable_window = last_window if is_new and _is_comparable(last_window, signal, limits) else None
    cost = memory.cost or initial_cost()
    if is_new:
        cost = learn_from_window(cost, signal, last_window, recent_per_s, update.metered_per_s, limits)
        new_window = _next_window(view, update, last_window, comparable_window, memory.total, policy)
        memory = replace(memory, cost=cost, window=new_window)
    window = memory.window
    assert window is not None
    probe = window.probe or ProbeTrend()
    forwarding = forwarding_pressure(view.cluster_wide, policy.objective)
    probe_is_full = likely_ratio(probe, limits) >= limits.probe_target_ratio
    if probe_is_full or (forwarding is not None and forwarding.ratio >= limits.forwarding_target_ratio):
        window = replace(window, no_headroom_at_ms=view.now_ms)
    cap = burst_cap_per_s(cost, policy.objective, limits)
    total, reason = memory.total, QuotaReason.INITIAL
    if total is None:
        total = initial_total(pressure, recent_per_s, cap, view.now_ms, limits)
    else:
        inputs = _collect_total_inputs(pressure, forwarding, window, comparable_window, is_new, tenants, limits)
        total, reason = next_total(
            total,
            pressure,
            inputs,
            heartbeat_timeouts=(signal.heartbeats_timed_out_per_s or 0.0) > 0,
            binding=inputs.a_tenant_is_limited and not braked,
            recent_per_s=recent_per_s,
            cap=cap,
            now_ms=view.now_ms,
            limits=limits,
        )
    if reason is QuotaReason.NEAR_OBJECTIVE:
        window = replace(window, probe=replace(probe, near_cut_at_ms=view.now_ms))
    text = f"{total.rate_per_s:.1f} partitions/s in total: {pressure}; {_EXPLANATIONS[reason]}"
    report = TotalRateReport(total.rate_per_s, pressure.ratio, reason, text)
    return replace(memory, total=total, window=window), report


def _next_window(
    view: QuotaView,
    update: ControllerUpdate,
    last_window: ControllerWindow | None,
    comparable_window: ControllerWindow | None,
    total: TotalRate | None,
    policy: MutationPolicy,
) -> ControllerWindow:
    """Returns the window of the new signal.

    Args:
        last_window: the last window of any controller, however old.
        comparable_window: the last window, if the same node was the controller and the window is not too old; else None.
    """
    signal = update.signal
    elapsed_s = None
    if comparable_window is not None:
        elapsed_s = (signal.sampled_at_ms - comparable_window.sampled_at_ms) / 1000
    probe = update_trend(
        last_window.probe if last_window is not None else None,
        create_probe_ratio(view.cluster_wide, policy.objective),
        at_ms=signal.sampled_at_ms,
        elapsed_s=elapsed_s,
        total_changed_at_ms=max(total.cut_at_ms, total.changed_at_ms) if total is not None else 0,
        limits=policy.limits,
    )
    return ControllerWindow(
        signal.node,
        signal.sampled_at_ms,
        topics=signal.topics,
        partitions=signal.partitions,
        idle_ratio=signal.idle_ratio,
        pressure=update.pressure.ratio,
        apply_lag_ms=view.cluster_wide.apply_lag_ms,
        no_headroom_at_ms=0 if last_window is None else last_window.no_headroom_at_ms,
        active_since_ms=update.active_since_ms,
        probe=probe,
    )


def _collect_total_inputs(
    pressure: Pressure,
    forwarding: Pressure | None,
    window: ControllerWindow,
    comparable_window: ControllerWindow | None,
    is_new: bool,
    tenants: Sequence[TenantStatus],
    limits: MutationLimits,
) -> TotalInputs:
    """Returns the inputs of the total besides the pressure.

    Args:
        window: the newest window.
        comparable_window: the window before ``window``; None: another node was the controller, or that window is too old.
        is_new: no earlier cycle has used ``window``.
    """
    probe = window.probe or ProbeTrend()
    managed = [t for t in tenants if t.unmanaged_reason is None]
    growth = 0.0
    if comparable_window is not None:
        since_ms = window.sampled_at_ms - comparable_window.sampled_at_ms
        growth = lag_growth_ratio(pressure, comparable_window.apply_lag_ms, since_ms)
    return TotalInputs(
        previous_pressure=comparable_window.pressure if comparable_window is not None else None,
        lag_growth_ratio=growth,
        previous_lag_ms=comparable_window.apply_lag_ms if comparable_window is not None else None,
        is_new_window=is_new,
        probe_ratio=probe.ratio or 0.0,
        probe_likely_ratio=likely_ratio(probe, limits),
        probe_spread_known=is_spread_known(probe, limits),
        near_cut_at_ms=probe.near_cut_at_ms,
        no_headroom_at_ms=window.no_headroom_at_ms,
        forwarding=forwarding,
        guaranteed_per_s=math.fsum(claim_of(t, limits).guaranteed_demand for t in managed),
        unmanaged_per_s=math.fsum(used_per_s(t) for t in tenants if t.unmanaged_reason is not None),
        # The managed <default> quota follows the total, so a tenant that this quota limits is limited by the total.
        a_tenant_is_limited=any(
            t.state.backlogged for t in tenants if t.unmanaged_reason is None or t.bound_by_managed_default
        ),
    )


def _is_comparable(
    window: ControllerWindow | None, signal: ControllerSignal, limits: MutationLimits
) -> TypeGuard[ControllerWindow]:
    """Returns whether the window belongs to the same controller and is not too old."""
    if window is None or window.node != signal.node:
        return False
    return signal.sampled_at_ms - window.sampled_at_ms <= limits.decay_age_s * 1000


_EXPLANATIONS = {
    QuotaReason.INITIAL: "the first total rate",
    QuotaReason.WITHIN_OBJECTIVE: "unchanged, because the controller is near its objective",
    QuotaReason.NOT_BINDING: "unchanged, because no tenant uses up its quota",
    QuotaReason.SETTLING: "unchanged until the last change takes effect",
    QuotaReason.AT_CAP: (
        "unchanged: with a higher total rate, tenants that use up their token buckets together would overload the controller"
    ),
    QuotaReason.OVER_CAP: "lowered, because tenants that use up their token buckets together would overload the controller",
    QuotaReason.NEAR_KNOWN_LIMIT: "unchanged, because a slightly higher total rate overloaded the controller before",
    QuotaReason.HEADROOM_AVAILABLE: "raised, because a tenant uses up its quota and the controller has headroom",
    QuotaReason.FALLING_BEHIND: "lowered a little, because brokers would soon apply metadata too late",
    QuotaReason.NEAR_OBJECTIVE: "lowered a little, because the controller is likely to exceed its objective soon",
    QuotaReason.OVER_OBJECTIVE: "lowered, because the controller exceeds its objective",
    QuotaReason.AT_MINIMUM: (
        "at its minimum: the controller exceeds its objective or nearly exceeds it, but a lower total rate would not help"
    ),
    QuotaReason.HEARTBEAT_TIMEOUTS: "lowered by half, because heartbeats of brokers time out",
}
