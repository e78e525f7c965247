"""Computes the rate that ends a stalled move.

    q  the throttle of a side (the leader or the follower throttle of one broker)
    W  steady-state replication: the part of q that the replication of new writes uses
    B  the bytes that the side still has to copy
    T  the time that the slowest side needs at the operator's ceiling

Only q − W reduces B, so a side ends in time T at the rate W + B ÷ T. Every side gets the rate for the same T, so only the slowest
side runs at the ceiling.

Invariant: a setpoint is never below the current rate. A raised rate is at most the ceiling, and above W if the ceiling is above W.
If the ceiling is not above W, the side is infeasible.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad, drain_s
from tuner.core.throttle_limits import ThrottleLimits


def min_draining_bytes_per_s(steady_state_bytes_per_s: float, limits: ThrottleLimits) -> float:
    """Returns the lowest rate, in bytes/s, at which a side with this steady-state replication copies at a useful speed."""
    return max(limits.rate_bytes_per_s_min, limits.min_rate_over_steady_state * steady_state_bytes_per_s)


def is_infeasible(current_bytes_per_s: float, load: SideLoad, limits: ThrottleLimits) -> bool:
    """Whether W is not below the ceiling and not below the current rate, so that the move never ends."""
    return load.steady_state_bytes_per_s >= max(limits.rate_bytes_per_s_max, current_bytes_per_s)


def drain_target_s(loads: Mapping[BrokerSide, SideLoad], limits: ThrottleLimits) -> float:
    """Returns T in seconds: the time of the slowest feasible side at the ceiling."""
    times = [drain_s(load, limits.rate_bytes_per_s_max) for load in loads.values()]
    return max([limits.drain_s_min, *(t for t in times if t is not None)])


def setpoint_bytes_per_s(
    side: Side, load: SideLoad, current_bytes_per_s: float, target_s: float, limits: ThrottleLimits
) -> int:
    """Returns the rate at which one side ends in ``target_s``, in bytes/s, and at least the current rate."""
    slack = limits.follower_slack if side is Side.FOLLOWER else 1.0
    required = slack * (load.steady_state_bytes_per_s + load.remaining_bytes / target_s)
    min_rate = min_draining_bytes_per_s(load.steady_state_bytes_per_s, limits)
    limited = min(limits.rate_bytes_per_s_max, max(min_rate, required))
    return round(max(limited, current_bytes_per_s))


def is_throttle_bound(
    current_bytes_per_s: float, load: SideLoad, measured_bytes_per_s: float | None, limits: ThrottleLimits
) -> bool:
    """Whether this throttle limits the move.

    A throttle limits its move if its rate is not above steady-state replication, or if the measured bytes use it up. Without a
    measurement only the first condition is checked.
    """
    if current_bytes_per_s <= load.steady_state_bytes_per_s:
        return True
    return measured_bytes_per_s is not None and measured_bytes_per_s >= limits.bound_ratio * current_bytes_per_s
