"""Finds the line of a key or item in a JSON text, for error messages. Python's JSON parser does not report lines.

A plan may have a million lines and a few faults, so an index of all lines would be slow. ``_Walk`` enters only the values on the
path to a requested position. It skips every other value with Python's fast parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

KeyPath = tuple[str | int, ...]  # Keys of objects and indexes of lists, from the outermost value inwards.

_SPACE = re.compile(r"[ \t\n\r]*")


class DuplicateKeyError(ValueError):
    """A key occurs twice in one object; the parser would silently take the last value."""


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object. For use as ``object_pairs_hook`` of Python's JSON parser.

    Raises:
        DuplicateKeyError: a key occurs twice.
    """
    result = dict(pairs)
    if len(result) != len(pairs):
        raise DuplicateKeyError
    return result


def find_lines(text: str, paths: Collection[KeyPath]) -> dict[KeyPath, int]:
    """Returns the line of each path, or of its nearest existing parent if the path does not exist. ``text`` must be valid JSON."""
    # All prefixes of the paths. The empty prefix stands for the whole document.
    prefixes = {path[:n] for path in paths for n in range(len(path) + 1)}
    walk = _Walk(text, prefixes)
    offsets: dict[KeyPath, int] = {}
    for position in walk.positions():
        offsets.setdefault(position.path, position.offset)
    lines = _Lines(text)
    line_of = {path: lines.line_at(offset) for path, offset in sorted(offsets.items(), key=lambda item: item[1])}
    return {path: _line_of_nearest(path, line_of) for path in paths}


def _line_of_nearest(path: KeyPath, line_of: Mapping[KeyPath, int]) -> int:
    """Returns the line of the path or of its nearest parent with a line; 1 for the whole document."""
    for length in range(len(path), 0, -1):
        if path[:length] in line_of:
            return line_of[path[:length]]
    return 1


def find_duplicate_keys(text: str) -> list[tuple[KeyPath, int]]:
    """Returns each further occurrence of a key in one object, with its line, in order. ``text`` must be valid JSON."""
    walk = _Walk(text, {()})
    lines = _Lines(text)
    return [(position.path, lines.line_at(position.offset)) for position in walk.positions() if position.is_duplicate]


@dataclass(frozen=True, slots=True)
class _Position:
    path: KeyPath
    offset: int  # In the text.
    is_duplicate: bool = False


class _Walk:
    """Walks through the values whose paths are in ``prefixes``, and through objects with a duplicate key."""

    def __init__(self, text: str, prefixes: Collection[KeyPath]) -> None:
        self._text = text
        self._prefixes = prefixes
        self._parse: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
            object_pairs_hook=refuse_duplicates
        ).raw_decode
        self._end = 0  # End of the last value.

    def positions(self) -> Iterator[_Position]:
        return self._value((), self._after_space(0))

    def _value(self, path: KeyPath, at: int) -> Iterator[_Position]:
        match self._text[at]:
            case "{":
                yield from self._object(path, at)
            case "[":
                yield from self._list(path, at)
            case _:
                _, self._end = self._parse(self._text, at)

    def _object(self, path: KeyPath, at: int) -> Iterator[_Position]:
        seen: set[str] = set()
        at = self._after_space(at + 1)
        while self._text[at] != "}":
            key, end = self._parse(self._text, at)
            child: KeyPath = (*path, key)
            if key in seen or child in self._prefixes:
                yield _Position(child, at, is_duplicate=key in seen)
            seen.add(key)
            colon = self._after_space(end)
            at = self._after_space(colon + 1)
            if not self._skip(child, at):
                yield from self._value(child, at)
            at = self._next(self._end)
        self._end = at + 1

    def _list(self, path: KeyPath, at: int) -> Iterator[_Position]:
        number = 0
        at = self._after_space(at + 1)
        while self._text[at] != "]":
            child: KeyPath = (*path, number)
            if child in self._prefixes:
                yield _Position(child, at)
            if not self._skip(child, at):
                yield from self._value(child, at)
            number += 1
            at = self._next(self._end)
        self._end = at + 1

    def _skip(self, path: KeyPath, at: int) -> bool:
        """Skips the value at offset ``at``. Returns False if the walk has to enter it: for a requested path or a duplicate key."""
        if path in self._prefixes:
            return False
        try:
            _, self._end = self._parse(self._text, at)
        except DuplicateKeyError:
            return False
        return True

    def _next(self, at: int) -> int:
        """Returns the offset of the next key or item, or of the closing bracket."""
        at = self._after_space(at)
        return self._after_space(at + 1) if self._text[at] == "," else at

    def _after_space(self, at: int) -> int:
        space = _SPACE.match(self._text, at)
        return at if space is None else space.end()


class _Lines:
    """Converts increasing offsets into line numbers."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._counted_to = 1, 0

    def line_at(self, at: int) -> int:
        self._line += self._text.count("\n", self._counted_to, at)
        self._counted_to = at
        return self._line
