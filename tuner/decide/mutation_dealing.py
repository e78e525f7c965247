"""Whose quota becomes what: the total dealt out to tenants, and what of that is worth writing.

Intuition: at the gate of the bridge. Carts of those who are not ours to stop go first. Of the rest each has what it brings, as
long as there is room; and even who brings none today finds the gate open for a few.

    total → less what is not ours to hold back → shares (max–min, of what is wanted) → never below the standing share → written

Invariant: quotas of ours add up to at most the over-allocation times what is dealt, but for floors; those of newcomers, whom
the default serves, come on top. No quota is ever taken away to make it unlimited, and none that somebody else set is touched.

Vocabulary:
    standing share  what a tenant keeps while it does nothing: its part by weight of what is allocated beyond the total.
    theirs          set or changed by somebody else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.decide.mutation_defaults import NOBODY_HELD_PER_S, made_void, put_back_defaults
from tuner.decide.mutation_ownership import put_back
from tuner.decide.mutation_sharing import Claim, Sharing, share
from tuner.decide.mutation_tenants import Matched, matched, want_per_s
from tuner.model.mutation import MutationLimits, MutationPolicy, QuotaView, TenantRule
from tuner.model.mutation_decision import HoldQuota, QuotaDecision, QuotaReason, SetQuota, TenantShare
from tuner.model.mutation_memory import MutationMemory, TenantState
from tuner.model.quota_entity import QuotaEntity, Tenant, in_force, taken_over

_PLAIN = TenantRule()
_DIGITS = 3  # After the point; a thousandth of a partition/s is a partition in a quarter of an hour.

Quotas = Mapping[QuotaEntity, float]


@dataclass(frozen=True, slots=True)
class Place:
    """One tenant in this turn."""

    tenant: Tenant
    state: TenantState
    own_per_s: float | None  # Under its very name.
    live_per_s: float | None  # In force, by whatever name.
    rule: Matched | None
    left_alone: QuotaReason | None = None  # Why it is not ours to write.
    ours_holds: bool = False  # What is in force is a quota of ours under another name: <default>.

    @property
    def of(self) -> TenantRule:
        return self.rule.rule if self.rule is not None else _PLAIN


def place_of(
    tenant: Tenant, state: TenantState, quotas: Quotas, memory: MutationMemory, policy: MutationPolicy
) -> Place:
    entity, rule = tenant.entity, matched(tenant, policy.rules)
    own, found = quotas.get(entity), in_force(quotas, tenant)
    live = found[1] if found is not None else None
    reason = None
    if rule is not None and rule.rule.exempt:
        reason = QuotaReason.EXEMPT
    elif entity in memory.theirs_until_ms or entity in memory.doubted:
        reason = QuotaReason.SOMEBODY_ELSES
    # A default that somebody set is as much their word as a quota under this name.
    elif found is not None and not policy.adopts and found[0] not in memory.owned:
        reason = QuotaReason.RESPECTED
    ours_holds = found is not None and found[0] != entity and found[0] in memory.owned
    return Place(tenant, state, own, live, rule, reason, ours_holds)


def dealt(
    view: QuotaView,
    quotas: Quotas,
    memory: MutationMemory,
    places: Sequence[Place],
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
        (memory, set[Tenant](), list[QuotaDecision]()) if lowers_only else _gone(view, quotas, memory, limits)
    )
    places, decisions = [p for p in places if p.tenant not in gone], list[QuotaDecision]()
    ours = [place for place in places if place.left_alone is None]
    beyond = math.fsum(used_per_s(place) for place in places if place.left_alone is not None)
    left = max(0.0, whole - beyond)
    sharing = share(left, [claim_of(place, limits) for place in ours])
    if sharing.floors_cut:
        text = f"the floors of {len(ours)} tenants are more than the {left:.1f}/s there are: all are cut alike"
        decisions.append(HoldQuota(None, QuotaReason.FLOORS_CUT, text))
    weights, beyond_total = math.fsum(place.of.weight for place in ours), (limits.over_allocation - 1) * left
    spare = beyond_total / weights if weights > 0 else 0.0
    states, rows = (
        dict(memory.tenants),
        {place.tenant: _alone(place, place.left_alone) for place in places if place.left_alone},
    )
    for place, fair in zip(ours, sharing.shares, strict=True):
        wanted, reason = _wanted(place, fair, spare * place.of.weight, sharing, limits)
        state = place.state
        rule = place.rule.place if place.rule is not None else None
        rows[place.tenant] = TenantShare(
            place.tenant, state.rate_per_s, state.hungry, place.live_per_s, wanted, reason, rule
        )
        if not _worth_writing(place, wanted, view.now_ms, limits, lowers_only):
            continue
        states[place.tenant] = replace(state, written_at_ms=view.now_ms, written_before_at_ms=state.written_at_ms)
        text = _said(place, wanted, reason, sharing)
        decisions.append(SetQuota(place.tenant.entity, place.own_per_s, wanted, reason, text))
    anew = max(limits.tenant_rate_per_s_min, beyond_total / (weights + limits.newcomers))
    default = _default(quotas, memory, anew, policy, lowers_only)
    decisions += [default] if default is not None else []
    if not lowers_only:
        decisions += [_freed(place) for place in places if _is_to_be_freed(place, memory)]
        decisions += put_back_defaults(quotas, memory, policy)
    memory = replace(memory, tenants=states)
    return memory, [*decisions, *back], tuple(rows[place.tenant] for place in places)


def left_alone(
    quotas: Quotas, memory: MutationMemory, places: Sequence[Place], policy: MutationPolicy
) -> tuple[list[Place], list[QuotaDecision]]:
    """The same places, with those marked to whom it would be wrong to write, and what has to be said of them."""
    limits, decisions, found = policy.limits, list[QuotaDecision](), list[Place]()
    pairs: dict[str | None, list[Tenant]] = {}
    for place in places:
        if place.tenant.client_id is not None:
            pairs.setdefault(place.tenant.user, []).append(place.tenant)
    for place in places:
        entity = place.tenant.entity
        others = taken_over(entity, quotas, pairs.get(place.tenant.user, ())) if place.tenant.client_id is None else ()
        if others and place.left_alone is None:
            text = f"{entity}: a quota there would count {others[0]} in the same bucket, so it is left without one"
            decisions.append(HoldQuota(entity, QuotaReason.WOULD_TAKE_OVER, text))
            place = replace(place, left_alone=QuotaReason.WOULD_TAKE_OVER)
        found.append(place)
    ours = [place for place in found if place.left_alone is None]
    if len(ours) <= limits.tenants_max:
        return found, decisions
    busiest = sorted(ours, key=lambda p: (p.tenant.entity not in memory.owned, -p.state.rate_per_s, p.tenant.key))
    over = {place.tenant for place in busiest[limits.tenants_max :]}
    text = (
        f"{len(ours)} tenants, and quotas are written for {limits.tenants_max} at most: the others have the default's. "
        "Client-ids that are made up anew each time do this"
    )
    decisions.append(HoldQuota(None, QuotaReason.TOO_MANY_TENANTS, text))
    return [replace(p, left_alone=QuotaReason.TOO_MANY_TENANTS) if p.tenant in over else p for p in found], decisions


def _is_to_be_freed(place: Place, memory: MutationMemory) -> bool:
    """Held back by a quota of ours, under <default> or, where it was not exempt then, under its own name."""
    entity = place.tenant.entity
    if place.left_alone is not QuotaReason.EXEMPT or entity in memory.theirs_until_ms or entity in memory.doubted:
        return False
    return place.ours_holds or (entity in memory.owned and place.own_per_s != NOBODY_HELD_PER_S)


def _freed(place: Place) -> SetQuota:
    """Who is exempt has no quota of ours; nor may the one that we keep for whoever has none hold it back."""
    text = f"{place.tenant}: exempt: {NOBODY_HELD_PER_S:g}/s, as the quota of <default> would hold it back"
    return SetQuota(place.tenant.entity, place.own_per_s, NOBODY_HELD_PER_S, QuotaReason.EXEMPT, text)


def used_per_s(place: Place) -> float:
    """What somebody does whom we don't hold back, and its quota does not let it do more."""
    rate = place.state.rate_per_s
    return rate if place.live_per_s is None else min(rate, place.live_per_s)


