"""The catalogue of the reasons why replicas lag, in the order in which judge.py checks them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.replication_lag.decision import LagReason
from tuner.core.reason_text import ReasonText

_EXPLAINS = "changes nothing"

LAG_REASON_TEXTS: Mapping[LagReason, ReasonText] = MappingProxyType(
    {
        LagReason.RECOVERING: ReasonText(
            cause="the replicas are out of sync and catch up: the lag falls, rheostat throttles the recovery, or the broker "
            "returned less than a minute ago",
            effect=_EXPLAINS,
            advice="nothing; the lag ends with the recovery, and `rheostat status` shows what is left to copy",
        ),
        LagReason.THROTTLED: ReasonText(
            cause="a throttle that rheostat has not set holds the lagging replicas back, and their partitions do not move",
            effect=_EXPLAINS,
            advice="if no move needs the throttle, remove it: `rheostat throttles` names the command",
        ),
        LagReason.HOT_PARTITION: ReasonText(
            cause="one partition has nearly all of the lag of its fetcher thread, while other threads keep up",
            effect=_EXPLAINS,
            advice="give the topic more partitions, or spread its keys; other numbers of threads do not help",
        ),
        LagReason.FETCHER_BOUND: ReasonText(
            cause="busy partitions share one fetcher thread that is full, while other threads have room",
            effect=_EXPLAINS,
            advice="change `num.replica.fetchers` with `rheostat fetchers --apply`; see FetcherBottleneck in the runbook",
        ),
        LagReason.DESTINATION_BUSY: ReasonText(
            cause="the request handlers or the network of the follower are busy",
            effect=_EXPLAINS,
            advice="reduce the load of this broker, or move partitions to other brokers",
        ),
        LagReason.SOURCE_BUSY: ReasonText(
            cause="the request handlers or the network of the only leader that the broker lags behind are busy",
            effect=_EXPLAINS,
            advice="reduce the load of the leader, or move leaders to other brokers",
        ),
        LagReason.FOLLOWER_SLOW: ReasonText(
            cause="all fetcher threads of the broker lag, behind several leaders",
            effect=_EXPLAINS,
            advice="check disks, network and garbage collection of this broker",
        ),
        LagReason.SOURCE_SLOW: ReasonText(
            cause="all followers of one leader lag behind it, and only behind it",
            effect=_EXPLAINS,
            advice="check disks, network and garbage collection of this leader",
        ),
        LagReason.UNKNOWN: ReasonText(
            cause="the replicas of the broker lag, and no other reason of this table applies",
            effect=_EXPLAINS,
            advice="run `rheostat fetchers --watch`; see ReplicationLagGrowing in the runbook",
        ),
    }
)
