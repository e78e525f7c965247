"""The soak's measure of growth: flat noise passes, and a slow leak is found."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.soaks.sampling import growth_of

TIMES_S = [5.0 * i for i in range(1440)]  # Two hours.


def noisy(start: float, per_h: float, noise: float) -> list[float]:
    draws = random.Random(1)
    return [start + per_h * at_s / 3600 + draws.gauss(0, noise) for at_s in TIMES_S]


@pytest.mark.parametrize(
    ("name", "values", "flat"),
    [
        ("tune-a.rss_mb", noisy(150, 0, 3), True),
        ("tune-a.rss_mb", noisy(150, 30, 3), False),
        ("stream-jvm.rss_mb", noisy(900, 20, 10), True),
        ("stream-jvm.rss_mb", noisy(900, 120, 10), False),
        ("collect.threads", noisy(12, 10, 0), False),
        ("collect.handles", noisy(40, 40, 0), False),
        ("cluster.topics", [10.0] * len(TIMES_S), True),
        ("cluster.topics", [10.0 + (at_s > 5000) for at_s in TIMES_S], False),
    ],
)
def test_growth_is_judged_by_its_bound(name: str, values: list[float], flat: bool) -> None:
    growth = growth_of(name, TIMES_S, values)
    assert growth is not None
    assert growth.is_flat is flat


@pytest.mark.parametrize("leaked", [0.0, 10.0], ids=["flat", "leak"])
def test_pool_of_threads_is_judged_by_its_full_size(leaked: float) -> None:
    """The pool is idle more often in the first half. A leak adds threads that stay."""
    draws = random.Random(2)
    values = [
        250.0 - draws.choice((0, 0, 40, 90) if at_s < 5_000 else (0, 0, 0, 90)) + leaked * at_s / 3600
        for at_s in TIMES_S
    ]
    growth = growth_of("stream-jvm.threads", TIMES_S, values)
    assert growth is not None
    assert growth.is_flat is (leaked == 0.0)


def test_growth_at_the_start_does_not_count() -> None:
    growth = growth_of("tune-a.rss_mb", TIMES_S, [min(150.0, 20 + at_s / 10) for at_s in TIMES_S])
    assert growth is not None
    assert growth.is_flat
    assert growth.slope_per_h == pytest.approx(0.0)


def test_growth_of_few_samples_is_unknown() -> None:
    assert growth_of("tune-a.rss_mb", TIMES_S, [math.nan] * (len(TIMES_S) - 9) + [150.0] * 9) is None
