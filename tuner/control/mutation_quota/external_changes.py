"""Detects quotas that another tool sets or changes, by comparing each snapshot with the previous one.

Rheostat may adopt the quotas in the first snapshot. A quota that appears or changes later, without a write by rheostat, is
externally owned: rheostat leaves it alone for ``external_change_hold_s``. ``ownership`` compares the quotas that rheostat owns;
this module compares all other quotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason, RelinquishQuota
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.ownership import is_same, note_unconfirmed, relinquish_changed
from tuner.control.mutation_quota.state import MutationMemory


def track_external_changes(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, now_ms: int, limits: MutationLimits
) -> tuple[MutationMemory, list[RelinquishQuota | HoldQuota]]:
    """Returns the state after this snapshot, and a decision for each external change that is certain.

    Args:
        quotas: all quotas in Kafka now, in partitions/s.
    """
    previous_unconfirmed, previous_unowned = memory.unconfirmed, memory.unowned_per_s
    memory, relinquished = relinquish_changed(quotas, memory, now_ms, limits)
    decisions: list[RelinquishQuota | HoldQuota] = [*relinquished]
    external, unconfirmed = dict(memory.externally_owned_until_ms), dict(memory.unconfirmed)
    unowned = dict[QuotaEntity, float]()
    for entity, current in quotas.items():
        if entity in memory.owned:
            continue
        before = previous_unowned.get(entity)
        if not memory.quotas_were_read or entity in external or is_same(current, before):
            unowned[entity] = current
            continue
        # The broker that answered may lag behind, and still show a quota that rheostat has already restored.
        change = note_unconfirmed(previous_unconfirmed.get(entity), current, now_ms)
        if now_ms - change.since_ms < limits.propagation_s_max * 1000:
            unconfirmed[entity] = change
            if before is not None:
                unowned[entity] = before
            continue
        external[entity] = now_ms + round(limits.external_change_hold_s * 1000)
        unowned[entity] = current
        earlier = "no quota" if before is None else f"{before:g}/s"
        text = (
            f"{entity}: another tool set {current:g}/s (before: {earlier}). The quota is left alone for "
            f"{limits.external_change_hold_s / 60:.0f} min"
        )
        decisions.append(HoldQuota(entity, QuotaReason.EXTERNALLY_OWNED, text))
    memory = replace(
        memory,
        externally_owned_until_ms=external,
        unconfirmed=unconfirmed,
        # An equal mapping keeps its identity, so that the journal writes no change.
        unowned_per_s=previous_unowned if unowned == previous_unowned else unowned,
        quotas_were_read=True,
    )
    return memory, decisions
