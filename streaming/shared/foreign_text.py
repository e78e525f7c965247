"""Makes a text from another service safe to show, because a hostile service may send control characters or a very long text."""

from __future__ import annotations


def printable_start(text: str, chars_max: int) -> str:
    """Returns the first ``chars_max`` characters in one line, with a space in place of each character that is not printable."""
    return "".join(c if c.isprintable() else " " for c in text[:chars_max])
