"""Text from outside as text that no terminal obeys.

Clients choose their own client-ids, operators name plans, hosts and racks come from the cluster, reasons from a topic that
others may write. Such a text may hold control sequences, links (OSC 8), characters that turn the reading direction, line
breaks, or what the table library takes for markup.
"""

from __future__ import annotations

LINE_CHARS_MAX = 4000
NAME_CHARS_MAX = 249  # The longest topic; a client-id has no limit of its own.


def printable(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    r"""Returns the text on one line, cut to ``chars_max`` characters, with escapes such as ``\x1b`` for control characters."""
    return escaped(text if len(text) <= chars_max else text[: chars_max - 1] + "…")


def printable_name(text: str) -> str:
    """Returns a name from outside as it stands in a cell or a sentence."""
    return printable(text, NAME_CHARS_MAX)


def escaped(text: str) -> str:
    """Returns the text with an escape for every character that is not printable, line breaks included."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
