"""The catalogue of the reasons of plans: why a side copies so many partitions at a time, and why a step starts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.reassignment.concurrency_model import ConcurrencyReason
from tuner.core.reason_text import ReasonText
from tuner.core.reassignment_steps import StepReason

NOTHING = "nothing"
_KEEPS = "keeps the number"
_HALVES = "halves the number"
_CHECK_SIGNALS = "check the collector and the stream: `rheostat signals` and SignalsStale in the runbook"

CONCURRENCY_REASON_TEXTS: Mapping[ConcurrencyReason, ReasonText] = MappingProxyType(
    {
        ConcurrencyReason.INITIAL: ReasonText("the start value of every plan", "starts with it", NOTHING),
        ConcurrencyReason.LIMITS_CHANGED: ReasonText(
            "an operator changed the limits of plans", "brings the number within the new limits", NOTHING
        ),
        ConcurrencyReason.UNDER_MIN_ISR: ReasonText(
            "partitions led by this broker refuse their producers", _HALVES, "see UnderMinIsrDuringMove in the runbook"
        ),
        ConcurrencyReason.ISR_SHRINKS: ReasonText(
            "followers of this broker fall out of sync", _HALVES, "see RecoveryDuringMove in the runbook"
        ),
        ConcurrencyReason.CONTROLLER_BUSY: ReasonText(
            "the controller exceeds its objective",
            "halves the number of every side",
            "see ControllerUnderPressure in the runbook if it lasts",
        ),
        ConcurrencyReason.STALE_DECAY: ReasonText(
            "this broker has sent no signals for more than a minute",
            "lowers the number by one at a time",
            _CHECK_SIGNALS,
        ),
        ConcurrencyReason.COOLDOWN: ReasonText("the last change cannot be judged yet", _KEEPS, NOTHING),
        ConcurrencyReason.STALE: ReasonText("this broker has sent no new signals", _KEEPS, _CHECK_SIGNALS),
        ConcurrencyReason.CONTROLLER_NOT_MEASURED: ReasonText(
            "the controller is not measured",
            _KEEPS,
            "check that the controllers report their metrics",
        ),
        ConcurrencyReason.NOT_THROTTLED: ReasonText(
            "the use of this throttle is not measured, so the effect of more partitions is not known",
            _KEEPS,
            "nothing if the plan is unthrottled; otherwise check that the broker reports its throttled bytes",
        ),
        ConcurrencyReason.QUOTA_FULL: ReasonText(
            "the throttle is full, so more partitions at a time would not be faster",
            _KEEPS,
            "raise the ceiling if clients have room",
        ),
        ConcurrencyReason.STEADY_STATE_FILLS: ReasonText(
            "steady-state replication uses most of the throttle", _KEEPS, "raise the ceiling if clients have room"
        ),
        ConcurrencyReason.SLOTS_NOT_USED: ReasonText(
            "fewer partitions are copied at a time than allowed", _KEEPS, NOTHING
        ),
        ConcurrencyReason.NO_PARTITION_WAITS: ReasonText("no partition waits for this side", _KEEPS, NOTHING),
        ConcurrencyReason.CONTROLLER_NEAR_LIMIT: ReasonText("the controller is near its objective", _KEEPS, NOTHING),
        ConcurrencyReason.AT_MAXIMUM: ReasonText(
            "the number is at its maximum",
            _KEEPS,
            "raise the maximum with `rheostat reassign limits`",
        ),
        ConcurrencyReason.QUOTA_NOT_FULL: ReasonText("the throttle is not full", "raises the number", NOTHING),
        ConcurrencyReason.REQUESTS_FULL: ReasonText(
            "the last request had as many steps as it may have", "raises the number of steps per request", NOTHING
        ),
    }
)

STEP_REASON_TEXTS: Mapping[StepReason, ReasonText] = MappingProxyType(
    {
        StepReason.MIN_IN_SYNC: ReasonText(
            "producers are refused, because too few replicas of the partition are in sync",
            "adds as many replicas as are needed, whatever the limit",
            NOTHING,
        ),
        StepReason.PREFERRED_LEADER: ReasonText(
            "the target has another preferred leader", "adds the new leader first, to relieve the old one", NOTHING
        ),
        StepReason.REPLICAS: ReasonText(
            "replicas of the target are missing, or others are surplus",
            "changes as many replicas as the limit allows",
            NOTHING,
        ),
    }
)
