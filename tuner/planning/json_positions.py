"""In which line of a JSON text a key or item stands: the standard parser doesn't say, and an error message must.

Intuition: a plan may have a million lines, and something is wrong in a few of them. So nothing is indexed: what is not on the way
to a place that somebody asks about is stepped over by the standard parser, which reads a hundred times faster than we could.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]  # Keys and positions from the outermost value inwards.

_SPACE = re.compile(r"[ \t\n\r]*")


class Twice(ValueError):
    """A key stands twice in one object: the parser would silently take the last."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An ``object_pairs_hook``.

    Raises:
        Twice
    """
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Twice
    return made


def lines_of(text: str, paths: Collection[Path]) -> dict[Path, int]:
    """Of each key or item, or of the nearest one around it that is there. ``text`` is known to be JSON."""
    # The empty path, of the whole, is on the way to every other.
    ways = {path[:n] for path in paths for n in range(len(path) + 1)}
    walk = _Walk(text, ways)
    at: dict[Path, int] = {}
    for place in walk.places():
        at.setdefault(place.path, place.at)
    line = _Lines(text)
    numbers = {path: line.of(offset) for path, offset in sorted(at.items(), key=lambda item: item[1])}
    return {
        path: next((numbers[path[:n]] for n in range(len(path), 0, -1) if path[:n] in numbers), 1) for path in paths
    }


def keys_twice(text: str) -> list[tuple[Path, int]]:
    """Keys that stand again in one object, and in which line; in the order of the text, which is known to be JSON."""
    walk = _Walk(text, {()})
    line = _Lines(text)
    return [(place.path, line.of(place.at)) for place in walk.places() if place.again]


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    at: int  # Offset.
    again: bool = False


class _Walk:
    """Through the values on the ways that are asked for, and those with a key twice."""

    def __init__(self, text: str, ways: Collection[Path]) -> None:
        self._text = text
        self._ways = ways
        self._step: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(object_pairs_hook=once).raw_decode
        self._end = 0  # Of the value walked through last.

    def places(self) -> Iterator[_Place]:
        return self._value((), self._after_space(0))

    def _value(self, path: Path, at: int) -> Iterator[_Place]:
        match self._text[at]:
            case "{":
                yield from self._object(path, at)
            case "[":
                yield from self._list(path, at)
            case _:
                _, self._end = self._step(self._text, at)

    def _object(self, path: Path, at: int) -> Iterator[_Place]:
        seen: set[str] = set()
        at = self._after_space(at + 1)
        while self._text[at] != "}":
            key, end = self._step(self._text, at)
            child: Path = (*path, key)
            if key in seen or child in self._ways:
                yield _Place(child, at, again=key in seen)
            seen.add(key)
            colon = self._after_space(end)
            at = self._after_space(colon + 1)
            if not self._stepped_over(child, at):
                yield from self._value(child, at)
            at = self._next(self._end)
        self._end = at + 1

    def _list(self, path: Path, at: int) -> Iterator[_Place]:
        number, at = 0, self._after_space(at + 1)
        while self._text[at] != "]":
            child: Path = (*path, number)
            if child in self._ways:
                yield _Place(child, at)
            if not self._stepped_over(child, at):
                yield from self._value(child, at)
            number, at = number + 1, self._next(self._end)
        self._end = at + 1

    def _stepped_over(self, path: Path, at: int) -> bool:
        if path in self._ways:
            return False
        try:
            _, self._end = self._step(self._text, at)
        except Twice:
            return False
        return True

    def _next(self, at: int) -> int:
        """Where the next key or item begins, or the bracket that closes."""
        at = self._after_space(at)
        return self._after_space(at + 1) if self._text[at] == "," else at

    def _after_space(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return at if found is None else found.end()


class _Lines:
    """Offsets that grow, as lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._counted_to = 1, 0

    def of(self, at: int) -> int:
        self._line += self._text.count("\n", self._counted_to, at)
        self._counted_to = at
        return self._line
