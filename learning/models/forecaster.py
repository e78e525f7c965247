"""Forecasts the hourly values of many series. The forecast is a mean of several experts, weighted by their errors so far.

Terms:
    expert   a simple forecast (experts.py), or river's Holt–Winters model (seasonal_model.py).
    horizon  hours from the time of a forecast to the hour that it forecasts.
    weight   of an expert, for one series and one horizon: (lowest error of all experts ÷ its error)^_POWER, scaled to a sum of 1.

Each hour, the value of the hour is compared with the forecasts that each expert made for it at each horizon. The error of an expert
is its mean absolute difference from the values, mostly of the last weeks. So the mean follows the best expert of each series and
horizon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from learning.models.experts import DAY_H, EXPERTS, expert_forecasts
from learning.models.periods import Floats
from learning.models.seasonal_model import SeasonalModel
from learning.models.value_ring import ValueRing, widened
from streaming.shared.contract.profiles import HORIZONS_H

NAMES = (*EXPERTS, "Holt–Winters (river)")
# Both constants were chosen on generated and public series (benchmarks.forecast).
_HALF_LIFE_H = 500.0  # After this time, an error has half its weight in the mean error of an expert.
_POWER = 12.0  # Of the weight's formula. With a higher power, the forecast is closer to the best expert.
# An expert with few compared forecasts may have a small error by chance, so its error counts × (1 + _DOUBT_HOURS ÷ forecasts).
_DOUBT_HOURS = 6.0
# The weights are measured at these horizons, in hours. Horizons above a day are not multiples of 24. At a multiple of 24 the expert
# "last hour" forecasts the value of the same hour of an earlier day, which is a good forecast for this horizon only. So the expert
# would get too much weight at the horizons in between.
_WEIGHT_HORIZONS_H = (1, 4, 12, 36, 108)
_ALL_HORIZONS_H = tuple(sorted({*_WEIGHT_HORIZONS_H, *HORIZONS_H}))
_ABOVE_LARGEST = 2.0  # A forecast is at most this multiple of the largest value of the last five weeks.
# A single error is limited to this multiple of the mean error of the expert "mean of the last day".
_OUTLIER_ERRORS = 5.0
_DAY_MEAN = EXPERTS.index("mean of the last day")
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Forecasts of all series.

    Attributes:
        values: by step (the next hour is the first) and series; NaN: not known.
        errors: mean absolute error of the weighted mean, by horizon (``HORIZONS_H``) and series; NaN: not measured yet.
        models: the expert with the highest weight at the horizon of 12 hours, by series; "" if no forecast was compared yet.
    """

    values: Floats
    errors: Floats
    models: list[str]


