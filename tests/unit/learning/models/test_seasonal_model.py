from __future__ import annotations

import math

import pytest

from learning.models.seasonal_model import SeasonalModel


def learned(values: list[float]) -> SeasonalModel:
    model = SeasonalModel()
    for value in values:
        model.learn(value)
    return model


def shape(hour: int) -> float:
    return 20e6 + 10e6 * math.sin(2 * math.pi * hour / 24)


def test_second_day_is_forecast_from_the_first() -> None:
    model = learned([shape(hour) for hour in range(24)])
    for ahead in (1, 6, 12, 24, 30):
        assert model.forecast(ahead) == pytest.approx(shape(23 + ahead), rel=0.01)


def test_forecast_is_unknown_before_the_first_day_has_ended() -> None:
    assert math.isnan(learned([1.0] * 23).forecast(1))


def test_forecast_is_never_negative() -> None:
    model = learned([0.0 if hour % 24 < 12 else 1e6 for hour in range(96)] + [0.0] * 40)
    assert min(model.forecast(ahead) for ahead in range(1, 169)) >= 0.0


def test_hole_keeps_the_hours_of_the_day_in_place() -> None:
    values = [shape(hour) for hour in range(96)]
    values[50:60] = [math.nan] * 10
    model = learned(values)
    assert model.forecast(7) == pytest.approx(shape(95 + 7), rel=0.05)


def test_long_hole_begins_the_model_again() -> None:
    model = learned([shape(hour) for hour in range(48)] + [math.nan] * 72)
    assert not model.is_ready
    for hour in range(24):
        model.learn(3 * shape(hour))
    assert model.forecast(6) == pytest.approx(3 * shape(5), rel=0.01)
