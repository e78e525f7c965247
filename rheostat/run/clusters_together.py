"""Runs a loop for each cluster in one process. Each loop has its own thread, so that a hanging cluster delays no other cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence


def run_together(loops: Sequence[Callable[[], None]], stop: threading.Event, *, name: str) -> None:
    """Runs all loops until they end. A single loop runs in the thread of the caller.

    Args:
        stop: set if a loop ends with an error, so that the others end as well.
        name: the name of the threads.

    Raises:
        Exception: the error of the first loop that ended with one.
    """
    if len(loops) == 1:
        loops[0]()
        return
    errors: list[BaseException] = []

    def run(loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(loop,), name=name, daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class CommonSteps:
    """Tells whether the loops of all clusters make progress. Any thread may report a step."""

    def __init__(
        self, clusters: Collection[str], step_s_max: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """
        Args:
            step_s_max: the longest time between two steps of a loop that does not hang.
        """
        self._step_s_max = step_s_max
        self._monotonic = monotonic
        self._stepped_s = dict.fromkeys(clusters, monotonic())

    def stepped(self, cluster: str) -> bool:
        """Records a step of one loop. Returns whether no loop hangs."""
        now_s = self._monotonic()
        self._stepped_s[cluster] = now_s
        return all(now_s - stepped_s <= self._step_s_max for stepped_s in self._stepped_s.values())
