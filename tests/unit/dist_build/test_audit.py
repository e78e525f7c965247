"""The audit tells "no vulnerability" from "no answer"."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dist_build.audit import AUDITED, NOT_REACHED, VULNERABLE, evaluate, main

CLEAN = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "Dependency not found on PyPI"}
VULN = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"], "aliases": []}]}


@pytest.mark.parametrize(
    ("packages", "code", "text"),
    [
        ([CLEAN], AUDITED, "1 packages, no known vulnerability"),
        ([CLEAN, VULN], VULNERABLE, "c 2: PYSEC-1 (corrected in 3)"),
        ([SKIPPED, VULN], VULNERABLE, "PYSEC-1"),
        ([CLEAN, SKIPPED], NOT_REACHED, "the database has no answer for 1 of 2 packages (b)"),
        ([], NOT_REACHED, "no answer"),
    ],
)
def test_report_gives_code_and_message(packages: list[object], code: int, text: str) -> None:
    found, message = evaluate(0, json.dumps({"dependencies": packages}), "")
    assert found == code
    assert text in message


def test_failed_run_is_not_an_audit() -> None:
    code, message = evaluate(1, "", "Traceback\nConnectionError: no route\n")
    assert code == NOT_REACHED
    assert message == "Not audited: the database of vulnerabilities does not answer (ConnectionError: no route)."


def test_unreachable_service_ends_with_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pip-audit itself, against an address at which nothing listens."""
    lock = tmp_path / "one.lock"
    lock.write_text(f"fastapi==0.165.0 --hash=sha256:{'0' * 64}\n")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    assert main([str(lock)]) == NOT_REACHED
    assert capsys.readouterr().err.startswith("Not audited: ")
