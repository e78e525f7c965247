"""The catalogue of the reasons of decisions about Cruise Control's concurrency, in the order in which policy.py checks them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.cruise_control.decision import CruiseControlReason
from tuner.core.reason_text import ReasonText

_LEAVES = "leaves the number alone"

CRUISE_CONTROL_REASON_TEXTS: Mapping[CruiseControlReason, ReasonText] = MappingProxyType(
    {
        CruiseControlReason.NO_ANSWER: ReasonText(
            cause="no valid answer came from Cruise Control",
            effect="changes nothing, and asks again; throttles do not depend on it",
            advice="the decision names the cause; check `tuner.cruise_control.url`",
        ),
        CruiseControlReason.NO_EXECUTION: ReasonText(
            cause="no replicas are moved between brokers by Cruise Control", effect="changes nothing"
        ),
        CruiseControlReason.PAUSED: ReasonText(
            cause="an operator paused the tuner", effect=_LEAVES, advice="end the pause with `rheostat resume`"
        ),
        CruiseControlReason.ADJUSTED_BY_TOOL: ReasonText(
            cause="another tool, an operator or the adjuster of Cruise Control has changed the number",
            effect="leaves the number alone for `tuner.external_change_hold_s`",
            advice="turn off `concurrency.adjuster.inter.broker.replica.enabled` in Cruise Control, or use `concurrency: watch`",
        ),
        CruiseControlReason.NO_THROTTLE: ReasonText(
            cause="no throttle limits the moves of Cruise Control",
            effect=_LEAVES,
            advice="set `tuner.unthrottled_moves: throttle`",
        ),
        CruiseControlReason.FITS_THROTTLE: ReasonText(
            cause="the number fits the lowest throttle of the move", effect="changes nothing"
        ),
        CruiseControlReason.WATCHED: ReasonText(
            cause="another number would fit the throttle, and `tuner.cruise_control.concurrency` is `watch`",
            effect="reports the number, and does not set it",
            advice="set `concurrency: act` if the tuner should set the number",
        ),
        CruiseControlReason.VETOED: ReasonText(
            cause="a check of `tuner.vetoes` vetoes", effect="does not raise the number"
        ),
        CruiseControlReason.RAISED_RECENTLY: ReasonText(
            cause="the tuner raised the number less than a minute ago", effect="waits with the next raise"
        ),
        CruiseControlReason.FOLLOWS_THROTTLE: ReasonText(
            cause="another number fits the lowest throttle of the move",
            effect="sets the number for the execution in progress; Cruise Control forgets it at the end",
        ),
    }
)