def claim_of(place: Place, limits: MutationLimits) -> Claim:
    return Claim(want_per_s(place.state, limits), place.of.weight, _floor(place.of, limits))


def _floor(rule: TenantRule, limits: MutationLimits) -> float:
    return limits.tenant_rate_per_s_min if rule.rate_per_s_min is None else rule.rate_per_s_min


def _wanted(
    place: Place, fair: float, standing: float, sharing: Sharing, limits: MutationLimits
) -> tuple[float, QuotaReason]:
    floor = limits.tenant_rate_per_s_min if sharing.floors_cut else _floor(place.of, limits)
    wanted = round(max(fair, standing, floor), _DIGITS)
    if place.state.hungry:
        return wanted, QuotaReason.FAIR_SHARE
    return wanted, QuotaReason.HAS_ALL_IT_WANTS if fair > standing else QuotaReason.STANDING_SHARE


def _worth_writing(place: Place, wanted: float, now_ms: int, limits: MutationLimits, lowers_only: bool) -> bool:
    stands = place.live_per_s
    # Nothing holds it back: any bound is better than none. But who is blind starts nothing.
    if stands is None:
        return not lowers_only
    if abs(wanted - stands) <= limits.deadband_ratio * stands or (lowers_only and wanted > stands):
        return False
    # Who uses what others have come back for gives it up at once.
    if place.state.hungry and wanted < (1 - limits.urgent_ratio) * stands:
        return True
    if now_ms - place.state.written_before_at_ms < limits.third_write_s * 1000:
        return False
    # What holds somebody back is lowered for the controller's sake: it does not wait for the last raise to grow old.
    lowered = place.state.hungry and wanted < stands
    return lowered or now_ms - place.state.written_at_ms >= limits.write_every_s * 1000


