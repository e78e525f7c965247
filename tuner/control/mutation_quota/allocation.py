"""Whose quota becomes what: the total dealt out to tenants, and what of that is worth writing.

Intuition: at the gate of the bridge. Carts of those who are not ours to stop go first. Of the rest each has what it brings, as
long as there is room; and even who brings none today finds the gate open for a few.

    total → less what is not ours to hold back → shares (max–min, of what is wanted) → never below the standing share → written

Invariant: quotas of ours add up to at most the over-allocation times what is dealt, but for floors; those of newcomers, whom
the default serves, come on top. No quota is taken away to make somebody unlimited who is not exempt, and none that somebody else
set is touched.

Vocabulary:
    standing share  what a tenant keeps while it does nothing: its part by weight of what is allocated beyond the total.
    theirs          set or changed by somebody else.
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
from tuner.control.mutation_quota.max_min_share import share_max_min
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.ownership import restore
from tuner.control.mutation_quota.reasons import compute_setpoint, explain_setpoint
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.mutation_quota.tenant_status import Quotas, TenantStatus, claim_of, find_absent_tenants, used_per_s

# Why one of ours does not stay where it is, though its tenant is there.
_NOT_KEPT = (QuotaReason.PRESERVED, QuotaReason.NOT_CONFIGURED, QuotaReason.WOULD_SHADOW_EXISTING)


def allocate(
    view: QuotaView,
    quotas: Quotas,
    memory: MutationMemory,
    places: Sequence[TenantStatus],
    whole: float,
    policy: MutationPolicy,
    *,
    lowers_only: bool = False,
) -> tuple[MutationMemory, list[QuotaDecision], tuple[TenantShare, ...]]:
    """The memory with what is written noted, the writes and what is to be said, and how every tenant stands.

    Args:
        whole: partitions/s for all of them.
        lowers_only: nothing is known that would allow more.
    """
    limits = policy.limits
    # Blind to everybody, nobody can be told from who has gone.
    memory, gone, back = (
        (memory, set[Tenant](), list[QuotaDecision]()) if lowers_only else _gone(view, quotas, memory, policy)
    )
    places, decisions = [p for p in places if p.tenant not in gone], list[QuotaDecision]()
    ours = [place for place in places if place.unmanaged_reason is None]
    beyond = math.fsum(used_per_s(place) for place in places if place.unmanaged_reason is not None)
    left, claims = max(0.0, whole - beyond), [claim_of(place, limits) for place in ours]
    # The brake takes nothing of what was promised; that may be more than there is without it.
    unbraked = max(left, memory.total.rate_per_s - beyond) if memory.total is not None else left
    kept = max(left, min(unbraked, math.fsum(claim.guaranteed_demand for claim in claims)))
    sharing = share_max_min(kept, claims)
    if sharing.guarantees_cut:
        text = f"the floors of {len(ours)} tenants are more than the {kept:.1f}/s there are: all are cut alike"
        decisions.append(HoldQuota(None, QuotaReason.GUARANTEES_CUT, text))
    weights, beyond_total = math.fsum(place.of.weight for place in ours), (limits.over_allocation - 1) * left
    spare = beyond_total / weights if weights > 0 else 0.0
    states, rows = (
        dict(memory.tenants),
        {place.tenant: _alone(place, place.unmanaged_reason) for place in places if place.unmanaged_reason},
    )
    for place, fair in zip(ours, sharing.shares, strict=True):
        wanted, reason = compute_setpoint(place, fair, spare * place.of.weight, sharing, limits)
        state = place.state
        rule = place.rule.place if place.rule is not None else None
        rows[place.tenant] = TenantShare(
            place.tenant, state.rate_per_s, state.backlogged, place.current_per_s, wanted, reason, rule
        )
        if not _worth_writing(place, wanted, view.now_ms, limits, lowers_only):
            continue
        states[place.tenant] = replace(state, written_at_ms=view.now_ms, previous_write_at_ms=state.written_at_ms)
        text = explain_setpoint(place, wanted, reason, sharing)
        decisions.append(SetQuota(place.tenant.entity, place.named_quota_per_s, wanted, reason, text))
    anew = max(limits.tenant_rate_per_s_min, beyond_total / (weights + limits.new_tenants_expected))
    holds_back = any(place.bound_by_managed_default and place.state.backlogged for place in places)
    default = decide_default_quota(
        quotas, memory, anew, policy, view.now_ms, holds_back=holds_back, lowers_only=lowers_only
    )
    if not lowers_only:
        # Before the default, so that it never holds back whom it is not for.
        decisions += decide_exemptions(quotas, memory, places, find_managed_default(default, memory, policy), policy)
        decisions += _not_kept(quotas, memory, places)
        decisions += restore_unwanted_defaults(quotas, memory, policy)
    decisions += [default] if default is not None else []
    written_at_ms = view.now_ms if isinstance(default, SetQuota) else memory.default_written_at_ms
    memory = replace(memory, tenants=states, default_written_at_ms=written_at_ms)
    return memory, [*decisions, *back], tuple(rows[place.tenant] for place in places)


def _worth_writing(place: TenantStatus, wanted: float, now_ms: int, limits: MutationLimits, lowers_only: bool) -> bool:
    stands = place.current_per_s
    # Nothing holds it back: any bound is better than none. But who is blind starts nothing.
    if stands is None:
        return not lowers_only
    if abs(wanted - stands) <= limits.deadband_ratio * stands or (lowers_only and wanted > stands):
        return False
    # Who uses what others have come back for gives it up at once.
    if place.state.backlogged and wanted < (1 - limits.urgent_ratio) * stands:
        return True
    if now_ms - place.state.previous_write_at_ms < limits.third_write_after_s * 1000:
        return False
    # What holds somebody back is lowered for the controller's sake: it does not wait for the last raise to grow old.
    lowered = place.state.backlogged and wanted < stands
    return lowered or now_ms - place.state.written_at_ms >= limits.write_every_s * 1000


def _alone(place: TenantStatus, reason: QuotaReason) -> TenantShare:
    rule = place.rule.place if place.rule is not None else None
    state = place.state
    return TenantShare(place.tenant, state.rate_per_s, state.backlogged, place.current_per_s, None, reason, rule)


def _not_kept(quotas: Quotas, memory: MutationMemory, places: Sequence[TenantStatus]) -> list[RestoreQuota]:
    return [
        restore(place.tenant.entity, quotas, memory, place.unmanaged_reason)
        for place in places
        if place.unmanaged_reason is not None and place.unmanaged_reason in _NOT_KEPT
        if place.tenant.entity in memory.owned and place.tenant.entity not in memory.unconfirmed
    ]


def _gone(
    view: QuotaView, quotas: Quotas, memory: MutationMemory, policy: MutationPolicy
) -> tuple[MutationMemory, set[Tenant], list[QuotaDecision]]:
    """Kafka has forgotten them too. Forgotten here once nothing of them stands any more: a write that failed is tried again."""
    gone = find_absent_tenants(memory, view.now_ms, policy.limits)
    # Whoever is lifted out of the default before he comes is so after he has gone.
    named = find_fully_named_exemptions(policy)
    stands = sorted((t for t in gone if t.entity in memory.owned and t not in named), key=lambda t: t.key)
    back = [
        restore(t.entity, quotas, memory, QuotaReason.TENANT_GONE) for t in stands if t.entity not in memory.unconfirmed
    ]
    kept = {t: s for t, s in memory.tenants.items() if t not in gone or t.entity in memory.owned}
    return replace(memory, tenants=kept), gone, list(back)
