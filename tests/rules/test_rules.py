"""The alert rules: Prometheus accepts them, their tests pass, and the runbook explains each alert."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.runbook_page import RUNBOOK_AT, anchor
from streaming.shared.metric_defs import ALL as METRICS

ROOT = Path(__file__).parents[2]
RULES = ROOT / "dashboards" / "rules"
FILES = [RULES / f"{name}.yaml" for name in ("moves", "cluster", "rheostat")]  # In the runbook's order.
RUNBOOK = ROOT / "docs" / "reference" / "runbook.md"
DOCS = ROOT / "docs" / "reference" / "alerts.md"
THROTTLE_COMMANDS = ("rheostat status", "rheostat doctor", "kafka-configs", "kafka-reassign-partitions", "--verify")
QUOTA_COMMANDS = ("rheostat quotas", "rheostat doctor", "kafka-configs")
# What a person needs who has been called for something else.
OTHER_COMMANDS = {
    "ThrottleLeftBehind": ("rheostat throttles", "kafka-configs"),
    "ReassignmentStalledUrgent": ("rheostat status", "rheostat reassign status", "kafka-reassign-partitions"),
    "ReassignmentPlanStuck": ("rheostat reassign status", "rheostat reassign cancel", "kafka-reassign-partitions"),
    "PlanTargetCordoned": ("rheostat reassign status", "rheostat reassign cancel", "kafka-configs"),
    "LogDirsCordoned": ("rheostat status", "rheostat release", "kafka-configs"),
    "ReassignmentPlansNotExecuted": (
        "rheostat reassign status",
        "rheostat doctor",
        "/readyz",
        "kafka-reassign-partitions",
    ),
    "ControllerUnderPressure": QUOTA_COMMANDS,
    "StormOnController": ("rheostat quotas measure", "kafka-configs"),
    "TenantQuotaExhausted": QUOTA_COMMANDS,
    "PartitionLimitNear": ("rheostat limits", "rheostat plan generate", "rheostat doctor", "kafka-configs"),
    "FetcherCollision": ("rheostat fetchers", "kafka-configs"),
    "FetcherBottleneck": ("rheostat fetchers --watch", "rheostat fetchers --apply"),
    "ReplicationLagGrowing": ("rheostat fetchers --watch", "rheostat throttles", "rheostat signals"),
    "LastingChangeFound": ("rheostat history", "rheostat status"),
    "UnusualValueFound": ("rheostat history", "rheostat status"),
    "PipelineLagging": ("rheostat signals", "rheostat status", "rheostat doctor", "rheostat override"),
    "RejectsRising": ("rheostat signals", "rheostat doctor", "kafka-console-consumer"),
    "TunerNotLeading": ("rheostat status", "rheostat doctor", "rheostat run", "rheostat release", "/readyz"),
    "TunerActuationFailing": ("rheostat status", "rheostat doctor", "kafka-configs", "rheostat pause"),
    "ConfigReloadFailed": ("rheostat config check", "rheostat config show"),
    "ThreadEnded": ("rheostat run", "rheostat status", "/readyz"),
    "ProfilesStale": ("rheostat history", "rheostat run", "rheostat doctor"),
    "VetoUnanswered": ("rheostat pause", "curl"),
    "WebhookDropping": ("rheostat config show", "rheostat status"),
    "OperatorOverrideInForce": ("rheostat status", "rheostat resume", "rheostat override", "kafka-configs"),
}
# A verdict that stands on its own: it is told by the part it is about, or by what Prometheus remembers.
RESTS_ON_NOTHING = {
    "RejectsRising",
    "TunerNotLeading",
    "ConfigReloadFailed",
    "ThreadEnded",
    "LastingChangeFound",
    "UnusualValueFound",
    "ProfilesStale",
    "VetoUnanswered",
    "WebhookDropping",
}
RULE_TESTS = sorted(Path(__file__).parent.glob("*.yaml"))
BY_NAME = {metric.name: metric for metric in METRICS}


def rules(kind: str) -> list[dict[str, Any]]:
    groups = [group for file in FILES for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


ALERTS, RECORDS = rules("alert"), rules("record")


def section(alert: str) -> str:
    """Returns the runbook's section of an alert."""
    found = re.search(rf"^## {alert}$(.*?)(?=^## |\Z)", RUNBOOK.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None, f"{RUNBOOK} has no section '## {alert}'"
    return found[1]


def test_every_rules_file_is_tested() -> None:
    assert sorted(FILES) == sorted(RULES.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prometheus_accepts_the_rules(promtool: Callable[..., None], path: Path) -> None:
    promtool("check", "rules", path)


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_rule_tests_pass_in_promtool(promtool: Callable[..., None], path: Path) -> None:
    promtool("test", "rules", path)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_is_tested_firing_and_silent(rule: dict[str, Any]) -> None:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULE_TESTS]
    expected = [
        bool(case.get("exp_alerts"))
        for file in files
        for scenario in file["tests"]
        for case in scenario["alert_rule_test"]
        if case["alertname"] == rule["alert"]
    ]
    assert set(expected) == {True, False}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alert_follows_the_conventions(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+)+", rule["alert"])
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert "{{" not in rule["annotations"]["summary"], "a summary is one fixed sentence"
    assert "{{" in rule["annotations"]["description"]
    assert "for" in rule


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_declares_depends_on(rule: dict[str, Any]) -> None:
    assert set(rule["labels"]) <= {"severity", "depends_on", "dry_run"}
    if rule["alert"] in RESTS_ON_NOTHING:
        assert "depends_on" not in rule["labels"]
    else:
        assert rule["labels"]["depends_on"] in {"signals", "tuner"}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alert_depending_on_the_tuner_mentions_dry_run(rule: dict[str, Any]) -> None:
    tells = rule["alert"] not in RESTS_ON_NOTHING
    assert ("rheostat_tuner_dry_run" in rule["labels"].get("dry_run", "")) is tells
    assert (
        "All tuners of the cluster are now in a dry run: they only record what they would do."
        in rule["annotations"]["description"]
    ) is tells


def test_alert_table_in_docs_matches_the_rules() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(\S+\) \| (\w+) \| (\d+[ms]) \|", DOCS.read_text(encoding="utf-8"), re.M)
    assert rows == [(rule["alert"], rule["labels"]["severity"], rule["for"]) for rule in ALERTS]


def test_alert_names_are_unique() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("rule", RECORDS, ids=lambda rule: rule["record"])
def test_recording_rules_follow_naming_and_are_used(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"(cluster|cluster_broker):rheostat_[a-z0-9_]+:[a-z0-9_]+", rule["record"])
    level = rule["record"].split(":")[0].replace("_", ", ")
    assert f"by ({level})" in rule["expr"], "it is aggregated to the level that its name says"
    assert any(rule["record"] in alert["expr"] for alert in ALERTS)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_runbook_section(rule: dict[str, Any]) -> None:
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOK_AT}#{anchor(rule['alert'])}"
    text = section(rule["alert"])
    for question in ("What it means.", "What rheostat does.", "What to look at.", "What to do."):
        assert f"**{question}**" in text
    for command in OTHER_COMMANDS.get(rule["alert"], THROTTLE_COMMANDS):
        assert command in text