class LoadForecaster:
    """Forecasts many series from hourly values. ``widen`` adds series. An hour without values must be learned too, as NaN."""

    def __init__(self) -> None:
        self._values = ValueRing()
        self._day_means = ValueRing()
        self._seasonal: list[SeasonalModel] = []
        # Forecasts for hours to come, as one ring buffer per horizon: row (hour of the forecast modulo horizon), column = series.
        self._seasonal_pending = [_pending(horizon) for horizon in _WEIGHT_HORIZONS_H]  # Of the Holt–Winters expert.
        self._combined_pending = [_pending(horizon) for horizon in HORIZONS_H]  # The weighted means.
        self._errors = _MeanErrors(len(_WEIGHT_HORIZONS_H), len(NAMES))
        self._own_errors = _MeanErrors(len(HORIZONS_H), 1)  # Of the weighted means.
        self._hours = 0

    def widen(self, series: int) -> None:
        """Adds empty series until there are ``series`` of them."""
        if series <= self._values.columns:
            return
        self._seasonal.extend(SeasonalModel() for _ in range(series - len(self._seasonal)))
        self._values.widen(series)
        self._day_means.widen(series)
        self._seasonal_pending = [widened(pending, series) for pending in self._seasonal_pending]
        self._combined_pending = [widened(pending, series) for pending in self._combined_pending]
        self._errors.widen(series)
        self._own_errors.widen(series)

    def learn(self, values: Floats) -> None:
        """Learns the values of the next hour, by series; NaN: not known."""
        self._values.append(values)
        self._day_means.append(self._values.mean_before(range(DAY_H)))
        for i, horizon in enumerate(_WEIGHT_HORIZONS_H):
            seasonal = self._seasonal_pending[i][self._hours % horizon]
            simple = expert_forecasts(self._values, self._day_means, horizon, target_h=0)
            self._errors.learn(i, np.abs(np.vstack([simple, seasonal[None]]) - values), is_robust=True)
        for i, horizon in enumerate(HORIZONS_H):
            self._own_errors.learn(i, np.abs(self._combined_pending[i][None, self._hours % horizon] - values))
        for model, value in zip(self._seasonal, values.tolist(), strict=True):
            model.learn(value)
        weights = self._errors.weights()
        ceiling = self._ceiling()
        seasonal_forecasts = self._seasonal_forecasts(_ALL_HORIZONS_H)
        for i, horizon in enumerate(_ALL_HORIZONS_H):
            experts = self._with_simple(seasonal_forecasts[i], horizon)
            if horizon in _WEIGHT_HORIZONS_H:
                self._seasonal_pending[_WEIGHT_HORIZONS_H.index(horizon)][self._hours % horizon] = experts[-1]
            if horizon in HORIZONS_H:
                combined = _weighted(experts, _between(weights, horizon), ceiling)
                self._combined_pending[HORIZONS_H.index(horizon)][self._hours % horizon] = combined
        self._hours += 1

    def forecasts(self, steps: int, *, from_newest: bool = False) -> Forecasts:
        """Returns the forecasts of the next hours.

        Args:
            from_newest: begin with the newest learned hour and its measured value, because that hour has not ended yet.
        """
        weights = self._errors.weights()
        ceiling = self._ceiling()
        rows = [self._values.before(0)] if from_newest else []
        ahead = range(1, steps + 1 - len(rows))
        for step, seasonal in zip(ahead, self._seasonal_forecasts(ahead), strict=True):
            rows.append(_weighted(self._with_simple(seasonal, step), _between(weights, step), ceiling))
        values = np.stack(rows)
        half_a_day = weights[_WEIGHT_HORIZONS_H.index(12)]
        best, is_known = half_a_day.argmax(axis=0), half_a_day.max(axis=0, initial=0.0) > 0.0
        models = [
            NAMES[expert] if known else "" for expert, known in zip(best.tolist(), is_known.tolist(), strict=True)
        ]
        return Forecasts(values=values, errors=self._own_errors.values[:, 0], models=models)

    def combined(self, horizon: int) -> Floats:
        """Returns the weighted mean of the experts' forecasts for ``horizon`` hours after the newest hour, by series."""
        return _weighted(self.experts(horizon), _between(self._errors.weights(), horizon), self._ceiling())

    def experts(self, horizon: int) -> Floats:
        """Returns the forecasts for ``horizon`` hours after the newest hour, by expert (``NAMES``) and series."""
        return self._with_simple(self._seasonal_forecasts((horizon,))[0], horizon)

    def _seasonal_forecasts(self, horizons: Sequence[int]) -> Floats:
        """Returns the forecasts of Holt–Winters, by horizon and series."""
        rows = np.array([model.forecasts(horizons) for model in self._seasonal], dtype=np.float32)
        return rows.reshape(len(self._seasonal), len(horizons)).T

    def _with_simple(self, seasonal: Floats, horizon: int) -> Floats:
        simple = expert_forecasts(self._values, self._day_means, horizon, target_h=horizon)
        return np.vstack([simple, seasonal[None]])

    def _ceiling(self) -> Floats:
        return _ABOVE_LARGEST * self._values.largest()


