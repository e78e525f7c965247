"""Shows the progress of long work: a display that is redrawn on a terminal, or a line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Generic, Self, TypeVar

from rich.console import Console
from rich.live import Live
from rich.status import Status

_Display = TypeVar("_Display", Live, Status)


class ProgressScreen(Generic[_Display]):
    """Base of progress screens. Subclasses update ``_live``; if it is None, they print a line whenever ``_line_is_due``."""

    def __init__(self, console: Console, display: _Display, line_every_s: float) -> None:
        """
        Args:
            display: the redrawn display on ``console``; it starts and stops with this screen.
            line_every_s: the interval of the lines without a display.
        """
        self._console = console
        # A dumb terminal cannot move its cursor, so it cannot redraw a display.
        self._live: _Display | None = display if console.is_terminal and not console.is_dumb_terminal else None
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
        """Returns whether the next line is due, and starts the next interval if so."""
        now_s = time.monotonic()
        if now_s < self._line_due_s:
            return False
        self._line_due_s = now_s + self._line_every_s
        return True
