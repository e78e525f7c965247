"""The demo's output: lines that stay and one status line that is redrawn; without a terminal, a line every few seconds."""

from __future__ import annotations

import time

from rich.console import Console
from rich.status import Status

from rheostat.console.progress_lines import ProgressScreen
from rheostat.console.rich_console import styled

_LINE_EVERY_S = 4.0


class DemoView(ProgressScreen[Status]):
    """Prints each line with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, console.status(styled("")), _LINE_EVERY_S)
        self._began_s = time.monotonic()

    def print_line(self, text: str, style: str = "") -> None:
        """Prints a line that stays."""
        self._console.print(f"{self._stamp()} {text}", style=style, soft_wrap=True)

    def show_activity(self, text: str) -> None:
        """Shows the current activity in the status line."""
        if self._live is not None:
            self._live.update(styled(f"{self._stamp()} {text}"))
        elif self._line_is_due():
            self.print_line(text, style="dim")

    def print_heading(self, text: str) -> None:
        self._console.print()
        self._console.print(text, style="bold")

    def _stamp(self) -> str:
        return f"{time.monotonic() - self._began_s:6.1f} s "
