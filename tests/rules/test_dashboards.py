"""The dashboards: the committed JSON equals the output of build.py, Prometheus accepts each query, each metric exists."""

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

from dashboards.runbook_page import PAGE_AT, RUNBOOK_AT, anchor
from streaming.shared.metric_defs import ALL
from tuner.api.page_shells import VIEWS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dashboards"
BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
PANELS = [
    pytest.param(panel, id=f"{uid.removeprefix('rheostat-')}: {panel['title']}")
    for uid, board in BOARDS.items()
    for panel in board["panels"]
    if panel["type"] != "row"
]
METRICS = {metric.name: metric for metric in ALL}
ALERTS = {
    rule["alert"]
    for path in (FOLDER / "rules").glob("*.yaml")
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
IN_NO_PANEL = {"rheostat_build_info", "rheostat_released"}  # Versions are no line, and who has released has paused.
PROMQL_WORDS = {"and", "or", "unless", "bool", "offset"}


def expressions() -> Iterator[str]:
    for board in BOARDS.values():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield target["expr"]
        for annotation in board["annotations"]["list"]:
            yield annotation["expr"]
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield re.sub(r"label_values\((.*), *\w+\)", r"\1", variable["query"])


def metric_names(expr: str) -> set[str]:
    """Every word that is not a string, a matcher, a range, a label list, a function or a keyword."""
    ranges = r"offset\s+\S+?(?=\)|\s|$)"
    lists = r"\b(by|without|on|ignoring|group_\w+)\s*\([^)]*\)"
    for left_out in (r'"[^"]*"', r"\{[^}]*\}", r"\[[^\]]*\]", ranges, lists):
        expr = re.sub(left_out, " ", expr)
    return set(re.findall(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()", expr)) - PROMQL_WORDS


def of_family(name: str) -> str:
    return name if name in METRICS else re.sub(r"_(bucket|sum|count)$", "", name)


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashboards.build", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_committed_dashboards_are_current() -> None:
    done = build("--check")
    assert done.returncode == 0, done.stderr


# Version 2 of the dashboard's format needs a recent Grafana; every Grafana reads version 1.
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
def test_check_names_outdated_and_unknown_dashboards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dashboards import build as dashboards_build

    assert dashboards_build.main(["--check"], tmp_path) == 1
    said = capsys.readouterr().err
    for uid in BOARDS:
        assert f"{tmp_path / uid}.json is missing: run `python -m dashboards.build`" in said
    assert dashboards_build.main([], tmp_path) == 0
    assert dashboards_build.main(["--check"], tmp_path) == 0
    stale, stranger = tmp_path / "rheostat-overview.json", tmp_path / "mine.json"
    stale.write_text("{}\n", encoding="utf-8")
    stranger.write_text("{}\n", encoding="utf-8")
    capsys.readouterr()
    assert dashboards_build.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{stale} is not what dashboards/build.py writes: run `python -m dashboards.build` and commit the result",
        f"{stranger} is no dashboard of dashboards/build.py: run `python -m dashboards.build` and commit the result",
    ]
    assert stale.read_text(encoding="utf-8") == "{}\n", "--check writes nothing"
    assert dashboards_build.main([], tmp_path) == 0
    for uid in BOARDS:
        assert (tmp_path / f"{uid}.json").read_bytes() == (FOLDER / f"{uid}.json").read_bytes()


@pytest.mark.parametrize("expr", sorted(set(expressions())))
def test_expression_uses_only_existing_metrics_and_labels(expr: str) -> None:
    names = metric_names(expr)
    assert names
    assert {of_family(name) for name in names} <= set(METRICS)
    for name, matchers in re.findall(r"\b(\w+)\{([^}]*)\}", expr):
        assert set(re.findall(r"(\w+)\s*(?:=|!)", matchers)) <= set(METRICS[of_family(name)].labels)


def test_metric_names_are_found_in_every_expression() -> None:
    expr = 'sum by (a) (rate(kafka_x_total{b="c"}[5m])) / on (a) group_left (d) up or vector(0) unless y offset 5m'
    assert metric_names(expr) == {"kafka_x_total", "up", "y"}


def test_every_metric_is_in_a_panel() -> None:
    shown = {of_family(name) for expr in expressions() for name in metric_names(expr)}
    assert set(METRICS) - shown == IN_NO_PANEL


def test_prometheus_accepts_every_expression(promtool: Callable[..., None], tmp_path: Path) -> None:
    ranged = [re.sub(r"\$__(rate_interval|range)\b", "5m", expr) for expr in expressions()]
    rules = [{"record": f"dashboard:expression:{number}", "expr": expr} for number, expr in enumerate(ranged)]
    path = tmp_path / "expressions.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", path)


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_has_description_and_unit(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    for target in panel["targets"]:
        assert "$cluster" in target["expr"]
        assert target["legendFormat"]
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("panel", PANELS)
def test_panel_links_match_the_alerts_it_names(panel: dict[str, Any]) -> None:
    """The link must use the anchor of the alert's heading in the runbook."""
    named = re.findall(r" Alert: (\w+)\.$", panel["description"])
    assert [link["url"] for link in panel.get("links") or ()] == [f"${{runbook}}#{anchor(alert)}" for alert in named]
    assert set(named) <= ALERTS


def test_every_alert_has_a_panel_linking_to_it() -> None:
    panels = [value for param in PANELS for value in param.values]
    assert {name for panel in panels for name in re.findall(r" Alert: (\w+)\.$", panel["description"])} == ALERTS


@pytest.mark.parametrize("uid", BOARDS)
def test_runbook_variable_is_the_served_address(uid: str) -> None:
    (runbook,) = [v for v in BOARDS[uid]["templating"]["list"] if v["name"] == "runbook"]
    assert runbook["query"] == RUNBOOK_AT


@pytest.mark.parametrize("uid", BOARDS)
def test_dashboard_links_back_to_a_view_of_the_page(uid: str) -> None:
    (address,) = [v["query"] for v in BOARDS[uid]["templating"]["list"] if v["name"] == "page"]
    assert address == PAGE_AT
    assert BOARDS[uid]["links"][1]["url"].removeprefix("${page}").partition("#")[0] in {view.address for view in VIEWS}


def test_boards_of_the_views_exist() -> None:
    assert {view.board for view in VIEWS} <= BOARDS.keys()


@pytest.mark.parametrize("panel", PANELS)
def test_panel_of_brokers_links_each_line_to_its_broker(panel: dict[str, Any]) -> None:
    by_broker = any("{{broker}}" in target["legendFormat"] for target in panel["targets"])
    links = [link["url"] for link in panel["fieldConfig"]["defaults"].get("links", ())]
    assert links == (["${page}/brokers?find=${__field.labels.broker}"] if by_broker else [])


# The values of these panels have no limit.
NO_LIMIT = {
    "Partitions moving", "Partitions of plans, by state", "Plans that do not proceed",
    "Orphaned throttle settings and moving partitions", "Lagging brokers, by likely cause", "Growing lag, by follower", "Lasting changes", "Unusual values", "Requests to other services", "Settings reloads", "Age of the last valid settings file",
}  # fmt: skip
ONLY_TOLD = {"Partitions moving", "Expected end", "Left to copy", "Total rate", "Managed quotas", "Mutation rate"}


@pytest.mark.parametrize("panel", PANELS)
def test_panel_marks_the_threshold_of_its_alert(panel: dict[str, Any]) -> None:
    """A stat panel changes its colour; a time series has a dashed line at the alert's threshold."""
    defaults = panel["fieldConfig"]["defaults"]
    steps = [(step["value"], step["color"]) for step in defaults.get("thresholds", {}).get("steps", ())]
    if panel["type"] == "stat":
        colours = [colour for _, colour in steps]
        assert steps[0][0] is None
        assert [value for value, _ in steps[1:]] == sorted(value for value, _ in steps[1:])
        if panel["title"] in ONLY_TOLD:
            assert colours == ["blue"]
        else:
            assert "green" in colours
            assert {"yellow", "red"} & set(colours)
    elif panel.get("links") and panel["title"] not in NO_LIMIT:
        drawn = defaults["custom"].get("thresholdsStyle") == {"mode": "dashed"} and steps[1:]
        dashed = [
            o
            for o in panel["fieldConfig"]["overrides"]
            if {"fill": "dash", "dash": [8, 6]} in [p["value"] for p in o["properties"]]
        ]
        limits = {o["matcher"]["options"] for o in dashed} & {target["legendFormat"] for target in panel["targets"]}
        assert drawn or limits


@pytest.mark.parametrize("uid", BOARDS)
def test_dashboard_is_portable(uid: str) -> None:
    board = BOARDS[uid]
    assert board["uid"] == uid
    assert board["title"].startswith("rheostat / ")
    assert [v["name"] for v in board["templating"]["list"]] == ["datasource", "cluster", "broker", "page", "runbook"]
    assert board.get("id") is None
    assert [link["tags"] for link in board["links"]] == [["rheostat"], []]
    assert "rheostat" in board["tags"]
    assert {annotation["name"] for annotation in board["annotations"]["list"]} == {"Decisions", "Paused by an operator"}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
@pytest.mark.parametrize("uid", BOARDS)
def test_every_dashboard_key_is_in_grafanas_schema(uid: str) -> None:
    """Reading and writing through Grafana's schema drops unknown keys, so the result must equal the input."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    assert json.loads(JSONEncoder().encode(Dashboard.from_json(BOARDS[uid]))) == BOARDS[uid]


def test_dashboards_can_be_provisioned_into_one_folder() -> None:
    """Grafana assigns ids and skips a dashboard with an invalid uid or a title that exists in the folder."""
    assert all("id" not in board for board in BOARDS.values())
    assert len({board["title"] for board in BOARDS.values()}) == len(BOARDS)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", uid) for uid in BOARDS)


def test_dashboard_uids_are_unchanged() -> None:
    assert set(BOARDS) == {
        "rheostat-overview",
        "rheostat-reassignments",
        "rheostat-controller",
        "rheostat-fetchers",
        "rheostat-replication",
        "rheostat-itself",
        "rheostat-week",
    }


@pytest.mark.parametrize("uid", BOARDS)
def test_panels_do_not_overlap(uid: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[uid]["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
