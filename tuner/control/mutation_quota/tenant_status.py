"""Assesses every tenant in a cycle: its rate, its quota, the rule that applies, and whether rheostat manages its quota.

Invariant: each unmanaged tenant has a reason, which the operator sees. Its mutations still count against the total.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason
from tuner.control.mutation_quota.entity import QuotaEntity, Tenant, find_quota_in_force, find_rebucketed_tenants
from tuner.control.mutation_quota.max_min_share import Claim
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.control.mutation_quota.precedence import (
    ForeignQuotas,
    find_foreign_quotas,
    find_shadowed_quota,
    is_leftover_bucket,
)
from tuner.control.mutation_quota.state import MutationMemory, TenantState
from tuner.control.mutation_quota.tenant_rules import RuleMatch, demand_per_s, match_rule
from tuner.core.token_bucket import SENSOR_EXPIRY_S

_NO_RULE = TenantRule()

Quotas = Mapping[QuotaEntity, float]


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """One tenant in this cycle.

    Attributes:
        named_quota_per_s: the quota set for the tenant's own name; None: none.
        current_per_s: the quota in force, by name or ``<default>``; None: none.
        match: the rule that applies; None: no rule matches.
        unmanaged_reason: why rheostat does not write this tenant's quota; None: rheostat manages it.
        bound_by_managed_default: the quota in force is the managed ``<default>`` quota.
    """

    tenant: Tenant
    state: TenantState
    named_quota_per_s: float | None
    current_per_s: float | None
    match: RuleMatch | None
    unmanaged_reason: QuotaReason | None = None
    bound_by_managed_default: bool = False

    @property
    def rule(self) -> TenantRule:
        return self.match.rule if self.match is not None else _NO_RULE


def assess_tenants(
    quotas: Quotas, memory: MutationMemory, policy: MutationPolicy, absent: Collection[Tenant] = ()
) -> tuple[list[TenantStatus], list[HoldQuota]]:
    """Returns the status of every tenant, and a hold for each group of tenants whose quotas must not be written.

    Args:
        absent: tenants to leave out, because Kafka has forgotten them.
    """
    foreign = find_foreign_quotas(quotas, memory)
    statuses = [
        _assess(tenant, state, quotas, foreign, memory, policy)
        for tenant, state in memory.tenants.items()
        if tenant not in absent
        # Skips a tenant whose bucket is a leftover: Kafka now counts its mutations in the bucket of another tenant.
        if tenant.entity in memory.owned or not is_leftover_bucket(tenant, foreign, policy.default_entity)
    ]
    statuses, holds = _exclude_shadowing(quotas, foreign, statuses)
    return _exclude_surplus(statuses, memory, holds, policy.limits)


def _assess(
    tenant: Tenant,
    state: TenantState,
    quotas: Quotas,
    foreign: ForeignQuotas,
    memory: MutationMemory,
    policy: MutationPolicy,
) -> TenantStatus:
    entity, match = tenant.entity, match_rule(tenant, policy.rules)
    in_force = find_quota_in_force(quotas, tenant)
    reason = None
    if match is not None and match.rule.exempt:
        reason = QuotaReason.EXEMPT
    elif entity in memory.externally_owned_until_ms or entity in memory.unconfirmed:
        reason = QuotaReason.EXTERNALLY_OWNED
    # Existing quotas are left alone: a quota for this tenant's name, and also a <default> quota that applies to the tenant.
    elif not policy.adopt_existing and find_quota_in_force(foreign.quotas, tenant) is not None:
        reason = QuotaReason.PRESERVED
    elif is_leftover_bucket(tenant, foreign, policy.default_entity):
        reason = QuotaReason.NOT_CONFIGURED
    return TenantStatus(
        tenant,
        state,
        named_quota_per_s=quotas.get(entity),
        current_per_s=in_force[1] if in_force is not None else None,
        match=match,
        unmanaged_reason=reason,
        bound_by_managed_default=in_force is not None and in_force[0] != entity and in_force[0] in memory.owned,
    )


def _exclude_shadowing(
    quotas: Quotas, foreign: ForeignQuotas, tenants: Sequence[TenantStatus]
) -> tuple[list[TenantStatus], list[HoldQuota]]:
    """Marks the tenants whose quota would disable another quota or move clients to another bucket."""
    holds, statuses, shadowing = list[HoldQuota](), list[TenantStatus](), list[tuple[Tenant, QuotaEntity]]()
    pairs_of_user: dict[str | None, list[Tenant]] = {}
    for status in tenants:
        if status.tenant.client_id is not None:
            pairs_of_user.setdefault(status.tenant.user, []).append(status.tenant)
    for status in tenants:
        tenant = status.tenant
        rebucketed: tuple[Tenant, ...] = ()
        if tenant.client_id is None:
            rebucketed = find_rebucketed_tenants(tenant.entity, quotas, pairs_of_user.get(tenant.user, ()))
        if rebucketed and status.unmanaged_reason is None:
            text = (
                f"{tenant.entity}: no quota is set, because with this quota Kafka would also count the mutations of "
                f"{rebucketed[0]} in the same token bucket"
            )
            holds.append(HoldQuota(tenant.entity, QuotaReason.WOULD_SHADOW_EXISTING, text))
            status = replace(status, unmanaged_reason=QuotaReason.WOULD_SHADOW_EXISTING)
        if status.unmanaged_reason is None and (shadowed := find_shadowed_quota(tenant, foreign)) is not None:
            shadowing.append((tenant, shadowed))
            status = replace(status, unmanaged_reason=QuotaReason.WOULD_SHADOW_EXISTING)
        statuses.append(status)
    if shadowing:
        tenant, shadowed = shadowing[0]
        subject = f"{len(shadowing)} tenants, such as {tenant}" if len(shadowing) > 1 else str(tenant)
        text = (
            f"{subject}: no quota is set, because it would disable the existing quota of {shadowed}. Set "
            "tuner.mutation_quota.default_entity to the kind of this quota, or to none"
        )
        holds.append(HoldQuota(None, QuotaReason.WOULD_SHADOW_EXISTING, text))
    return statuses, holds


def _exclude_surplus(
    tenants: list[TenantStatus], memory: MutationMemory, holds: list[HoldQuota], limits: MutationLimits
) -> tuple[list[TenantStatus], list[HoldQuota]]:
    """Marks the tenants beyond ``tenants_max`` as unmanaged. Tenants with a managed quota come first, then the busiest tenants."""
    managed = [status for status in tenants if status.unmanaged_reason is None]
    if len(managed) <= limits.tenants_max:
        return tenants, holds
    by_rate = sorted(managed, key=lambda status: (-status.state.rate_per_s, status.tenant.key))
    with_quota = [status for status in by_rate if status.tenant.entity in memory.owned]
    without_quota = [status for status in by_rate if status.tenant.entity not in memory.owned]
    surplus = {status.tenant for status in [*with_quota, *without_quota][limits.tenants_max :]}
    surplus_with_quota = max(0, len(with_quota) - limits.tenants_max)
    kept = ""
    if surplus_with_quota:
        kept = f", except {surplus_with_quota} that keep their quota until they have had no mutations for an hour"
    text = (
        f"{len(managed)} tenants, but at most {limits.tenants_max} have a quota by name: the others share the <default> "
        f"quota{kept}. Check for clients that generate a new client-id each time"
    )
    holds.append(HoldQuota(None, QuotaReason.TOO_MANY_TENANTS, text))
    reason = QuotaReason.TOO_MANY_TENANTS
    return [replace(s, unmanaged_reason=reason) if s.tenant in surplus else s for s in tenants], holds


def used_per_s(status: TenantStatus) -> float:
    """Returns the part of the total that an unmanaged tenant uses, in partitions/s: min(its rate, its quota)."""
    rate = status.state.rate_per_s
    return rate if status.current_per_s is None else min(rate, status.current_per_s)


def guaranteed_per_s(rule: TenantRule, limits: MutationLimits) -> float:
    """Returns the guaranteed rate of a tenant with this rule, in partitions/s."""
    return limits.tenant_rate_per_s_min if rule.rate_per_s_min is None else rule.rate_per_s_min


def claim_of(status: TenantStatus, limits: MutationLimits) -> Claim:
    """Returns the tenant's claim for the max–min sharing: demand, weight and guaranteed rate."""
    return Claim(demand_per_s(status.state, limits), status.rule.weight, guaranteed_per_s(status.rule, limits))


def find_absent_tenants(memory: MutationMemory, now_ms: int) -> set[Tenant]:
    """Returns the tenants that were silent for so long that Kafka has dropped their metrics."""
    return {
        tenant
        for tenant, state in memory.tenants.items()
        if now_ms - max(state.sampled_at_ms, state.active_at_ms) > SENSOR_EXPIRY_S * 1000
    }
