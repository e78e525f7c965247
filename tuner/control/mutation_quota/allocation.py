"""Allocates the total rate to tenants, and decides which quotas are worth writing.

1. Subtract the rate that unmanaged tenants use from the total.
2. Share the rest among the managed tenants by max–min fairness.
3. Raise each share to at least the tenant's standing share.
4. Write the quotas that differ enough from the current quotas.

Quotas may add up to ``over_allocation`` times the total, because tenants are rarely active at the same time. The rate above the
total is divided by weight into standing shares: quotas that idle tenants keep, so that they can start without waiting.

Invariant: managed quotas add up to at most ``over_allocation`` times the rate that the managed tenants share. Guaranteed rates and
the ``<default>`` quota, which serves new tenants, may exceed this sum. Only exempt tenants become unlimited. No quota of another
tool is changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tuner.control.mutation_quota.decision import (
    HoldQuota,
    QuotaDecision,
    QuotaReason,
    RestoreQuota,
    SetQuota,
    TenantShare,
)
from tuner.control.mutation_quota.default_quota import (
    decide_default_quota,
    find_managed_default,
    restore_unwanted_defaults,
)
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.exemptions import decide_exemptions, find_fully_named_exemptions
from tuner.control.mutation_quota.max_min_share import Sharing, share_max_min
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.ownership import restore
from tuner.control.mutation_quota.reasons import compute_setpoint, explain_setpoint
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.mutation_quota.tenant_status import (
    Quotas,
    TenantStatus,
    claim_of,
    find_absent_tenants,
    used_per_s,
)

# Reasons to restore the managed quota of a tenant that is still active.
_RESTORE_REASONS = (QuotaReason.PRESERVED, QuotaReason.NOT_CONFIGURED, QuotaReason.WOULD_SHADOW_EXISTING)


def allocate(
    view: QuotaView,
    quotas: Quotas,
    memory: MutationMemory,
    tenants: Sequence[TenantStatus],
    total_per_s: float,
    policy: MutationPolicy,
    *,
    lowers_only: bool = False,
) -> tuple[MutationMemory, list[QuotaDecision], tuple[TenantShare, ...]]:
    """Returns the new state, the writes and holds, and one row per tenant.

    Args:
        total_per_s: partitions/s for all tenants.
        lowers_only: signals are missing, so no quota is raised.
    """
    limits = policy.limits
    absent, restores = set[Tenant](), list[QuotaDecision]()
    # While signals are missing, every tenant seems absent. No tenant is then forgotten.
    if not lowers_only:
        memory, absent, restores = _forget_absent(view, quotas, memory, policy)
    tenants = [t for t in tenants if t.tenant not in absent]
    managed = [t for t in tenants if t.unmanaged_reason is None]
    unmanaged_per_s = math.fsum(used_per_s(t) for t in tenants if t.unmanaged_reason is not None)
    remaining_per_s = max(0.0, total_per_s - unmanaged_per_s)
    sharing, allocated_per_s = _share(remaining_per_s, unmanaged_per_s, managed, memory, limits)
    decisions = list[QuotaDecision]()
    if sharing.guarantees_cut:
        text = (
            f"the guaranteed rates of {len(managed)} tenants add up to more than the {allocated_per_s:.1f} partitions/s that are "
            "available: all guaranteed rates are reduced by the same factor"
        )
        decisions.append(HoldQuota(None, QuotaReason.GUARANTEES_CUT, text))
    total_weight = math.fsum(t.rule.weight for t in managed)
    over_allocated_per_s = (limits.over_allocation - 1) * remaining_per_s
    standing_per_weight = over_allocated_per_s / total_weight if total_weight > 0 else 0.0
    states = dict(memory.tenants)
    rows = {t.tenant: _table_row(t, None, t.unmanaged_reason) for t in tenants if t.unmanaged_reason}
    for status, share_per_s in zip(managed, sharing.shares, strict=True):
        tenant, state = status.tenant, status.state
        standing_per_s = standing_per_weight * status.rule.weight
        setpoint, reason = compute_setpoint(status, share_per_s, standing_per_s, sharing, limits)
        rows[tenant] = _table_row(status, setpoint, reason)
        if not _is_worth_writing(status, setpoint, view.now_ms, limits, lowers_only):
            continue
        states[tenant] = replace(state, written_at_ms=view.now_ms, previous_write_at_ms=state.written_at_ms)
        text = explain_setpoint(status, setpoint, reason, sharing)
        decisions.append(SetQuota(tenant.entity, status.named_quota_per_s, setpoint, reason, text))
    # A new tenant has a weight of 1.
    weight_with_new = total_weight + limits.new_tenants_expected
    new_tenant_per_s = max(limits.tenant_rate_per_s_min, over_allocated_per_s / weight_with_new)
    default_decision = decide_default_quota(
        quotas,
        memory,
        new_tenant_per_s,
        policy,
        view.now_ms,
        limits_a_tenant=any(t.bound_by_managed_default and t.state.backlogged for t in tenants),
        lowers_only=lowers_only,
    )
    if not lowers_only:
        # Exemptions are written before the <default> quota, so that it never limits an exempt tenant.
        managed_default = find_managed_default(default_decision, memory, policy)
        decisions += decide_exemptions(quotas, memory, tenants, managed_default, policy)
        decisions += _restore_unmanaged(quotas, memory, tenants)
        decisions += restore_unwanted_defaults(quotas, memory, policy)
    memory = replace(memory, tenants=states)
    if default_decision is not None:
        decisions.append(default_decision)
    if isinstance(default_decision, SetQuota):
        memory = replace(memory, default_written_at_ms=view.now_ms)
    return memory, [*decisions, *restores], tuple(rows[t.tenant] for t in tenants)


def _share(
    remaining_per_s: float,
    unmanaged_per_s: float,
    managed: Sequence[TenantStatus],
    memory: MutationMemory,
    limits: MutationLimits,
) -> tuple[Sharing, float]:
    """Returns the shares of the managed tenants, and the rate that the shares add up to at most."""
    claims = [claim_of(t, limits) for t in managed]
    # Near the partition limit, the size brake (total_rate.py) lowers ``remaining_per_s``. The brake does not apply to guaranteed
    # rates: they are limited only by the total before the brake (``unbraked_per_s``).
    unbraked_per_s = remaining_per_s
    if memory.total is not None:
        unbraked_per_s = max(remaining_per_s, memory.total.rate_per_s - unmanaged_per_s)
    guaranteed_per_s = math.fsum(claim.guaranteed_demand for claim in claims)
    allocated_per_s = max(remaining_per_s, min(unbraked_per_s, guaranteed_per_s))
    return share_max_min(allocated_per_s, claims), allocated_per_s


def _is_worth_writing(
    status: TenantStatus, setpoint: float, now_ms: int, limits: MutationLimits, lowers_only: bool
) -> bool:
    current, state = status.current_per_s, status.state
    # A tenant without a quota is unlimited, so its first quota is always worth writing, unless signals are missing.
    if current is None:
        return not lowers_only
    if abs(setpoint - current) <= limits.deadband_ratio * current or (lowers_only and setpoint > current):
        return False
    # A large cut of a backlogged tenant is urgent: other tenants have returned and need their share at once.
    if state.backlogged and setpoint < (1 - limits.urgent_ratio) * current:
        return True
    # Each write reaches every node, so a tenant's quota is written at most twice a minute.
    if now_ms - state.previous_write_at_ms <= 2 * limits.write_every_s * 1000:
        return False
    # The cut of a backlogged tenant's quota protects the controller, so it does not wait until ``write_every_s`` has passed.
    protects_controller = state.backlogged and setpoint < current
    return protects_controller or now_ms - state.written_at_ms >= limits.write_every_s * 1000


def _table_row(status: TenantStatus, setpoint: float | None, reason: QuotaReason) -> TenantShare:
    return TenantShare(
        status.tenant,
        rate_per_s=status.state.rate_per_s,
        backlogged=status.state.backlogged,
        current_per_s=status.current_per_s,
        setpoint_per_s=setpoint,
        reason=reason,
        rule=status.match.index if status.match is not None else None,
    )


def _restore_unmanaged(quotas: Quotas, memory: MutationMemory, tenants: Sequence[TenantStatus]) -> list[RestoreQuota]:
    return [
        restore(t.tenant.entity, quotas, memory, t.unmanaged_reason)
        for t in tenants
        if t.unmanaged_reason is not None and t.unmanaged_reason in _RESTORE_REASONS
        if t.tenant.entity in memory.owned and t.tenant.entity not in memory.unconfirmed
    ]


def _forget_absent(
    view: QuotaView, quotas: Quotas, memory: MutationMemory, policy: MutationPolicy
) -> tuple[MutationMemory, set[Tenant], list[QuotaDecision]]:
    """Returns the state without the absent tenants, the absent tenants, and the writes that restore their quotas.

    The state keeps a tenant until Kafka has confirmed that its quota is restored. The next cycle therefore repeats a failed write.
    """
    absent = find_absent_tenants(memory, view.now_ms)
    # An exempt tenant that a rule names in full keeps its exemption while it is absent.
    exempt = find_fully_named_exemptions(policy)
    with_quota = sorted((t for t in absent if t.entity in memory.owned and t not in exempt), key=lambda t: t.key)
    restores = [
        restore(t.entity, quotas, memory, QuotaReason.TENANT_GONE)
        for t in with_quota
        if t.entity not in memory.unconfirmed
    ]
    remaining = {t: s for t, s in memory.tenants.items() if t not in absent or t.entity in memory.owned}
    return replace(memory, tenants=remaining), absent, list(restores)
