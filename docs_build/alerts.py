"""Renders the table of alerts from the alerting rules for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dashboards.runbook_page import anchor
from docs_build.page import ROOT, cell

RULES = ROOT / "dashboards" / "rules"
FILES = ("moves.yaml", "cluster.yaml", "rheostat.yaml")  # In the order of the runbook.


def render_alerts() -> str:
    """Returns the table of all alerts."""
    return "\n".join(_lines())


def read_alerts(folder: Path = RULES) -> list[dict[str, Any]]:
    """Returns all alerting rules."""
    files = [yaml.safe_load((folder / name).read_text(encoding="utf-8")) for name in FILES]
    return [rule for file in files for group in file["groups"] for rule in group["rules"] if "alert" in rule]


def _lines() -> Iterator[str]:
    yield "| alert | severity | after | depends on | meaning |"
    yield "|---|---|---|---|---|"
    for rule in read_alerts():
        name, labels = rule["alert"], rule["labels"]
        link = f"[{name}](runbook.md#{anchor(name)})"
        depends_on = labels.get("depends_on", "–")
        summary = cell(rule["annotations"]["summary"])
        yield f"| {link} | {labels['severity']} | {rule['for']} | {depends_on} | {summary} |"
