"""Tells whether the work of a process goes on.

The loop that does the work reports each step. The health check and the watchdog of the service manager call ``fault``. A thread
that only waits for the work must not report a step, because a hanging loop would then look healthy.
"""

from __future__ import annotations

import time
from collections.abc import Callable

START_S_MAX = 600.0  # A first start downloads JVM artifacts and compiles the Java code.
READY = "ready"


class Heartbeat:
    """The last step of the work of one process. Any thread may call the methods."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # One tuple, so that a reader never sees the time of one step with the limit of another.
        self._step = (monotonic(), START_S_MAX)
        self.status = "starting"  # One line for the operator.
        self.is_ready = False  # Whether the process has begun its real work. It stays True.

    def beat(self, next_within_s: float, status: str | None = None, *, ready: bool = False) -> None:
        """Reports a step of the work.

        Args:
            next_within_s: the time within which the next step comes, even while Kafka does not answer.
            status: a new line for the operator; None if the line stays.
            ready: whether the process has begun its real work.
        """
        self._step = (self._monotonic(), next_within_s)
        if ready and not self.is_ready:
            self.is_ready = True
            self.status = status or READY
        elif status is not None:
            self.status = status

    def fault(self) -> str | None:
        """Returns why the work has stopped; None while it goes on."""
        stepped_s, limit_s = self._step
        silent_s = self._monotonic() - stepped_s
        if silent_s <= limit_s:
            return None
        return f"no step of the work has ended for {silent_s:.0f} s, and {limit_s:.0f} s are allowed"
