"""`wait_until_released` waits as long as the release makes progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rheostat.orders.send import wait_until_released


class Clock:
    def __init__(self, remaining: Callable[[float], int]) -> None:
        self.now_s = 0.0
        self._remaining = remaining

    def run(self, timeout_s: float) -> float:
        """Returns when the wait ended (seconds)."""
        wait_until_released(
            lambda: self._remaining(self.now_s), timeout_s, monotonic=lambda: self.now_s, sleep=self._pause
        )
        return self.now_s

    def _pause(self, seconds: float) -> None:
        self.now_s += seconds


def test_wait_until_released_waits_while_there_is_progress() -> None:
    """Fifty settings, one every five seconds, take longer than the timeout in total."""
    assert Clock(lambda now_s: max(0, 2_000 - 50 * int(now_s / 5))).run(90.0) == pytest.approx(200.0, abs=1.0)


@pytest.mark.parametrize("stuck_at", [1, 700])
def test_wait_until_released_without_progress_ends_after_the_timeout(stuck_at: int) -> None:
    stuck_s = (2_000 - stuck_at) / 10
    ended_s = Clock(lambda now_s: max(stuck_at, 2_000 - round(10 * now_s))).run(90.0)
    assert ended_s == pytest.approx(stuck_s + 90.0, abs=2.0)


def test_wait_until_released_counts_fluctuation_as_no_progress() -> None:
    remaining: Iterator[int] = iter([5, 6] * 1_000)
    assert Clock(lambda _: next(remaining)).run(90.0) == pytest.approx(90.0, abs=1.0)


def test_wait_until_released_without_remaining_settings_does_not_wait() -> None:
    assert Clock(lambda _: 0).run(90.0) == 0.0
