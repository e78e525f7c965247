"""Renders the table of the supported versions of Kafka from the results of `make compat`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docs_build.page import ROOT
from rheostat.jvm.kafka_versions import kafka_versions
from streaming.shared.kafka.versions import CORDONS_FROM, IDLE_RATIO_FROM, minor_version

RESULTS = ROOT / "tests" / "compat" / "results.json"
_STORY = "test_stalled_move_is_rescued_and_nothing_is_left"
_NOT_RUN = "not run yet"
_NO_CORDONS = "no cordons, so `rheostat plan generate --cordon` is refused"
_NO_IDLE_RATIO = "no metric of the controller's idle ratio, so `idle_ratio_min` has no effect"


def render_kafka_versions(file: Path = RESULTS) -> str:
    """Returns the table: one row for each version, the newest first."""
    rows = {row["kafka"]: row for row in json.loads(file.read_text(encoding="utf-8"))}
    # A run may have left out tests, so the tests of all rows together count.
    contract = sorted({test for row in rows.values() for test in row["tests"]} - {_STORY})
    lines = ["| Kafka | contract suite | story | last run | note |", "|---|---|---|---|---|"]
    for version in reversed(kafka_versions()):
        row: Mapping[str, Any] = rows.get(version, {"tests": {}})
        suite, story = _suite_text(row["tests"], contract), row["tests"].get(_STORY, _NOT_RUN)
        run = f"{row['date']}, Java {row['java']}" if version in rows else ""
        missing = ((IDLE_RATIO_FROM, _NO_IDLE_RATIO), (CORDONS_FROM, _NO_CORDONS))
        note = "; ".join(text for since, text in missing if minor_version(version) < since)
        lines.append(f"| {version} | {suite} | {story} | {run} | {note} |")
    return "\n".join(lines)


def _suite_text(outcomes: Mapping[str, str], contract: Sequence[str]) -> str:
    """Returns how many of the tests have run and passed.

    Args:
        outcomes: the outcome by test.
        contract: the names of all tests of the suite.
    """
    run = [outcomes[test] for test in contract if test in outcomes]
    passed = run.count("passed")
    if not run:
        return _NOT_RUN
    if len(run) == len(contract):
        return f"{passed} of {len(contract)} passed"
    return f"{len(run)} of {len(contract)} run, {'all' if passed == len(run) else passed} passed"
