"""Makes the decisions of one cycle of the mutation quotas, and applies operator orders first: pause, resume, release.

If ``tuner.mutation_quota`` is no longer configured, all managed quotas are restored, as after a release.

Invariant: only managed quotas are restored. Under every order, a quota that another tool has changed is relinquished first.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason
from tuner.control.mutation_quota.entity import DEFAULT, Tenant
from tuner.control.mutation_quota.external_changes import track_external_changes
from tuner.control.mutation_quota.metering_quota import decide_metering_quota
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.ownership import restore_all
from tuner.control.mutation_quota.policy import QuotaStep, step
from tuner.control.mutation_quota.state import MutationMemory, TenantState
from tuner.core.cluster import ClusterUnreadable
from tuner.core.operator_orders import Orders


def step_with_orders(
    view: QuotaView, memory: MutationMemory, policy: MutationPolicy | None, orders: Orders
) -> QuotaStep:
    """Returns the decisions of one cycle, and the next state.

    Args:
        policy: None if mutation quotas are not configured: all managed quotas are restored.
    """
    limits = policy.limits if policy is not None else MutationLimits()
    memory = _acknowledge(orders, memory, limits)
    if policy is not None and orders.pause is None:
        result = step(view, memory, policy)
        metering = decide_metering_quota(view, result.memory, policy)
        return result if metering is None else replace(result, decisions=(*result.decisions, metering))
    if isinstance(view.quotas, ClusterUnreadable):
        text = f"the quotas could not be read: {view.quotas.reason}"
        return QuotaStep(memory, (HoldQuota(None, QuotaReason.QUOTAS_UNREADABLE, text),))
    memory, changes = track_external_changes(view.quotas, memory, view.now_ms, limits)
    # A release is stored as a pause with ``released`` set: it restores the quotas instead of leaving them.
    if orders.pause is not None and not orders.pause.released:
        text = f"paused by {orders.pause.by}: no quota is changed until `rheostat resume`"
        return QuotaStep(memory, (*changes, HoldQuota(None, QuotaReason.PAUSED, text)))
    if orders.pause is not None:
        reason, cause = QuotaReason.RELEASED, f"released by {orders.pause.by}"
    else:
        reason, cause = QuotaReason.NOT_CONFIGURED, "tuner.mutation_quota is not configured"
    hold = HoldQuota(
        None, reason, f"{cause}: every managed quota is restored to its earlier value, and no quota is set"
    )
    return QuotaStep(memory, (*changes, *restore_all(view.quotas, memory, reason), hold))


def _acknowledge(orders: Orders, memory: MutationMemory, limits: MutationLimits) -> MutationMemory:
    """Returns the state with the orders acknowledged. ``resume`` ends the holds of external changes found before the order."""
    hold_ms = round(limits.external_change_hold_s * 1000)
    external = {
        entity: until_ms
        for entity, until_ms in memory.externally_owned_until_ms.items()
        if until_ms - hold_ms > orders.resumed_at_ms
    }
    return replace(memory, externally_owned_until_ms=external, orders_at_ms=max(memory.orders_at_ms, orders.at_ms))


def recall_tenants(memory: MutationMemory, now_ms: int) -> MutationMemory:
    """Returns the state after a restart, with a tenant for each managed quota.

    Only tenants in the state can become absent, and only the quotas of absent tenants are restored. A tenant that stays silent
    counts as absent ``SENSOR_EXPIRY_S`` after the restart.
    """
    tenants = dict(memory.tenants)
    for entity in memory.owned:
        user, client_id = entity.user, entity.client_id
        # A <default> quota belongs to no single tenant.
        if user is not DEFAULT and client_id is not DEFAULT:
            tenants.setdefault(Tenant(user, client_id), TenantState(active_at_ms=now_ms))
    return replace(memory, tenants=tenants)
