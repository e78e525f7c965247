"""The request times of a tenant in a storm."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.controllers.storm import StormTenant, back_off_s, due_times_s


@pytest.mark.parametrize(("tries", "waits_s"), [(1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0), (5_000, 1.0)])
def test_client_ignoring_throttle_waits_as_after_error(tries: int, waits_s: float) -> None:
    assert back_off_s(tries) == pytest.approx(waits_s)


def test_requests_are_periodic_or_random_within_each_interval() -> None:
    assert list(islice(due_times_s(StormTenant("a", 4)), 3)) == [0.0, 0.25, 0.5]
    found = [list(islice(due_times_s(StormTenant(name, 4, varies=True)), 400)) for name in ("a", "b", "a")]
    assert all([int(4 * due_s) for due_s in each] == list(range(400)) for each in found)
    assert found[0] == found[2] != found[1]
    within = [4 * due_s % 1 for due_s in found[0]]
    assert min(within) < 0.1 < 0.4 < sum(within) / 400 < 0.6 < 0.9 < max(within)
