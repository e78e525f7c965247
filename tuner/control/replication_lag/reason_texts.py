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
            cause=(
                "the replicas are catching up: their lag falls, or rheostat throttles their recovery, or the broker returned "
                "less than a minute ago"
            ),
            effect=_EXPLAINS,
            advice=(
                "nothing; the lag ends when the replicas are in sync, and `rheostat status` shows what is left to copy"
            ),
        ),
        LagReason.THROTTLED: ReasonText(
            cause=(
                "a throttle that rheostat has not set limits the lagging replicas, although their partitions do not move"
            ),
            effect=_EXPLAINS,
            advice="if no move needs the throttle, remove it with the command that `rheostat throttles` names",
        ),
        LagReason.HOT_PARTITION: ReasonText(
            cause="nearly all of the lag of a fetcher thread is the lag of one partition",
            effect=_EXPLAINS,
            advice=(
                "give the topic more partitions, or spread the keys of its records more evenly; another number of fetcher "
                "threads does not help"
            ),
        ),
        LagReason.FETCHER_BOUND: ReasonText(
            cause="several busy partitions share one fetcher thread, which is full, while other threads have room",
            effect=_EXPLAINS,
            advice="change `num.replica.fetchers` with `rheostat fetchers --apply`; see FetcherBottleneck in the runbook",
        ),
        LagReason.DESTINATION_BUSY: ReasonText(
            cause="the request handlers of the lagging broker are busy, or its network link is nearly full",
            effect=_EXPLAINS,
            advice="reduce the load of this broker, or move partitions to other brokers",
        ),
        LagReason.SOURCE_BUSY: ReasonText(
            cause=(
                "the broker lags behind one leader only, and the request handlers of this leader are busy, or its network "
                "link is nearly full"
            ),
            effect=_EXPLAINS,
            advice="reduce the load of the leader, or move leaders to other brokers",
        ),
        LagReason.FOLLOWER_SLOW: ReasonText(
            cause="all fetcher threads of the broker lag, and they lag behind several leaders",
            effect=_EXPLAINS,
            advice="check disks, network and garbage collection of this broker",
        ),
        LagReason.SOURCE_SLOW: ReasonText(
            cause="all followers of one leader lag behind this leader, and behind no other leader",
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
