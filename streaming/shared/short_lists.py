"""Long lists as a sentence or a terminal shows them: the first, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal


def join_names(names: Iterable[object], most: int, what: str = "", *, between: Literal[", ", "; "] = ", ") -> str:
    """Returns the names in a row; of more than ``most`` the first, and how many are left: "a, b and 3 more".

    Args:
        what: noun for those that are left, where the names do not tell it.
        between: a semicolon also stands before "and": "a; b; and 3 more".
    """
    every = list(names)
    row = between.join(map(str, every[:most]))
    if len(every) <= most:
        return row
    return f"{row}{' ' if between == ', ' else between}{more_text(len(every) - most, what)}"


def shorten_lines(lines: Sequence[str], most: int, what: str = "") -> list[str]:
    """Returns the lines; of more than ``most`` the first, and as the last line how many are left."""
    return list(lines) if len(lines) <= most else [*lines[:most], more_text(len(lines) - most, what)]


def more_text(count: int, what: str = "") -> str:
    """Returns "and 3 more", with ``what`` they are where that is given."""
    return f"and {count} more{f' {what}' if what else ''}"
