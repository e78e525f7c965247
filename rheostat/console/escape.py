"""Escapes text from outside, so that a terminal does not interpret it.

Client-ids, plan names, host names and racks come from clients, operators and the cluster; other tools may write to the topics.
Such text may contain control sequences, links (OSC 8), characters that reverse the reading direction, or line breaks.
"""

from __future__ import annotations

LINE_CHARS_MAX = 4000
NAME_CHARS_MAX = 249  # The maximum length of a topic name. Kafka does not limit client-ids.


def printable(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    r"""Returns the text on one line, cut to ``chars_max`` characters, with escapes such as ``\x1b`` for control characters."""
    return escaped(text if len(text) <= chars_max else text[: chars_max - 1] + "…")


def printable_name(text: str) -> str:
    """Returns a name from outside for a table cell or a sentence, escaped and cut."""
    return printable(text, NAME_CHARS_MAX)


def escaped(text: str) -> str:
    """Returns the text with every unprintable character escaped, including line breaks."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
