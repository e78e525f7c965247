"""The floor of one throttle, as the table and the chart show it."""

from __future__ import annotations

from tuner.decide.rescue_rate import floor_bytes_per_s
from tuner.model.cluster import Course
from tuner.model.limits import Limits
from tuner.plan.move_time import SideLoad


def floor_now_bytes_per_s(load: SideLoad, course: Course | None, limits: Limits) -> float:
    """The law's floor comes down to what clients leave; what it means is never below it."""
    least = floor_bytes_per_s(load, limits)
    return least if course is None else min(least, course.meant_bytes_per_s)
