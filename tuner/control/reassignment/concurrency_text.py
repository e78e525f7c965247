"""Why so many partitions at a time are copied through a side, in the sentences that people read."""

from __future__ import annotations

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.control.reassignment.concurrency_model import (
    ConcurrencyChange,
    ConcurrencyInput,
    ConcurrencyReason,
    SideConcurrency,
)
from tuner.core.cluster import BrokerSide
from tuner.core.controller_pressure import Pressure

_WHY = {
    ConcurrencyReason.INITIAL: "as every plan begins",
    ConcurrencyReason.LIMITS_CHANGED: "the limits were changed",
    ConcurrencyReason.UNDER_MIN_ISR: "partitions led here refuse their producers",
    ConcurrencyReason.ISR_SHRINKS: "followers fall out of sync here",
    ConcurrencyReason.CONTROLLER_BUSY: "the controller is too busy",
    ConcurrencyReason.STALE_DECAY: "nothing has been heard of this broker for long",
    ConcurrencyReason.COOLDOWN: "the last change can't be judged yet",
    ConcurrencyReason.STALE: "nothing new is heard of this broker",
    ConcurrencyReason.CONTROLLER_NOT_MEASURED: "the controller isn't measured, so no more are tried",
    ConcurrencyReason.NOT_THROTTLED: "no throttle stands here, so nobody can say whether more would help",
    ConcurrencyReason.QUOTA_FULL: "the throttle is full: more would not be faster",
    ConcurrencyReason.STEADY_STATE_FILLS: "keeping up with writes takes most of the throttle",
    ConcurrencyReason.SLOTS_NOT_USED: "not all of them are in use",
    ConcurrencyReason.NO_PARTITION_WAITS: "no partition waits for it",
    ConcurrencyReason.CONTROLLER_NEAR_LIMIT: "the controller has little time left",
    ConcurrencyReason.AT_MAXIMUM: "as many as the limits allow",
    ConcurrencyReason.QUOTA_NOT_FULL: "the throttle is not full",
}


def side_text(one: SideConcurrency) -> str:
    return f"{one.slots} at a time: {_WHY[one.reason]}"


def describe_side_change(
    side: BrokerSide,
    known: SideConcurrency | None,
    after: SideConcurrency,
    pressed: Pressure | None,
    view: ConcurrencyInput,
) -> ConcurrencyChange:
    """
    Args:
        known: the side before; None: it begins.
        pressed: how hard the controller is, where that is known.
    """
    name = f"partitions at a time {'from' if side[1] is Side.LEADER else 'onto'} broker {side[0]}"
    why = _WHY[after.reason]
    if known is None:
        return ConcurrencyChange(side, 0, after.slots, after.reason, f"{name} {after.slots}: {why}")
    if after.reason is ConcurrencyReason.CONTROLLER_BUSY and pressed is not None:
        why = f"{why}: {pressed}"
    if after.reason is ConcurrencyReason.QUOTA_NOT_FULL:
        why = f"{why}, {rate_text(view.setpoints[side])} are meant, and {view.waiting[side]} partitions wait"
    return ConcurrencyChange(
        side, known.slots, after.slots, after.reason, f"{name} {known.slots} → {after.slots}: {why}"
    )


def describe_starts_change(
    before: int, after: int, reason: ConcurrencyReason, pressed: Pressure | None
) -> ConcurrencyChange:
    why = "all of them were asked for at once"
    if reason is ConcurrencyReason.CONTROLLER_BUSY:
        why = _WHY[reason] if pressed is None else str(pressed)
    return ConcurrencyChange(None, before, after, reason, f"steps in one request {before} → {after}: {why}")
