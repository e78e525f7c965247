"""Computes the managed ``<default>`` quota, which limits tenants that have no quota by name.

Kafka applies to a client only the first quota that fits it in Kafka's order of precedence. A quota for the ``<default>`` user
therefore disables all quotas for client-ids. In the same way, a ``<default>`` quota that rheostat set for an earlier
``default_entity`` may disable the ``<default>`` quota for the present ``default_entity``.

Invariant: no managed ``<default>`` quota disables a quota that the operator or another tool has set. Rheostat does not set a
``<default>`` quota that would do so. If a managed ``<default>`` quota does so, rheostat restores its earlier value.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.control.mutation_quota.decision import (
    RATE_DIGITS,
    HoldQuota,
    QuotaReason,
    RestoreQuota,
    SetQuota,
)
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity, precedence_rank
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.control.mutation_quota.ownership import restore
from tuner.control.mutation_quota.state import MutationMemory

EVERY_PAIR = QuotaEntity(DEFAULT, DEFAULT)
# Higher than the mutation rate of any controller, and low enough that a double still distinguishes single partitions.
UNLIMITED_PER_S = 1e9


def find_shadowed_quotas(
    entity: QuotaEntity, quotas: Mapping[QuotaEntity, float], memory: MutationMemory
) -> tuple[QuotaEntity, ...]:
    """Returns the entities, sorted, whose quotas would be disabled by a quota for ``entity``.

    These quotas have a lower precedence, and an operator or another tool has created them. Rheostat may have adopted them since.
    """
    created = {e for e, owned in memory.owned.items() if owned.before_per_s is None}
    rank = precedence_rank(entity)
    return tuple(sorted((e for e in quotas if e not in created and precedence_rank(e) > rank), key=str))


def decide_default_quota(
    quotas: Mapping[QuotaEntity, float],
    memory: MutationMemory,
    setpoint_per_s: float,
    policy: MutationPolicy,
    now_ms: int,
    *,
    limits_a_tenant: bool,
    lowers_only: bool,
) -> SetQuota | HoldQuota | None:
    """Returns the write of the ``<default>`` quota, or a hold; None if there is nothing to do.

    Args:
        setpoint_per_s: the standing share of a new tenant with a weight of 1.
        limits_a_tenant: the present ``<default>`` quota limits a tenant.
        lowers_only: signals are missing, so the quota is not raised.
    """
    entity, limits = policy.default_entity, policy.limits
    if entity is None or entity in memory.externally_owned_until_ms or entity in memory.unconfirmed:
        return None
    if shadowed := find_shadowed_quotas(entity, quotas, memory):
        text = (
            f"{entity}: no quota is set, because it would disable {len(shadowed)} existing quotas, such as the quota of "
            f"{shadowed[0]}. Set tuner.mutation_quota.default_entity to the kind of these quotas, or to none"
        )
        return HoldQuota(entity, QuotaReason.WOULD_SHADOW_EXISTING, text)
    current, setpoint = quotas.get(entity), round(setpoint_per_s, RATE_DIGITS)
    if current is not None and not policy.adopt_existing and _is_foreign(entity, memory):
        return None
    if lowers_only and (current is None or setpoint > current):
        return None
    # The <default> quota serves mostly tenants that are not known yet, so it changes in large steps, at most twice a minute. A
    # large cut is urgent while this quota limits a known tenant.
    if current is not None:
        if abs(setpoint - current) <= 3 * limits.deadband_ratio * current:
            return None
        urgent = limits_a_tenant and setpoint < (1 - limits.urgent_ratio) * current
        if not urgent and now_ms - memory.default_written_at_ms <= limits.write_every_s * 1000:
            return None
    before = "no quota" if current is None else f"{current:g}/s"
    text = f"{entity}: {before} → {setpoint:g}/s: the standing share of a new tenant"
    return SetQuota(entity, current, setpoint, QuotaReason.DEFAULT_SHARE, text)


def find_managed_default(
    decision: SetQuota | HoldQuota | None, memory: MutationMemory, policy: MutationPolicy
) -> QuotaEntity | None:
    """Returns the entity of the managed ``<default>`` quota that exists or is written in this cycle; None if there is none.

    Args:
        decision: this cycle's decision about the ``<default>`` quota.
    """
    entity = policy.default_entity
    if isinstance(decision, HoldQuota):
        return None
    return entity if isinstance(decision, SetQuota) or entity in memory.owned else None


def restore_unwanted_defaults(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, policy: MutationPolicy
) -> list[RestoreQuota]:
    """Returns a restore for each managed ``<default>`` quota that must not stay.

    A managed ``<default>`` quota must not stay in three cases:

    - it belongs to an earlier ``default_entity``;
    - it disables a quota of another tool;
    - rheostat adopted it from another tool, and ``adopt_existing`` is now False.
    """
    configured = policy.default_entity
    if configured is None and policy.enable_metering:
        configured = EVERY_PAIR
    restores = list[RestoreQuota]()
    for entity in memory.owned:
        if DEFAULT not in (entity.user, entity.client_id) or entity in memory.unconfirmed:
            continue
        if entity != configured:
            restores.append(restore(entity, quotas, memory, QuotaReason.NOT_CONFIGURED))
        elif find_shadowed_quotas(entity, quotas, memory):
            restores.append(restore(entity, quotas, memory, QuotaReason.WOULD_SHADOW_EXISTING))
        elif not policy.adopt_existing and _is_foreign(entity, memory):
            restores.append(restore(entity, quotas, memory, QuotaReason.PRESERVED))
    return restores


def _is_foreign(entity: QuotaEntity, memory: MutationMemory) -> bool:
    """Returns whether another tool or the operator created this quota; True also if rheostat has adopted it since."""
    owned = memory.owned.get(entity)
    return owned is None or owned.before_per_s is not None
