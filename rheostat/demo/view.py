"""The demo's screen: lines that stay, and one line that lives; without a terminal, a line every few seconds."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.status import Status

_QUIET_EVERY_S = 4.0


class View:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._live: Status | None = None
        self._told_at_s = 0.0

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._live = self._console.status("")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str, style: str = "") -> None:
        """A line that stays."""
        self._console.print(f"{self._stamp()} {text}", style=style, highlight=False, soft_wrap=True)

    def now(self, text: str) -> None:
        """What is going on at this moment."""
        if self._live is not None:
            self._live.update(f"{self._stamp()} {text}")
        elif time.monotonic() - self._told_at_s >= _QUIET_EVERY_S:
            self._told_at_s = time.monotonic()
            self.say(text, style="dim")

    def head(self, text: str) -> None:
        self._console.print()
        self._console.print(text, style="bold", highlight=False)

    def _stamp(self) -> str:
        return f"{time.monotonic() - self._began:6.1f} s "