class _MeanErrors:
    """Mean absolute errors by horizon, expert and series, with most weight on the last weeks. NaN: none was measured."""

    def __init__(self, horizons: int, experts: int) -> None:
        self.values = np.full((horizons, experts, 0), np.nan, dtype=np.float32)
        self._counts = np.zeros((horizons, experts, 0), dtype=np.float32)

    def widen(self, series: int) -> None:
        self.values = widened(self.values, series)
        self._counts = widened(self._counts, series, fill=0.0)

    def learn(self, horizon: int, errors: Floats, *, is_robust: bool = False) -> None:
        """Adds the errors of one hour, by expert and series; NaN: the forecast or the value is not known.

        Args:
            is_robust: limit single large errors, because in an outage the errors of all experts are large.
        """
        is_known = ~np.isnan(errors)
        counts = self._counts[horizon] + is_known
        weights = np.maximum(1.0 / np.maximum(counts, 1.0), 1.0 - 0.5 ** (1.0 / _HALF_LIFE_H))
        before = np.nan_to_num(self.values[horizon])
        if is_robust:
            usual = np.where(counts[_DAY_MEAN] > _DOUBT_HOURS, before[_DAY_MEAN], np.inf)
            errors = np.minimum(errors, np.maximum(_OUTLIER_ERRORS * usual, _TINY)).astype(np.float32)
        self.values[horizon] = np.where(is_known, before + weights * (errors - before), self.values[horizon])
        self._counts[horizon] = counts

    def weights(self) -> Floats:
        """Returns the weights by horizon, expert and series. All weights of a series without a compared forecast are 0.

        A horizon without a compared forecast has the weights of the next shorter horizon.
        """
        is_known = self._counts > 0
        errors = self.values * (1.0 + _DOUBT_HOURS / np.maximum(self._counts, 1.0)) + _TINY
        best = np.where(is_known, errors, np.inf).min(axis=1, keepdims=True)
        relative = np.where(is_known, best, 0.0) / np.where(is_known, errors, 1.0)
        weights: Floats = (relative**_POWER).astype(np.float32)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), _TINY)
        for i in range(1, len(weights)):
            weights[i] = np.where(weights[i].sum(axis=0) == 0.0, weights[i - 1], weights[i])
        return weights


def _pending(horizon: int) -> Floats:
    return np.full((horizon, 0), np.nan, dtype=np.float32)


def _between(weights: Floats, step: int) -> Floats:
    """Returns the weights for the horizon ``step``, interpolated between its neighbours in ``_WEIGHT_HORIZONS_H``."""
    after = next((i for i, horizon in enumerate(_WEIGHT_HORIZONS_H) if horizon >= step), len(_WEIGHT_HORIZONS_H) - 1)
    shorter, longer = _WEIGHT_HORIZONS_H[max(0, after - 1)], _WEIGHT_HORIZONS_H[after]
    share = 1.0 if step >= longer or shorter == longer else math.log(step / shorter) / math.log(longer / shorter)
    between: Floats = (1.0 - share) * weights[max(0, after - 1)] + share * weights[after]
    return between


def _weighted(experts: Floats, weights: Floats, ceiling: Floats) -> Floats:
    """Returns the weighted mean of the known forecasts.

    If all weights are 0, the forecast is that of the expert "last hour", or of "mean of the last day" if the last hour is unknown.
    """
    is_known: npt.NDArray[np.bool_] = ~np.isnan(experts)
    counted = np.where(is_known, weights, 0.0)
    total = counted.sum(axis=0)
    mean = (counted * np.where(is_known, experts, 0.0)).sum(axis=0) / np.maximum(total, _TINY)
    fallback = np.where(is_known[0], experts[0], experts[1])
    combined: Floats = np.clip(np.where(total > 0.0, mean, fallback), 0.0, ceiling).astype(np.float32)
    return combined
