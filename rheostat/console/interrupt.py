"""Ctrl-C, noticed between two looks and not within one.

A look is a dozen calls of a library with a thread of its own, and the clients of one that is broken off have to be closed with
calls under way, which takes as long as it likes; the person looks at a program that does not hear. A look itself takes a second.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class DeferredCtrlC:
    """While it is entered the first Ctrl-C is kept for ``check``; another does at once what it always did."""

    def __init__(self) -> None:
        self._pressed = 0

    def __enter__(self) -> DeferredCtrlC:
        self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """
        Raises:
            KeyboardInterrupt: it was pressed since.
        """
        if self._pressed:
            self._pressed = 0
            raise KeyboardInterrupt

    def _press(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the shape of a handler
        self._pressed += 1
        if self._pressed > 1:
            self._pressed = 0  # Heard by now: what is done about it is not broken off by the same two.
            raise KeyboardInterrupt
