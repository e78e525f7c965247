"""Shortens long lists for a sentence or a terminal: the first items, and the number of the other items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal


def join_names(
    names: Iterable[object], count_max: int, noun: str = "", *, separator: Literal[", ", "; "] = ", "
) -> str:
    """Returns the first ``count_max`` names joined, and the number left out: "a, b and 3 more".

    Args:
        noun: the noun for the names left out, if the names themselves do not tell what they are.
        separator: a semicolon is also put before "and": "a; b; and 3 more".
    """
    items = list(names)
    text = separator.join(map(str, items[:count_max]))
    if len(items) <= count_max:
        return text
    return f"{text}{' ' if separator == ', ' else separator}{more_text(len(items) - count_max, noun)}"


def shorten_lines(lines: Sequence[str], count_max: int, noun: str = "") -> list[str]:
    """Returns the first ``count_max`` lines; if lines were left out, a last line says how many."""
    return list(lines) if len(lines) <= count_max else [*lines[:count_max], more_text(len(lines) - count_max, noun)]


def more_text(count: int, noun: str = "") -> str:
    """Returns "and 3 more", followed by ``noun`` if given."""
    return f"and {count} more{f' {noun}' if noun else ''}"
