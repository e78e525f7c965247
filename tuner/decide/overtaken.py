"""Which changes of rate under way are not what is wanted any more?

Intuition: a ramp takes a window of Kafka's quota, and one for a young move waits before it begins. What a person orders meanwhile,
and what producers wait for, is not behind that in a queue: such a change ends where it is, and the next cycle goes on from there.

Invariant: a change that leads to where somebody wants it now is let go on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tuner.decide.freshness import fresh
from tuner.decide.orders import in_force, still_ordered
from tuner.decide.urgency import recovering
from tuner.model.cluster import BrokerSide, LiveCluster, Observation
from tuner.model.decision import Reason, SetRate
from tuner.model.limits import Limits


def overtaken(
    changes: Mapping[BrokerSide, SetRate], waiting: Collection[BrokerSide], observation: Observation, limits: Limits
) -> dict[BrokerSide, str]:
    """Those of ``changes`` that end where they are, and why.

    Args:
        waiting: of which no step has been written yet.
    """
    if not changes:
        return {}
    live, now_ms = observation.live, observation.now_ms
    seen = isinstance(live, LiveCluster)
    told = fresh(observation.brokers, now_ms, limits.signal_age_s_max)
    needed = recovering(live, told) if isinstance(live, LiveCluster) else frozenset[BrokerSide]()
    found = {}
    for side, change in changes.items():
        order = observation.orders.overrides.get(side)
        ordered = in_force(order, now_ms)
        if ordered or change.reason is Reason.OVERRIDDEN:
            if not still_ordered(change, order, limits, now_ms):
                found[side] = "ordered otherwise, or no longer"
        # Throttles that are being opened for replicas that nobody says are waited for any more.
        elif change.reason is Reason.RECOVERS:
            if seen and side not in needed:
                found[side] = "writes wait no more for what it was opened for, as far as is known"
        # Above a ceiling that is lower by now nothing is opened anyway.
        elif change.reason is Reason.AT_CEILING:
            continue
        elif side in needed and (
            side in waiting
            or change.reason is Reason.WINDOW_EMPTY
            or change.wanted_bytes_per_s < change.live_bytes_per_s
        ):
            found[side] = "writes wait for replicas that come back through it"
    return found
