"""Computes how much of a broker's link replication may use without raising its clients' latency.

The headroom is the bandwidth that the forecast load leaves below the allowed utilisation (90 % of the link). Latency adjusts that
utilisation by a margin: the margin grows while the p99 is above its aim, and shrinks slowly while the p99 is below. The aim lies
below the objective, because a p99 that follows every moment may be higher in the next one. A smooth p99 (small fast component, see
latency_filter.py) already covers such peaks, so its aim is closer to the objective and its margin may become negative.

At low headroom, where the whole ceiling is little more than the steady-state replication, one step of the margin multiplies the
time that the move takes. So there the margin reacts only to a p99 close to the objective.

Invariant: the margin stays within its limits, and shrinks only while replication fills the link. An idle link gives no evidence
about how full the link may be (anti-windup).

Terms:
    load    bytes/s of everything except catch-up bytes: clients, and in-sync replication.
    spread  usual error of the load's forecast, bytes/s.
    margin  share of the capacity by which the allowed utilisation is reduced; raised if negative.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.control.throttle.objective import ControlLimits
from tuner.core.value import value


@value
class DirectionLoad:
    """The forecast of the load in one direction of one broker (level and trend).

    Attributes:
        usual_bytes_per_s: mean load over some minutes.
    """

    level_bytes_per_s: float
    slope_bytes_per_s2: float = 0.0
    spread_bytes_per_s: float = 0.0
    usual_bytes_per_s: float = 0.0


def update_load(
    load: DirectionLoad | None, measured_bytes_per_s: float, step_s: float, limits: ControlLimits
) -> DirectionLoad:
    """Returns the forecast after one more measured step of ``step_s`` seconds; ``load`` is None before the first one."""
    if load is None:
        return DirectionLoad(
            level_bytes_per_s=measured_bytes_per_s,
            spread_bytes_per_s=0.05 * measured_bytes_per_s,  # A guess.
            usual_bytes_per_s=measured_bytes_per_s,
        )
    expected = load.level_bytes_per_s + load.slope_bytes_per_s2 * step_s
    error = measured_bytes_per_s - expected
    if is_load_jump(load, measured_bytes_per_s, step_s, limits):
        level = measured_bytes_per_s
        return replace(load, level_bytes_per_s=level, slope_bytes_per_s2=0.0, usual_bytes_per_s=level)
    slope = load.slope_bytes_per_s2 + limits.slope_gain * limits.level_gain * error / step_s
    # 1.25 × the mean absolute error is the standard deviation of a normal distribution.
    spread = load.spread_bytes_per_s + limits.spread_gain * (1.25 * abs(error) - load.spread_bytes_per_s)
    usual = load.usual_bytes_per_s + limits.usual_gain * (measured_bytes_per_s - load.usual_bytes_per_s)
    return DirectionLoad(expected + limits.level_gain * error, slope, spread, usual)


def is_load_jump(load: DirectionLoad, measured_bytes_per_s: float, step_s: float, limits: ControlLimits) -> bool:
    """Returns whether this step is a new load level, rather than noise of the known one."""
    expected = load.level_bytes_per_s + load.slope_bytes_per_s2 * step_s
    error = measured_bytes_per_s - expected
    # After a very steady load the spread is nearly 0; at least 2 % of the load counts as noise.
    return abs(error) > limits.jump_spreads * max(load.spread_bytes_per_s, 0.02 * expected)


def forecast_bytes_per_s(load: DirectionLoad, horizon_s: float, limits: ControlLimits) -> float:
    """Returns a conservative forecast of the load ``horizon_s`` seconds after the newest step, in bytes/s."""
    forecast = load.level_bytes_per_s + load.slope_bytes_per_s2 * horizon_s
    return max(0.0, forecast + limits.forecast_spreads * load.spread_bytes_per_s)


def next_margin(
    margin: float,
    latency_ratio: float,
    fills_link: bool,
    limits: ControlLimits,
    *,
    low_headroom: bool = False,
    fast_component: float = 1.0,
) -> float:
    """Returns the margin after one more step.

    Args:
        margin: the margin before.
        latency_ratio: client p99 ÷ its objective.
        fills_link: replication uses the whole ceiling that ``margin`` leaves.
        limits: the constants of the law.
        low_headroom: that ceiling is little more than the steady-state replication.
        fast_component: the fast share of the p99. It has no influence on the weight of a miss of the objective.
    """
    aim = limits.latency_aim_low_headroom if low_headroom else limits.latency_aim
    if latency_ratio > 1.0:
        error = min(1.0, latency_ratio - aim) + limits.miss_weight
    else:
        nearer_aim = max(aim, smooth_latency_aim(fast_component, limits))
        # The error is 0 at ``nearer_aim`` and 1 − aim at the objective, for every fast component. At low headroom 1 − aim is small,
        # so the reaction is weak on purpose.
        error = (latency_ratio - nearer_aim) * (1.0 - aim) / (1.0 - nearer_aim)
        # A fast p99 may be higher the next moment, so the margin shrinks at most half as fast as it grows.
        error = max(error, 0.5 * fast_component - 1.0)
    if error < 0 and not fills_link:
        return margin
    # A miss of the objective cancels a negative margin at once.
    before = max(margin, 0.0) if latency_ratio > 1.0 else margin
    return min(limits.margin_max, max(min_margin(fast_component, limits), before + limits.margin_gain * error))


def smooth_latency_aim(fast_component: float, limits: ControlLimits) -> float:
    """Returns the aim as a share of the objective: the nearer, the smoother the p99 is (small fast component)."""
    return min(limits.latency_aim_max, 1.0 - fast_component * (1.0 - limits.latency_aim))


def min_margin(fast_component: float, limits: ControlLimits) -> float:
    """Returns the smallest margin that is allowed at any latency, as a share of the capacity.

    A fast p99 says nothing about the next seconds, so a positive margin covers them. A slow p99 already covers them: while it
    is below its aim, clients bear a link that is fuller than ``utilisation_max``, so the margin may become negative.
    """
    slow_min = min(limits.margin_min, limits.margin_min_slow_p99)
    return fast_component * limits.margin_min + (1.0 - fast_component) * slow_min


def headroom_bytes_per_s(
    capacity_bytes_per_s: float, load: DirectionLoad, margin: float, horizon_s: float, limits: ControlLimits
) -> float:
    """Returns the catch-up rate (bytes/s) that this direction of the broker can carry ``horizon_s`` after the newest step."""
    allowed = (limits.utilisation_max - margin) * capacity_bytes_per_s
    return max(0.0, allowed - forecast_bytes_per_s(load, horizon_s, limits))
