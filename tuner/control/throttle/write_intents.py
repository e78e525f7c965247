"""Records in the tuner's state the rates that it is about to write, and the rates that a write may have left.

The intent is in the journal before the write starts. So after a crash during the write, the tuner recognises each rate that the
write may have left as its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tuner.control.throttle.decision import Decision, Reason, RestoreRate, SetRate, StartRate
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.throttle_limits import ThrottleLimits

# Reasons of temporary changes: the earlier rate is restored when the reason is over.
_TEMPORARY = frozenset({Reason.OVERRIDDEN, Reason.ISR_RECOVERY, Reason.WINDOW_WARMUP, Reason.PLAN_RATE, Reason.VETOED})
# Reasons of changes that follow a temporary change and may be interrupted, so the rate to restore stays in the journal.
_KEEPS_RESTORE_RATE = frozenset({Reason.RESTORED, Reason.STALE_DECAY, Reason.AT_CEILING, Reason.LATE_PREDECESSOR_WRITE})


def record_start_intent(memory: Memory, decision: StartRate) -> Memory:
    """Returns the state before a throttle is set on a side that has none."""
    side, value = (decision.broker, decision.side), decision.value_bytes_per_s
    owned = OwnedRate(before_bytes_per_s=None, setpoint_bytes_per_s=value, possible_rates=(None, value))
    return replace(memory, owned=memory.with_owned(side, owned))


def record_change_intents(memory: Memory, changes: Iterable[tuple[SetRate, Sequence[int]]]) -> Memory:
    """Returns the state before changes: from now on each side may have its current rate or the rate of any step.

    Args:
        changes: the decisions, each with the rates of its steps (bytes/s); one decision for each side.
    """
    intended = {
        (d.broker, d.side): _intended_rate(memory.owned.get((d.broker, d.side)), d, steps) for d, steps in changes
    }
    return replace(memory, owned={**memory.owned, **intended})


def _intended_rate(before: OwnedRate | None, decision: SetRate, steps: Sequence[int]) -> OwnedRate:
    current = decision.current_bytes_per_s if decision.is_set_on_broker else None
    restore_to = None
    if decision.reason in _TEMPORARY | _KEEPS_RESTORE_RATE and before is not None:
        restore_to = before.restore_to_bytes_per_s
    # If one temporary change follows another, the rate from before the first change is restored.
    if restore_to is None and decision.reason in _TEMPORARY:
        restore_to = decision.current_bytes_per_s
    return OwnedRate(
        before_bytes_per_s=before.before_bytes_per_s if before else current,
        setpoint_bytes_per_s=decision.setpoint_bytes_per_s,
        possible_rates=tuple(dict.fromkeys((current, *steps))),
        restore_to_bytes_per_s=restore_to,
    )


def record_restore_intent(memory: Memory, decision: RestoreRate) -> Memory:
    """Returns the state before one of the tuner's rates is restored. Rates of other owners are not recorded."""
    side = (decision.broker, decision.side)
    owned = memory.owned.get(side)
    if owned is None:
        return memory
    others = [value for value in owned.possible_rates if value != decision.value_bytes_per_s]
    possible_rates = (*others, decision.value_bytes_per_s)  # In the order of the writes.
    return replace(memory, owned=memory.with_owned(side, replace(owned, possible_rates=possible_rates)))


def narrow_possible_rates(memory: Memory, side: BrokerSide, values: Sequence[int | None]) -> Memory:
    """Returns the state after a change stopped early: only ``values`` (bytes/s; None: no setting) may be set now."""
    owned = memory.owned.get(side)
    if owned is None:
        return memory
    # The tuner stops managing the rate if it can only be the rate from before the tuner, and no other rate must be restored.
    if _is_only_previous_rate(owned, values) and owned.restore_to_bytes_per_s in (None, owned.before_bytes_per_s):
        return replace(memory, owned=memory.with_owned(side, None))
    return replace(memory, owned=memory.with_owned(side, replace(owned, possible_rates=tuple(dict.fromkeys(values)))))


