"""In which line of a JSON text each key and item stands: the standard parser doesn't say, and an error message must.

Only read when there is something to complain about, as it takes longer than the parser.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

Path = tuple[str | int, ...]  # Keys and positions from the outermost value inwards.

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(slots=True)
class JsonLines:
    lines: dict[Path, int] = field(default_factory=dict)
    twice: list[tuple[Path, int]] = field(default_factory=list)  # Keys that stand again in one object, and where.

    def line(self, path: Path) -> int:
        """Of this key or item, or of the nearest one around it that is there."""
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), 1)


def json_lines(text: str) -> JsonLines:
    """``text`` is known to be JSON."""
    found = JsonLines()
    inside: list[str] = []  # The brackets that are open.
    path: list[str | int] = []
    key_next = False
    line, counted_to = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", counted_to, token.start())
        counted_to = token.start()
        match token[0]:
            case "}" | "]":
                inside.pop()
                path.pop()
            case ",":
                key_next = inside[-1] == "{"
                if not key_next:
                    path[-1] = int(path[-1]) + 1
            case ":":
                key_next = False
            case word if key_next:
                path[-1] = str(json.loads(word))
                if tuple(path) in found.lines:
                    found.twice.append((tuple(path), line))
                found.lines.setdefault(tuple(path), line)
            case word:
                if inside and inside[-1] == "[":
                    found.lines[tuple(path)] = line
                if word in "{[":
                    inside.append(word)
                    path.append(0)
                    key_next = word == "{"
    return found
