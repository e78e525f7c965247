"""The filter learns the latency of a broker by utilisation, and withstands wrong measurements."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.steering.queue_curve import (
    POLE_GUESSED,
    POLE_TOLD,
    QueueCurve,
    first_curve,
    pole,
    update_curve,
    utilisation_at,
)

OBJECTIVE_MS = 50.0


def learned(points: list[tuple[float, float]], deviation: float = POLE_TOLD) -> QueueCurve:
    """Returns the curve after (utilisation, latency in ms) pairs."""
    curve = first_curve(*points[0], deviation)
    for utilisation, latency_ms in points[1:]:
        curve = update_curve(curve, utilisation, latency_ms)
    return curve


def queue(base_ms: float, true_pole: float, utilisations: list[float]) -> list[tuple[float, float]]:
    return [(u, base_ms / (1.0 - u / true_pole)) for u in utilisations]


RISING = [0.2 + 0.02 * k for k in range(30)]


def test_right_capacity_gives_the_utilisation_of_the_objective_from_light_load() -> None:
    assert utilisation_at(learned(queue(5.0, 1.0, RISING[:5])), OBJECTIVE_MS) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(
    ("true_pole", "utilisations"),
    [
        pytest.param(0.5, [0.2, 0.25, 0.3, 0.35, 0.4, *[0.45] * 20], id="the capacity is half of the setting"),
        pytest.param(2.0, [0.2 + 0.04 * k for k in range(40)], id="the capacity is twice the setting"),
    ],
)
def test_wrong_capacity_is_corrected(true_pole: float, utilisations: list[float]) -> None:
    curve = learned(queue(5.0, true_pole, utilisations))
    assert utilisation_at(curve, OBJECTIVE_MS) == pytest.approx(0.9 * true_pole, rel=0.1)


def test_saturated_link_lowers_the_pole_within_three_scrapes() -> None:
    """The setting is twice the capacity: the link is full at 0.5, and clients wait a hundred times as long as on an idle broker."""
    found = learned([*queue(5.0, 0.5, [0.2] * 5), *[(0.495, 500.0)] * 3])
    assert utilisation_at(found, OBJECTIVE_MS) < 0.55


def test_one_wrong_sample_changes_the_curve_little() -> None:
    before = learned(queue(5.0, 1.0, RISING))
    allowed = utilisation_at(before, OBJECTIVE_MS)
    assert utilisation_at(update_curve(before, 3.0, 20.0), OBJECTIVE_MS) < 1.1
    assert utilisation_at(update_curve(before, 0.78, 1e6), OBJECTIVE_MS) > 0.5 * allowed


def test_latency_that_does_not_grow_proves_no_larger_capacity() -> None:
    """Below half of the link all brokers are equally fast. More than the capacity in the settings has to pass first."""
    curve = learned([(u, 5.0) for u in [0.1, 0.2, 0.3, 0.4, 0.5] * 10])
    assert pole(curve) <= 1.0
    assert utilisation_at(curve, OBJECTIVE_MS) <= 1.0
    assert pole(update_curve(curve, 1.05, 5.0)) >= 1.05


def test_slow_idle_broker_allows_nothing() -> None:
    assert utilisation_at(learned([(0.1, 80.0)] * 20), OBJECTIVE_MS) == 0.0


@given(
    st.lists(st.tuples(st.floats(1e-6, 20.0), st.floats(1e-3, 1e6)), min_size=1, max_size=200),
    st.sampled_from([POLE_TOLD, POLE_GUESSED]),
)
def test_any_measurements_leave_a_usable_curve(points: list[tuple[float, float]], deviation: float) -> None:
    curve = learned(points, deviation)
    allowed = utilisation_at(curve, OBJECTIVE_MS)
    assert math.isfinite(allowed)
    assert 0.0 <= allowed <= pole(curve)
    assert pole(curve) <= max(1.0, 1.3 * points[-1][0]) or len(points) == 1
    assert curve.base_variance >= 0.0
    assert curve.pole_variance >= 0.0
