"""Writes sentences about the concurrency of plans: the number of partitions that each side copies at a time, and its reason."""

from __future__ import annotations

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.control.reassignment.concurrency_model import (
    ConcurrencyChange,
    ConcurrencyInput,
    ConcurrencyReason,
    SideConcurrency,
)
from tuner.control.reassignment.reason_texts import CONCURRENCY_REASON_TEXTS
from tuner.core.cluster import BrokerSide
from tuner.core.controller_pressure import Pressure


def side_text(side: SideConcurrency) -> str:
    return f"{side.slots} at a time: {CONCURRENCY_REASON_TEXTS[side.reason].cause}"


def describe_side_change(
    side: BrokerSide,
    before: SideConcurrency | None,
    after: SideConcurrency,
    pressure: Pressure | None,
    inputs: ConcurrencyInput,
) -> ConcurrencyChange:
    """Returns the change of a side, with a sentence.

    Args:
        before: the side's earlier state; None: the side is new.
        pressure: the controller's load; None: not known.
    """
    broker, role = side
    direction = "from" if role is Side.LEADER else "onto"
    name = f"partitions at a time {direction} broker {broker}"
    cause = CONCURRENCY_REASON_TEXTS[after.reason].cause
    if before is None:
        return ConcurrencyChange(side, 0, after.slots, after.reason, f"{name}: {after.slots}, {cause}")
    if after.reason is ConcurrencyReason.CONTROLLER_BUSY and pressure is not None:
        cause = f"{cause}: {pressure}"
    if after.reason is ConcurrencyReason.QUOTA_NOT_FULL:
        setpoint, waiting = rate_text(inputs.setpoints[side]), inputs.waiting[side]
        cause = f"{cause} (setpoint {setpoint}), and {waiting} partitions wait"
    text = f"{name}: {before.slots} → {after.slots}, {cause}"
    return ConcurrencyChange(side, before.slots, after.slots, after.reason, text)


def describe_starts_change(
    before: int, after: int, reason: ConcurrencyReason, pressure: Pressure | None
) -> ConcurrencyChange:
    """Returns the change of the steps per request with its sentence."""
    cause = CONCURRENCY_REASON_TEXTS[reason].cause
    if reason is ConcurrencyReason.CONTROLLER_BUSY and pressure is not None:
        cause = str(pressure)
    return ConcurrencyChange(None, before, after, reason, f"steps per request: {before} → {after}, {cause}")
