"""Who is exempt is held back by no quota of ours: what we put in the place of another is put back, and what we keep for whoever
has none does not bind them.

Under a name that was said in full this is so from the moment on in which there is such a default: whoever has to delete topics does
not wait for it first. Of a pattern nobody knows whom it fits before they come, and client-ids may be made up anew each time.

Invariant: no more than ``tenants_max`` of those that only a pattern fits have a quota for it; nothing is written that somebody set.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason, RestoreQuota, SetQuota
from tuner.control.mutation_quota.default_quota import UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import QuotaEntity, Tenant, candidate_entities
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.control.mutation_quota.ownership import restore
from tuner.control.mutation_quota.precedence import bucket_kind, find_foreign_quotas, would_lift_out_of_foreign
from tuner.control.mutation_quota.state import MutationMemory, TenantState
from tuner.control.mutation_quota.tenant_rules import RuleMatch, is_name
from tuner.control.mutation_quota.tenant_status import Quotas, TenantStatus


def decide_exemptions(
    quotas: Quotas,
    memory: MutationMemory,
    places: Sequence[TenantStatus],
    default: QuotaEntity | None,
    policy: MutationPolicy,
) -> list[SetQuota | RestoreQuota | HoldQuota]:
    """
    Args:
        default: of ours, that stands or is written now; None: none of ours is for whoever has none.
    """
    found, many = list[SetQuota | RestoreQuota | HoldQuota](), list[tuple[float, SetQuota]]()
    held = 0
    for place in [*places, *_not_heard_of(quotas, memory, places, default, policy)]:
        entity = place.tenant.entity
        if (
            place.unmanaged_reason is not QuotaReason.EXEMPT
            or entity in memory.externally_owned_until_ms
            or entity in memory.unconfirmed
        ):
            continue
        made = _of(place, quotas, memory, default)
        in_full = _is_named_in_full(place)
        held += entity in memory.owned and not in_full
        if isinstance(made, SetQuota) and entity not in memory.owned and not in_full:
            many.append((place.state.rate_per_s, made))
        elif made is not None:
            found.append(made)
    room = max(0, policy.limits.tenants_max - held)
    many.sort(key=lambda each: -each[0])
    if len(many) > room:
        text = (
            f"{held + len(many)} tenants are exempt by a pattern, and {policy.limits.tenants_max} of them at most are lifted out "
            "of the <default> quota: the others have it. Name in full whom you mean"
        )
        found.append(HoldQuota(None, QuotaReason.TOO_MANY_TENANTS, text))
    return [*found, *(made for _, made in many[:room])]


def find_fully_named_exemptions(policy: MutationPolicy) -> dict[Tenant, RuleMatch]:
    """Who is exempt by a rule that says the whole of a name. Nothing names them more exactly, so the first that does wins."""
    first: dict[Tenant, RuleMatch] = {}
    for place, rule in enumerate(policy.rules):
        names = (rule.user, rule.client_id)
        if names != (None, None) and all(map(is_name, names)):
            first.setdefault(Tenant(*names), RuleMatch(rule, place))
    return {tenant: won for tenant, won in first.items() if won.rule.exempt}


def _not_heard_of(
    quotas: Quotas,
    memory: MutationMemory,
    places: Sequence[TenantStatus],
    default: QuotaEntity | None,
    policy: MutationPolicy,
) -> list[TenantStatus]:
    """Whom the default would hold back with the first that they do, or did."""
    known, found = {place.tenant for place in places}, list[TenantStatus]()
    for tenant, rule in find_fully_named_exemptions(policy).items():
        bound = default is not None and bucket_kind(tenant) == bucket_kind(default)
        if tenant not in known and (bound or tenant.entity in memory.owned):
            own = quotas.get(tenant.entity)
            found.append(TenantStatus(tenant, TenantState(), own, own, rule, QuotaReason.EXEMPT))
    return found


def _of(
    place: TenantStatus, quotas: Quotas, memory: MutationMemory, default: QuotaEntity | None
) -> SetQuota | RestoreQuota | None:
    entity = place.tenant.entity
    ours = memory.owned.get(entity)
    if ours is None and place.named_quota_per_s is not None:
        return None
    beneath = next((e for e in candidate_entities(place.tenant) if e != entity and (e in quotas or e == default)), None)
    # Somebody's word, also where it was ours for a while; or nothing of ours to be lifted out of.
    bound = (
        default is not None
        and beneath == default
        and not would_lift_out_of_foreign(place.tenant, find_foreign_quotas(quotas, memory), default)
    )
    if (ours is not None and ours.before_per_s is not None) or not bound:
        return restore(entity, quotas, memory, QuotaReason.EXEMPT) if ours is not None else None
    if place.named_quota_per_s == UNLIMITED_PER_S:
        return None
    text = f"{place.tenant}: exempt: {UNLIMITED_PER_S:g}/s, as the quota of {default} would hold it back"
    return SetQuota(entity, place.named_quota_per_s, UNLIMITED_PER_S, QuotaReason.EXEMPT, text)


def _is_named_in_full(place: TenantStatus) -> bool:
    return (place.of.user, place.of.client_id) == (place.tenant.user, place.tenant.client_id)
