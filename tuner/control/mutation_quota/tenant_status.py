"""Where every tenant stands in this cycle: what it does, which quota it has, by which rule, and whether it is ours to write.

Invariant: whoever is left alone is so for a reason that is shown; what it does counts all the same.
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

_PLAIN = TenantRule()

Quotas = Mapping[QuotaEntity, float]


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """One tenant in this turn."""

    tenant: Tenant
    state: TenantState
    named_quota_per_s: float | None  # Under its very name.
    current_per_s: float | None  # In force, by whatever name.
    rule: RuleMatch | None
    unmanaged_reason: QuotaReason | None = None  # Why it is not ours to write.
    bound_by_managed_default: bool = False  # What is in force is a quota of ours under another name: <default>.

    @property
    def of(self) -> TenantRule:
        return self.rule.rule if self.rule is not None else _PLAIN


def assess_tenants(
    quotas: Quotas, memory: MutationMemory, policy: MutationPolicy, gone: Collection[Tenant] = ()
) -> tuple[list[TenantStatus], list[HoldQuota]]:
    """Of all tenants but those that are gone, with whom it would be wrong to write to; and what is to be said of those."""
    others = find_foreign_quotas(quotas, memory)
    found = [
        _place_of(tenant, state, quotas, others, memory, policy)
        for tenant, state in memory.tenants.items()
        if tenant not in gone
        # Kafka counts nothing there any more; what its books still say was done is told of others now.
        if tenant.entity in memory.owned or not is_leftover_bucket(tenant, others, policy.default_entity)
    ]
    return _left_alone(quotas, others, memory, found, policy)


def _place_of(
    tenant: Tenant,
    state: TenantState,
    quotas: Quotas,
    others: ForeignQuotas,
    memory: MutationMemory,
    policy: MutationPolicy,
) -> TenantStatus:
    entity, rule = tenant.entity, match_rule(tenant, policy.rules)
    own, found = quotas.get(entity), find_quota_in_force(quotas, tenant)
    live = found[1] if found is not None else None
    reason = None
    if rule is not None and rule.rule.exempt:
        reason = QuotaReason.EXEMPT
    elif entity in memory.externally_owned_until_ms or entity in memory.unconfirmed:
        reason = QuotaReason.EXTERNALLY_OWNED
    # A default that somebody set is as much their word as a quota under this name.
    elif not policy.adopt_existing and find_quota_in_force(others.quotas, tenant) is not None:
        reason = QuotaReason.PRESERVED
    elif is_leftover_bucket(tenant, others, policy.default_entity):
        reason = QuotaReason.NOT_CONFIGURED
    bound_by_managed_default = found is not None and found[0] != entity and found[0] in memory.owned
    return TenantStatus(tenant, state, own, live, rule, reason, bound_by_managed_default)


def _left_alone(
    quotas: Quotas,
    others: ForeignQuotas,
    memory: MutationMemory,
    places: Sequence[TenantStatus],
    policy: MutationPolicy,
) -> tuple[list[TenantStatus], list[HoldQuota]]:
    """The same places, with those marked to whom it would be wrong to write, and what has to be said of them."""
    decisions, found, void = list[HoldQuota](), list[TenantStatus](), list[tuple[Tenant, QuotaEntity]]()
    pairs: dict[str | None, list[Tenant]] = {}
    for place in places:
        if place.tenant.client_id is not None:
            pairs.setdefault(place.tenant.user, []).append(place.tenant)
    for place in places:
        entity = place.tenant.entity
        taken = (
            find_rebucketed_tenants(entity, quotas, pairs.get(place.tenant.user, ()))
            if place.tenant.client_id is None
            else ()
        )
        if taken and place.unmanaged_reason is None:
            text = f"{entity}: a quota there would count {taken[0]} in the same bucket, so it is left without one"
            decisions.append(HoldQuota(entity, QuotaReason.WOULD_SHADOW_EXISTING, text))
            place = replace(place, unmanaged_reason=QuotaReason.WOULD_SHADOW_EXISTING)
        if place.unmanaged_reason is None and (first := find_shadowed_quota(place.tenant, others)) is not None:
            void.append((place.tenant, first))
            place = replace(place, unmanaged_reason=QuotaReason.WOULD_SHADOW_EXISTING)
        found.append(place)
    if void:
        tenant, theirs = void[0]
        many = f"{len(void)} tenants, such as {tenant}" if len(void) > 1 else str(tenant)
        text = (
            f"{many}: a quota there would put that of {theirs} out of force, which somebody set: none is kept. Set "
            "tuner.mutation_quota.default_entity to what that one is for, or to none"
        )
        decisions.append(HoldQuota(None, QuotaReason.WOULD_SHADOW_EXISTING, text))
    return _few_enough(found, memory, decisions, policy.limits)


def _few_enough(
    places: list[TenantStatus], memory: MutationMemory, decisions: list[HoldQuota], limits: MutationLimits
) -> tuple[list[TenantStatus], list[HoldQuota]]:
    ours = [place for place in places if place.unmanaged_reason is None]
    if len(ours) <= limits.tenants_max:
        return places, decisions
    busiest = sorted(ours, key=lambda p: (p.tenant.entity not in memory.owned, -p.state.rate_per_s, p.tenant.key))
    over = {place.tenant for place in busiest[limits.tenants_max :]}
    older = sum(tenant.entity in memory.owned for tenant in over)
    text = (
        f"{len(ours)} tenants, and quotas are written for {limits.tenants_max} at most: the others have the default's"
        f"{f', but for {older} that keep what they had of ours until they are gone for an hour' if older else ''}. "
        "Client-ids that are made up anew each time do this"
    )
    decisions.append(HoldQuota(None, QuotaReason.TOO_MANY_TENANTS, text))
    alone = QuotaReason.TOO_MANY_TENANTS
    return [replace(p, unmanaged_reason=alone) if p.tenant in over else p for p in places], decisions


def used_per_s(place: TenantStatus) -> float:
    """What somebody does whom we don't hold back, and its quota does not let it do more."""
    rate = place.state.rate_per_s
    return rate if place.current_per_s is None else min(rate, place.current_per_s)


def guaranteed_per_s(rule: TenantRule, limits: MutationLimits) -> float:
    return limits.tenant_rate_per_s_min if rule.rate_per_s_min is None else rule.rate_per_s_min


def claim_of(place: TenantStatus, limits: MutationLimits) -> Claim:
    return Claim(demand_per_s(place.state, limits), place.of.weight, guaranteed_per_s(place.of, limits))


def find_absent_tenants(memory: MutationMemory, now_ms: int, limits: MutationLimits) -> set[Tenant]:
    """Of whom nobody has heard for so long that Kafka has forgotten them."""
    return {
        t
        for t, s in memory.tenants.items()
        if now_ms - max(s.sampled_at_ms, s.active_at_ms) > limits.absent_after_s * 1000
    }
