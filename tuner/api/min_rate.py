"""The minimum rate of one throttle, for the table and the chart."""

from __future__ import annotations

from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.core.cluster import Setpoint
from tuner.core.throttle_limits import ThrottleLimits


def current_min_rate_bytes_per_s(
    steady_state_bytes_per_s: float, setpoint: Setpoint | None, limits: ThrottleLimits
) -> float:
    """Returns the lowest rate (bytes/s) that the tuner would set now.

    The closed-loop control may go below the usual minimum if the operator or a plan caps the rate; then its setpoint is the
    minimum.
    """
    min_rate = min_draining_bytes_per_s(steady_state_bytes_per_s, limits)
    return min_rate if setpoint is None else min(min_rate, setpoint.bytes_per_s)
