"""The alert rules: Prometheus accepts them, they fire and keep silent as their tests say, the runbook explains them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.api import metric_defs

ROOT = Path(__file__).parents[2]
RULES = ROOT / "dashboards" / "rules" / "alerts.yaml"
RUNBOOK = ROOT / "dashboards" / "runbook.md"
THROTTLE_COMMANDS = ("rheostat status", "rheostat doctor", "kafka-configs", "kafka-reassign-partitions", "--verify")
QUOTA_COMMANDS = ("rheostat quotas", "rheostat doctor", "kafka-configs")
ABOUT_QUOTAS = {"ControllerUnderPressure", "TenantQuotaExhausted"}
RULE_TESTS = sorted(Path(__file__).parent.glob("*.yaml"))


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def section(alert: str) -> str:
    """The runbook's section under the heading that is the alert's name."""
    found = re.search(rf"^## {alert}$(.*?)(?=^## |\Z)", RUNBOOK.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None, f"{RUNBOOK} has no section '## {alert}'"
    return found[1]


def test_prometheus_accepts_the_rules(promtool: Callable[..., None]) -> None:
    promtool("check", "rules", RULES)


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_not_otherwise(promtool: Callable[..., None], path: Path) -> None:
    promtool("test", "rules", path)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_is_tested_firing_and_silent(rule: dict[str, Any]) -> None:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULE_TESTS]
    expected = [
        bool(case.get("exp_alerts"))
        for file in files
        for scenario in file["tests"]
        for case in scenario["alert_rule_test"]
        if case["alertname"] == rule["alert"]
    ]
    assert set(expected) == {True, False}


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_follows_the_conventions(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+)+", rule["alert"])
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert "{{" not in rule["annotations"]["summary"], "a summary is one fixed sentence"
    assert "{{" in rule["annotations"]["description"]
    assert "for" in rule


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_has_its_section_in_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["annotations"]["runbook_url"] == f"dashboards/runbook.md#{rule['alert'].lower()}"
    text = section(rule["alert"])
    for question in ("What it means.", "What rheostat already did.", "What to look at.", "What to do."):
        assert f"**{question}**" in text
    for command in QUOTA_COMMANDS if rule["alert"] in ABOUT_QUOTAS else THROTTLE_COMMANDS:
        assert command in text


def test_the_runbook_explains_no_alert_that_is_gone() -> None:
    headings = re.findall(r"^## (.*)$", RUNBOOK.read_text(encoding="utf-8"), re.M)
    assert headings == [rule["alert"] for rule in alerts()]


@pytest.mark.parametrize("path", [RULES, *RULE_TESTS], ids=lambda path: path.stem)
def test_rules_and_their_tests_speak_of_metrics_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"\brheostat_\w+", text))
    assert named
    assert named <= {metric.name for metric in metric_defs.ALL}
    for name, matchers in re.findall(r"\b(rheostat_\w+)\{([^}]*)\}", text):
        labels = set(re.findall(r"(\w+)=", matchers)) - {"instance"}  # Prometheus adds it to every series.
        metric = next(metric for metric in metric_defs.ALL if metric.name == name)
        assert labels <= set(metric.labels), f"{name} has no such labels"
