"""Shortens long lists for a sentence or a terminal: the first items and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal


def join_names(names: Iterable[object], most: int, what: str = "", *, between: Literal[", ", "; "] = ", ") -> str:
    """Returns the first ``most`` names joined, and the number left out: "a, b and 3 more".

    Args:
        what: noun for the names left out, if the names do not tell it.
        between: separator; a semicolon is also put before "and": "a; b; and 3 more".
    """
    items = list(names)
    text = between.join(map(str, items[:most]))
    if len(items) <= most:
        return text
    return f"{text}{' ' if between == ', ' else between}{more_text(len(items) - most, what)}"


def shorten_lines(lines: Sequence[str], most: int, what: str = "") -> list[str]:
    """Returns the first ``most`` lines; if lines were left out, a last line says how many."""
    return list(lines) if len(lines) <= most else [*lines[:most], more_text(len(lines) - most, what)]


def more_text(count: int, what: str = "") -> str:
    """Returns "and 3 more", followed by the noun ``what`` if given."""
    return f"and {count} more{f' {what}' if what else ''}"
