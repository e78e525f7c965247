"""How long creations take, as a command feels it in a moment."""

from __future__ import annotations

import random

import pytest
from fake_asker import FakeAsker

from rheostat.quotas.felt import felt_ms


def felt(asker: FakeAsker) -> float | None:
    def sleep(seconds: float) -> None:
        asker.now_s += seconds

    return felt_ms(asker, rng=random.Random(1), monotonic=asker.monotonic, sleep=sleep)


def test_in_some_seconds_it_is_known() -> None:
    asker = FakeAsker(takes_s=0.02)
    assert felt(asker) == pytest.approx(20.0)
    assert asker.now_s < 5


def test_of_a_large_cluster_a_few_brokers_are_asked() -> None:
    asker = FakeAsker(brokers_there=tuple(range(1, 1001)))
    assert felt(asker) == pytest.approx(10.0)
    assert len(set(asker.met)) == 5


def test_nobody_is_waited_for_for_long() -> None:
    asker = FakeAsker(silent={1, 2, 3})
    assert felt(asker) is None
    assert asker.now_s <= 15
    asker = FakeAsker(takes_s=3.0)
    assert felt(asker) is None
    assert asker.now_s <= 15
