"""Every class name is defined once in the whole product."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Names that may stand for several things, each with its reason.
EXCEPTIONS: dict[str, str] = {}


def test_class_name_is_defined_once() -> None:
    places = defaultdict[str, list[str]](list)
    for package in ("streaming", "tuner", "learning", "rheostat"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert twice.keys() == EXCEPTIONS.keys(), twice
    assert len(places) > 500, "it looks into the whole product"
