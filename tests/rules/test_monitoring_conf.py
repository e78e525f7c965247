"""conf/prometheus, conf/alertmanager and conf/grafana: their own tools accept them, and they fit the rules and the settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rheostat.config.resources import conf_file
from rheostat.config.settings import load_settings
from tuner.api.connection_table import PHASE_S_MAX, Phase

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "conf" / "prometheus" / "prometheus.yaml"
ALERTMANAGER = ROOT / "conf" / "alertmanager" / "alertmanager.yaml"
GRAFANA = ROOT / "conf" / "grafana" / "provisioning"


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


CONF = load(ALERTMANAGER)
ALERTS = [
    rule
    for file in sorted((ROOT / "dashboards" / "rules").glob("*.yaml"))
    for group in load(file)["groups"]
    for rule in group["rules"]
    if "alert" in rule
]


# -- Prometheus ----------------------------------------------------------------------------------------------------------


def test_prometheus_accepts_its_file_and_finds_the_rules(promtool: Callable[..., None]) -> None:
    promtool("check", "config", PROMETHEUS)
    (pattern,) = load(PROMETHEUS)["rule_files"]
    found = {path.resolve() for path in PROMETHEUS.parent.glob(pattern)}
    assert found == set((ROOT / "dashboards" / "rules").glob("*.yaml"))


def test_prometheus_accepts_the_example_with_a_token(promtool: Callable[..., None], tmp_path: Path) -> None:
    text = PROMETHEUS.read_text(encoding="utf-8").replace("../../", f"{ROOT}/")
    file = tmp_path / "prometheus.yaml"
    file.write_text(re.sub(r"(?m)^    # (scheme|authorization|  credentials_file)", r"    \1", text), encoding="utf-8")
    jobs = load(file)["scrape_configs"]
    assert jobs[0]["scheme"] == "https"
    assert {job["authorization"]["credentials_file"] for job in jobs} == {"/etc/prometheus/rheostat-read-token"}
    promtool("check", "config", "--syntax-only", file)


def test_prometheus_scrapes_each_process_once_with_cluster_label() -> None:
    jobs = load(PROMETHEUS)["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    assert targets == {
        "rheostat-tuner": ["localhost:9464"],
        "rheostat-collector": ["localhost:9465"],
        "rheostat-stream": ["localhost:9466"],
        "rheostat-learn": ["localhost:9467"],
    }
    assert all(job["honor_labels"] for job in jobs)


def test_scrape_targets_match_the_shipped_settings() -> None:
    shipped = load_settings(conf_file("rheostat.yaml"), {})
    served = {
        "rheostat-tuner": shipped.tuner.http,
        "rheostat-collector": shipped.collector.http,
        "rheostat-stream": shipped.stream.http,
        "rheostat-learn": shipped.learn.http,
    }
    for job in load(PROMETHEUS)["scrape_configs"]:
        at = served.pop(job["job_name"])
        assert at.host == "127.0.0.1", "no token is asked for there, so that others must not reach it"
        assert job["static_configs"] == [{"targets": [f"localhost:{at.port}"]}]
        assert "metrics_path" not in job
    assert served == {}


# -- Alertmanager --------------------------------------------------------------------------------------------------------


def test_alertmanager_accepts_its_file(amtool: Callable[..., None]) -> None:
    amtool("check-config", ALERTMANAGER)


def test_alertmanager_accepts_the_slack_example(amtool: Callable[..., None], tmp_path: Path) -> None:
    text = ALERTMANAGER.read_text(encoding="utf-8")
    example = re.search(r"(?ms)^#   (slack_configs:.*?)\nreceivers:", text)
    assert example is not None
    lines = [line.removeprefix("#   ") for line in example[1].splitlines()]
    body = load(ALERTMANAGER)
    body["receivers"][1] |= yaml.safe_load("\n".join(lines))
    file = tmp_path / "alertmanager.yaml"
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    amtool("check-config", file)


@pytest.mark.parametrize(
    ("severity", "receiver"), [("critical", "page"), ("warning", "ticket"), ("info", "notice"), ("unheard", "ticket")]
)
def test_alert_route_follows_severity(amtool: Callable[..., None], severity: str, receiver: str) -> None:
    labels = (f"severity={severity}", "cluster=prod", "alertname=Any")
    amtool("config", "routes", "test", f"--config.file={ALERTMANAGER}", f"--verify.receivers={receiver}", *labels)


def test_every_severity_has_a_route_grouped_by_cluster() -> None:
    routed = {matcher.split('"')[1] for route in CONF["route"]["routes"] for matcher in route["matchers"]}
    assert routed == {rule["labels"]["severity"] for rule in ALERTS}
    assert CONF["route"]["group_by"] == ["cluster"]
    assert not any("group_by" in route for route in CONF["route"]["routes"])


def inhibited() -> set[tuple[str, str]]:
    """Returns (firing alert, inhibited alert) by name."""
    found = set()
    for rule in CONF["inhibit_rules"]:
        (source,), (target,) = rule["source_matchers"], rule["target_matchers"]
        sources = [a for a in ALERTS if _matches(source, a)]
        targets = [a for a in ALERTS if _matches(target, a)]
        assert sources, f"nothing is called {source}"
        assert targets, f"nothing is called {target}"
        for label in rule["equal"]:
            # A label that one of the two never has would be equal to none, and silence other brokers' alerts.
            assert all(label in alert["expr"] for alert in sources), label
            assert label == "cluster" or all(label in alert["expr"] for alert in targets), label
        found |= {(a["alert"], b["alert"]) for a in sources for b in targets}
    return found


def _matches(matcher: str, rule: dict[str, Any]) -> bool:
    parts = re.fullmatch(r'(\w+) =(~?) "([^"]*)"', matcher)
    assert parts is not None, matcher
    value = {"alertname": rule["alert"], **rule["labels"]}.get(parts[1], "")
    return re.fullmatch(parts[3] if parts[2] else re.escape(parts[3]), value) is not None


def test_stale_pipeline_silences_only_signal_alerts() -> None:
    silent = {target for source, target in inhibited() if source == "PipelineLagging"}
    assert silent == {a["alert"] for a in ALERTS if a["labels"].get("depends_on") == "signals"}
    assert {"ReassignmentStalled", "SignalsStale", "ClientLatencyOverObjective", "ControllerUnderPressure"} <= silent
    assert not silent & {"ThrottleLeftBehind", "TunerNotLeading", "RejectsRising", "ConfigReloadFailed"}


def test_broker_without_signals_silences_no_alert() -> None:
    assert not any(source == "SignalsStale" for source, _ in inhibited())


def test_missing_tuner_silences_its_dependent_alerts() -> None:
    silent = {target for source, target in inhibited() if source == "TunerNotLeading"}
    apart = {"VetoUnanswered", "WebhookDropping"}
    learned = {"LastingChangeFound", "UnusualValueFound", "ProfilesStale"}
    heard = {"TunerNotLeading", "RejectsRising", "ConfigReloadFailed", "ThreadEnded"} | learned | apart
    assert {a["alert"] for a in ALERTS} - silent == heard


def test_no_alert_silences_itself_or_its_silencer() -> None:
    pairs = inhibited()
    assert not {(a, b) for a, b in pairs if (b, a) in pairs}


def test_idle_timeout_exceeds_the_scrape_interval() -> None:
    assert load(PROMETHEUS)["global"]["scrape_interval"] == "15s"
    assert PHASE_S_MAX[Phase.IDLE] > 15


# -- Grafana -------------------------------------------------------------------------------------------------------------


def test_grafana_provisions_prometheus_and_the_dashboard_folder() -> None:
    data = load(GRAFANA / "datasources" / "prometheus.yaml")
    (source,) = data["datasources"]
    assert (data["apiVersion"], source["type"], source["isDefault"]) == (1, "prometheus", True)
    assert source["jsonData"]["timeInterval"] == load(PROMETHEUS)["global"]["scrape_interval"]
    boards = load(GRAFANA / "dashboards" / "rheostat.yaml")
    (provider,) = boards["providers"]
    assert (boards["apiVersion"], provider["type"]) == (1, "file")
    assert provider["options"]["path"].startswith("/")


# Grafana's own names for them, letter for letter: it passes over a key that it does not know without a word.
DATA_SOURCE = {
    "orgId", "orgName", "version", "name", "type", "access", "url", "user", "database", "basicAuth", "basicAuthUser",
    "withCredentials", "isDefault", "correlations", "jsonData", "secureJsonData", "editable", "uid",
}  # fmt: skip
PROVIDER = {
    "name", "type", "orgId", "folder", "folderUid", "editable", "options", "disableDeletion", "updateIntervalSeconds",
    "allowUiUpdates",
}  # fmt: skip


def test_grafana_files_have_only_known_keys() -> None:
    data, boards = load(GRAFANA / "datasources" / "prometheus.yaml"), load(GRAFANA / "dashboards" / "rheostat.yaml")
    assert data.keys() <= {"apiVersion", "datasources", "deleteDatasources", "prune"}
    assert boards.keys() == {"apiVersion", "providers"}
    (source,), (provider,) = data["datasources"], boards["providers"]
    assert source.keys() <= DATA_SOURCE
    assert source["access"] == "proxy", "else the browser asks, which needs a way to Prometheus of its own"
    assert source["jsonData"].keys() <= {"timeInterval", "httpMethod", "prometheusType", "prometheusVersion"}
    assert provider.keys() <= PROVIDER
    assert provider["options"].keys() <= {"path", "foldersFromFilesStructure"}
    for file in GRAFANA.rglob("*.yaml"):
        values = yaml.safe_dump(load(file))
        assert "$" not in values, f"{file}: Grafana puts variables of the environment in place of it"
