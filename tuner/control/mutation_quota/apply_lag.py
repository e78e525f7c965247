"""What falls behind, and what was too much once.

Intuition: a sink. As long as less runs in than the drain takes the water stands low, and how low says nothing of the drain. A
little more, and it rises and rises, however little the more is. So neither is a low level a promise, nor does a high one say how
much is too much: a bucketful raises it for a moment. But how fast it rises, where it goes on rising, tells what the drain takes,
and whoever has seen that once turns the tap no further than to just below it, for a while.

    falls behind  by so many seconds in a second: of a second's work it does 1 − that
    borne         what came in × what of it was done
    most          what was borne when the objective was missed last; with time it is believed less and less: (t/T)³ of it comes
                  on top, or of what a controller of which nothing is known is given, where that is more

Invariant: nothing here raises anything. What comes down is no sign of what can be borne.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import TotalRate
from tuner.core.controller_pressure import Measure, Pressure

_BORNE_LEAST = 0.5


@dataclass(frozen=True, slots=True)
class PressureTrend:
    """Where the pressure comes from."""

    pressure_before: float | None = None  # In the window before; None: there is none, or it is of another controller.
    lag_growth_ratio: float = 0.0  # Seconds in a second; 0 where that is not what presses, or not known.
    lag_before_ms: float | None = None  # None: as above, or nobody told.
    newer: bool = True  # This window was not judged yet.
    felt_ratio: float = 0.0  # Of what others may feel, whatever presses most; 0: not asked for, or not known.
    probe_likely_ratio: float = 0.0  # What that may be by one of the next looks.
    probe_spread_known: bool = True  # How it wavers was seen for long enough to act on.
    near_cut_at_ms: int = 0  # When the total went down a step as that, or the lines, were near their objective.
    no_headroom_at_ms: int = 0  # When either was last so much that there was no room.
    lines: Pressure | None = None  # Of brokers' lines, whatever presses most; None: not asked for, or not known.
    guaranteed_per_s: float = 0.0  # The floors of all tenants together, as far as they ask for them.
    unmanaged_per_s: float = 0.0  # What is done by those whom no quota of ours holds back.
    tenants_held_back: bool = False  # Somebody is, be it by something else than the total.


def lag_growth_ratio(pressure: Pressure, lag_before_ms: float | None, since_ms: int) -> float:
    """Only of a lag can it be told from two looks; all else is of windows that overlap."""
    if pressure.by is not Measure.APPLY_LAG or lag_before_ms is None or since_ms <= 0:
        return 0.0
    return (pressure.measured - lag_before_ms) / since_ms


def is_falling_behind(pressure: Pressure, course: PressureTrend) -> bool:
    """Over the objective twice in a row, and later still: no burst, which comes and goes within a look."""
    return course.newer and pressure.ratio > 1 and course.lag_growth_ratio > 0 and (course.pressure_before or 0.0) > 1


def is_creeping_up(pressure: Pressure, course: PressureTrend, limits: MutationLimits) -> bool:
    """Not over the objective, but later than what comes and goes at rest twice in a row, later still, and at this pace over it
    before a cut would be seen."""
    if not course.newer or course.lag_growth_ratio <= 0 or course.lag_before_ms is None:
        return False
    at_rest = min(pressure.measured, course.lag_before_ms) <= limits.idle_lag_ms_max
    return (
        not at_rest
        and pressure.measured + 1000 * limits.hold_after_cut_s * course.lag_growth_ratio > pressure.objective
    )


def is_first_lag_breach(pressure: Pressure, course: PressureTrend) -> bool:
    """Over the objective for the first time."""
    return pressure.by is Measure.APPLY_LAG and (course.pressure_before or 0.0) <= 1


def known_limit_per_s(total: TotalRate, now_ms: int, limits: MutationLimits) -> float:
    """Beyond it the objective was missed; infinite where it never was."""
    if total.known_limit_per_s is None:
        return math.inf
    age = max(0, now_ms - total.known_limit_at_ms) / 1000 / limits.known_limit_memory_s
    # Of next to nothing, by whatever it came about, a multiple would be next to nothing for ever.
    return total.known_limit_per_s + max(total.known_limit_per_s, limits.rate_per_s_start) * age**3


def sustained_per_s(came_per_s: float, course: PressureTrend) -> float:
    """What was done of that, while the rest piled up; never believed to be less than half of it, for one look may be odd."""
    return came_per_s * max(_BORNE_LEAST, 1 - course.lag_growth_ratio)


def with_known_limit(
    total: TotalRate, came_per_s: float, course: PressureTrend, now_ms: int, limits: MutationLimits
) -> TotalRate:
    """The same total, with what was borne noted: no more than was thought to be before."""
    known = min(sustained_per_s(came_per_s, course), known_limit_per_s(total, now_ms, limits))
    return replace(total, known_limit_per_s=known, known_limit_at_ms=now_ms)
