"""Writes sentences about the concurrency of plans: how many partitions each side copies at a time, and why."""

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

_REASON_TEXTS = {
    ConcurrencyReason.INITIAL: "the start value of every plan",
    ConcurrencyReason.LIMITS_CHANGED: "the limits were changed",
    ConcurrencyReason.UNDER_MIN_ISR: "partitions led by this broker refuse their producers",
    ConcurrencyReason.ISR_SHRINKS: "followers of this broker fall out of sync",
    ConcurrencyReason.CONTROLLER_BUSY: "the controller is too busy",
    ConcurrencyReason.STALE_DECAY: "this broker has sent no signals for more than a minute",
    ConcurrencyReason.COOLDOWN: "the last change cannot be judged yet",
    ConcurrencyReason.STALE: "this broker has sent no new signals",
    ConcurrencyReason.CONTROLLER_NOT_MEASURED: "the controller is not measured, so the number does not increase",
    ConcurrencyReason.NOT_THROTTLED: "this side has no measured throttle, so the effect of more is not known",
    ConcurrencyReason.QUOTA_FULL: "the throttle is full, so more would not be faster",
    ConcurrencyReason.STEADY_STATE_FILLS: "new writes use most of the throttle",
    ConcurrencyReason.SLOTS_NOT_USED: "not all of them are in use",
    ConcurrencyReason.NO_PARTITION_WAITS: "no partition waits for this side",
    ConcurrencyReason.CONTROLLER_NEAR_LIMIT: "the controller is near its limit",
    ConcurrencyReason.AT_MAXIMUM: "the maximum of the settings is reached",
    ConcurrencyReason.QUOTA_NOT_FULL: "the throttle is not full",
}


def side_text(side: SideConcurrency) -> str:
    return f"{side.slots} at a time: {_REASON_TEXTS[side.reason]}"


def describe_side_change(
    side: BrokerSide,
    before: SideConcurrency | None,
    after: SideConcurrency,
    pressure: Pressure | None,
    inputs: ConcurrencyInput,
) -> ConcurrencyChange:
    """Returns the change of a side with its sentence.

    Args:
        before: None: the side is new.
        pressure: the controller's load; None: not known.
    """
    name = f"partitions at a time {'from' if side[1] is Side.LEADER else 'onto'} broker {side[0]}"
    reason = _REASON_TEXTS[after.reason]
    if before is None:
        return ConcurrencyChange(side, 0, after.slots, after.reason, f"{name}: {after.slots}, {reason}")
    if after.reason is ConcurrencyReason.CONTROLLER_BUSY and pressure is not None:
        reason = f"{reason}: {pressure}"
    if after.reason is ConcurrencyReason.QUOTA_NOT_FULL:
        setpoint, waiting = rate_text(inputs.setpoints[side]), inputs.waiting[side]
        reason = f"{reason} (setpoint {setpoint}), and {waiting} partitions wait"
    text = f"{name}: {before.slots} → {after.slots}, {reason}"
    return ConcurrencyChange(side, before.slots, after.slots, after.reason, text)


def describe_starts_change(
    before: int, after: int, reason: ConcurrencyReason, pressure: Pressure | None
) -> ConcurrencyChange:
    """Returns the change of the steps per request with its sentence."""
    text = "the last request was full"
    if reason is ConcurrencyReason.CONTROLLER_BUSY:
        text = _REASON_TEXTS[reason] if pressure is None else str(pressure)
    return ConcurrencyChange(None, before, after, reason, f"steps per request: {before} → {after}, {text}")
