"""Defers Ctrl-C until the caller can end safely, for example until a snapshot of the cluster is complete.

A snapshot takes about a second, in a dozen calls of the Kafka client, which has its own thread. If Ctrl-C interrupted a snapshot,
the client would have to be closed during a call, and that can block for much longer than the snapshot takes.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class DeferredCtrlC:
    """Context manager that keeps the first Ctrl-C for ``check``. A second Ctrl-C raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self._pressed = 0

    def __enter__(self) -> DeferredCtrlC:
        self._previous_handler = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._previous_handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed since the last call."""
        if self._pressed:
            self._pressed = 0
            raise KeyboardInterrupt

    def _press(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature of a signal handler
        self._pressed += 1
        if self._pressed > 1:
            self._pressed = 0  # Both presses are handled by this exception; a later check() must not raise again.
            raise KeyboardInterrupt
