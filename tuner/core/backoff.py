"""Computes the pauses after failed writes: 4 s after the first failure, doubled after each further failure, up to 5 minutes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

RETRY_S_MIN, RETRY_S_MAX = 4.0, 300.0  # The first retry is the next cycle.

K = TypeVar("K", bound=Hashable)


def pause_after(failures: int) -> float:
    """Returns the pause in seconds after this many failures in a row, one or more."""
    return float(min(RETRY_S_MAX, RETRY_S_MIN * 2 ** (failures - 1)))


class Backoff(Generic[K]):
    """Keeps a pause for each subject whose write failed.

    A missing permission is still missing five seconds later, so repeated failures make the pause longer.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        # Subject → (end of the pause, length of the pause), in seconds.
        self._pauses: dict[K, tuple[float, float]] = {}

    def fail(self, subject: K) -> None:
        """Starts a pause, twice as long as the last one."""
        _, last_s = self._pauses.get(subject, (0.0, 0.0))
        pause_s = min(RETRY_S_MAX, max(RETRY_S_MIN, 2 * last_s))
        self._pauses[subject] = (self._monotonic_s() + pause_s, pause_s)

    def pause_once(self, subject: K) -> None:
        """Starts the shortest pause, without recording a failure."""
        self._pauses[subject] = (self._monotonic_s() + RETRY_S_MIN, 0.0)

    def succeed(self, subject: K) -> None:
        """Ends the pause; the next failure starts with the shortest one again."""
        self._pauses.pop(subject, None)

    def is_paused(self, subject: K) -> bool:
        end_s, _ = self._pauses.get(subject, (0.0, 0.0))
        return self._monotonic_s() < end_s

    def paused(self) -> frozenset[K]:
        """Returns all subjects that are paused now."""
        now_s = self._monotonic_s()
        return frozenset(subject for subject, (end_s, _) in self._pauses.items() if now_s < end_s)
