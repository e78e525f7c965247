"""Progress screens: the redrawn display on a terminal, and lines without one."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from rich.status import Status

from rheostat.console.progress_lines import ProgressScreen
from rheostat.demo.view import DemoView

EVERY_S = 4.0


def console(**given: object) -> Console:
    return Console(file=io.StringIO(), width=80, **given)  # type: ignore[arg-type]  # as a test gives them


def said_on(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Told(ProgressScreen[Status]):
    def __init__(self, console: Console) -> None:
        super().__init__(console, console.status("lives"), EVERY_S)

    def tell(self) -> bool:
        return self._line_is_due()


def test_progress_lines_come_at_once_then_at_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with Told(console()) as screen:
        told = []
        for now_s[0] in (100.0, 103.9, 104.0, 107.9, 120.0):
            told.append(screen.tell())
    assert told == [True, False, True, False, True]


def test_display_starts_and_stops_with_the_screen_despite_errors() -> None:
    terminal = console(force_terminal=True, _environ={"TERM": "xterm"})
    with pytest.raises(ValueError, match="meanwhile"), Told(terminal):
        raise ValueError("meanwhile")
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    assert said_on(terminal).count(hidden) == said_on(terminal).count(shown) == 1
    assert said_on(terminal).index(hidden) < said_on(terminal).index("lives") < said_on(terminal).index(shown)


@pytest.mark.parametrize("given", [{}, {"force_terminal": True, "_environ": {"TERM": "dumb"}}])
def test_demo_view_prints_lines_without_a_display(given: dict[str, object]) -> None:
    where = console(**given)
    with DemoView(where) as view:
        view.show_activity("broker 3 catches up")
        view.show_activity("broker 3 catches up still")
    assert said_on(where).count("\n") == 1
    assert "broker 3 catches up\n" in said_on(where)
