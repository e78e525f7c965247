"""Waits for a known time, and shows the remaining seconds on a terminal."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live

from rheostat.console.rich_console import console_for, styled
from streaming.shared.units import span_text

_REDRAW_S = 0.25


def count_down(seconds: float, activity: str, notify: Callable[[str], None], console: Console | None = None) -> None:
    """Waits for ``seconds``. A terminal shows a line that counts down and then disappears; elsewhere one line is printed.

    Args:
        activity: the reason of the wait, such as "Watching how fast the logs grow".
        notify: prints the line if the console is not a terminal.
        console: the terminal; default is standard error.
    """
    screen = console or console_for(sys.stderr)
    if not screen.is_terminal or screen.is_dumb_terminal:
        notify(f"{activity}, for {span_text(seconds)}.")
        threading.Event().wait(seconds)
        return
    until_s = time.monotonic() + seconds
    with Live(console=screen, transient=True, auto_refresh=False) as live:
        while (left_s := until_s - time.monotonic()) > 0:
            live.update(styled(f"{activity}: {math.ceil(left_s)} s left", cut=True), refresh=True)
            threading.Event().wait(min(left_s, _REDRAW_S))
