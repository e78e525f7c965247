"""The simple forecasts ("experts") of an hourly series. Each forecast is an earlier value, or a mean of earlier values.

A forecast that is made ``horizon`` hours before its target may use only values that were known at that time. So "the same hour of
the day" is taken from the last day that was already measured.
"""

from __future__ import annotations

import numpy as np

from learning.models.periods import Floats
from learning.models.value_ring import ValueRing

DAY_H, WEEK_H = 24, 168
EXPERTS = (
    "last hour",
    "mean of the last day",
    "same hour yesterday",
    "same hour last week",
    "mean of the same hour of seven days",
    "mean of the same hour of four weeks",
)
_DAYS, _WEEKS = 7, 4


def expert_forecasts(values: ValueRing, day_means: ValueRing, horizon_h: int, target_h: int) -> Floats:
    """Returns the forecasts of one hour: an array by expert and series.

    Args:
        day_means: by hour, the mean of the 24 hours that end with it.
        horizon_h: how many hours before its target the forecast is made.
        target_h: the hour to forecast, counted from the newest hour of ``values``: 0 is the newest hour, 1 is the next hour.
    """
    made_before = horizon_h - target_h
    day_before = DAY_H * -(-horizon_h // DAY_H) - target_h
    week_before = WEEK_H * -(-horizon_h // WEEK_H) - target_h
    return np.stack(
        [
            values.before(made_before),
            day_means.before(made_before),
            values.before(day_before),
            values.before(week_before),
            values.mean_before(day_before + DAY_H * day for day in range(_DAYS)),
            values.mean_before(week_before + WEEK_H * week for week in range(_WEEKS)),
        ]
    )
