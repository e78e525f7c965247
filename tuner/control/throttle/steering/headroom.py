"""Computes how much of a broker's link replication may use without raising its clients' latency.

    headroom = allowed utilisation × capacity − load

The allowed utilisation is learned from the latency (allowed_utilisation.py). If clients hardly write, their latency is not known.
The allowed utilisation is then a fixed share of the capacity in the settings or of the link speed. If neither is known, the
headroom is unlimited.

Terms:
    load    bytes/s of all traffic except the bytes of copies: clients, and in-sync replication.
    spread  standard deviation of the load from step to step, bytes/s.
"""

from __future__ import annotations

import math

from tuner.control.throttle.objective import ControlLimits
from tuner.core.value import value

# A link whose traffic comes close to its known speed may be faster than this speed, but perhaps not by much.
_FULL_RATIO_MAX = 1.25


@value
class DirectionLoad:
    """The load in one direction of one broker, and its variation.

    Attributes:
        level_bytes_per_s: mean load over ``load_s``.
        spread_bytes_per_s: standard deviation of the steps from ``level_bytes_per_s``.
    """

    level_bytes_per_s: float
    spread_bytes_per_s: float = 0.0


def update_load(
    load: DirectionLoad | None, measured_bytes_per_s: float, step_s: float, limits: ControlLimits
) -> DirectionLoad:
    """Returns the load after one more measured step of ``step_s`` seconds; ``load`` is None before the first step."""
    if load is None:
        return DirectionLoad(
            level_bytes_per_s=measured_bytes_per_s,
            spread_bytes_per_s=0.05 * measured_bytes_per_s,  # An assumption until the spread is measured.
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
        capacity_bytes_per_s: the capacity in the settings, or the traffic that was measured first (allowed_utilisation.py).
        load: the load in this direction.
        used_bytes_per_s: all traffic in this direction in the newest step, also the bytes of copies; 0: not known.
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
    """Returns the assumed speed of one direction of a link (bytes/s): the known speed, or more if its traffic comes close to it."""
    return max(link_bytes_per_s, _FULL_RATIO_MAX * used_bytes_per_s)
