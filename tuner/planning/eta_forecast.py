"""Forecasts how the rate of a running move will change: its expected time as a multiple of its time at the current rate.

A move whose throttle limits it follows the forecast of its throttle (side_forecast.py):

    rate in a later hour = current rate × surplus of that hour ÷ surplus of this hour

So an error that the forecast has in this hour changes nothing. If a move is clearly slower than its throttle allows, something else
limits it. A larger surplus does not speed it up then, and a surplus below its rate slows it down.
"""

from __future__ import annotations

from streaming.shared.contract import MoveSignal
from tuner.core.plan_progress import move_eta_s
from tuner.planning.side_forecast import AHEAD_MS_MAX, SideForecast

# A move at a smaller share of the surplus is not limited by its throttle.
_THROTTLED_RATIO_MIN = 0.7
# The range of the rate of one hour, as a multiple of the current rate: a forecast far outside it is not plausible.
_FACTOR_MIN, _FACTOR_MAX = 0.01, 100.0


def eta_ratio(signal: MoveSignal, forecast: SideForecast, now_ms: int) -> float:
    """Returns the expected time of a side's moves ÷ their time at the current rate. 1 if no end is known, or nothing changes.

    The current rate is assumed for the part of a move that is more than a week ahead.

    Args:
        forecast: of the side from ``now_ms`` on (epoch), with the W of the signal.
    """
    eta_s = move_eta_s(signal)
    if not eta_s:
        return 1.0
    present_bytes_per_s = (signal.remaining_bytes or 0.0) / eta_s
    surplus_now = forecast.surplus_bytes_per_s(now_ms)
    if surplus_now <= 0.0:
        return 1.0
    is_throttled = present_bytes_per_s >= _THROTTLED_RATIO_MIN * surplus_now
    left_ms, at_ms = 1000.0 * eta_s, now_ms  # The remaining work, as milliseconds at the current rate.
    for at_ms, until_ms, surplus in forecast.periods(now_ms + AHEAD_MS_MAX):
        factor = surplus / surplus_now if is_throttled else min(1.0, surplus / present_bytes_per_s)
        factor = min(_FACTOR_MAX, max(_FACTOR_MIN, factor))
        if factor * (until_ms - at_ms) >= left_ms:
            return (at_ms - now_ms + left_ms / factor) / (1000.0 * eta_s)
        left_ms -= factor * (until_ms - at_ms)
    return (AHEAD_MS_MAX + left_ms) / (1000.0 * eta_s)
