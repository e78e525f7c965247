"""The catalogue of the reasons of cordons."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.cordon.decision import CordonReason
from tuner.core.reason_text import ReasonText

_WAITS = "changes nothing; the plan begins no step until the broker is cordoned"
_LIFTS = (
    "removes the log directories that rheostat has added to `cordoned.log.dirs`, and keeps the directories that "
    "other tools have added"
)

CORDON_REASON_TEXTS: Mapping[CordonReason, ReasonText] = MappingProxyType(
    {
        CordonReason.CORDON_UNREADABLE: ReasonText(
            cause="the broker is down, or its settings cannot be read",
            effect=_WAITS,
            advice="bring the broker back, or grant DescribeConfigs; `rheostat doctor` names the missing right",
        ),
        CordonReason.LIFTED_EXTERNALLY: ReasonText(
            cause="an operator or another tool has lifted a cordon of rheostat",
            effect=(
                "does not cordon the broker again, and the plan continues; Kafka may place new replicas on the broker"
            ),
            advice="to cordon the broker again, generate a new plan with `--cordon` and start it",
        ),
        CordonReason.PAUSED: ReasonText(
            cause="an operator ordered a pause", effect=_WAITS, advice="end the pause with `rheostat resume`"
        ),
        CordonReason.RELEASED: ReasonText(
            cause="an operator ordered a release", effect=_LIFTS, advice="end the release with `rheostat resume`"
        ),
        CordonReason.PLAN_CANCELLED: ReasonText(cause="the plan that ordered the cordon is cancelled", effect=_LIFTS),
        CordonReason.IN_PLACE: ReasonText(
            cause="the broker is cordoned as the plan ordered",
            effect="keeps the cordon, even after the end of the plan",
            advice="remove the broker from the cluster, or lift the cordon when the broker may get replicas again",
        ),
        CordonReason.CORDONED_ALREADY: ReasonText(
            cause="another tool has already cordoned the broker", effect="changes nothing; the plan begins"
        ),
        CordonReason.WRITE_UNCONFIRMED: ReasonText(
            cause="a request to cordon a broker got no answer, and no plan orders this cordon any more",
            effect=(
                "waits for two minutes after the broker answers again; if the cordon takes effect late, lifts the cordon"
            ),
            advice="wait; `rheostat status` shows whether the broker is cordoned",
        ),
        CordonReason.PLAN_STARTS: ReasonText(
            cause="a plan starts that drains the broker and orders its cordon (`rheostat plan generate --cordon`)",
            effect="adds all log directories of the broker to `cordoned.log.dirs`, before the first step of the plan",
        ),
    }
)
