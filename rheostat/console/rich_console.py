"""Consoles and styled text that treat strings as plain text, never as markup or control sequences.

Only this module creates a ``Console`` or a ``Text``, and only output.py writes to a standard stream; tests/test_terminal_rule.py
checks both.
"""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from rheostat.console.escape import printable

_WIDE = 10_000  # Width in a file or a pipe, so that tables are never cut.


class Terminal(Console):
    """A console without markup, emoji codes and highlighting.

    Rich passes every string (lines, cells, titles, captions) through ``render_str``, so control characters are escaped there.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **{**options, "markup": False, "emoji": False})


def console_for(stream: TextIO) -> Terminal:
    """Returns the console for a stream: as wide as the terminal, or without limit in a file or a pipe."""
    if stream.isatty():
        return Terminal(file=stream)
    return Terminal(file=stream, width=_WIDE, force_terminal=False, no_color=True)


def styled(text: str, style: str = "", *, cut: bool = False) -> Text:
    """Returns a styled line for a console.

    Args:
        cut: whether a line that does not fit is cut with an ellipsis instead of wrapped.
    """
    if cut:
        return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")
    return Text(printable(text), style=style)
