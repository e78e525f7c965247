"""Why so many partitions at a time are copied through a side, in the sentences that people read."""

from __future__ import annotations

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.control.reassignment.concurrency_model import PaceChange, PaceReason, PaceView, SideMemory
from tuner.core.cluster import BrokerSide
from tuner.core.controller_pressure import Pressure

_WHY = {
    PaceReason.BEGINS: "as every plan begins",
    PaceReason.LIMITS_CHANGED: "the limits were changed",
    PaceReason.UNDER_MIN_ISR: "partitions led here refuse their producers",
    PaceReason.ISR_SHRINKS: "followers fall out of sync here",
    PaceReason.CONTROLLER_BUSY: "the controller is too busy",
    PaceReason.NOT_SEEN_FOR_LONG: "nothing has been heard of this broker for long",
    PaceReason.RESTS: "the last change can't be judged yet",
    PaceReason.NOT_SEEN: "nothing new is heard of this broker",
    PaceReason.CONTROLLER_NOT_SEEN: "the controller isn't measured, so no more are tried",
    PaceReason.NOT_THROTTLED: "no throttle stands here, so nobody can say whether more would help",
    PaceReason.QUOTA_FULL: "the throttle is full: more would not be faster",
    PaceReason.STEADY_STATE_FILLS: "keeping up with writes takes most of the throttle",
    PaceReason.SLOTS_NOT_USED: "not all of them are in use",
    PaceReason.NOTHING_WAITS: "no partition waits for it",
    PaceReason.CONTROLLER_NEAR: "the controller has little time left",
    PaceReason.AT_MOST: "as many as the limits allow",
    PaceReason.QUOTA_NOT_FULL: "the throttle is not full",
}


def standing(one: SideMemory) -> str:
    return f"{one.slots} at a time: {_WHY[one.reason]}"


def side_change(
    side: BrokerSide, known: SideMemory | None, after: SideMemory, pressed: Pressure | None, view: PaceView
) -> PaceChange:
    """
    Args:
        known: the side before; None: it begins.
        pressed: how hard the controller is, where that is known.
    """
    name = f"partitions at a time {'from' if side[1] is Side.LEADER else 'onto'} broker {side[0]}"
    why = _WHY[after.reason]
    if known is None:
        return PaceChange(side, 0, after.slots, after.reason, f"{name} {after.slots}: {why}")
    if after.reason is PaceReason.CONTROLLER_BUSY and pressed is not None:
        why = f"{why}: {pressed}"
    if after.reason is PaceReason.QUOTA_NOT_FULL:
        why = f"{why}, {rate_text(view.rates[side])} are meant, and {view.waiting[side]} partitions wait"
    return PaceChange(side, known.slots, after.slots, after.reason, f"{name} {known.slots} → {after.slots}: {why}")


def starts_change(before: int, after: int, reason: PaceReason, pressed: Pressure | None) -> PaceChange:
    why = "all of them were asked for at once"
    if reason is PaceReason.CONTROLLER_BUSY:
        why = _WHY[reason] if pressed is None else str(pressed)
    return PaceChange(None, before, after, reason, f"steps in one request {before} → {after}: {why}")
