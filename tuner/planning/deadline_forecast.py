"""Computes how fast a side has to copy now to end by a deadline. Uses the forecast of each hour until then (side_forecast.py).

    r = the lowest copy rate for which   ∫ min(r, surplus(t)) dt = remaining bytes,   from now until the deadline

    surplus(t)  the highest rate at which the side can copy at time t: the throttle that is possible then, minus W.
    W           steady-state replication: the part of the throttle that the replication of new writes uses.

In each hour the side copies at min(r, surplus). With a lower r the side ends late; a higher r is not necessary. If W is constant,
``rheostat plan estimate`` forecasts that a plan with the throttle W + r ends at the deadline.

If the surplus is never below r, then r = remaining bytes ÷ time left. Hours with a lower surplus raise r. Hours with a higher
surplus never lower r below this quotient, so a forecast that is too optimistic does not make a move late.
"""

from __future__ import annotations

from collections.abc import Iterable

from tuner.core.drain_time import SideLoad
from tuner.planning.side_forecast import SideForecast, SurplusPeriod


def deadline_time_ratio(load: SideLoad, forecast: SideForecast, now_ms: int, left_s: float) -> float:
    """Returns ``DeadlineForecast.time_ratio``: remaining bytes ÷ (r × time left); 0 if no rate is enough.

    Args:
        load: remaining bytes and W of the side now.
        forecast: of the side from ``now_ms`` on (epoch), at most for a week. If the deadline is later, only the bytes count that
            must be copied within this week.
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
    """Returns the lowest r (bytes/s) that copies ``needed_bytes``, above 0, in the periods; None if no r is enough.

    In a period with a negative surplus nothing is copied.
    """
    surpluses = sorted(
        (max(0.0, period.surplus_bytes_per_s), (period.until_ms - period.from_ms) / 1000) for period in periods
    )
    left_s = sum(span_s for _, span_s in surpluses)
    # Periods with a surplus below r copy at their surplus. All other periods copy the rest of the bytes at the rate r.
    for surplus, span_s in surpluses:
        if surplus * left_s >= needed_bytes:
            return needed_bytes / left_s
        needed_bytes -= surplus * span_s
        left_s -= span_s
    return None
