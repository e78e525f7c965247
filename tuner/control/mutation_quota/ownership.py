"""Tracks which quotas rheostat owns, from the write of a quota until it is restored or relinquished.

The state notes each write before it is sent, and again once Kafka has confirmed it. If another tool changes or removes an owned
quota, the quota becomes externally owned: rheostat leaves it alone for ``external_change_hold_s``. When rheostat stops managing a
quota, it restores the value from before its first write.
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

_TOLERANCE_RATIO = 1e-9  # Kafka stores a double and returns it as a decimal text, so the last digits may differ.
_LATE_WRITES_MAX = 3  # Earlier writes of one quota that may still arrive late.
_CAUSES = {
    QuotaReason.TENANT_GONE: "the tenant has created and deleted no topics for a long time",
    QuotaReason.RELEASED: "released by an operator",
    QuotaReason.NOT_CONFIGURED: "with the present settings rheostat no longer manages this quota",
    QuotaReason.EXEMPT: "the tenant is exempt",
    QuotaReason.PRESERVED: "existing quotas are left alone (existing_quotas: preserve)",
    QuotaReason.WOULD_SHADOW_EXISTING: "this quota disables an existing quota of another tool",
}


def relinquish_changed(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, now_ms: int, limits: MutationLimits
) -> tuple[MutationMemory, list[RelinquishQuota]]:
    """Returns the state without owned quotas that another tool has changed and without expired holds, and the decisions."""
    external = {entity: until for entity, until in memory.externally_owned_until_ms.items() if until > now_ms}
    owned, decisions, unconfirmed = dict(memory.owned), [], dict[QuotaEntity, UnconfirmedChange]()
    for entity, quota in memory.owned.items():
        current = quotas.get(entity)
        if any(is_same(current, value) for value in quota.possible_per_s):
            continue
        # The broker that answered may lag behind and show an older value. Nothing is written until the change is certain.
        change = note_unconfirmed(memory.unconfirmed.get(entity), current, now_ms)
        if now_ms - change.since_ms < limits.propagation_s_max * 1000:
            unconfirmed[entity] = change
            continue
        until_ms = now_ms + round(limits.external_change_hold_s * 1000)
        del owned[entity]
        external[entity] = until_ms
        action = "removed the quota" if current is None else f"set {current:g}/s"
        text = (
            f"{entity}: another tool {action}; rheostat had set {quota.setpoint_per_s:g}/s. The quota is left alone for "
            f"{limits.external_change_hold_s / 60:.0f} min"
        )
        reason = QuotaReason.EXTERNAL_CHANGE
        decisions.append(RelinquishQuota(entity, quota.setpoint_per_s, current, until_ms, reason, text))
    return replace(memory, owned=owned, externally_owned_until_ms=external, unconfirmed=unconfirmed), decisions


def note_unconfirmed(previous: UnconfirmedChange | None, current_per_s: float | None, now_ms: int) -> UnconfirmedChange:
    """Returns the unconfirmed change to ``current_per_s``, with the time since when the brokers show this value."""
    if previous is None or not is_same(previous.found_per_s, current_per_s):
        return UnconfirmedChange(current_per_s, now_ms)
    # If a clock was set back, the noted start would be later than now.
    return UnconfirmedChange(current_per_s, min(previous.since_ms, now_ms))


def is_same(left: float | None, right: float | None) -> bool:
    """Returns whether two quotas are equal except for rounding. None means no quota, and equals only None."""
    if left is None or right is None:
        return left is right
    return abs(left - right) <= _TOLERANCE_RATIO * max(abs(left), abs(right))


def restore(
    entity: QuotaEntity, quotas: Mapping[QuotaEntity, float], memory: MutationMemory, reason: QuotaReason
) -> RestoreQuota:
    """Returns the decision that restores one owned quota to its earlier value."""
    before = memory.owned[entity].before_per_s
    action = "removed, because no quota was set before" if before is None else f"restored to the earlier {before:g}/s"
    return RestoreQuota(entity, quotas.get(entity), before, reason, f"{entity}: {_CAUSES[reason]}: quota {action}")


def restore_all(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, reason: QuotaReason = QuotaReason.RELEASED
) -> tuple[RestoreQuota, ...]:
    """Returns a restore for every owned quota without an unconfirmed change.

    Call ``relinquish_changed`` first, so that no quota of another tool is overwritten.
    """
    return tuple(restore(entity, quotas, memory, reason) for entity in memory.owned if entity not in memory.unconfirmed)


def note_pending_write(memory: MutationMemory, decision: QuotaDecision) -> MutationMemory:
    """Returns the state to record before the write: both the present and the new value may be in Kafka."""
    match decision:
        case SetQuota(entity=entity, current_per_s=current, setpoint_per_s=setpoint):
            owned = memory.owned.get(entity)
            before = current if owned is None else owned.before_per_s
            # An earlier write that got no answer may still take effect.
            earlier = () if owned is None else owned.possible_per_s[-_LATE_WRITES_MAX:]
            return _with_owned(memory, entity, OwnedQuota(before, setpoint, _unique(*earlier, current, setpoint)))
        case RestoreQuota(entity=entity, value_per_s=value) if entity in memory.owned:
            owned = memory.owned[entity]
            return _with_owned(memory, entity, replace(owned, possible_per_s=_unique(*owned.possible_per_s, value)))
        case _:
            return memory


def note_confirmed_write(memory: MutationMemory, decision: QuotaDecision) -> MutationMemory:
    """Returns the state after a write was confirmed. A restored quota is no longer owned."""
    match decision:
        case SetQuota(entity=entity, setpoint_per_s=setpoint) if entity in memory.owned:
            owned = memory.owned[entity]
            # The value from before rheostat is no longer possible. If it appears again, another tool has set it.
            earlier = tuple(value for value in owned.possible_per_s if value not in (owned.before_per_s, setpoint))
            return _with_owned(memory, entity, replace(owned, possible_per_s=(*earlier[-_LATE_WRITES_MAX:], setpoint)))
        case RestoreQuota(entity=entity, value_per_s=value):
            memory = _with_owned(memory, entity, None)
            # ``unowned_per_s`` gets the restored value, so that it does not count as an external change in the next snapshot.
            return memory if value is None else replace(memory, unowned_per_s={**memory.unowned_per_s, entity: value})
        case _:
            return memory


def _unique(*values: float | None) -> tuple[float | None, ...]:
    return tuple(dict.fromkeys(values))


def _with_owned(memory: MutationMemory, entity: QuotaEntity, owned: OwnedQuota | None) -> MutationMemory:
    """Returns the state with this owned quota; ``owned`` None removes it."""
    if owned is not None:
        return replace(memory, owned={**memory.owned, entity: owned})
    return replace(memory, owned={key: value for key, value in memory.owned.items() if key != entity})
