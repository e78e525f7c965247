"""Tests of the table on docs/explanation/performance.md, and of the records it is drawn from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import performance_page, record
from benchmarks.claims import Claim

PAGE = f"before\n{performance_page.BEGIN}{performance_page.END}\nafter\n"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def append(benchmark: str, date: str, **figures: float) -> None:
    records = record.read_records(benchmark)
    records.append({"date": date, "commit": "0" * 8, "machine": "", "arguments": [], "figures": figures})
    record.results_file(benchmark).write_text(json.dumps(records))


def test_performance_page_shows_newest_record_of_each_figure() -> None:
    append("stall", "2026-01-01", recall=0.999, precision=0.97)
    append("stall", "2026-02-02", recall=0.98)
    page = performance_page.draw(PAGE)
    assert "| recall | 0.98 | ≥ 0.99 | **missed** | 2026-02-02, 00000000 |" in page
    assert "| precision | 0.97 | ≥ 0.98 | **missed** | 2026-01-01, 00000000 |" in page
    assert "| delay of detection, median, s | – | ≤ 24 | not measured yet | |" in page


def test_performance_page_drawn_twice_is_unchanged() -> None:
    page = performance_page.draw(PAGE)
    assert performance_page.draw(page) == page


@pytest.mark.parametrize("text", ["", PAGE.replace("end of", "end")])
def test_performance_page_without_place_for_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="has no place for the table"):
        performance_page.draw(text)


def test_check_fails_if_page_is_not_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert performance_page.main(["--check"], page) == 1
    assert "is not current: run `python -m benchmarks.performance_page`" in capsys.readouterr().err
    assert performance_page.main([], page) == 0
    assert performance_page.main(["--check"], page) == 0


@pytest.mark.parametrize(
    ("claim", "figure", "met"),
    [
        (Claim("", dict.get, at_most=2.0), 2.0, True),
        (Claim("", dict.get, at_most=2.0), 2.1, False),
        (Claim("", dict.get, at_least=2.0), 2.0, True),
        (Claim("", dict.get, at_least=2.0), 1.9, False),
        (Claim("", dict.get), 1.0, None),
    ],
)
def test_claim_is_met_within_its_bound(claim: Claim, figure: float, met: bool | None) -> None:
    assert claim.is_met(figure) is met


def test_record_without_json_names_command_and_exit_code() -> None:
    with pytest.raises(RuntimeError, match=r"benchmarks.stall --json --no-such-option ended with exit code 2"):
        record.record("stall", ["--no-such-option"])
