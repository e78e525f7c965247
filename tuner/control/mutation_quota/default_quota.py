"""Quotas of ours under ``<default>``: whom they would put out of force, and which of them nobody asks for any more.

Kafka takes the first quota in its order that fits a client. So one for every user comes before all that stand for client-ids,
whoever set those; and one that was ours by another setting comes before what the new one asks for.

Invariant: nothing that somebody set is put out of force by a quota for everybody.
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
# Above what any controller does, and far from where a double loses a partition.
UNLIMITED_PER_S = 1e9


def find_shadowed_quotas(
    entity: QuotaEntity, quotas: Mapping[QuotaEntity, float], memory: MutationMemory
) -> tuple[QuotaEntity, ...]:
    """Those that somebody set, also where they are ours for now, that come after it in Kafka's order."""
    ours = {e for e, owned in memory.owned.items() if owned.before_per_s is None}
    return tuple(sorted((e for e in quotas if e not in ours and precedence_rank(e) > precedence_rank(entity)), key=str))


def decide_default_quota(
    quotas: Mapping[QuotaEntity, float],
    memory: MutationMemory,
    wanted: float,
    policy: MutationPolicy,
    now_ms: int,
    *,
    holds_back: bool,
    lowers_only: bool,
) -> SetQuota | HoldQuota | None:
    """For whom nobody knows yet: one standing share each, of a weight of one.

    Args:
        holds_back: somebody is held back by it.
        lowers_only: nothing is known that would allow more.
    """
    entity, limits = policy.default_entity, policy.limits
    if entity is None or entity in memory.externally_owned_until_ms or entity in memory.unconfirmed:
        return None
    if void := find_shadowed_quotas(entity, quotas, memory):
        text = (
            f"{entity}: a quota there would put {len(void)} that somebody set out of force, such as that of {void[0]}: none is "
            "kept. Set tuner.mutation_quota.default_entity to what they are for, or to none"
        )
        return HoldQuota(entity, QuotaReason.WOULD_SHADOW_EXISTING, text)
    live, wanted = quotas.get(entity), round(wanted, RATE_DIGITS)
    if live is not None and not policy.adopt_existing and _is_somebodys(entity, memory):
        return None
    if lowers_only and (live is None or wanted > live):
        return None
    # Seldom and by much: it counts for nobody that is known. Half of the time in which there may be two writes has to be over
    # since the last one, but for what is lowered at once for the controller's sake, as with a tenant.
    if live is not None:
        if abs(wanted - live) <= 3 * limits.deadband_ratio * live:
            return None
        urgent = holds_back and wanted < (1 - limits.urgent_ratio) * live
        if not urgent and now_ms - memory.default_written_at_ms < limits.third_write_after_s / 2 * 1000:
            return None
    stands = "no quota" if live is None else f"{live:g}/s"
    text = f"{entity}: {stands} → {wanted:g}/s: the standing share of whoever comes anew"
    return SetQuota(entity, live, wanted, QuotaReason.DEFAULT_SHARE, text)


def find_managed_default(
    decided: SetQuota | HoldQuota | None, memory: MutationMemory, policy: MutationPolicy
) -> QuotaEntity | None:
    """The default of ours that stands, or is written now; None: there is none, or it is not kept."""
    entity = policy.default_entity
    if isinstance(decided, HoldQuota):
        return None
    return entity if isinstance(decided, SetQuota) or entity in memory.owned else None


def restore_unwanted_defaults(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, policy: MutationPolicy
) -> list[RestoreQuota]:
    """What was the default by other settings, what is somebody's and is not to be turned any more, or has come to stand in
    somebody's way."""
    kept = (
        policy.default_entity if policy.default_entity is not None else EVERY_PAIR if policy.enable_metering else None
    )
    back = list[RestoreQuota]()
    for entity in memory.owned:
        if DEFAULT not in (entity.user, entity.client_id) or entity in memory.unconfirmed:
            continue
        if entity != kept:
            back.append(restore(entity, quotas, memory, QuotaReason.NOT_CONFIGURED))
        elif find_shadowed_quotas(entity, quotas, memory):
            back.append(restore(entity, quotas, memory, QuotaReason.WOULD_SHADOW_EXISTING))
        elif not policy.adopt_existing and _is_somebodys(entity, memory):
            back.append(restore(entity, quotas, memory, QuotaReason.PRESERVED))
    return back


def _is_somebodys(entity: QuotaEntity, memory: MutationMemory) -> bool:
    """Where a quota stands: theirs, or adopted."""
    ours = memory.owned.get(entity)
    return ours is None or ours.before_per_s is not None
