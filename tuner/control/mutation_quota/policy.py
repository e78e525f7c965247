"""Makes the decisions of one cycle of the mutation quotas.

The decisions keep the controller within its objective, and share its capacity among the tenants:

    view → total rate (total_update.py) → share of each tenant (allocation.py) → decisions

A tenant that needs less than its fair share is never limited. Tenants that need more share the rest by weight. An idle tenant keeps
a standing share, so that it can start without waiting.

Invariant: while signals are missing, no quota is raised. The total rate changes only with a new signal of the active controller.
If there is no signal for longer than ``decay_age_s``, the total rate falls step by step.
Source: KIP-599.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.allocation import allocate
from tuner.control.mutation_quota.clock_skew import clamp_to_now
from tuner.control.mutation_quota.decision import HoldQuota, QuotaDecision, QuotaReason, TenantShare
from tuner.control.mutation_quota.entity import Tenant, find_quota_in_force
from tuner.control.mutation_quota.external_changes import track_external_changes
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.probe_window import WINDOW_S as PROBE_WINDOW_S
from tuner.control.mutation_quota.state import ControllerWindow, MutationMemory, TenantState
from tuner.control.mutation_quota.tenant_rules import update_tenant_state
from tuner.control.mutation_quota.tenant_status import Quotas, assess_tenants, find_absent_tenants
from tuner.control.mutation_quota.total_rate import decay_total, find_size_limit, size_brake_ratio
from tuner.control.mutation_quota.total_update import ControllerUpdate, update_total
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller_pressure import learn_idle_baselines, missing_measures, worst_pressure


@dataclass(frozen=True, slots=True)
class QuotaStep:
    """The result of one cycle: the new state, the decisions, and one row per tenant for the table."""

    memory: MutationMemory
    decisions: tuple[QuotaDecision, ...]
    shares: tuple[TenantShare, ...] = ()


def step(view: QuotaView, memory: MutationMemory, policy: MutationPolicy) -> QuotaStep:
    """Returns the decisions of one cycle and the next state, from a snapshot and the previous state."""
    limits, quotas = policy.limits, view.quotas
    if isinstance(quotas, ClusterUnreadable):
        return _hold_all(memory, view, QuotaReason.QUOTAS_UNREADABLE, f"the quotas could not be read: {quotas.reason}")
    memory = clamp_to_now(memory, view.now_ms, limits)
    memory, changes = track_external_changes(quotas, memory, view.now_ms, limits)
    signal = _find_active_controller(view)
    sampled_at_ms = None
    if signal is not None:
        sampled_at_ms = signal.sampled_at_ms
    elif memory.window is not None:
        sampled_at_ms = memory.window.sampled_at_ms
    if sampled_at_ms is None:
        text = "no active controller is known: quotas stay as they are. Check that controllers report metrics"
        return _hold_all(memory, view, QuotaReason.CONTROLLER_UNKNOWN, text, changes)
    # A signal from the future means that a clock was set. It is treated like a signal that is equally far in the past.
    age_s = abs(view.now_ms - sampled_at_ms) / 1000
    if age_s > limits.hold_age_s:
        return _step_without_signal(view, quotas, memory, policy, age_s, changes)
    if signal is None:
        text = "the last known controller is no longer active, and no other is active yet: quotas stay as they are"
        return _hold_all(memory, view, QuotaReason.CONTROLLER_UNKNOWN, text, changes)
    return _step_with_signal(view, quotas, signal, memory, policy, changes)


def _step_with_signal(
    view: QuotaView,
    quotas: Quotas,
    signal: ControllerSignal,
    memory: MutationMemory,
    policy: MutationPolicy,
    changes: Sequence[QuotaDecision],
) -> QuotaStep:
    limits = policy.limits
    signal = replace(signal, idle_ratio=_smooth_idle_ratio(signal, memory.window, limits))
    active_since_ms = _active_since_ms(signal, memory.window)
    # After a fail-over, the latencies of probe and forwarding show that requests waited for the new controller. Mutations are not
    # the cause, so both latencies are ignored until they cover only time after the fail-over.
    if view.now_ms - active_since_ms <= 1000 * PROBE_WINDOW_S:
        measures = replace(view.cluster_wide, create_probe_p90_ms=None, forwarding_busy_ratio=None)
        view = replace(view, cluster_wide=measures)
    if memory.window is None or signal.sampled_at_ms > memory.window.sampled_at_ms:
        memory = replace(memory, idle_baselines_ms=learn_idle_baselines(view.cluster_wide, memory.idle_baselines_ms))
    pressure = worst_pressure(signal, view.cluster_wide, policy.objective, memory.idle_baselines_ms)
    # Near the limit of partitions the size brake lowers the total by this factor; None: the count is not measured.
    brake_ratio = size_brake_ratio(signal.partitions, policy, view.cluster_wide.replicas)
    if pressure is None or (brake_ratio is None and memory.total is None):
        missing = "its number of partitions is not measured"
        if pressure is None:
            missing = "none of the signals of its objective is measured"
        text = f"controller {signal.node}: {missing}: quotas stay as they are"
        return _hold_all(memory, view, QuotaReason.PRESSURE_NOT_MEASURED, text, changes)

    memory = replace(memory, tenants=_update_tenants(view, quotas, memory, signal.node, limits))
    tenants, holds = assess_tenants(quotas, memory, policy, find_absent_tenants(memory, view.now_ms))
    missing_signals = missing_measures(signal, view.cluster_wide, policy.objective)
    update = ControllerUpdate(signal, pressure, active_since_ms, _metered_per_s(view, signal.node, limits))
    braked = brake_ratio != 1 or bool(missing_signals)
    memory, report = update_total(view, update, memory, tenants, policy, braked=braked)
    assert memory.total is not None
    total_per_s = memory.total.rate_per_s * (1.0 if brake_ratio is None else brake_ratio)
    decisions: list[QuotaDecision] = [*changes, report, *holds]
    if missing_signals:
        text = (
            f"no quota is raised, because controller {signal.node} or the brokers do not report measures that "
            f"tuner.mutation_quota.objective limits: {', '.join(missing_signals)}"
        )
        decisions.append(HoldQuota(None, QuotaReason.PRESSURE_NOT_MEASURED, text))
    # The count of partitions is unknown, but the pressure is measured: quotas may be cut, but not raised.
    if brake_ratio is None:
        text = f"controller {signal.node}: its number of partitions is not measured: no quota is raised"
        decisions.append(HoldQuota(None, QuotaReason.PRESSURE_NOT_MEASURED, text))
    elif brake_ratio < 1:
        decisions.append(_near_size_limit(view, signal, brake_ratio, total_per_s, policy))
    memory, writes, shares = allocate(
        view, quotas, memory, tenants, total_per_s, policy, lowers_only=brake_ratio is None
    )
    return QuotaStep(replace(memory, last_step_at_ms=view.now_ms), (*decisions, *writes), shares)


def _step_without_signal(
    view: QuotaView,
    quotas: Quotas,
    memory: MutationMemory,
    policy: MutationPolicy,
    age_s: float,
    changes: Sequence[QuotaDecision],
) -> QuotaStep:
    """Holds the quotas until the newest signal is ``decay_age_s`` old, because the next one may only be late. Then lowers them."""
    limits = policy.limits
    text = f"no new signal of the controller for {age_s:.0f} s: no quota is raised"
    if memory.total is None or age_s <= limits.decay_age_s:
        return _hold_all(memory, view, QuotaReason.CONTROLLER_STALE, text, changes)
    stale_s = min(age_s - limits.decay_age_s, (view.now_ms - memory.last_step_at_ms) / 1000)
    total = decay_total(memory.total, max(0.0, stale_s), limits)
    memory = replace(memory, total=total)
    tenants, holds = assess_tenants(quotas, memory, policy)
    memory, writes, shares = allocate(view, quotas, memory, tenants, total.rate_per_s, policy, lowers_only=True)
    text = f"{text}, and the total rate falls to {total.rate_per_s:.1f} partitions/s"
    hold = HoldQuota(None, QuotaReason.CONTROLLER_STALE, text)
    return QuotaStep(replace(memory, last_step_at_ms=view.now_ms), (*changes, hold, *holds, *writes), shares)


def _hold_all(
    memory: MutationMemory, view: QuotaView, reason: QuotaReason, text: str, changes: Sequence[QuotaDecision] = ()
) -> QuotaStep:
    return QuotaStep(replace(memory, last_step_at_ms=view.now_ms), (*changes, HoldQuota(None, reason, text)))


# -- signals --------------------------------------------------------------------------------------------------------------


def _find_active_controller(view: QuotaView) -> ControllerSignal | None:
    """Returns the newest signal of a node that reports to be the active controller; None if there is none.

    For a moment after a fail-over, two nodes may report to be active. Backlog signals, which describe the past, are left out.
    """
    active = [s for s in view.controllers.values() if s.active is not None and s.active >= 0.5 and not s.backlog]
    return max(active, key=lambda s: (s.sampled_at_ms, s.node), default=None)


def _smooth_idle_ratio(
    signal: ControllerSignal, previous: ControllerWindow | None, limits: MutationLimits
) -> float | None:
    idle = signal.idle_ratio
    if idle is None or previous is None or previous.idle_ratio is None or previous.node != signal.node:
        return idle
    since_s = max(0.0, (signal.sampled_at_ms - previous.sampled_at_ms) / 1000)
    return previous.idle_ratio + (1 - math.exp(-since_s / limits.idle_smoothing_s)) * (idle - previous.idle_ratio)


def _active_since_ms(signal: ControllerSignal, previous: ControllerWindow | None) -> int:
    """Returns when this node took over from another controller; 0 if it was active from the start."""
    if previous is None:
        return 0
    return previous.active_since_ms if previous.node == signal.node else signal.sampled_at_ms


def _update_tenants(
    view: QuotaView, quotas: Quotas, memory: MutationMemory, node: int, limits: MutationLimits
) -> dict[Tenant, TenantState]:
    """Returns the state of all tenants after the newest metrics of the active controller, sorted by name."""
    states = dict(memory.tenants)
    for tenant, signal in _tenant_signals(view, node, limits):
        quota = find_quota_in_force(quotas, tenant)
        state = states.get(tenant, TenantState())
        states[tenant] = update_tenant_state(state, signal, quota[1] if quota is not None else None, limits)
    # A new controller has no metrics of a tenant that has been idle since the fail-over. So a tenant without metrics is idle.
    silent_ms = view.now_ms - limits.decay_age_s * 1000
    silent = {t: replace(s, backlogged=False, rate_per_s=0.0) for t, s in states.items() if s.sampled_at_ms < silent_ms}
    return dict(sorted((states | silent).items(), key=lambda item: item[0].key))


def _tenant_signals(view: QuotaView, node: int, limits: MutationLimits) -> list[tuple[Tenant, TenantSignal]]:
    """Returns the tenant signals of the active controller ``node``, oldest first."""
    # A signal from far in the future comes from a wrong clock. It would make all later signals look old.
    latest_ms = view.now_ms + limits.hold_age_s * 1000
    return [
        (Tenant(signal.user, signal.client_id), signal)
        for signal in sorted(view.tenants, key=lambda s: s.sampled_at_ms)
        # A signal without user and client-id is a sum over all tenants. A backlog signal describes the past.
        if signal.node == node and not signal.backlog and not (signal.user is None and signal.client_id is None)
        if signal.sampled_at_ms <= latest_ms
    ]


def _metered_per_s(view: QuotaView, node: int, limits: MutationLimits) -> float:
    """Returns the sum of the rates that Kafka's tenant metrics show now."""
    newest = dict(_tenant_signals(view, node, limits))
    oldest_ms = view.now_ms - limits.decay_age_s * 1000
    return math.fsum(s.mutation_rate_per_s or 0.0 for s in newest.values() if s.sampled_at_ms >= oldest_ms)


def _near_size_limit(
    view: QuotaView, signal: ControllerSignal, brake_ratio: float, total_per_s: float, policy: MutationPolicy
) -> HoldQuota:
    count, limit = find_size_limit(signal.partitions, view.cluster_wide.replicas, policy)
    unit = "partitions" if policy.partitions_max is not None else "replicas"
    text = (
        f"the cluster has {count:.0f} of {limit} permitted {unit}, so the total rate falls to {100 * brake_ratio:.0f} % of the "
        f"controller's capacity, {total_per_s:.1f} partitions/s, but not below guaranteed rates. Quotas limit deletions as well, "
        "except deletions of exempt tenants"
    )
    return HoldQuota(None, QuotaReason.PARTITIONS_NEAR_LIMIT, text)
