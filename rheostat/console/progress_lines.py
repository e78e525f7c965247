"""What people see of long work: lines that stay and, on a terminal, something that lives; elsewhere a line every few seconds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Generic, Self, TypeVar

from rich.console import Console
from rich.live import Live
from rich.status import Status

_Lives = TypeVar("_Lives", Live, Status)


class ProgressScreen(Generic[_Lives]):
    """Its subclasses say what lives, and what is said where nothing can."""

    def __init__(self, console: Console, lives: _Lives, line_every_s: float) -> None:
        """
        Args:
            lives: on ``console``; begins and ends with this screen.
        """
        self._console = console
        # A terminal that cannot move its cursor would show none of it.
        self._live: _Lives | None = lives if console.is_terminal and not console.is_dumb_terminal else None
        self._line_every_s = line_every_s
        self._line_due_s = 0.0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def _line_is_due(self) -> bool:
        """Whether it is time for a line again, of those that come in place of what lives."""
        now_s = time.monotonic()
        if now_s < self._line_due_s:
            return False
        self._line_due_s = now_s + self._line_every_s
        return True
