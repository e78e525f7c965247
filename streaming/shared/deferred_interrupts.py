"""Defers SIGINT, SIGTERM and SIGHUP while code runs that they must not interrupt.

Normally a signal handler raises an exception that unwinds the running code. In three places the exception would be lost or do harm:

- while a process forks: Python only prints the exception;
- while kafka-python closes a client and waits for its tasks: kafka-python mistakes the exception for an error of a task;
- in an operation that must not stop half-way.

``DeferredInterrupts`` holds signals during such moments and delivers them afterwards.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


class DeferredInterrupts:
    """A context manager that delivers deferred signals to the previous handlers on exit, which may raise exceptions.

    Only signals with a Python handler are deferred; a signal with the default action (SIG_DFL) still ends the process.
    Outside the main thread nothing is deferred, because Python runs and installs signal handlers in the main thread only.
    """

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, *, first_only: bool = False) -> None:
        """
        Args:
            first_only: defers only the first signal of each kind. A second signal interrupts, because the code may hang (DNS).
        """
        self._first_only = first_only
        self._pending: list[int] = []
        self._is_deferring = False
        self._previous: dict[int, Callable[[int, FrameType | None], object]] = {}

    def __enter__(self) -> None:
        numbers = self._NUMBERS if threading.current_thread() is threading.main_thread() else ()
        handlers = {number: signal.getsignal(number) for number in numbers}
        self._previous = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in self._previous:
            signal.signal(number, self._defer)
        self._is_deferring = True

    def __exit__(self, *_: object) -> None:
        # A restored handler may raise before the other handlers are restored. So from here on ``_defer`` forwards signals at once.
        self._is_deferring = False
        try:
            for number, handler in self._previous.items():
                signal.signal(number, handler)
        finally:
            self._deliver()

    def _deliver(self) -> None:
        """Raises the deferred signals in their order. If a handler raises, the remaining signals are still delivered."""
        try:
            if self._pending:
                signal.raise_signal(self._pending.pop(0))
        finally:
            if self._pending:
                self._deliver()

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._is_deferring and not (self._first_only and number in self._pending):
            self._pending.append(number)
        else:
            self._previous[number](number, frame)
