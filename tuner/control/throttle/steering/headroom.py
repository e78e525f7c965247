"""Computes how much of a broker's link replication may use without raising its clients' latency.

The headroom is the allowed utilisation, which is learned from the latency (allowed_utilisation.py), minus the load. If clients
hardly write, the headroom is a fixed share of the capacity in the settings, or of the link's speed; without both it is unlimited.

Terms:
    load    bytes/s of everything except catch-up bytes: clients, and in-sync replication.
    spread  standard deviation of the load from step to step, bytes/s.
"""

from __future__ import annotations

import math

from tuner.control.throttle.objective import ControlLimits
from tuner.core.value import value

# A link that carries more than its known speed is faster, but perhaps not by much.
_FULL_RATIO_MAX = 1.25


@value
class DirectionLoad:
    """The load in one direction of one broker, and its variation.

    Attributes:
        level_bytes_per_s: mean load over ``load_s``.
        spread_bytes_per_s: standard deviation of a step from the level.
    """

    level_bytes_per_s: float
    spread_bytes_per_s: float = 0.0


def update_load(
    load: DirectionLoad | None, measured_bytes_per_s: float, step_s: float, limits: ControlLimits
) -> DirectionLoad:
    """Returns the load after one more measured step of ``step_s`` seconds; ``load`` is None before the first one."""
    if load is None:
        return DirectionLoad(
            level_bytes_per_s=measured_bytes_per_s,
            spread_bytes_per_s=0.05 * measured_bytes_per_s,  # A guess.
        )
    error = measured_bytes_per_s - load.level_bytes_per_s
    # 1.25 × the mean absolute error is the standard deviation of a normal distribution.
    spread_error = 1.25 * abs(error) - load.spread_bytes_per_s
    return DirectionLoad(
        load.level_bytes_per_s + weight_of_step(step_s, limits.load_s) * error,
        load.spread_bytes_per_s + weight_of_step(step_s, limits.variation_s) * spread_error,
    )


def weight_of_step(step_s: float, memory_s: float) -> float:
    """Returns the weight of a step of ``step_s`` seconds in an exponential mean over ``memory_s`` seconds."""
    return 1.0 - math.exp(-step_s / memory_s)


def forecast_bytes_per_s(load: DirectionLoad, limits: ControlLimits) -> float:
    """Returns a conservative forecast of the load, in bytes/s."""
    return load.level_bytes_per_s + limits.forecast_spreads * load.spread_bytes_per_s


def headroom_bytes_per_s(
    capacity_bytes_per_s: float,
    load: DirectionLoad,
    used_bytes_per_s: float,
    allowed_utilisation: float | None,
    limits: ControlLimits,
    *,
    link_bytes_per_s: float | None,
) -> float:
    """Returns the catch-up rate (bytes/s) that this direction of the broker can carry now.

    Args:
        capacity_bytes_per_s: the unit of ``allowed_utilisation``: the capacity in the settings, or the traffic measured first.
        load: its load.
        used_bytes_per_s: all traffic in this direction in the newest step, catch-up included; 0: not known.
        allowed_utilisation: the allowed utilisation of the busier direction of the broker; infinite: not known; None: clients
            hardly write, and the settings have a capacity.
        limits: the constants of the law.
        link_bytes_per_s: the capacity in the settings, or else the speed of the link; None: neither is known.
    """
    allowed_ratio = limits.utilisation_max if allowed_utilisation is None else allowed_utilisation
    allowed = allowed_ratio * capacity_bytes_per_s
    if link_bytes_per_s is not None:
        allowed = min(allowed, limits.utilisation_max * full_link_bytes_per_s(link_bytes_per_s, used_bytes_per_s))
    return max(0.0, allowed - forecast_bytes_per_s(load, limits))


def full_link_bytes_per_s(link_bytes_per_s: float, used_bytes_per_s: float) -> float:
    """Returns what one direction of a link carries at most (bytes/s): its known speed, or more if it carries nearly that much."""
    return max(link_bytes_per_s, _FULL_RATIO_MAX * used_bytes_per_s)