def test_runbook_has_no_section_without_an_alert() -> None:
    headings = re.findall(r"^## (.*)$", RUNBOOK.read_text(encoding="utf-8"), re.M)
    assert headings == [rule["alert"] for rule in ALERTS]


def test_links_in_the_runbook_resolve() -> None:
    text = RUNBOOK.read_text(encoding="utf-8")
    anchors = {heading.lower() for heading in re.findall(r"^## (.*)$", text, re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    for path in re.findall(r"\]\(([^)#]+)", text):
        assert (RUNBOOK.parent / path).exists(), path


@pytest.mark.parametrize("path", [*FILES, *RULE_TESTS, RUNBOOK], ids=lambda path: path.stem)
def test_rules_and_runbook_use_existing_metrics(path: Path) -> None:
    recorded = {rule["record"] for rule in RECORDS}
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"\b\w+:rheostat_\w+:\w+", text)) <= recorded
    text = re.sub(r"\b\w+:rheostat_\w+:\w+", "", text)
    named = set(re.findall(r"\brheostat_\w+", text))
    assert named
    assert named <= BY_NAME.keys()
    for name, matchers in re.findall(r"\b(rheostat_\w+)\{([^}]*)\}", text):
        labels = set(re.findall(r"(\w+)=", matchers)) - {"instance"}  # Prometheus adds it to every series.
        assert labels <= set(BY_NAME[name].labels), f"{name} has no such labels"
