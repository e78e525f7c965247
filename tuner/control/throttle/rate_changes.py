"""When did the rate of each throttle change last?

What was measured before a change tells nothing about the rate after it. A move that stalled under 5 MB/s has not stalled under
20 MB/s because its last half minute brought little, so no stall is diagnosed from a window that is older than the change.

Every change counts: a step of a ramp, an operator's, another tool's. Rates that the control law sets are left out: it changes
them every second around a mean, and a stall is judged against that mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.control.throttle.state import Memory, OwnedRate, RateSince
from tuner.core.cluster import BrokerSide, LiveCluster, Observation


def track_rate_changes(observation: Observation, live: LiveCluster, memory: Memory) -> Mapping[BrokerSide, RateSince]:
    """The rate of each throttle and when it changed last; the same mapping as before where nothing changed."""
    before, now_ms = memory.rates_since, observation.now_ms
    after: dict[BrokerSide, RateSince] = {}
    for side, setting in live.rates.items():
        known = before.get(side)
        course = observation.setpoints.get(side)
        if side in observation.ramping:
            after[side] = RateSince(setting.bytes_per_s, now_ms)
        elif known is None:
            # A predecessor that ended during a ramp left the rate on the way.
            after[side] = RateSince(setting.bytes_per_s, now_ms if _is_interrupted(memory.owned.get(side)) else 0)
        elif known.bytes_per_s == setting.bytes_per_s or (course is not None and not course.inputs_stale):
            after[side] = known
        elif known.bytes_per_s is None:
            # Without a throttle there was no lower rate that could have caused what was measured.
            after[side] = RateSince(setting.bytes_per_s, known.since_ms)
        else:
            after[side] = RateSince(setting.bytes_per_s, now_ms)
    for side, known in before.items():
        if side not in after and side[0] in live.brokers:
            gone = known.bytes_per_s is not None and side[0] not in live.unreadable
            after[side] = RateSince(None, now_ms) if gone else known
    return before if after == before else after


def _is_interrupted(owned: OwnedRate | None) -> bool:
    return owned is not None and len(owned.possible_rates) > 1
