"""Finds the brokers whose lag is that of a recovery, and therefore no fault.

Kafka measures the lag of a replica only after it has left the ISR. So a lag that grows because of a fault, and the lag of a broker
that was down, both belong to replicas that are out of sync. The lag is that of a recovery if one of these conditions is met:

- It falls: the replicas catch up, for any reason.
- rheostat itself throttles the recovery. Then the lag may grow for a while.
- The broker has just returned. Its fetchers begin one after the other, so the lag that Kafka knows rises at first.

A lag that grows, or stays the same, without these conditions has a cause that operators have to know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streaming.shared.contract import ReplicationSignal, Side
from tuner.control.replication_lag.trends import falls
from tuner.control.replication_lag.view import LagView
from tuner.core.cluster import PartitionMove


def recovering_brokers(
    view: LagView, signals: Mapping[int, ReplicationSignal], returned: Collection[int]
) -> dict[int, bool]:
    """Returns the brokers with the lag of a recovery, and for each whether rheostat throttles it.

    Args:
        signals: the usable signals of all brokers.
        returned: brokers that have just returned, or that the tuner has just seen for the first time.
    """
    copying = {broker for recovery in view.live.recoveries for broker in recovery.adding}
    throttled = {
        broker for recovery in view.live.recoveries for broker in recovery.adding if _throttles(view, recovery, broker)
    }
    return {
        broker: broker in throttled
        for broker in sorted(copying & signals.keys())
        if broker in throttled or broker in returned or falls(signals[broker])
    }


def _throttles(view: LagView, recovery: PartitionMove, broker: int) -> bool:
    """Returns whether a throttle of rheostat holds back a recovering replica."""
    throttle = view.live.lists.get(recovery.topic)
    return throttle is not None and any(
        side in view.managed and throttle.for_side(side[1]).includes(recovery.partition, side[0])
        for side in ((broker, Side.FOLLOWER), (recovery.leader, Side.LEADER))
    )
