"""Test file names are unique: pytest refuses to collect a second file of the same name, and `make test` would run nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def test_test_file_names_are_unique() -> None:
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert len(names) > 100, "looked in the wrong folder"
    assert [name for name, times in names.items() if times > 1] == []
