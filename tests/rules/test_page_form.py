"""The form of the pages: whom a page is for, its length, and lists that a browser shows as lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# Pages of the reference are looked up, and most of them are generated, so they may be longer.
READ_PAGES = [page for page in PAGES if page.parent.name in ("tutorials", "how-to", "explanation")]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_begins_with_its_readers(page: Path) -> None:
    beginning = re.search(r"^# .+\n\n(.+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert beginning is not None, "the page has no heading, or no text after it"
    assert beginning[1].startswith("This page is for "), "say whom the page is for, and what they can do after it"


@pytest.mark.parametrize(
    ("page", "lines_min", "lines_max"),
    [
        *((page, 0, 200) for page in READ_PAGES),
        (ROOT / "README.md", 80, 120),
        (ROOT / "docs" / "explanation" / "performance.md", 0, 150),
    ],
    ids=lambda value: name_of(value) if isinstance(value, Path) else str(value),
)
def test_page_has_permitted_length(page: Path, lines_min: int, lines_max: int) -> None:
    lines = page.read_text(encoding="utf-8").count("\n")
    assert lines_min <= lines <= lines_max, "split the page, or leave out what another page has"


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"], ids=name_of
)
def test_page_has_each_list_item_on_its_own_line(page: Path) -> None:
    without_code = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    joined = [
        line
        for line in without_code.splitlines()
        if not line.startswith("|") and re.search(r"[.:;,`] -(?: [A-Z`]|$)", line)
    ]
    assert not joined, "a browser shows these list items as one paragraph"
