"""How long a release is waited for: as long as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rheostat.orders.send import wait_until_released


class Clock:
    def __init__(self, left: Callable[[float], int]) -> None:
        self.now_s = 0.0
        self._left = left

    def run(self, timeout_s: float) -> float:
        """When it was given up, or done."""
        wait_until_released(lambda: self._left(self.now_s), timeout_s, monotonic=lambda: self.now_s, pause=self._pause)
        return self.now_s

    def _pause(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_thousand_brokers_are_waited_for_though_it_takes_minutes() -> None:
    """Fifty every five seconds: what was waited for was ninety seconds in all, and then it was said to have failed."""
    assert Clock(lambda now_s: max(0, 2_000 - 50 * int(now_s / 5))).run(90.0) == pytest.approx(200.0, abs=1.0)


@pytest.mark.parametrize("stuck_at", [1, 700])
def test_what_goes_no_further_is_waited_for_no_longer(stuck_at: int) -> None:
    stuck_s = (2_000 - stuck_at) / 10
    ended_s = Clock(lambda now_s: max(stuck_at, 2_000 - round(10 * now_s))).run(90.0)
    assert ended_s == pytest.approx(stuck_s + 90.0, abs=2.0)


def test_what_comes_and_goes_is_no_progress() -> None:
    found: Iterator[int] = iter([5, 6] * 1_000)
    assert Clock(lambda _: next(found)).run(90.0) == pytest.approx(90.0, abs=1.0)


def test_where_nothing_is_left_nothing_is_waited_for() -> None:
    assert Clock(lambda _: 0).run(90.0) == 0.0
