"""Whose are the quotas that stand: ours, somebody's who set them before us, or somebody's who has just done so.

Intuition: whoever moves into a house may use the furniture that he finds. A chair that a neighbour brings in later is the
neighbour's, and is not sat on before he has had his time with it.

Invariant: what appears or changes after our first look, and is not of our writing, is not written for as long as what somebody
changed of ours is not.

Vocabulary:
    others  what stood with the last look and was not ours.
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
    """The memory after this look, and what has to be said: of what was ours, and of what others set."""
    doubted_before, known = memory.unconfirmed, memory.foreign_per_s
    memory, gone = relinquish_changed(quotas, memory, now_ms, limits)
    decisions: list[RelinquishQuota | HoldQuota] = [*gone]
    theirs, doubted, others = (
        dict(memory.externally_owned_until_ms),
        dict(memory.unconfirmed),
        dict[QuotaEntity, float](),
    )
    for entity, found in quotas.items():
        if entity in memory.owned:
            continue
        before = known.get(entity)
        if not memory.quotas_were_read or entity in theirs or is_same(found, before):
            others[entity] = found
            continue
        # It may be a broker that is behind, and shows what we have taken back.
        doubts = note_unconfirmed(doubted_before.get(entity), found, now_ms)
        if now_ms - doubts.since_ms < limits.propagation_s_max * 1000:
            doubted[entity] = doubts
            if before is not None:
                others[entity] = before
            continue
        theirs[entity], others[entity] = now_ms + round(limits.external_change_hold_s * 1000), found
        stood = "none stood" if before is None else f"{before:g}/s stood"
        text = (
            f"{entity}: {found:g}/s stands there now, where {stood} before and none is ours. Somebody set it, so it is theirs: "
            f"left alone for {limits.external_change_hold_s / 60:.0f} min"
        )
        decisions.append(HoldQuota(entity, QuotaReason.EXTERNALLY_OWNED, text))
    # The same value as before where nothing is new: what is remembered is written when it changes.
    kept = known if others == known else others
    return replace(
        memory, externally_owned_until_ms=theirs, unconfirmed=doubted, foreign_per_s=kept, quotas_were_read=True
    ), decisions
