"""The forecast models. Each is asked for the next value before it sees that value.

Four need no library: the last value, the value a day before, a level with a trend, and the feed-forward of the control law. The
others are those of river. All models learn online. Their parameters are chosen on the first half of each trace; the feed-forward
has its default constants.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Protocol

from river import linear_model, optim, preprocessing, time_series

from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.headroom import DirectionLoad, update_load

MB = 1_000_000
DAY_S = 86_400


class Forecast(Protocol):
    def next(self) -> float:
        """Returns the forecast of the next value in MB/s."""

    def tell(self, value: float) -> None:
        """Takes the next value."""


class LastValue:
    def __init__(self, period_s: int) -> None:  # noqa: ARG002 - as all of them are made.
        self._last = 0.0

    def next(self) -> float:
        return self._last

    def tell(self, value: float) -> None:
        self._last = value


class DailyNaive:
    """The value a day before; during the first day, the last value."""

    def __init__(self, period_s: int) -> None:
        self._day: deque[float] = deque(maxlen=DAY_S // period_s)

    def next(self) -> float:
        if not self._day:
            return 0.0
        return self._day[0] if len(self._day) == self._day.maxlen else self._day[-1]

    def tell(self, value: float) -> None:
        self._day.append(value)


class Holt:
    """Level and trend (Holt's method); with ``beta`` 0 an exponential mean."""

    def __init__(self, period_s: int, alpha: float, beta: float) -> None:  # noqa: ARG002 - as all of them are made.
        self._alpha, self._beta = alpha, beta
        self._level: float | None = None
        self._trend = 0.0

    def next(self) -> float:
        return 0.0 if self._level is None else self._level + self._trend

    def tell(self, value: float) -> None:
        if self._level is None:
            self._level = value
            return
        before = self._level
        self._level = self._alpha * value + (1 - self._alpha) * (before + self._trend)
        self._trend = self._beta * (self._level - before) + (1 - self._beta) * self._trend


class OfTheLaw:
    """The feed-forward of tuner/control/throttle/steering/headroom.py, without its reserve."""

    def __init__(self, period_s: int) -> None:
        self._period_s = float(period_s)
        self._limits = ControlLimits()
        self._load: DirectionLoad | None = None

    def next(self) -> float:
        if self._load is None:
            return 0.0
        return self._load.level_bytes_per_s

    def tell(self, value: float) -> None:
        self._load = update_load(self._load, value, self._period_s, self._limits)


class _OfRiver:
    """A model of river's time_series. Until it has enough values, the forecast is the last value."""

    def __init__(self, model: Any, ready_after: int) -> None:
        self._model, self._ready_after = model, ready_after
        self._seen, self._last = 0, 0.0

    def next(self) -> float:
        if self._seen < self._ready_after:
            return self._last
        found = float(self._model.forecast(horizon=1)[0])
        return found if math.isfinite(found) and 0 <= found < 10_000 else self._last

    def tell(self, value: float) -> None:
        self._model.learn_one(value)
        self._seen += 1
        self._last = value


def _holt_winters(period_s: int, alpha: float, gamma: float) -> Forecast:
    season = DAY_S // period_s
    # river ships this class without types.
    model = time_series.HoltWinters(  # type: ignore[no-untyped-call]
        alpha=alpha, beta=0.001, gamma=gamma, seasonality=season
    )
    return _OfRiver(model, season + 1)


def _snarimax(period_s: int, p: int, d: int) -> Forecast:  # noqa: ARG001 - as all of them are made.
    rate = linear_model.LinearRegression(intercept_lr=0.01, optimizer=optim.SGD(0.005))
    return _OfRiver(time_series.SNARIMAX(p=p, d=d, q=1, regressor=preprocessing.StandardScaler() | rate), 30)


class Regression:
    """River's online linear regression: the change to the next value, from recent changes and the time of day."""

    LAGS = 3
    HARMONICS = 2

    def __init__(self, period_s: int, model: Any) -> None:
        self._period_s = period_s
        self._model = model
        self._values: deque[float] = deque(maxlen=DAY_S // period_s + 1)
        self._recent: deque[float] = deque(maxlen=6)
        self._at_s = 0
        self._highest = 0.0
        self._features: dict[str, float] | None = None

    def next(self) -> float:
        if len(self._values) <= self.LAGS:
            return self._values[-1] if self._values else 0.0
        last = self._values[-1]
        self._features = {f"change_{i}": self._values[-i] - self._values[-i - 1] for i in range(1, self.LAGS + 1)}
        self._features["above_recent"] = last - sum(self._recent) / len(self._recent)
        turn = 2 * math.pi * (self._at_s % DAY_S) / DAY_S
        for k in range(1, self.HARMONICS + 1):
            self._features |= {f"sin_{k}": math.sin(k * turn), f"cos_{k}": math.cos(k * turn)}
        if len(self._values) == self._values.maxlen:
            self._features["change_day_before"] = self._values[1] - self._values[0]
            self._features["to_day_before"] = self._values[1] - last
        change = float(self._model.predict_one(self._features))
        return min(self._highest, max(0.0, last + change)) if math.isfinite(change) else last

    def tell(self, value: float) -> None:
        if self._features is not None:
            self._model.learn_one(self._features, value - self._values[-1])
            self._features = None
        self._values.append(value)
        self._recent.append(value)
        self._highest = max(self._highest, value)
        self._at_s += self._period_s


def _gradient(period_s: int, rate: float) -> Forecast:
    return Regression(
        period_s, preprocessing.StandardScaler() | linear_model.LinearRegression(optimizer=optim.SGD(rate))
    )


def _bayesian(period_s: int, smoothing: float) -> Forecast:
    return Regression(
        period_s, preprocessing.StandardScaler() | linear_model.BayesianLinearRegression(smoothing=smoothing)
    )


Maker = Callable[..., Forecast]
MODELS: Mapping[str, tuple[Maker, Mapping[str, Sequence[Any]]]] = {
    "last value": (LastValue, {}),
    "daily naive": (DailyNaive, {}),
    "the law's own": (OfTheLaw, {}),
    "exponential mean": (Holt, {"alpha": (0.2, 0.4, 0.6, 0.8), "beta": (0.0,)}),
    "level and trend (Holt)": (Holt, {"alpha": (0.3, 0.6, 0.9), "beta": (0.01, 0.1)}),
    "river HoltWinters, daily": (_holt_winters, {"alpha": (0.3, 0.6), "gamma": (0.1, 0.4)}),
    "river SNARIMAX": (_snarimax, {"p": (3,), "d": (0, 1)}),
    "river linear regression, SGD": (_gradient, {"rate": (0.001, 0.01)}),
    "river linear regression, Bayesian": (_bayesian, {"smoothing": (0.9999,)}),
}


def settings(name: str) -> list[dict[str, Any]]:
    grid = MODELS[name][1]
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
