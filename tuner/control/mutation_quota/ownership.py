"""Is the quota that stands there still the one we wrote? And what of it is ours to write.

A quota that somebody else changed is theirs, as with a throttle: let go, said aloud, and left alone until the hold expires. So is
one that somebody took away: whoever does that wants it away. What stood there before us is put back when its reason ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tuner.control.mutation_quota.decision import (
    QuotaDecision,
    QuotaReason,
    RelinquishQuota,
    RestoreQuota,
    SetQuota,
)
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import MutationMemory, OwnedQuota, UnconfirmedChange

_SAME = 1e-9  # Kafka keeps them as doubles, and says them in decimals.
_KEPT = 3  # Writes of ours that may come late, of each quota.
_WHY_BACK = {
    QuotaReason.TENANT_GONE: "nothing was heard of it for long",
    QuotaReason.RELEASED: "released",
    QuotaReason.NOT_CONFIGURED: "not asked for any more",
    QuotaReason.EXEMPT: "exempt, so no quota of ours holds it back",
    QuotaReason.PRESERVED: "somebody's, and those are left alone (existing_quotas: preserve)",
    QuotaReason.WOULD_SHADOW_EXISTING: "it puts a quota out of force that somebody set",
}


def relinquish_changed(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, now_ms: int, limits: MutationLimits
) -> tuple[MutationMemory, list[RelinquishQuota]]:
    """Drops from ``owned`` what is not ours any more, and from ``theirs`` what is free again."""
    theirs = {entity: until for entity, until in memory.externally_owned_until_ms.items() if until > now_ms}
    owned, decisions, doubted = dict(memory.owned), [], dict[QuotaEntity, UnconfirmedChange]()
    for entity, ours in memory.owned.items():
        found = quotas.get(entity)
        if any(is_same(found, value) for value in ours.possible_per_s):
            continue
        # A broker that is behind shows what stood before. Until it is certain, nothing is written here.
        doubts = note_unconfirmed(memory.unconfirmed.get(entity), found, now_ms)
        if now_ms - doubts.since_ms < limits.propagation_s_max * 1000:
            doubted[entity] = doubts
            continue
        until_ms = now_ms + round(limits.external_change_hold_s * 1000)
        del owned[entity]
        theirs[entity] = until_ms
        stands = "nothing stands" if found is None else f"{found:g}/s stands"
        text = (
            f"{entity}: we had set {ours.setpoint_per_s:g}/s, now {stands} there. Somebody changed it, so it is theirs: left "
            f"alone for {limits.external_change_hold_s / 60:.0f} min"
        )
        reason = QuotaReason.EXTERNAL_CHANGE
        decisions.append(RelinquishQuota(entity, ours.setpoint_per_s, found, until_ms, reason, text))
    return replace(memory, owned=owned, externally_owned_until_ms=theirs, unconfirmed=doubted), decisions


def note_unconfirmed(before: UnconfirmedChange | None, found: float | None, now_ms: int) -> UnconfirmedChange:
    """The same one where the same stands; else one that begins now."""
    if before is None or not is_same(before.found_per_s, found):
        return UnconfirmedChange(found, now_ms)
    # A clock that was set back began to doubt later than now.
    return UnconfirmedChange(found, min(before.since_ms, now_ms))


def is_same(found: float | None, value: float | None) -> bool:
    if found is None or value is None:
        return found is value
    return abs(found - value) <= _SAME * max(abs(found), abs(value))


def restore(
    entity: QuotaEntity, quotas: Mapping[QuotaEntity, float], memory: MutationMemory, reason: QuotaReason
) -> RestoreQuota:
    """Of one that is ours."""
    before = memory.owned[entity].before_per_s
    back = "removed, as none stood before" if before is None else f"back to {before:g}/s, which stood before"
    return RestoreQuota(entity, quotas.get(entity), before, reason, f"{entity}: {_WHY_BACK[reason]}; {back}")


def restore_all(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, reason: QuotaReason = QuotaReason.RELEASED
) -> tuple[RestoreQuota, ...]:
    """Everything that is ours. What somebody changed meanwhile has to be let go of first; what is in doubt waits until it is."""
    return tuple(restore(entity, quotas, memory, reason) for entity in memory.owned if entity not in memory.unconfirmed)


def intend(memory: MutationMemory, decision: QuotaDecision) -> MutationMemory:
    """Before the write: from now on what stands there and what is written are both ours."""
    match decision:
        case SetQuota(entity=entity, current_per_s=live, setpoint_per_s=wanted):
            ours = memory.owned.get(entity)
            before = live if ours is None else ours.before_per_s
            # A write that nobody answered may still come: what it would leave is ours as well.
            earlier = () if ours is None else ours.possible_per_s[-_KEPT:]
            return _with(memory, entity, OwnedQuota(before, wanted, _each(*earlier, live, wanted)))
        case RestoreQuota(entity=entity, value_per_s=value) if entity in memory.owned:
            ours = memory.owned[entity]
            return _with(memory, entity, replace(ours, possible_per_s=_each(*ours.possible_per_s, value)))
        case _:
            return memory


def settle(memory: MutationMemory, decision: QuotaDecision) -> MutationMemory:
    """After it went well: only what we wrote may stand there; what was put back is no longer ours."""
    match decision:
        case SetQuota(entity=entity, setpoint_per_s=wanted) if entity in memory.owned:
            ours = memory.owned[entity]
            # What stood before us is somebody's word again from now on.
            written = tuple(value for value in ours.possible_per_s if value not in (ours.before_per_s, wanted))
            return _with(memory, entity, replace(ours, possible_per_s=(*written[-_KEPT:], wanted)))
        case RestoreQuota(entity=entity, value_per_s=value):
            memory = _with(memory, entity, None)
            # With the next look it is not taken for what somebody has just set.
            return memory if value is None else replace(memory, foreign_per_s={**memory.foreign_per_s, entity: value})
        case _:
            return memory


def _each(*values: float | None) -> tuple[float | None, ...]:
    return tuple(dict.fromkeys(values))


def _with(memory: MutationMemory, entity: QuotaEntity, owned: OwnedQuota | None) -> MutationMemory:
    if owned is not None:
        return replace(memory, owned={**memory.owned, entity: owned})
    return replace(memory, owned={key: value for key, value in memory.owned.items() if key != entity})
