"""What a person sees of a plan while it is watched: on a terminal a picture that lives, elsewhere a line every few seconds."""

from __future__ import annotations

import sys

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from rheostat.console.progress_lines import ProgressScreen
from rheostat.console.rich_console import console_for, styled
from rheostat.reassign.progress import PlanProgress
from rheostat.reassign.text import amounts, batch_text, limits_text, progress
from streaming.shared.short_lists import shorten_lines

_LINE_EVERY_S = 5.0
_BAR_COLUMNS = 30
_PACES = 4  # Sides of brokers that are told; status has them all.


class PlanView(ProgressScreen[Live]):
    def __init__(self, console: Console) -> None:
        super().__init__(console, Live(console=console, auto_refresh=False), _LINE_EVERY_S)
        self._said: tuple[str, ...] = ()

    def say(self, text: str) -> None:
        """A line that stays."""
        _print(self._console, text)

    def show(self, shown: PlanProgress, rate_bytes_per_s: float | None) -> None:
        """What holds the plan up is said once; how far it is, again and again."""
        state = shown.plan.state
        lines = (*state.blockers, *shown.new_partitions, *(state.concurrency if self._live is None else ()))
        for line in lines:
            if line not in self._said:
                self.say(f"  {line}")
        self._said = lines
        if not shown.plan.is_active:
            # Its parts are off the record, so nothing is to be told of them; how it ended the command says.
            if self._live is not None:
                self._live.transient = True
        elif self._live is not None:
            self._live.update(alive(shown, rate_bytes_per_s), refresh=True)
        elif self._line_is_due():
            self.say(progress(shown, rate_bytes_per_s))


def say(text: str) -> None:
    """For people, while nothing lives on their terminal."""
    _print(console(), text)


def console() -> Console:
    return console_for(sys.stderr)


def _print(on: Console, text: str) -> None:
    """A terminal would break a line within a word; a file has lines as long as they are."""
    on.print(text, soft_wrap=not on.is_terminal)


def alive(shown: PlanProgress, rate_bytes_per_s: float | None) -> RenderableType:
    """How far, what is under way, within which limits, and why so many at a time; no line is broken."""
    # Of partitions where nothing is to be copied.
    share = shown.copied_bytes / shown.total_bytes if shown.total_bytes else shown.arrived / max(1, shown.partitions)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=1.0, completed=min(1.0, share), width=_BAR_COLUMNS),
        _line(f"{share:4.0%}  {', '.join(amounts(shown, rate_bytes_per_s))}"),
    )
    pace = shown.plan.state.concurrency
    lines = (
        f"{shown.arrived} of {shown.partitions} partitions, {batch_text(shown)}",
        limits_text(shown.plan.head.limits),
        *shorten_lines(pace, _PACES, "sides of brokers"),
    )
    # The empty line is where the cursor waits, so that a ^C there stands in nobody's way.
    return Group(bar, *(_line(f"  {line}") for line in lines), styled(""))


def _line(text: str) -> RenderableType:
    return styled(text, cut=True)
