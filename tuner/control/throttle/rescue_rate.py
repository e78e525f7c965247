"""How fast may a broker replicate, so that a stalled move ends?

Intuition: a throttle has to carry two things: what keeps its followers up to date (W), and what catches up. Only the rest
q − W drains anything. So the rate that ends a move in time T is W + B/T, and T cannot be shorter than the slowest broker
takes at the operator's ceiling. Every broker gets just what it needs for that T: the slowest one runs at the ceiling, the
others have no reason to hurt their clients.

Invariant: a wanted rate lies between the floor (the least that drains) and the ceiling, and is never below what stands
there: in this file throttles only rise. Where no rate at or below the ceiling drains, the answer is "infeasible", said
aloud, and not a number.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad, drain_s
from tuner.core.throttle_limits import Limits


def min_draining_bytes_per_s(load: SideLoad, limits: Limits) -> float:
    return max(limits.rate_bytes_per_s_min, limits.min_rate_over_steady_state * load.steady_state_bytes_per_s)


def is_infeasible(current_bytes_per_s: float, load: SideLoad, limits: Limits) -> bool:
    """No permitted throttle ends this side's move, and the one that stands does not either."""
    return load.steady_state_bytes_per_s >= max(limits.rate_bytes_per_s_max, current_bytes_per_s)


def drain_target_s(loads: Mapping[BrokerSide, SideLoad], limits: Limits) -> float:
    """T: as short as the slowest feasible side allows."""
    times = [drain_s(load, limits.rate_bytes_per_s_max) for load in loads.values()]
    return max([limits.drain_s_min, *(t for t in times if t is not None)])


def setpoint_bytes_per_s(
    side: Side, load: SideLoad, current_bytes_per_s: float, target_s: float, limits: Limits
) -> int:
    """The rate for one side of one broker, so that it is done in ``target_s``."""
    slack = limits.follower_slack if side is Side.FOLLOWER else 1.0
    needed = slack * (load.steady_state_bytes_per_s + load.remaining_bytes / target_s)
    within = min(limits.rate_bytes_per_s_max, max(min_draining_bytes_per_s(load, limits), needed))
    return round(max(within, current_bytes_per_s))


def is_throttle_bound(
    current_bytes_per_s: float, load: SideLoad, measured_bytes_per_s: float | None, limits: Limits
) -> bool:
    """Is it this throttle that holds the move back?

    Two ways to know: it is below what keeping up takes, so it must be, whatever is measured; or what passes is as much as
    it lets through. Not knowing the measure is not knowing, so no.
    """
    if current_bytes_per_s <= load.steady_state_bytes_per_s:
        return True
    return measured_bytes_per_s is not None and measured_bytes_per_s >= limits.bound_ratio * current_bytes_per_s
