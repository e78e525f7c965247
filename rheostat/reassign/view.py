"""Shows the progress of a watched plan: as a live display on a terminal, elsewhere as a line every few seconds."""

from __future__ import annotations

import sys

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from rheostat.console.progress_lines import ProgressScreen
from rheostat.console.rich_console import console_for, styled
from rheostat.reassign.progress import PlanProgress
from rheostat.reassign.text import amount_texts, limits_text, moves_text, progress_text
from streaming.shared.short_lists import shorten_lines

_LINE_EVERY_S = 5.0
_BAR_COLUMNS = 30
_SIDES_SHOWN = 4  # `rheostat reassign status` shows all sides.


class PlanView(ProgressScreen[Live]):
    """Shows one plan while it is watched, and prints each new blocker once."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, Live(console=console, auto_refresh=False), _LINE_EVERY_S)
        self._printed: list[str] = []  # The blockers and other lines that are still current and not printed again.

    def print_line(self, text: str) -> None:
        """Prints a line above the live display, where it stays."""
        _print(self._console, text)

    def show(self, progress: PlanProgress, rate_bytes_per_s: float | None) -> None:
        """Shows the progress, and prints each new blocker once."""
        state = progress.plan.state
        lines = [*state.blockers, *progress.new_partitions]
        if self._live is None:  # The live display has the concurrency itself.
            lines += state.concurrency
        for line in lines:
            if line not in self._printed:
                self.print_line(f"  {line}")
        self._printed = lines
        if not progress.plan.is_active:
            # The records of an ended plan's partitions are deleted, so there is no progress to show. The command prints the result.
            if self._live is not None:
                self._live.transient = True  # Removes the display from the terminal when it is closed.
        elif self._live is not None:
            self._live.update(render_progress(progress, rate_bytes_per_s), refresh=True)
        elif self._line_is_due():
            self.print_line(progress_text(progress, rate_bytes_per_s))


def print_line(text: str) -> None:
    """Prints a line to stderr while no live display is shown."""
    _print(stderr_console(), text)


def stderr_console() -> Console:
    return console_for(sys.stderr)


def _print(console: Console, text: str) -> None:
    """Prints a line, on a terminal wrapped between words, because the terminal itself would break within a word."""
    console.print(text, soft_wrap=not console.is_terminal)


def render_progress(progress: PlanProgress, rate_bytes_per_s: float | None) -> RenderableType:
    """Returns the live display: a bar, the moving partitions, the limits and the slots of each side. No line is wrapped."""
    # A plan that only changes the order of replicas copies nothing, so its partitions are counted instead.
    arrived_share = progress.arrived / max(1, progress.partitions)
    share = progress.copied_bytes / progress.total_bytes if progress.total_bytes else arrived_share
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=1.0, completed=min(1.0, share), width=_BAR_COLUMNS),
        _line(f"{share:4.0%}  {', '.join(amount_texts(progress, rate_bytes_per_s))}"),
    )
    lines = (
        f"{progress.arrived} of {progress.partitions} partitions, {moves_text(progress)}",
        limits_text(progress.plan.head.limits),
        *shorten_lines(progress.plan.state.concurrency, _SIDES_SHOWN, "sides of brokers"),
    )
    # The cursor waits on the empty last line, so that the "^C" of the terminal does not cover text.
    return Group(bar, *(_line(f"  {line}") for line in lines), styled(""))


def _line(text: str) -> RenderableType:
    return styled(text, cut=True)
