from __future__ import annotations

import numpy as np

from learning.models.periods import Floats
from learning.models.value_ring import ValueRing, mean_of_known


def one(value: float) -> Floats:
    return np.array([value], dtype=np.float32)


def test_value_is_found_by_its_age_until_it_is_too_old() -> None:
    ring = ValueRing(hours=4)
    ring.widen(1)
    for value in range(6):
        ring.append(one(value))
    assert [ring.before(age)[0] for age in range(4)] == [5, 4, 3, 2]
    assert np.isnan(ring.before(4)[0])
    assert ring.largest()[0] == 5


def test_series_that_came_later_have_no_earlier_values() -> None:
    ring = ValueRing(hours=4)
    ring.widen(1)
    ring.append(one(7))
    ring.widen(2)
    ring.append(np.array([8, 9], dtype=np.float32))
    assert np.array_equal(ring.before(1), np.array([7, np.nan]), equal_nan=True)
    assert np.array_equal(ring.mean_before((0, 1)), np.array([7.5, 9]))


def test_mean_of_nothing_known_is_unknown() -> None:
    assert np.isnan(mean_of_known(np.array([[np.nan], [np.nan]], dtype=np.float32))[0])
