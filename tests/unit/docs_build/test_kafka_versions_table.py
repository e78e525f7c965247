"""The table of the versions of Kafka: a row for each version, and no row looks better than its run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docs_build.kafka_versions import render_kafka_versions
from rheostat.jvm.kafka_versions import kafka_versions

STORY = "test_stalled_move_is_rescued_and_nothing_is_left"
OLDEST, SECOND, THIRD, *_, NEWEST = kafka_versions()


def rows_of(tmp_path: Path, tests: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    """Returns the cells by version."""
    rows: list[dict[str, Any]] = [
        {"kafka": version, "date": "2026-11-29", "java": 17, "tests": outcomes} for version, outcomes in tests.items()
    ]
    file = tmp_path / "results.json"
    file.write_text(json.dumps(rows))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in render_kafka_versions(file).splitlines()[2:]]
    return {cells[0]: cells[1:] for cells in lines}


def test_each_version_has_a_row_and_the_newest_is_first(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {OLDEST: {"a": "passed"}})
    assert tuple(rows) == kafka_versions()[::-1]
    assert rows[OLDEST][:3] == ["1 of 1 passed", "not run yet", "2026-11-29, Java 17"]
    assert rows[NEWEST] == ["not run yet", "not run yet", "", ""]


def test_run_without_some_tests_shows_how_many_are_left_out(tmp_path: Path) -> None:
    whole = {"a": "passed", "b": "passed", "c": "passed", STORY: "failed"}
    tests = {OLDEST: whole, SECOND: {"a": "passed"}, THIRD: {"a": "passed", "b": "failed"}}
    rows = rows_of(tmp_path, {**tests, NEWEST: {**whole, "c": "failed"}})
    assert rows[OLDEST][:2] == ["3 of 3 passed", "failed"]
    assert rows[SECOND][0] == "1 of 3 run, all passed"
    assert rows[THIRD][0] == "2 of 3 run, 1 passed"
    assert rows[NEWEST][0] == "2 of 3 passed"


def test_version_without_idle_ratio_has_a_note(tmp_path: Path) -> None:
    notes = {version.rpartition(".")[0]: cells[3] for version, cells in rows_of(tmp_path, {}).items()}
    assert sorted(version for version, note in notes.items() if "idle ratio" in note) == ["3.9", "4.0", "4.1"]


def test_version_without_cordons_has_a_note(tmp_path: Path) -> None:
    notes = {version.rpartition(".")[0]: cells[3] for version, cells in rows_of(tmp_path, {}).items()}
    assert sorted(version for version, note in notes.items() if "no cordons" in note) == ["3.9", "4.0", "4.1", "4.2"]
