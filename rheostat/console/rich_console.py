"""Consoles and styled text for the terminal, for which a string is text and never markup or a control sequence.

``tests/test_terminal_rule.py`` keeps this the only way: nothing else makes a ``Console`` or a ``Text``, reads markup, or writes
to a standard stream (rheostat/console/output.py does that for plain lines).
"""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from rheostat.console.escape import printable

_WIDE = 10_000  # In a file or a pipe there is no screen to fit, so a table is as wide as it is.


class Terminal(Console):
    """A console without markup, emoji codes and highlighting.

    Rich turns every string through ``render_str`` (printed lines, cells, titles, captions), so names are made printable there.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **{**options, "markup": False, "emoji": False})


def console_for(to: TextIO) -> Terminal:
    """Returns the console for a stream: as wide as a terminal is, and as wide as a table needs elsewhere."""
    if to.isatty():
        return Terminal(file=to)
    return Terminal(file=to, width=_WIDE, force_terminal=False, no_color=True)


def styled(text: str, style: str = "", *, cut: bool = False) -> Text:
    """Returns a line for a console.

    Args:
        cut: where the line does not fit it ends with an ellipsis, and is not continued on the next one.
    """
    if cut:
        return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")
    return Text(printable(text), style=style)
