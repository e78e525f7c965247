"""Keeps exempt tenants free of managed quotas, including the managed ``<default>`` quota.

If rheostat has adopted the quota of an exempt tenant, the quota gets its earlier value back. An exempt tenant that the managed
``<default>`` quota would limit gets an unlimited quota for its own name:

- If a rule names the tenant in full, the unlimited quota is written in the same cycle as the ``<default>`` quota. An administrator
  who must delete topics therefore never waits.
- If only a pattern matches the tenant, the unlimited quota is written once Kafka has metrics of the tenant.

Invariant: at most ``tenants_max`` tenants that match only a pattern have an unlimited quota. No quota of another tool is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason, RestoreQuota, SetQuota
from tuner.control.mutation_quota.default_quota import UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import QuotaEntity, Tenant, candidate_entities
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.control.mutation_quota.ownership import restore
from tuner.control.mutation_quota.precedence import bucket_kind, find_foreign_quotas, would_bypass_foreign_quota
from tuner.control.mutation_quota.state import MutationMemory, TenantState
from tuner.control.mutation_quota.tenant_rules import RuleMatch, is_name
from tuner.control.mutation_quota.tenant_status import Quotas, TenantStatus


def decide_exemptions(
    quotas: Quotas,
    memory: MutationMemory,
    tenants: Sequence[TenantStatus],
    default: QuotaEntity | None,
    policy: MutationPolicy,
) -> list[SetQuota | RestoreQuota | HoldQuota]:
    """Returns the writes that lift quotas from exempt tenants, and a hold if too many tenants are exempt by a pattern.

    Args:
        default: entity of the managed ``<default>`` quota that exists or is written in this cycle; None: there is none.
    """
    decisions = list[SetQuota | RestoreQuota | HoldQuota]()
    new_by_pattern = list[tuple[TenantStatus, SetQuota]]()
    with_quota = 0  # Number of tenants that match only a pattern and have an unlimited quota already.
    for status in [*tenants, *_find_silent_exemptions(quotas, memory, tenants, default, policy)]:
        entity = status.tenant.entity
        if (
            status.unmanaged_reason is not QuotaReason.EXEMPT
            or entity in memory.externally_owned_until_ms
            or entity in memory.unconfirmed
        ):
            continue
        decision = _decide_exemption(status, quotas, memory, default)
        fully_named = _is_fully_named(status)
        if entity in memory.owned and not fully_named:
            with_quota += 1
        if isinstance(decision, SetQuota) and entity not in memory.owned and not fully_named:
            new_by_pattern.append((status, decision))
        elif decision is not None:
            decisions.append(decision)
    available = max(0, policy.limits.tenants_max - with_quota)
    # The busiest tenants come first.
    new_by_pattern.sort(key=lambda new: new[0].state.rate_per_s, reverse=True)
    if len(new_by_pattern) > available:
        text = (
            f"{with_quota + len(new_by_pattern)} tenants match a pattern that exempts them, but rheostat exempts at most "
            f"{policy.limits.tenants_max} of them from the <default> quota, which limits the others. Name exempt tenants in "
            "full"
        )
        decisions.append(HoldQuota(None, QuotaReason.TOO_MANY_TENANTS, text))
    return [*decisions, *(decision for _, decision in new_by_pattern[:available])]


def find_fully_named_exemptions(policy: MutationPolicy) -> dict[Tenant, RuleMatch]:
    """Returns the exempt tenants that a rule names without wildcards. The first rule for a name applies."""
    first: dict[Tenant, RuleMatch] = {}
    for index, rule in enumerate(policy.rules):
        names = (rule.user, rule.client_id)
        if names != (None, None) and all(map(is_name, names)):
            first.setdefault(Tenant(*names), RuleMatch(rule, index))
    return {tenant: match for tenant, match in first.items() if match.rule.exempt}


def _find_silent_exemptions(
    quotas: Quotas,
    memory: MutationMemory,
    tenants: Sequence[TenantStatus],
    default: QuotaEntity | None,
    policy: MutationPolicy,
) -> list[TenantStatus]:
    """Returns the fully named exempt tenants that have no metrics in Kafka, but need a decision.

    The decision is needed if the ``<default>`` quota would limit the tenant, or if the tenant has a managed quota.
    """
    known, silent = {status.tenant for status in tenants}, list[TenantStatus]()
    for tenant, match in find_fully_named_exemptions(policy).items():
        limited_by_default = default is not None and bucket_kind(tenant) == bucket_kind(default)
        if tenant not in known and (limited_by_default or tenant.entity in memory.owned):
            quota = quotas.get(tenant.entity)
            silent.append(TenantStatus(tenant, TenantState(), quota, quota, match, QuotaReason.EXEMPT))
    return silent


def _decide_exemption(
    status: TenantStatus, quotas: Quotas, memory: MutationMemory, default: QuotaEntity | None
) -> SetQuota | RestoreQuota | None:
    tenant, entity = status.tenant, status.tenant.entity
    owned = memory.owned.get(entity)
    if owned is None and status.named_quota_per_s is not None:
        return None
    next_in_force = next((e for e in candidate_entities(tenant) if e != entity and (e in quotas or e == default)), None)
    limited_by_default = (
        default is not None
        and next_in_force == default
        and not would_bypass_foreign_quota(tenant, find_foreign_quotas(quotas, memory), default)
    )
    # An adopted quota gets its earlier value back. If no managed ``<default>`` quota limits the tenant, an unlimited quota is not
    # needed, and one that rheostat has set is removed.
    if (owned is not None and owned.before_per_s is not None) or not limited_by_default:
        return restore(entity, quotas, memory, QuotaReason.EXEMPT) if owned is not None else None
    if status.named_quota_per_s == UNLIMITED_PER_S:
        return None
    text = f"{tenant}: exempt: {UNLIMITED_PER_S:g}/s, because the quota of {default} would limit it"
    return SetQuota(entity, status.named_quota_per_s, UNLIMITED_PER_S, QuotaReason.EXEMPT, text)


def _is_fully_named(status: TenantStatus) -> bool:
    return (status.rule.user, status.rule.client_id) == (status.tenant.user, status.tenant.client_id)