def _said(place: Place, wanted: float, reason: QuotaReason, sharing: Sharing) -> str:
    stands = "no quota" if place.live_per_s is None else f"{place.live_per_s:g}/s"
    why = {
        QuotaReason.FAIR_SHARE: f"held back; its share by weight {place.of.weight:g} × {sharing.level:.2f}/s",
        QuotaReason.HAS_ALL_IT_WANTS: f"does {place.state.rate_per_s:.2f}/s, and may do a quarter more",
        QuotaReason.STANDING_SHARE: f"does {place.state.rate_per_s:.2f}/s; its standing share",
    }[reason]
    won = ""
    if place.rule is not None:
        also = f", before {', '.join(str(n + 1) for n in place.rule.also)}" if place.rule.also else ""
        won = f" (rule {place.rule.place + 1}{also})"
    return f"{place.tenant}: {stands} → {wanted:g}/s: {why}{won}"


def _alone(place: Place, reason: QuotaReason) -> TenantShare:
    rule = place.rule.place if place.rule is not None else None
    state = place.state
    return TenantShare(place.tenant, state.rate_per_s, state.hungry, place.live_per_s, None, reason, rule)


def _default(
    quotas: Quotas, memory: MutationMemory, wanted: float, policy: MutationPolicy, lowers_only: bool
) -> SetQuota | HoldQuota | None:
    """For whom nobody knows yet: one standing share each, of a weight of one."""
    entity, limits = policy.default_entity, policy.limits
    if entity is None or entity in memory.theirs_until_ms or entity in memory.doubted:
        return None
    if void := made_void(entity, quotas, memory):
        text = (
            f"{entity}: a quota there would put {len(void)} that somebody set out of force, such as that of {void[0]}: none is "
            "kept. Set tuner.mutation_quota.default_entity to what they are for, or to none"
        )
        return HoldQuota(entity, QuotaReason.WOULD_TAKE_OVER, text)
    live, wanted = quotas.get(entity), round(wanted, _DIGITS)
    if live is not None and entity not in memory.owned and not policy.adopts:
        return None
    if lowers_only and (live is None or wanted > live):
        return None
    # Seldom and by much: it counts for nobody that is known.
    if live is not None and abs(wanted - live) <= 3 * limits.deadband_ratio * live:
        return None
    stands = "no quota" if live is None else f"{live:g}/s"
    text = f"{entity}: {stands} → {wanted:g}/s: the standing share of whoever comes anew"
    return SetQuota(entity, live, wanted, QuotaReason.DEFAULT_SHARE, text)


def gone_of(memory: MutationMemory, now_ms: int, limits: MutationLimits) -> set[Tenant]:
    """Of whom nobody has heard for so long that Kafka has forgotten them."""
    return {
        t for t, s in memory.tenants.items() if now_ms - max(s.judged_at_ms, s.active_at_ms) > limits.absent_s * 1000
    }


def _gone(
    view: QuotaView, quotas: Quotas, memory: MutationMemory, limits: MutationLimits
) -> tuple[MutationMemory, set[Tenant], list[QuotaDecision]]:
    """Kafka has forgotten them too. Forgotten here once nothing of them stands any more: a write that failed is tried again."""
    gone = gone_of(memory, view.now_ms, limits)
    stands = sorted((t for t in gone if t.entity in memory.owned), key=lambda t: t.key)
    back = [
        put_back(t.entity, quotas, memory, QuotaReason.TENANT_GONE) for t in stands if t.entity not in memory.doubted
    ]
    kept = {t: s for t, s in memory.tenants.items() if t not in gone or t.entity in memory.owned}
    return replace(memory, tenants=kept), gone, list(back)
