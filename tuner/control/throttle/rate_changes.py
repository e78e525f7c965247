"""Tracks when the rate of each throttle last changed, so that a stall is judged only from measurements after the change.

Every change counts, by a ramp, an operator or another tool. Rates that the control law sets are left out: the law varies them every
second around a mean, and a stall is judged against that mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.control.throttle.state import Memory, OwnedRate, RateSince
from tuner.core.cluster import BrokerSide, LiveCluster, Observation


def track_rate_changes(observation: Observation, live: LiveCluster, memory: Memory) -> Mapping[BrokerSide, RateSince]:
    """Returns the rate of each throttle and when that rate last changed; the earlier mapping itself if nothing changed."""
    before, now_ms = memory.rates_since, observation.now_ms
    after: dict[BrokerSide, RateSince] = {}
    for side, setting in live.rates.items():
        last = before.get(side)
        setpoint = observation.setpoints.get(side)
        is_steered = setpoint is not None and not setpoint.inputs_stale
        if side in observation.ramping:
            after[side] = RateSince(setting.bytes_per_s, now_ms)
        elif last is None:
            # If the previous tuner ended during a ramp, the rate is a step of that ramp and counts as changed now.
            since_ms = now_ms if _is_ramp_interrupted(memory.owned.get(side)) else 0
            after[side] = RateSince(setting.bytes_per_s, since_ms)
        elif last.bytes_per_s == setting.bytes_per_s or is_steered:
            after[side] = last
        elif last.bytes_per_s is None:
            # No throttle limited the side before the change, so the earlier measurements stay valid.
            after[side] = RateSince(setting.bytes_per_s, last.since_ms)
        else:
            after[side] = RateSince(setting.bytes_per_s, now_ms)
    for side, last in before.items():
        if side not in after and side[0] in live.brokers:
            is_removed = last.bytes_per_s is not None and side[0] not in live.unreadable
            after[side] = RateSince(bytes_per_s=None, since_ms=now_ms) if is_removed else last
    return before if after == before else after


def _is_ramp_interrupted(owned: OwnedRate | None) -> bool:
    return owned is not None and len(owned.possible_rates) > 1
