"""The catalogue of the reasons of plans: why a side copies so many partitions at a time, and why a step starts.

A side is one broker as a leader (source of copies) or as a follower (destination).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.reassignment.concurrency_model import ConcurrencyReason
from tuner.core.reason_text import ReasonText
from tuner.core.reassignment_steps import StepOutcomeReason, StepReason

_KEEPS = "keeps the number of partitions at a time"
_HALVES = "halves the number of partitions at a time"
_CHECK_SIGNALS = "check the collector and the stream: `rheostat signals` and SignalsStale in the runbook"
_RAISE_CEILING = (
    "raise the ceiling of the throttle (`tuner.rate_bytes_per_s_max`) if clients leave bandwidth for a higher rate"
)

CONCURRENCY_REASON_TEXTS: Mapping[ConcurrencyReason, ReasonText] = MappingProxyType(
    {
        ConcurrencyReason.INITIAL: ReasonText(
            cause="the initial value of this side",
            effect=(
                "starts with this number of partitions at a time, or with the lowest number of the other sides if that is lower"
            ),
        ),
        ConcurrencyReason.LIMITS_CHANGED: ReasonText(
            cause="the limits have changed, and the number of partitions at a time is outside the new limits",
            effect="sets the number to the nearest value within the limits",
        ),
        ConcurrencyReason.UNDER_MIN_ISR: ReasonText(
            cause="partitions that this broker leads refuse writes, because too few of their replicas are in sync",
            effect=_HALVES,
            advice="see UnderMinIsrDuringMove in the runbook",
        ),
        ConcurrencyReason.ISR_SHRINKS: ReasonText(
            cause="replicas of partitions that this broker leads fall out of sync",
            effect=_HALVES,
            advice="see RecoveryDuringMove in the runbook",
        ),
        ConcurrencyReason.CONTROLLER_BUSY: ReasonText(
            cause="the controller exceeds its objective",
            effect="halves the number of partitions at a time on every broker",
            advice="see ControllerUnderPressure in the runbook if the excess lasts",
        ),
        ConcurrencyReason.STALE_DECAY: ReasonText(
            cause="this broker has sent no signals for more than a minute",
            effect="lowers the number of partitions at a time one by one until signals arrive",
            advice=_CHECK_SIGNALS,
        ),
        ConcurrencyReason.COOLDOWN: ReasonText(
            cause="the effect of the last change is not measured yet",
            effect=_KEEPS,
        ),
        ConcurrencyReason.STALE: ReasonText(
            cause="the newest signal of this broker is too old",
            effect=_KEEPS,
            advice=_CHECK_SIGNALS,
        ),
        ConcurrencyReason.CONTROLLER_NOT_MEASURED: ReasonText(
            cause="the load of the controller is not measured, so no increase is permitted",
            effect=_KEEPS,
            advice="check that the controllers report their metrics",
        ),
        ConcurrencyReason.NOT_THROTTLED: ReasonText(
            cause=(
                "this side has no throttle, or the use of its throttle is not measured, so the effect of more partitions at a "
                "time is not known"
            ),
            effect=_KEEPS,
            advice="nothing if the plan is unthrottled; otherwise check that the broker reports its throttled bytes",
        ),
        ConcurrencyReason.QUOTA_FULL: ReasonText(
            cause="the throttle of this side is full, so more partitions at a time would not be faster",
            effect=_KEEPS,
            advice=_RAISE_CEILING,
        ),
        ConcurrencyReason.STEADY_STATE_FILLS: ReasonText(
            cause="new writes to the moving partitions use most of the throttle of this side",
            effect=_KEEPS,
            advice=_RAISE_CEILING,
        ),
        ConcurrencyReason.SLOTS_NOT_USED: ReasonText(
            cause="fewer partitions are copied through this side than are permitted",
            effect=_KEEPS,
        ),
        ConcurrencyReason.NO_PARTITION_WAITS: ReasonText(
            cause="no partition waits to be copied through this side",
            effect=_KEEPS,
        ),
        ConcurrencyReason.CONTROLLER_NEAR_LIMIT: ReasonText(
            cause="the controller is near its objective",
            effect=_KEEPS,
        ),
        ConcurrencyReason.AT_MAXIMUM: ReasonText(
            cause="the configured maximum of partitions at a time is reached",
            effect=_KEEPS,
            advice="raise the maximum with `rheostat reassign limits`",
        ),
        ConcurrencyReason.QUOTA_NOT_FULL: ReasonText(
            cause="the throttle is not full",
            effect="raises the number of partitions at a time",
        ),
        ConcurrencyReason.REQUESTS_FULL: ReasonText(
            cause="the last request contained the highest permitted number of steps",
            effect="raises the permitted number of steps in a request",
        ),
    }
)

STEP_REASON_TEXTS: Mapping[StepReason, ReasonText] = MappingProxyType(
    {
        StepReason.MIN_IN_SYNC: ReasonText(
            cause="the partition refuses writes, because too few of its replicas are in sync",
            effect="adds as many replicas as min.insync.replicas requires, even above the limit of replicas per step",
        ),
        StepReason.PREFERRED_LEADER: ReasonText(
            cause="the plan gives the partition another preferred leader",
            effect="first adds the replica of the new leader, to relieve the current leader",
        ),
        StepReason.REPLICAS: ReasonText(
            cause="the replicas of the partition differ from the plan's target",
            effect="adds and removes as many replicas as the limit of replicas per step permits",
        ),
    }
)

STEP_OUTCOME_REASON_TEXTS: Mapping[StepOutcomeReason, ReasonText] = MappingProxyType(
    {
        StepOutcomeReason.DONE: ReasonText(
            cause="every partition of the plan has its target replicas, or was given up for a reason that the entry names",
            effect="ends the plan",
        ),
        StepOutcomeReason.CANCELLED: ReasonText(
            cause="an operator cancelled the plan",
            effect="stops the running steps, and ends the plan when its partitions are rolled back",
        ),
        StepOutcomeReason.CORDONED: ReasonText(
            cause="a broker was cordoned while running steps add replicas on it",
            effect="stops these steps; they start again once the cordon is lifted",
            advice="lift the cordon, or cancel the plan",
        ),
        StepOutcomeReason.ENDED: ReasonText(
            cause="steps have ended: the entry names the partitions that reached their target, were rolled back or were given up",
            effect="requests the next steps of the plan",
        ),
        StepOutcomeReason.NOT_ACCEPTED: ReasonText(
            cause="steps were refused by Kafka, or Kafka gave no answer about them",
            effect="tries these steps again in later cycles",
            advice="read the error in the entry; `rheostat reassign status` names the partitions that need you",
        ),
        StepOutcomeReason.DEFERRED: ReasonText(
            cause="steps wait: their throttle cannot be set yet, other steps come first, or another client moves the partition",
            effect="tries these steps again in the next cycle",
        ),
    }
)
