"""The catalogue of the reasons of elections of preferred leaders, in the order in which policy.py checks them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.leadership.decision import LeadershipReason
from tuner.core.reason_text import ReasonText

_ELECTS_NONE = "elects no leader"

LEADERSHIP_REASON_TEXTS: Mapping[LeadershipReason, ReasonText] = MappingProxyType(
    {
        LeadershipReason.PARTITIONS_UNREADABLE: ReasonText(
            cause="the tuner cannot read the partitions or the settings of the brokers",
            effect=_ELECTS_NONE,
            advice="grant Describe on topics and DescribeConfigs on the cluster; `rheostat doctor` names the missing right",
        ),
        LeadershipReason.LEADERS_IN_PLACE: ReasonText(
            cause="each partition has its preferred leader, or its preferred replica is not in sync",
            effect=_ELECTS_NONE,
        ),
        LeadershipReason.KAFKA_ELECTS: ReasonText(
            cause="the controller elects preferred leaders itself (`auto.leader.rebalance.enable` is true)",
            effect=_ELECTS_NONE,
            advice=(
                "set `auto.leader.rebalance.enable` to false on brokers and controllers if rheostat should elect preferred "
                "leaders"
            ),
        ),
        LeadershipReason.PAUSED: ReasonText(
            cause="an operator paused the tuner", effect=_ELECTS_NONE, advice="end the pause with `rheostat resume`"
        ),
        LeadershipReason.CATCHES_UP: ReasonText(
            cause="replicas of the broker are not in sync yet",
            effect="waits until all replicas of the broker are in sync",
        ),
        LeadershipReason.JUST_CAUGHT_UP: ReasonText(
            cause="all replicas of the broker have been in sync for less than a minute",
            effect="waits until the minute has passed",
        ),
        LeadershipReason.LOAD_NOT_MEASURED: ReasonText(
            cause="the broker has no fresh signal, or does not report its produce latency",
            effect=_ELECTS_NONE,
            advice=(
                "check that the collector and the stream run; `rheostat signals` shows which measurements are missing"
            ),
        ),
        LeadershipReason.SETTLING: ReasonText(
            cause="the tuner has elected a group of leaders, and the effect on the broker is not measured yet",
            effect="waits for a signal that was measured at least 30 s after the election",
        ),
        LeadershipReason.CLIENTS_WAIT: ReasonText(
            cause="the produce latency of the broker is above 60 % of the objective",
            effect="waits until the latency is lower",
        ),
        LeadershipReason.HANDLERS_BUSY: ReasonText(
            cause="the request handlers of the broker are idle for less than 30 % of the time",
            effect="waits until the request handlers are idle for 30 % of the time",
        ),
        LeadershipReason.VETOED: ReasonText(
            cause="an external check (setting `tuner.vetoes`) forbids the election",
            effect="elects no leader until the veto ends",
        ),
        LeadershipReason.WATCHED: ReasonText(
            cause="the broker could lead its partitions again, and `tuner.leadership` is `watch`",
            effect="elects no leader, and reports the partitions for which it would elect leaders",
            advice="set `tuner.leadership: act` if the tuner should elect preferred leaders",
        ),
        LeadershipReason.CAUGHT_UP: ReasonText(
            cause="the broker has caught up, and its produce latency is low enough",
            effect="elects the preferred leaders of a group of its partitions: a tenth of them, at most 500",
        ),
    }
)
