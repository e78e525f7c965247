"""Computes how much of a broker's link replication may use without raising its clients' latency.

The headroom is the allowed utilisation, which is learned from the latency (allowed_utilisation.py), minus the load. If clients
hardly write, the headroom is a fixed share of the capacity in the settings; without such a capacity it is unlimited.

Terms:
    load    bytes/s of everything except catch-up bytes: clients, and in-sync replication.
    spread  standard deviation of the load from step to step, bytes/s.
"""

from __future__ import annotations

import math

from tuner.control.throttle.objective import ControlLimits
from tuner.core.value import value

# A link that carries more than the capacity in the settings is larger than configured, but perhaps not by much.
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
    is_configured: bool = True,
) -> float:
    """Returns the catch-up rate (bytes/s) that this direction of the broker can carry now.

    Args:
        capacity_bytes_per_s: the capacity of this direction.
        load: its load.
        used_bytes_per_s: all traffic in this direction in the newest step, catch-up included; 0: not known.
        allowed_utilisation: the allowed utilisation of the busier direction of the broker; None: clients hardly write.
        limits: the constants of the law.
        is_configured: the capacity comes from the settings. Otherwise it is only the unit of the allowed utilisation, and a
            broker to which clients hardly write has no known limit.
    """
    if allowed_utilisation is None and not is_configured:
        return math.inf
    allowed_ratio = limits.utilisation_max if allowed_utilisation is None else allowed_utilisation
    if is_configured:
        # More than the capacity in the settings is allowed only in the direction that has carried that much.
        full_ratio = max(1.0, _FULL_RATIO_MAX * used_bytes_per_s / capacity_bytes_per_s)
        allowed_ratio = min(allowed_ratio, full_ratio * limits.utilisation_max)
    return max(0.0, allowed_ratio * capacity_bytes_per_s - forecast_bytes_per_s(load, limits))
