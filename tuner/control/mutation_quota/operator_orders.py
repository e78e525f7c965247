"""A cycle of the mutation quotas, with a person's word before the law's: pause, resume, release. And the end of it all.

Where no quotas are asked for any more, but some of ours still stand, they are taken back: a tuner that was set up for less leaves
no more behind than one that was released.

Invariant: what is put back is only what is ours; what somebody changed is let go of first, whatever was ordered.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.foreign_quotas import track_external_changes
from tuner.control.mutation_quota.metering_quota import decide_metering_quota
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.ownership import restore_all
from tuner.control.mutation_quota.policy import QuotaStep, step
from tuner.control.mutation_quota.state import MutationMemory, TenantState
from tuner.core.cluster import NotSeen
from tuner.core.operator_orders import Orders


def step_with_orders(
    view: QuotaView, memory: MutationMemory, policy: MutationPolicy | None, orders: Orders
) -> QuotaStep:
    """As ``step``, where nobody ordered anything else. Without a policy everything of ours is taken back."""
    limits = policy.limits if policy is not None else MutationLimits()
    memory = _heard(orders, memory, limits)
    if policy is not None and orders.pause is None:
        made = step(view, memory, policy)
        measuring = decide_metering_quota(view, made.memory, policy)
        return made if measuring is None else replace(made, decisions=(*made.decisions, measuring))
    if isinstance(view.quotas, NotSeen):
        text = f"the quotas could not be read: {view.quotas.reason}"
        return QuotaStep(memory, (HoldQuota(None, QuotaReason.QUOTAS_UNREADABLE, text),))
    memory, gone = track_external_changes(view.quotas, memory, view.now_ms, limits)
    if orders.pause is not None and not orders.pause.released:
        text = f"paused by {orders.pause.by}: no quota is changed until `rheostat resume`"
        return QuotaStep(memory, (*gone, HoldQuota(None, QuotaReason.PAUSED, text)))
    if orders.pause is not None:
        reason, why = QuotaReason.RELEASED, f"released by {orders.pause.by}"
    else:
        reason, why = QuotaReason.NOT_CONFIGURED, "tuner.mutation_quota is not set any more"
    said = HoldQuota(None, reason, f"{why}: every quota that was ours is taken back, and none is set")
    return QuotaStep(memory, (*gone, *restore_all(view.quotas, memory, reason), said))


def _heard(orders: Orders, memory: MutationMemory, limits: MutationLimits) -> MutationMemory:
    """What somebody changed before ``resume`` is free again; and that the orders were read."""
    yield_ms = round(limits.external_change_hold_s * 1000)
    theirs = {
        e: until for e, until in memory.externally_owned_until_ms.items() if until - yield_ms > orders.resumed_at_ms
    }
    return replace(memory, externally_owned_until_ms=theirs, orders_at_ms=max(memory.orders_at_ms, orders.at_ms))


def recall_tenants(memory: MutationMemory, now_ms: int) -> MutationMemory:
    """After a restart: those whose quota is ours are known from now on, so that whoever is never heard of again is gone
    in an hour, and not at once nor never. Nothing of them is judged yet: what was heard a moment ago is still news."""
    known = dict(memory.tenants)
    for entity in memory.owned:
        user, client_id = entity.user, entity.client_id
        if not any(name is not None and not isinstance(name, str) for name in (user, client_id)):
            tenant = Tenant(user if isinstance(user, str) else None, client_id if isinstance(client_id, str) else None)
            known.setdefault(tenant, TenantState(active_at_ms=now_ms))
    return replace(memory, tenants=known)
