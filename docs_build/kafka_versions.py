"""Renders the table of the tested versions of Kafka from the results of `make compat`."""

from __future__ import annotations

import json

from docs_build.page import ROOT

RESULTS = ROOT / "tests" / "compat" / "results.json"
_STORY = "test_stalled_move_is_rescued_and_nothing_is_left"
_NOTES = dict.fromkeys(
    ("3.9", "4.0", "4.1"), "no metric of the controller's idle ratio, so `idle_ratio_min` has no effect"
)


def render_kafka_versions() -> str:
    """Returns the table: one row for each version, the newest first."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    lines = ["| Kafka | contract suite | story | last run | note |", "|---|---|---|---|---|"]
    for row in reversed(rows):
        contract = [outcome for test, outcome in row["tests"].items() if test != _STORY]
        failed = sum(outcome != "passed" for outcome in contract)
        suite = f"{len(contract) - failed} of {len(contract)} passed"
        story = row["tests"].get(_STORY, "not run yet")
        note = _NOTES.get(row["kafka"].rpartition(".")[0], "")
        lines.append(f"| {row['kafka']} | {suite} | {story} | {row['date']}, Java {row['java']} | {note} |")
    return "\n".join(lines)
