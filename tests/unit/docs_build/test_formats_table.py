"""The page about formats lists each format, and its table agrees with what the formats read."""

from __future__ import annotations

from typing import get_args

import pytest

from docs_build.formats import render_formats
from docs_build.page import REFERENCE
from streaming.settings import FormatName
from streaming.shared.envelopes import PREFIXES

COLUMNS = ("signal", "field", "rheostat", "telegraf", "example", "prometheus", "otlp", "otel rules", "cruise control")


def table() -> dict[tuple[str, str], dict[str, str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in render_formats().splitlines()[2:]]
    assert all(len(row) == len(COLUMNS) for row in rows)
    return {(row[0], row[1].strip("`")): dict(zip(COLUMNS[2:], row[2:], strict=True)) for row in rows}


def test_page_lists_each_format_once() -> None:
    page = (REFERENCE / "formats.md").read_text(encoding="utf-8")
    for name in get_args(FormatName):
        assert page.count(f"\n| `{name}` |") == 1, name


@pytest.mark.parametrize("text", sorted({text.split(" data:")[0] for text in PREFIXES.values() if " data:" in text}))
def test_page_names_each_compression(text: str) -> None:
    assert text in (REFERENCE / "formats.md").read_text(encoding="utf-8")


def test_table_rheostat_gives_every_field_but_that_of_the_machine() -> None:
    rows = table()
    assert len(rows) > 50
    assert {field for field, row in rows.items() if row["rheostat"] != "yes"} == {("broker", "link_speed_bytes_per_s")}


@pytest.mark.parametrize(
    ("field", "column", "cell"),
    [
        (("broker", "leader_throttled_bytes_per_s"), "otlp", "yes"),
        (("broker", "leader_throttled_bytes_per_s"), "otel rules", "–"),
        (("broker", "leader_throttled_bytes_per_s"), "example", "–"),
        (("broker", "client_in_bytes_per_s"), "cruise control", "mean of 1 min"),
        (("broker", "leader_rate_bytes_per_s"), "telegraf", "–"),
        (("broker", "produce_mean_ms"), "otel rules", "yes"),
        (("controller", "create_mean_ms"), "otel rules", "–"),
        (("controller", "create_mean_ms"), "telegraf", "yes"),
        (("broker", "link_speed_bytes_per_s"), "telegraf", "yes"),
        (("tenant", "tokens"), "cruise control", "–"),
    ],
)
def test_table_cell_tells_what_the_format_has(field: tuple[str, str], column: str, cell: str) -> None:
    assert table()[field][column] == cell


def test_table_leaves_out_values_that_are_no_field() -> None:
    assert {field for _, field in table()}.isdisjoint({"produced_per_s", "queue_mean", "produce_mean"})