def _is_only_previous_rate(owned: OwnedRate, values: Sequence[int | None]) -> bool:
    """Whether only the rate before the tuner's first change can still be set."""
    return set(values) == {owned.before_bytes_per_s}


def narrow_to_current(memory: Memory, live: LiveCluster, now_ms: int, limits: ThrottleLimits) -> Memory:
    """Returns the state after the tuner's start: of each side's possible rates only the current rate is left.

    A request of the previous tuner may take effect after this tuner's first snapshot. So the state keeps the rates that the
    previous tuner may still write for ``predecessor_write_s``.
    """
    readable, owned_rates = live.brokers - live.unreadable, dict(memory.owned)
    # Writes of an earlier tuner, for which the previous tuner still waited, keep their time limit.
    late_writes = dict(memory.predecessor_writes) if now_ms < memory.predecessor_writes_until_ms else {}
    ends_ms = now_ms + round(1000 * limits.predecessor_write_s)
    until_ms = min(memory.predecessor_writes_until_ms, ends_ms)
    for side, owned in memory.owned.items():
        if side[0] not in readable:
            continue
        setting = live.rates.get(side)
        current = setting.bytes_per_s if setting is not None and setting.is_set_on_broker else None
        outstanding: tuple[int | None, ...] = ()
        if current in owned.possible_rates:
            owned_rates[side] = replace(owned, possible_rates=(current,))
            # The rates are in the order of the writes, so only the rates after the current rate may still be written.
            outstanding = owned.possible_rates[owned.possible_rates.index(current) + 1 :]
            # A change can end at the rate at which it began, so its last write may still take effect.
            if current != owned.setpoint_bytes_per_s and owned.setpoint_bytes_per_s not in outstanding:
                outstanding = (*outstanding, owned.setpoint_bytes_per_s)
        else:
            # The current rate is a late write of an earlier tuner, or another tool has set or removed it. It does not show which
            # writes of the previous tuner took effect.
            outstanding = owned.possible_rates
        if outstanding:
            late_writes[side] = tuple(dict.fromkeys((*late_writes.get(side, ()), *outstanding)))
            until_ms = ends_ms
    return replace(memory, owned=owned_rates, predecessor_writes=late_writes, predecessor_writes_until_ms=until_ms)


def record_success(memory: Memory, decision: Decision) -> Memory:
    """Returns the state after a write succeeded: a restored rate is no longer owned, and a changed rate is at its setpoint."""
    match decision:
        case RestoreRate(broker=broker, side=side):
            return replace(memory, owned=memory.with_owned((broker, side), None))
        case (
            SetRate(broker=broker, side=side, setpoint_bytes_per_s=setpoint)
            | StartRate(broker=broker, side=side, value_bytes_per_s=setpoint)
        ):
            owned = memory.owned.get((broker, side))
            if owned is None:
                return memory
            restore_to = owned.restore_to_bytes_per_s
            warmed_up = decision.reason is Reason.WINDOW_WARMUP and setpoint == restore_to
            # A restore that stopped at a higher rate, so that the move still progresses, is not complete yet.
            restored = decision.reason is Reason.RESTORED and restore_to is not None and setpoint <= restore_to
            if warmed_up or restored:
                if _is_only_previous_rate(owned, (setpoint,)):
                    return replace(memory, owned=memory.with_owned((broker, side), None))
                # If ``before_bytes_per_s`` is None, the side inherited its earlier rate from the rate for all brokers. The tuner's
                # setting with the same rate stays until the moves end, and ``restore_to`` marks it as the earlier rate.
                restore_to = restore_to if owned.before_bytes_per_s is None else None
            owned = replace(owned, possible_rates=(setpoint,), restore_to_bytes_per_s=restore_to)
            return replace(memory, owned=memory.with_owned((broker, side), owned))
        case _:
            return memory
