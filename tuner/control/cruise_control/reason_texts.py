"""The catalogue of the reasons of decisions about Cruise Control's concurrency, in the order in which policy.py checks them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.cruise_control.decision import CruiseControlReason
from tuner.core.reason_text import ReasonText

_LEAVES = "leaves the number of partitions at a time alone"

CRUISE_CONTROL_REASON_TEXTS: Mapping[CruiseControlReason, ReasonText] = MappingProxyType(
    {
        CruiseControlReason.NO_ANSWER: ReasonText(
            cause="the tuner got no valid answer from Cruise Control",
            effect="changes nothing, and asks again; throttles do not depend on this answer",
            advice="the decision names the cause; check `tuner.cruise_control.url`",
        ),
        CruiseControlReason.NO_EXECUTION: ReasonText(
            cause="at present Cruise Control moves no replicas between brokers", effect="changes nothing"
        ),
        CruiseControlReason.PAUSED: ReasonText(
            cause="an operator paused the tuner", effect=_LEAVES, advice="end the pause with `rheostat resume`"
        ),
        CruiseControlReason.ADJUSTED_BY_TOOL: ReasonText(
            cause=(
                "another tool, an operator or the concurrency adjuster of Cruise Control has changed the number of partitions at a "
                "time"
            ),
            effect="leaves the number of partitions at a time alone for `tuner.external_change_hold_s`",
            advice=(
                "turn off `concurrency.adjuster.inter.broker.replica.enabled` in Cruise Control, or set "
                "`tuner.cruise_control.concurrency: watch`"
            ),
        ),
        CruiseControlReason.NO_THROTTLE: ReasonText(
            cause="no throttle limits the moves of Cruise Control",
            effect=_LEAVES,
            advice="set `tuner.unthrottled_moves: throttle`, so that the tuner throttles these moves",
        ),
        CruiseControlReason.FITS_THROTTLE: ReasonText(
            cause="the number of partitions at a time is right for the lowest throttle of the moves", effect=_LEAVES
        ),
        CruiseControlReason.WATCHED: ReasonText(
            cause=(
                "another number of partitions at a time would be right for the lowest throttle of the moves, and "
                "`tuner.cruise_control.concurrency` is `watch`"
            ),
            effect="reports the number, and does not set it",
            advice="set `tuner.cruise_control.concurrency: act` if the tuner should set the number",
        ),
        CruiseControlReason.VETOED: ReasonText(
            cause=(
                "a higher number of partitions at a time would be right, but an external check (setting `tuner.vetoes`) "
                "forbids it"
            ),
            effect="does not raise the number until the veto ends",
        ),
        CruiseControlReason.RAISED_RECENTLY: ReasonText(
            cause="a higher number of partitions at a time would be right, but the tuner raised it less than a minute ago",
            effect="raises the number when the minute has passed",
        ),
        CruiseControlReason.FOLLOWS_THROTTLE: ReasonText(
            cause="another number of partitions at a time is right for the lowest throttle of the moves",
            effect="sets this number for the execution in progress; Cruise Control forgets it when the execution ends",
        ),
    }
)
