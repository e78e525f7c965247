"""Lines for systemd's journal carry their priority, and other outputs do not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import structlog

from rheostat.console.logs import set_up_logs


def logged(file: Path) -> list[str]:
    with file.open("w") as out:
        set_up_logs(out, part="tune")
        log = structlog.get_logger("test")
        log.info("began", number=1)
        log.warning("careful")
        try:
            raise ValueError("x")
        except ValueError:
            log.exception("failed")
        structlog.reset_defaults()
    return file.read_text().splitlines()


def name_as_journal(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.touch()
    monkeypatch.setenv("JOURNAL_STREAM", f"{file.stat().st_dev}:{file.stat().st_ino}")


def test_journal_line_begins_with_its_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name_as_journal(tmp_path / "out", monkeypatch)
    lines = logged(tmp_path / "out")
    assert [line[:3] for line in lines] == ["<6>", "<4>", "<3>"], "a traceback is a part of its line"
    assert json.loads(lines[0][3:]).items() >= {"event": "began", "number": 1, "level": "info", "part": "tune"}.items()


@pytest.mark.parametrize("named", [None, "1:1", "text"])
def test_line_for_another_output_has_no_priority(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if named is not None:
        monkeypatch.setenv("JOURNAL_STREAM", named)
    assert all(line.startswith("{") for line in logged(tmp_path / "out"))


def test_output_moved_away_from_the_journal_has_no_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name_as_journal(tmp_path / "journal", monkeypatch)
    assert os.environ["JOURNAL_STREAM"]
    assert all(line.startswith("{") for line in logged(tmp_path / "file"))
