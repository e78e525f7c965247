"""Ctrl-C and the like, kept while something is done that they must not break off.

A handler's error breaks off whatever runs, and that is right nearly everywhere: what is under way is unwound. Not where it
would be lost. While Python forks it can only be printed; where kafka-python runs the tasks of a client that is closed it is
taken for the task's own; and what it has half done cannot be undone. There it is kept, for moments, and passed on after.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


class DeferredInterrupts:
    """A context manager; what came meanwhile goes to the handlers that stood before, which may raise, as it is left.

    In other threads than the main one it does nothing: only there do handlers run, and only there can they be changed.
    """

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, *, first_only: bool = False) -> None:
        """
        Args:
            first_only: who says it again does not want to wait for what may hang, as for a name that nobody resolves.
        """
        self._first_only = first_only
        self._came: list[int] = []
        self._keeps = False
        self._before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def __enter__(self) -> None:
        numbers = self._NUMBERS if threading.current_thread() is threading.main_thread() else ()
        handlers = {number: signal.getsignal(number) for number in numbers}
        self._before = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in self._before:
            signal.signal(number, self._keep)
        self._keeps = True

    def __exit__(self, *_: object) -> None:
        # A handler put back may raise before the next one is: whoever is left here passes on what comes.
        self._keeps = False
        try:
            for number, handler in self._before.items():
                signal.signal(number, handler)
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        try:
            if self._came:
                signal.raise_signal(self._came.pop(0))
        finally:
            if self._came:
                self._pass_on()

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if self._keeps and not (self._first_only and number in self._came):
            self._came.append(number)
        else:
            self._before[number](number, frame)
