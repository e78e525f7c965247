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
_CHECK_SIGNALS = "check that the collector and the stream run; see `rheostat signals`, and SignalsStale in the runbook"
_RAISE_CEILING = (
    "raise the ceiling of the throttle (`tuner.rate_bytes_per_s_max`) if clients leave bandwidth for a higher rate"
)

CONCURRENCY_REASON_TEXTS: Mapping[ConcurrencyReason, ReasonText] = MappingProxyType(
    {
        ConcurrencyReason.INITIAL: ReasonText(
            cause="the side has just begun to copy",
            effect=(
                "sets the initial number of partitions at a time, or the lowest number of any other side if that is lower, "
                "because all sides load the same controller"
            ),
        ),
        ConcurrencyReason.LIMITS_CHANGED: ReasonText(
            cause="an operator changed the limits, and the number of partitions at a time is outside the new limits",
            effect="sets the number to the nearest value within the limits",
        ),
        ConcurrencyReason.UNDER_MIN_ISR: ReasonText(
            cause="partitions that this broker leads refuse writes, because too few of their replicas are in sync",
            effect=_HALVES,
            advice="see UnderMinIsrDuringMove in the runbook",
        ),
        ConcurrencyReason.ISR_SHRINKS: ReasonText(
            cause="replicas of partitions that this broker leads are falling out of sync",
            effect=_HALVES,
            advice="see RecoveryDuringMove in the runbook",
        ),
        ConcurrencyReason.CONTROLLER_BUSY: ReasonText(
            cause="the controller exceeds its objective",
            effect="halves the number of partitions at a time on every broker",
            advice="if the excess lasts, see ControllerUnderPressure in the runbook",
        ),
        ConcurrencyReason.STALE_DECAY: ReasonText(
            cause="the newest signal of this broker is more than a minute old",
            effect="lowers the number of partitions at a time by one, again and again, until a new signal arrives",
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
            cause="the load of the controller is not measured, so the tuner must not raise the number",
            effect=_KEEPS,
            advice="check that the controllers report their metrics",
        ),
        ConcurrencyReason.NOT_THROTTLED: ReasonText(
            cause=(
                "this side has no throttle, or the use of its throttle is not measured, so the tuner cannot tell whether more"
                " partitions at a time would help"
            ),
            effect=_KEEPS,
            advice=(
                "nothing if the plan runs with `--unthrottled`; otherwise check that the broker reports its throttled bytes"
            ),
        ),
        ConcurrencyReason.QUOTA_FULL: ReasonText(
            cause=(
                "the copies already use the whole throttle of this side, so more partitions at a time would not be faster"
            ),
            effect=_KEEPS,
            advice=_RAISE_CEILING,
        ),
        ConcurrencyReason.STEADY_STATE_FILLS: ReasonText(
            cause="new writes to the moving partitions use up most of the throttle of this side",
            effect=_KEEPS,
            advice=_RAISE_CEILING,
        ),
        ConcurrencyReason.SLOTS_NOT_USED: ReasonText(
            cause="fewer partitions are being copied through this side than the number of partitions at a time permits",
            effect=_KEEPS,
        ),
        ConcurrencyReason.NO_PARTITION_WAITS: ReasonText(
            cause="no partition waits to be copied through this side",
            effect=_KEEPS,
        ),
        ConcurrencyReason.CONTROLLER_NEAR_LIMIT: ReasonText(
            cause="the load of the controller is near its objective",
            effect=_KEEPS,
        ),
        ConcurrencyReason.AT_MAXIMUM: ReasonText(
            cause="the number of partitions at a time is at its configured maximum",
            effect=_KEEPS,
            advice="raise the maximum with `rheostat reassign limits`",
        ),
        ConcurrencyReason.QUOTA_NOT_FULL: ReasonText(
            cause="the copies do not use the whole throttle",
            effect="raises the number of partitions at a time",
        ),
        ConcurrencyReason.REQUESTS_FULL: ReasonText(
            cause="the last request to the controller contained as many steps as permitted",
            effect="raises the permitted number of steps per request",
        ),
    }
)

STEP_REASON_TEXTS: Mapping[StepReason, ReasonText] = MappingProxyType(
    {
        StepReason.MIN_IN_SYNC: ReasonText(
            cause="the partition refuses writes, because too few of its replicas are in sync",
            effect=(
                "adds as many replicas as `min.insync.replicas` requires, even if this number is above the limit of new "
                "replicas per step"
            ),
        ),
        StepReason.PREFERRED_LEADER: ReasonText(
            cause="the plan gives the partition another preferred leader",
            effect="adds the replica of the new leader first, to relieve the current leader",
        ),
        StepReason.REPLICAS: ReasonText(
            cause="the replicas of the partition differ from the plan's target",
            effect="adds and removes replicas, as many as the limit of new replicas per step permits",
        ),
    }
)

STEP_OUTCOME_REASON_TEXTS: Mapping[StepOutcomeReason, ReasonText] = MappingProxyType(
    {
        StepOutcomeReason.DONE: ReasonText(
            cause=(
                "every partition of the plan has its target replicas, or the plan gave the partition up for a reason that the"
                " entry names"
            ),
            effect="ends the plan",
        ),
        StepOutcomeReason.CANCELLED: ReasonText(
            cause="an operator cancelled the plan",
            effect=(
                "stops the steps in progress, returns their partitions to the original replicas, and then ends the plan"
            ),
        ),
        StepOutcomeReason.CORDONED: ReasonText(
            cause="a broker was cordoned while steps in progress add replicas on it",
            effect="stops these steps; starts them again once the cordon is lifted",
            advice="lift the cordon, or cancel the plan",
        ),
        StepOutcomeReason.ENDED: ReasonText(
            cause=(
                "steps have ended; the entry names the partitions that reached their target, were rolled back or were given "
                "up"
            ),
            effect="requests the next steps of the plan",
        ),
        StepOutcomeReason.NOT_ACCEPTED: ReasonText(
            cause="the controller refused steps, or gave no answer about them",
            effect="tries these steps again in later cycles",
            advice=(
                "read the error in the entry; `rheostat reassign status` names the partitions that need an action of yours"
            ),
        ),
        StepOutcomeReason.DEFERRED: ReasonText(
            cause=(
                "steps wait, because the tuner cannot set their throttle yet, because other steps come first, or because "
                "another client is moving the partition"
            ),
            effect="tries these steps again in the next cycle",
        ),
    }
)
