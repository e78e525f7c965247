"""Computes the waiting time in the queue of the simulated controller, and the signals about it.

A heartbeat or an election waits until all earlier events are done. Such events arrive at any time, so the wait is sampled twenty
times a second, independently of a plan's requests.

The controller's work is the events of a plan (requested steps, replicas that join) and all other writes. Each takes the time of one
operation, alone or in a request with a thousand others.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from streaming.shared.contract import ControllerSignal
from tuner.simulation.broker_figures import CLUSTER
from tuner.simulation.controller import Controller
from tuner.simulation.numbers import Floats

CONTROLLER = 1_000  # Its node id: no broker's.
_EVENTS_PER_S = 20
WINDOW_S = 30.0


class ControllerLine:
    """The queue of a controller over time."""

    def __init__(self, controller: Controller, epoch_ms: int, *, every_s: float = 5.0, late_s: float = 3.0) -> None:
        self._controller = controller
        self._epoch_ms = epoch_ms
        self._every_s, self._late_s = every_s, late_s
        self._on_the_way: deque[tuple[float, ControllerSignal]] = deque()
        self._next_s = 0.0
        self.newest: ControllerSignal | None = None

    def advance(self, now_s: float) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= now_s:
            self.newest = self._on_the_way.popleft()[1]
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        waits = self.waits_s(max(0.0, now_s - WINDOW_S), now_s)
        if len(waits) == 0:
            return
        busy_s = self._done_s(now_s) - self._done_s(max(0.0, now_s - self._every_s))
        at_ms = self._epoch_ms + round(now_s * 1000)
        signal = ControllerSignal(
            CLUSTER,
            CONTROLLER,
            window_end_ms=at_ms,
            sampled_at_ms=at_ms,
            samples=round(WINDOW_S / self._every_s),
            completeness=1.0,
            active=1.0,
            event_queue_time_mean_ms=1000 * float(waits.mean()),
            idle_ratio=max(0.0, 1.0 - busy_s / self._every_s),
        )
        self._on_the_way.append((now_s + self._late_s, signal))

    def waits_s(self, from_s: float, until_s: float) -> Floats:
        """Returns the waits of sampled events that arrive in this interval."""
        line = self._controller.submissions
        at_s = np.arange(from_s, until_s, 1 / _EVENTS_PER_S)
        if not line:
            return np.zeros(len(at_s))
        # Only the last that came before can still be worked on.
        begin = max(0, _first_at(line, from_s) - 1)
        came = np.array([came_s for came_s, _, _ in line[begin:]] or [np.inf])
        free = np.array([free_s for _, _, free_s in line[begin:]] or [0.0])
        last = np.searchsorted(came, at_s, side="right") - 1
        waits: Floats = np.where(last >= 0, np.maximum(0.0, free[np.maximum(last, 0)] - at_s), 0.0)
        return waits

    def p99_ms_max(self, until_s: float) -> float:
        """Returns the worst p99 of all windows of half a minute."""
        waits = self.waits_s(0.0, until_s)
        size = round(WINDOW_S * _EVENTS_PER_S)
        parts = [waits[i : i + size] for i in range(0, max(1, len(waits) - size + 1), size)]
        return 1000 * max((float(np.quantile(part, 0.99)) for part in parts if len(part)), default=0.0)

    def _done_s(self, until_s: float) -> float:
        """Returns the work done until then."""
        line = self._controller.submissions
        end = _first_at(line, until_s)
        asked_s = sum(work_s for _, work_s, _ in line[:end])
        return asked_s - (max(0.0, line[end - 1][2] - until_s) if end else 0.0)


def _first_at(line: list[tuple[float, float, float]], at_s: float) -> int:
    """Returns the index of the first submit after this time."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high) // 2
        if line[middle][0] <= at_s:
            low = middle + 1
        else:
            high = middle
    return low
