"""Finds the hours of the next day in which clients load the cluster least, from the learned forecasts of its brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streaming.shared.contract import STEP_S, BrokerProfile, LoadForecast
from tuner.core.forecast import forecast_at

WINDOW_H = 4  # The mean over several hours, so that a single quiet hour between busy hours is not chosen.
_WITHIN_H = 24
_HOUR_MS = STEP_S * 1000
# Windows whose loads differ by no more than this are equally quiet; the earliest of them is the best.
_NEARLY_RATIO = 1.05


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The quietest window of ``WINDOW_H`` hours that begins within a day.

    Attributes:
        start_ms: start of the quietest window (epoch): the current time, or the start of an hour.
        client_bytes_per_s: mean traffic of all clients in the quietest window, received and sent.
        client_bytes_per_s_now: mean traffic in the window that begins now.
        client_bytes_per_s_max: mean traffic in the busiest window.
    """

    start_ms: int
    client_bytes_per_s: float
    client_bytes_per_s_now: float
    client_bytes_per_s_max: float

    @property
    def is_now(self) -> bool:
        return self.client_bytes_per_s_now <= _NEARLY_RATIO * self.client_bytes_per_s


def find_quiet_hours(profiles: Iterable[BrokerProfile], now_ms: int) -> QuietHours | None:
    """Returns the quietest hours; None if no profile has a forecast.

    Args:
        profiles: usable profiles of different brokers.
    """
    first_ms = now_ms - now_ms % _HOUR_MS
    hours_ms = [first_ms + hour * _HOUR_MS for hour in range(_WITHIN_H + WINDOW_H)]
    loads = _loads_by_hour(list(profiles), hours_ms)
    if loads is None:
        return None
    means = [sum(loads[hour : hour + WINDOW_H]) / WINDOW_H for hour in range(_WITHIN_H)]
    best = next(hour for hour, mean in enumerate(means) if mean <= _NEARLY_RATIO * min(means))
    return QuietHours(max(now_ms, hours_ms[best]), means[best], means[0], max(means))


def _loads_by_hour(profiles: Sequence[BrokerProfile], hours_ms: Sequence[int]) -> list[float] | None:
    series = [
        values
        for profile in profiles
        for forecast in (profile.client_in, profile.client_out)
        if (values := _values_at(forecast, profile.start_ms, hours_ms)) is not None
    ]
    return [sum(loads) for loads in zip(*series, strict=True)] if series else None


def _values_at(forecast: LoadForecast, start_ms: int, hours_ms: Sequence[int]) -> list[float] | None:
    values = [forecast_at(forecast, start_ms, at_ms) for at_ms in hours_ms]
    known = [max(0.0, value) for value in values if value is not None]
    return known if len(known) == len(values) else None
