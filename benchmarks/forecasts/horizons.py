"""Measures the forecasts of `rheostat learn` 1 hour to 7 days ahead, on stored traces and on public series that river ships.

The errors of the weighted mean are compared with persistence (the last hour's value) and with the best single expert, over the
second half of each series. A series is seasonal if the same hour of the day before is a much better forecast than the last hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from river import datasets

from benchmarks.forecasts.traces import HISTORY_PERIOD_S, LoadTrace
from learning.models.forecaster import NAMES, LoadForecaster
from learning.models.periods import Floats
from streaming.shared.contract.profiles import HORIZONS_H

BOUND_H = 12
SEASONAL_MAX, OTHER_MAX, BEST_EXPERT_MAX = 0.5, 1.05, 1.1
_SEASONAL_BELOW = 0.6  # Error of the same hour of the day before ÷ error of the value half a day before.
_STOCKS = ("AAPL", "IBM", "XOM")
_KNOWN_SHARE_MIN = 0.95
_MB = 1e6


@dataclass(frozen=True, slots=True)
class HourlySeries:
    """A series of hourly values in some unit."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def is_seasonal(self) -> bool:
        values = np.array(self.values)
        of_a_day = np.abs(values[24:] - values[:-24]).mean()
        of_half_a_day = np.abs(values[BOUND_H:] - values[:-BOUND_H]).mean()
        return bool(of_a_day < _SEASONAL_BELOW * of_half_a_day)


def series_of_traces(traces: Iterable[LoadTrace]) -> list[HourlySeries]:
    """Returns the hourly means of the traces with the periods of the history."""
    return [
        HourlySeries(
            name=trace.name,
            unit="MB/s",
            values=tuple(
                (np.array(trace.bytes_per_s).reshape(-1, 3600 // HISTORY_PERIOD_S).mean(axis=1) / _MB).tolist()
            ),
        )
        for trace in traces
        if trace.period_s == HISTORY_PERIOD_S
    ]


def public_series() -> list[HourlySeries]:
    """Returns real series: a water pipeline by the hour, and prices of stocks, where nothing beats the last value."""
    flow = [float(value) for _, value in datasets.WaterFlow()]
    returns = [features for features, _ in datasets.SP500Stocks()]
    prices = [
        HourlySeries(
            name=f"stock {ticker}",
            unit="of the first price",
            values=tuple(accumulate((1.0 + float(day[ticker]) / 100.0 for day in returns), lambda a, b: a * b)),
        )
        for ticker in _STOCKS
    ]
    return [HourlySeries(name="water flow", unit="l/s", values=tuple(flow)), *prices]


def measure_horizons(series: list[HourlySeries]) -> list[dict[str, Any]]:
    """Returns a row for each series and horizon, with the errors and their ratios to the bounds."""
    errors = _errors(series)
    rows = []
    for column, one in enumerate(series):
        hours = slice(len(one.values) // 2, len(one.values))
        for horizon in HORIZONS_H:
            of_horizon = errors[horizon][hours, :, column]
            is_known = ~np.isnan(of_horizon[:, [0, -1]]).any(axis=1)
            known = of_horizon[is_known]
            usable = [i for i in range(len(NAMES)) if (~np.isnan(known[:, i])).mean() >= _KNOWN_SHARE_MIN]
            means = {NAMES[i]: float(np.nanmean(known[:, i])) for i in usable}
            own = float(known[:, -1].mean())
            best = min(means, key=lambda name: means[name])
            rows.append(_row(one, horizon, own, means, best))
    return rows


def _row(one: HourlySeries, horizon: int, own: float, means: dict[str, float], best: str) -> dict[str, Any]:
    to_persistence, to_best = own / means[NAMES[0]], own / means[best]
    bound = SEASONAL_MAX if one.is_seasonal else OTHER_MAX
    return {
        "series": one.name,
        "is_seasonal": one.is_seasonal,
        "unit": one.unit,
        "horizon_h": horizon,
        "error": round(own, 4),
        "error_of_persistence": round(means[NAMES[0]], 4),
        "errors_of_experts": {name: round(error, 4) for name, error in means.items()},
        "best_expert": best,
        "ratio_to_persistence": round(to_persistence, 3),
        "ratio_to_best_expert": round(to_best, 3),
        "is_met": None if horizon != BOUND_H else to_persistence <= bound and to_best <= BEST_EXPERT_MAX,
    }


def _errors(series: list[HourlySeries]) -> dict[int, Floats]:
    """Returns the absolute errors by horizon, hour, expert (the weighted mean comes last) and series; NaN: no forecast."""
    hours = max(len(one.values) for one in series)
    values = np.full((hours, len(series)), np.nan, dtype=np.float32)
    for column, one in enumerate(series):
        values[: len(one.values), column] = one.values
    forecaster = LoadForecaster()
    forecaster.widen(len(series))
    errors = {
        horizon: np.full((hours, len(NAMES) + 1, len(series)), np.nan, dtype=np.float32) for horizon in HORIZONS_H
    }
    waiting: dict[int, deque[Floats]] = {horizon: deque() for horizon in HORIZONS_H}
    for hour in range(hours):
        for horizon, forecasts in waiting.items():
            if len(forecasts) == horizon:
                errors[horizon][hour] = np.abs(forecasts.popleft() - values[hour])
        forecaster.learn(values[hour])
        for horizon, forecasts in waiting.items():
            forecasts.append(np.vstack([forecaster.experts(horizon), forecaster.combined(horizon)[None]]))
    return errors
