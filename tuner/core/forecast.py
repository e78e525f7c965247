"""Reads forecasts from the profile of a broker, and decides whether a profile may be used.

A profile comes from a topic to which other clients may write. So the tuner uses a profile only while it is recent, and only if at
least a day of history is behind it. A decision that uses a profile still keeps its own limits, such as the ceiling.
"""

from __future__ import annotations

from streaming.shared.contract import HORIZONS_H, STEP_S, BrokerProfile, LoadForecast
from streaming.shared.units import span_text

# `rheostat learn` writes each profile once an hour. An older profile comes from a process that has stopped.
PROFILE_AGE_S_MAX = 3 * 3600.0
HISTORY_S_MIN = 24 * 3600.0  # A shorter history has not seen each hour of the day.
_STEPS_PER_DAY = 24


def why_unusable(profile: BrokerProfile | None, now_ms: int) -> str | None:
    """Returns why a profile cannot be used now, as the end of a sentence; None if it can."""
    if profile is None:
        return "has no profile"
    age_s = (now_ms - profile.made_at_ms) / 1000
    if age_s > PROFILE_AGE_S_MAX:
        return f"has a profile that is {span_text(age_s)} old"
    if age_s < -PROFILE_AGE_S_MAX:
        return f"has a profile that is dated {span_text(-age_s)} in the future"
    if profile.history_s < HISTORY_S_MIN:
        return f"has a history of only {span_text(max(0.0, profile.history_s))}"
    if not any(value is not None for value in profile.client_in.bytes_per_s):
        return "has a profile without a forecast"
    return None


def forecast_at(forecast: LoadForecast, start_ms: int, at_ms: int) -> float | None:
    """Returns the forecast (bytes/s) for a time; None if the forecast has no value at all.

    Args:
        start_ms: start of the first step (epoch).
    """
    values = filled_values(forecast)
    return values[step_of(len(values), start_ms, at_ms)] if values else None


def filled_values(forecast: LoadForecast) -> list[float]:
    """Returns the forecast (bytes/s) by step; empty if it has no value at all.

    An unknown hour gets the value of the last known hour before it, or (at the beginning) of the first known hour.
    """
    last = next((value for value in forecast.bytes_per_s if value is not None), None)
    values: list[float] = []
    for value in forecast.bytes_per_s:
        last = last if value is None else value
        if last is not None:
            values.append(last)
    return values


def step_of(steps: int, start_ms: int, at_ms: int) -> int:
    """Returns the step of a time in a forecast of ``steps`` steps. After the last step, the hours of the last day repeat.

    Args:
        start_ms: start of the first step (epoch).
    """
    step = max(0, (at_ms - start_ms) // (STEP_S * 1000))
    if step < steps:
        return step
    days = -(-(step - steps + 1) // _STEPS_PER_DAY)
    return max(step - days * _STEPS_PER_DAY, 0) if steps >= _STEPS_PER_DAY else steps - 1


def forecast_error(forecast: LoadForecast, ahead_s: float) -> float | None:
    """Returns the mean absolute error (bytes/s) of forecasts that were made ``ahead_s`` before their hour; None: not measured.

    Between two horizons the result is the error of the longer horizon. Beyond the last horizon it is the error of the last horizon.
    """
    known = [(h, e) for h, e in zip(HORIZONS_H, forecast.error_bytes_per_s, strict=False) if e is not None]
    longer = (error for hours, error in known if hours * 3600 >= ahead_s)
    return next(longer, known[-1][1] if known else None)
