"""Determines from the trends of a lag whether it grows or falls."""

from __future__ import annotations

from streaming.shared.contract import LagTrend, ReplicationSignal

R2_MIN = 0.5
_LONG_TREND_S_MIN = 60.0  # A shorter trend says no more than the trend over the window.


def grows(signal: ReplicationSignal) -> bool:
    """Returns whether the lag grows, over the window and, if they are known, over the last five minutes."""
    long = _long_trend(signal)
    return _rises(signal.trend, R2_MIN) and (long is None or _rises(long, 0.0))


def falls(signal: ReplicationSignal) -> bool:
    """Returns whether the lag clearly falls over the window; or over the last five minutes, unless it rises in the window."""
    return _declines(signal.trend) or (_declines(_long_trend(signal)) and not _rises(signal.trend, R2_MIN))


def _long_trend(signal: ReplicationSignal) -> LagTrend | None:
    long = signal.trend_5min
    return long if long is not None and long.span_s >= _LONG_TREND_S_MIN else None


def _rises(trend: LagTrend | None, r2_min: float) -> bool:
    return trend is not None and trend.slope_messages_per_s > 0 and (trend.r2 is None or trend.r2 >= r2_min)


def _declines(trend: LagTrend | None) -> bool:
    return trend is not None and trend.slope_messages_per_s < 0 and (trend.r2 is None or trend.r2 >= R2_MIN)
