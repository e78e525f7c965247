"""The dashboard: the committed JSON is what build.py writes, Prometheus can read each query, each metric exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.api import metric_defs

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "dashboards" / "rheostat-reassignments.json"
BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
METRICS = {metric.name: metric for metric in metric_defs.ALL}
PROMQL_WORDS = {"and", "or", "unless", "bool", "offset"}


def expressions() -> Iterator[str]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield re.sub(r"label_values\((.*), *\w+\)", r"\1", variable["query"])


def metric_names(expr: str) -> set[str]:
    """Every word that is not a string, a matcher, a range, a label list, a function or a keyword."""
    for left_out in (r'"[^"]*"', r"\{[^}]*\}", r"\[[^\]]*\]", r"\b(by|without|on|ignoring|group_\w+)\s*\([^)]*\)"):
        expr = re.sub(left_out, " ", expr)
    return set(re.findall(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()", expr)) - PROMQL_WORDS


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashboards.build", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_the_committed_dashboard_is_current() -> None:
    done = build("--check")
    assert done.returncode == 0, done.stderr


# Version 2 of the dashboard's format needs a recent Grafana; every Grafana reads version 1.
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
def test_a_dashboard_that_is_not_current_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dashboards import build as dashboards_build

    stale = tmp_path / "board.json"
    monkeypatch.setattr(dashboards_build, "DASHBOARD_JSON", stale)
    assert dashboards_build.main(["--check"]) == 1
    assert f"{stale} is missing: run `python -m dashboards.build`" in capsys.readouterr().err
    stale.write_text("{}\n", encoding="utf-8")
    assert dashboards_build.main(["--check"]) == 1
    assert f"{stale} is not what dashboards/build.py writes" in capsys.readouterr().err
    assert stale.read_text(encoding="utf-8") == "{}\n", "--check writes nothing"
    assert dashboards_build.main([]) == 0
    assert stale.read_bytes() == DASHBOARD.read_bytes()


@pytest.mark.parametrize("expr", sorted(set(expressions())))
def test_an_expression_names_only_metrics_and_labels_that_exist(expr: str) -> None:
    names = metric_names(expr)
    assert names
    assert names <= set(METRICS)
    for name, matchers in re.findall(r"\b(\w+)\{([^}]*)\}", expr):
        assert set(re.findall(r"(\w+)\s*(?:=|!)", matchers)) <= set(METRICS[name].labels)


def test_metric_names_are_found_whoever_gave_them() -> None:
    expr = 'sum by (a) (rate(kafka_x_total{b="c"}[5m])) / on (a) group_left (d) up or vector(0)'
    assert metric_names(expr) == {"kafka_x_total", "up"}


def test_prometheus_can_read_every_expression(promtool: Callable[..., None], tmp_path: Path) -> None:
    ranged = [re.sub(r"\$__(rate_interval|range)\b", "5m", expr) for expr in expressions()]
    rules = [{"record": f"dashboard:expression:{number}", "expr": expr} for number, expr in enumerate(ranged)]
    path = tmp_path / "expressions.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", path)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for target in panel["targets"]:
        assert "$cluster" in target["expr"]
        assert target["legendFormat"]


def test_the_dashboard_is_portable() -> None:
    assert BOARD["uid"] == "rheostat-reassignments"
    assert BOARD["title"] == "rheostat / Reassignments"
    assert [variable["name"] for variable in BOARD["templating"]["list"]] == ["datasource", "cluster", "broker"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_panel_has_a_place_of_its_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
