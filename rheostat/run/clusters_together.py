"""Runs the work for several clusters in one process: a thread for each, so that a cluster that hangs delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence


def run_together(works: Sequence[Callable[[], None]], stop: threading.Event, *, name: str) -> None:
    """Runs all works until they end. One work runs in this thread.

    Args:
        stop: set if a work ends with an error, so that the others end as well.
        name: of the threads.

    Raises:
        Exception: the error of the first work that ended with one.
    """
    if len(works) == 1:
        works[0]()
        return
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(work,), name=name, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class CommonSteps:
    """Tells whether the works of all clusters go on. Any thread may report."""

    def __init__(
        self, clusters: Collection[str], step_s_max: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """
        Args:
            step_s_max: the next step of each work comes within this time.
        """
        self._step_s_max = step_s_max
        self._monotonic = monotonic
        self._stepped_s = dict.fromkeys(clusters, monotonic())

    def stepped(self, cluster: str) -> bool:
        """Notes a step of one work. Returns whether every other has stepped in time too."""
        now_s = self._monotonic()
        self._stepped_s[cluster] = now_s
        return all(now_s - stepped_s <= self._step_s_max for stepped_s in self._stepped_s.values())
