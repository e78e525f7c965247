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
            cause="the partitions or the settings of the brokers cannot be read",
            effect=_ELECTS_NONE,
            advice="grant Describe on topics and DescribeConfigs on the cluster; `rheostat doctor` names the missing right",
        ),
        LeadershipReason.LEADERS_IN_PLACE: ReasonText(
            cause="each partition is led by its preferred replica, or that replica is not in sync", effect=_ELECTS_NONE
        ),
        LeadershipReason.KAFKA_ELECTS: ReasonText(
            cause="preferred leaders are elected by Kafka itself (`auto.leader.rebalance.enable` is true)",
            effect=_ELECTS_NONE,
            advice="set `auto.leader.rebalance.enable` to false on brokers and controllers if rheostat should elect them",
        ),
        LeadershipReason.PAUSED: ReasonText(
            cause="an operator paused the tuner", effect=_ELECTS_NONE, advice="end the pause with `rheostat resume`"
        ),
        LeadershipReason.CATCHES_UP: ReasonText(
            cause="replicas of the broker are not in sync yet", effect="waits until all of them are"
        ),
        LeadershipReason.JUST_CAUGHT_UP: ReasonText(
            cause="the broker has caught up less than a minute ago", effect="waits for the rest of the minute"
        ),
        LeadershipReason.LOAD_NOT_MEASURED: ReasonText(
            cause="the broker has no fresh signal, or its produce latency is not reported",
            effect=_ELECTS_NONE,
            advice="check that the collector and the stream run; `rheostat signals` shows what is missing",
        ),
        LeadershipReason.SETTLING: ReasonText(
            cause="the effect of the last group is not measured yet", effect="waits for a signal from 30 s after it"
        ),
        LeadershipReason.CLIENTS_WAIT: ReasonText(
            cause="the produce latency of the broker is above 60 % of its limit", effect="waits until it is lower"
        ),
        LeadershipReason.HANDLERS_BUSY: ReasonText(
            cause="the request handlers of the broker are idle for less than 30 % of the time",
            effect="waits until they are idle again",
        ),
        LeadershipReason.VETOED: ReasonText(cause="a check of `tuner.vetoes` vetoes", effect=_ELECTS_NONE),
        LeadershipReason.WATCHED: ReasonText(
            cause="the broker could get leaders back, and `tuner.leadership` is `watch`",
            effect="reports the group, and elects no leader",
            advice="set `tuner.leadership: act` if the tuner should elect preferred leaders",
        ),
        LeadershipReason.CAUGHT_UP: ReasonText(
            cause="the broker has caught up, and its clients do not wait",
            effect="elects the preferred leaders of a tenth of its partitions, at most 500 at a time",
        ),
    }
)
