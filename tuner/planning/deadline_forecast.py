"""Computes how fast a side has to copy now to end by a deadline, by the forecast of each hour until then (side_forecast.py).

    lowest copy rate r with   ∫ min(r, surplus(t)) dt = remaining bytes    from now until the deadline

The side copies at r, or at the surplus of an hour that leaves less. r is the rate of a throttle W + r: with a constant W,
``rheostat plan estimate`` forecasts that a plan with this throttle ends at the deadline. A higher r is not necessary, and with a
lower r the side ends late.

Without changes r is the remaining bytes ÷ the time. Hours with less room raise it, because the side has to make up for them.
Hours with more room never lower it: a forecast that promises too much must not make a move late.
"""

from __future__ import annotations

from collections.abc import Iterable

from tuner.core.drain_time import SideLoad
from tuner.planning.side_forecast import SideForecast, SurplusPeriod


def deadline_time_ratio(load: SideLoad, forecast: SideForecast, now_ms: int, left_s: float) -> float:
    """Returns ``DeadlineForecast.time_ratio``: remaining bytes ÷ (r × time left); 0 if no rate is enough.

    Args:
        load: B and W of the side now.
        forecast: of the side from ``now_ms`` on (epoch). It reaches a week ahead; the load of a later time is not known, and only
            the bytes for the week count.
        left_s: seconds until the deadline; above 0.
    """
    if load.remaining_bytes <= 0.0:
        return 1.0
    periods = list(forecast.periods(now_ms + round(1000 * left_s)))
    span_s = (periods[-1].until_ms - now_ms) / 1000 if periods else 0.0
    if span_s <= 0.0:
        return 1.0
    needed_bytes = load.remaining_bytes * min(1.0, span_s / left_s)
    rate = lowest_copy_rate(periods, needed_bytes)
    return 0.0 if rate is None else min(1.0, needed_bytes / (rate * span_s))


def lowest_copy_rate(periods: Iterable[SurplusPeriod], needed_bytes: float) -> float | None:
    """Returns the lowest r (bytes/s) that copies ``needed_bytes``, above 0, in the periods; None if they leave too little.

    A period whose ceiling is below W copies nothing.
    """
    rooms = sorted(
        (max(0.0, period.surplus_bytes_per_s), (period.until_ms - period.from_ms) / 1000) for period in periods
    )
    left_s = sum(span_s for _, span_s in rooms)
    # The hours with the least room are full first. All others copy the rest at an equal rate.
    for surplus, span_s in rooms:
        if surplus * left_s >= needed_bytes:
            return needed_bytes / left_s
        needed_bytes -= surplus * span_s
        left_s -= span_s
    return None
