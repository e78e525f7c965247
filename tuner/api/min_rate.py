"""The minimum rate of one throttle, for the table and the chart."""

from __future__ import annotations

from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.core.cluster import Setpoint
from tuner.core.drain_time import SideLoad
from tuner.core.throttle_limits import Limits


def current_min_rate_bytes_per_s(load: SideLoad, course: Setpoint | None, limits: Limits) -> float:
    """The law's floor comes down to what clients leave; what it means is never below it."""
    least = min_draining_bytes_per_s(load, limits)
    return least if course is None else min(least, course.bytes_per_s)
