"""Forecasts one hourly series with River's Holt–Winters model: a level, a trend, and a value for each hour of the season.

Loads may be zero, so the model needs the additive form of Holt–Winters. But River starts each season with ``value ÷ mean``, which
fits only the multiplicative form. Therefore the module scales the values so that their mean over the first season is 1, and starts
level and trend at 0. Then River's season is correct except for a constant. If an hour has no value, the model learns its own
forecast of the hour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from river import time_series

DAY_H = 24
# Weights of the newest hour in level, trend and season. The level follows a change within about ten hours, and the season within
# about ten seasons. The trend hardly follows, because the forecast must not continue the rise of a morning for a week.
_ALPHA, _BETA, _GAMMA = 0.1, 0.001, 0.1
# The distance of a value from its forecast is limited to this many mean errors, so that one outage hardly changes the season.
_OUTLIER_ERRORS = 3.0
_ERROR_WEIGHT = 1 / 48  # The mean error covers about two days.
_HOLE_HOURS_MAX = 48  # After a longer gap in the values the model starts from scratch.


class SeasonalModel:
    """Holt–Winters with a season of a day by default."""

    def __init__(self, season_h: int = DAY_H) -> None:
        self._season_h = season_h
        self._first: list[float] = []
        self._model: Any = None  # time_series.HoltWinters, which has no types.
        self._mean = self._scale = 1.0
        self._error = 0.0
        self._hole_h = 0

    @property
    def is_ready(self) -> bool:
        return self._model is not None

    def learn(self, value: float) -> None:
        """Learns the value of the next hour; NaN: not known."""
        if math.isnan(value):
            self._hole_h += 1
            if self._hole_h > _HOLE_HOURS_MAX:
                self._model, self._first = None, []
                return
            if self._model is not None:
                self._model.learn_one(self._scaled(self.forecast(1)))
            elif self._first:
                self._first.append(self._first[-1])
        else:
            self._hole_h = 0
            if self._model is not None:
                self._model.learn_one(self._scaled(self._without_outlier(value)))
            else:
                self._first.append(value)
        if self._model is None and len(self._first) == self._season_h:
            self._begin()

    def forecast(self, horizon_h: int) -> float:
        """Returns the forecast for ``horizon_h`` hours after the newest value; NaN while the first season is not complete."""
        return self.forecasts((horizon_h,))[0]

    def forecasts(self, horizons_h: Sequence[int]) -> list[float]:
        """Returns the forecasts for several horizons, as ``forecast`` does for one."""
        model, season_h = self._model, self._season_h
        if model is None:
            return [math.nan] * len(horizons_h)
        season = model.season
        level, trend, scale = model.level[-1] - 1.0, model.trend[-1], self._scale
        mean = self._mean
        return [
            max(0.0, mean + scale * (level + horizon * trend + season[(horizon - 1) % season_h - season_h]))
            for horizon in horizons_h
        ]

    def _without_outlier(self, value: float) -> float:
        expected, error = self.forecast(1), self._error
        self._error += _ERROR_WEIGHT * (abs(value - expected) - self._error)
        return min(expected + _OUTLIER_ERRORS * error, max(expected - _OUTLIER_ERRORS * error, value))

    def _begin(self) -> None:
        self._mean = sum(self._first) / len(self._first)
        self._scale = max(1.0, self._mean)
        self._error = sum(abs(value - self._mean) for value in self._first) / len(self._first)
        self._model = time_series.HoltWinters(alpha=_ALPHA, beta=_BETA, gamma=_GAMMA, seasonality=self._season_h)
        for value in self._first:
            self._model.learn_one(self._scaled(value))
        self._model.level.append(0.0)
        self._model.trend.append(0.0)
        self._first = []

    def _scaled(self, value: float) -> float:
        return 1.0 + (value - self._mean) / self._scale
