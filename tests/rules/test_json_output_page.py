"""docs/reference/json-output.md names only keys that the code prints, and all keys of the plans' JSON."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "json-output.md").read_text(encoding="utf-8")
# Where the commands make their JSON, and the records that they print field by field.
SOURCES = ("rheostat", "tuner/api", "tuner/core", "tuner/planning", "tuner/control/mutation_quota", "tuner/simulation")


def code() -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))
    )


def named_keys() -> set[str]:
    """Returns the words in backticks that have the form of a key."""
    return {word for word in re.findall(r"`([A-Za-z_.]+)`", PAGE) if re.fullmatch(r"[a-z]+(?:[._][a-z0-9]+)*", word)}


def test_every_key_on_the_page_is_in_the_code() -> None:
    text = code()
    missing = [key for key in named_keys() if f'"{key}"' not in text and not re.search(rf"^\s+{key}: ", text, re.M)]
    assert sorted(missing) == sorted({"null"} & named_keys())


def test_page_has_every_key_of_a_plan() -> None:
    source = (ROOT / "rheostat" / "reassign" / "progress.py").read_text(encoding="utf-8")
    body = source.partition("def as_record")[2].partition("\ndef ")[0]
    keys = re.findall(r'^        "(\w+)":', body, re.M)
    assert len(keys) > 20
    assert [key for key in keys if f"`{key}`" not in PAGE] == []
