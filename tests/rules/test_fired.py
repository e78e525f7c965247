"""Each alert has a test that makes it fire on real brokers, rheostat's processes, Prometheus and Alertmanager."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STALLED = "integration/test_alerts_live.py::test_stalled_move_fires_alert_until_its_rescue"
PLAN = "integration/test_alerts_live.py::test_plan_waiting_for_broker_fires_alert_until_its_return"
LOAD = "integration/test_alerts_live_load.py"
NO_ROOM = f"{LOAD}::test_clients_without_headroom_fire_latency_alert"
SLOW = f"{LOAD}::test_slow_destination_and_missing_write_right_fire_alerts"
RIGHTS = "integration/test_alerts_live_rights.py::test_tuner_without_rights_on_plan_topics_fires_alert"
STORM = f"{LOAD}::test_storm_beyond_control_fires_controller_alert"
UNQUOTED = f"{LOAD}::test_storm_without_quota_fires_storm_alert"
CORDONS = "integration/test_alerts_live_external.py::test_cordoned_directories_and_targets_fire_alerts"
CHANGES = "integration/test_alerts_live_changes.py::test_changes_in_the_history_fire_notices"

FIRED = {
    "ReassignmentStalled": STALLED,
    "ReassignmentStalledUrgent": STALLED,
    "ReassignmentPlanStuck": PLAN,
    "PlanTargetCordoned": CORDONS,
    "LogDirsCordoned": CORDONS,
    "ReassignmentPlansNotExecuted": RIGHTS,
    "ThrottleSaturatedBySourceOrDisk": SLOW,
    "ThrottleInfeasible": STALLED,
    "ThrottleWithoutHeadroom": NO_ROOM,
    "ClientLatencyOverObjective": NO_ROOM,
    "UnderMinIsrDuringMove": STALLED,
    "RecoveryDuringMove": STALLED,
    "ThrottleLeftBehind": STALLED,
    "ControllerUnderPressure": STORM,
    "TenantQuotaExhausted": STORM,
    "StormOnController": UNQUOTED,
    "PartitionLimitNear": STALLED,
    "FetcherCollision": STALLED,
    "FetcherBottleneck": "integration/test_story_hot_topic.py::test_hot_topic_lags_until_its_fetcher_threads_are_parted",
    "ReplicationLagGrowing": "integration/test_alerts_live_lag.py::test_throttle_left_on_a_topic_fires_lag_alert",
    "LastingChangeFound": CHANGES,
    "UnusualValueFound": CHANGES,
    "SignalsStale": STALLED,
    "PipelineLagging": STALLED,
    "RejectsRising": STALLED,
    "TunerNotLeading": STALLED,
    "TunerActuationFailing": SLOW,
    "ConfigReloadFailed": STALLED,
    "ThreadEnded": "integration/test_alerts_live_threads.py::test_thread_that_ends_by_an_error_fires_alert",
    "ProfilesStale": "integration/test_alerts_live_changes.py::test_history_that_ended_hours_ago_fires_notice",
    "VetoUnanswered": "integration/test_alerts_live_external.py::test_silent_check_and_receiver_fire_alerts",
    "WebhookDropping": "integration/test_alerts_live_external.py::test_silent_check_and_receiver_fire_alerts",
    "OperatorOverrideInForce": STALLED,
}


def test_table_lists_exactly_the_existing_alerts() -> None:
    files = sorted((ROOT / "dashboards" / "rules").glob("*.yaml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    assert {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule} == FIRED.keys()


@pytest.mark.parametrize(("alert", "where"), FIRED.items())
def test_listed_test_exists_and_waits_for_its_alert(alert: str, where: str) -> None:
    file, _, name = where.partition("::")
    assert asked_of(ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")), name, alert)


def asked_of(module: ast.Module, name: str, alert: str) -> bool:
    """Returns whether the function, or one that it calls in its file, fails without a notification of the alert."""
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    assert name in functions, f"there is no test {name}"
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        if (one := waiting.pop()) in seen:
            continue
        seen.add(one)
        if any(_fires(statement, alert, demanded=False) for statement in functions[one].body):
            return True
        called = (node.func for node in ast.walk(functions[one]) if isinstance(node, ast.Call))
        waiting += [func.id for func in called if isinstance(func, ast.Name) and func.id in functions]
    return False


def _fires(node: ast.AST, alert: str, *, demanded: bool) -> bool:
    """Args:
    demanded: the test fails where the expression is false: in an assertion or a wait.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return False  # That it does not fire.
    if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Gt | ast.IsNot | ast.In):
        return False
    if isinstance(node, ast.Call):
        asks = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        said = [part.value for part in node.args if isinstance(part, ast.Constant)]
        if asks == "hears":  # It waits by itself.
            return alert in said
        if asks in {"heard", "firing", "times"}:
            return demanded and said[:1] == [alert] and "resolved" not in said
        demanded = demanded or asks == "until"
    demanded = demanded or isinstance(node, ast.Assert)
    return any(_fires(child, alert, demanded=demanded) for child in ast.iter_child_nodes(node))


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ('scene.hears("page", "Sick", 60)', True),
        ('assert "x" in scene.hears("page", "Sick", 60, broker="3")', True),
        ('until(lambda: ear.heard("Sick"), 60, "told")', True),
        ('until(lambda: ear.times("Sick") > told, 60, "told again")', True),
        ('assert ear.heard("Sick") is not None', True),
        ("helper(scene)", True),
        ('"Sick"', False),
        ('scene.hears("page", "Other", 60)', False),
        ('ear.heard("Sick")', False),  # Nobody waits for what it says.
        ('print("Sick")', False),
        ('until(lambda: not monitoring.firing("Sick"), 60, "over")', False),
        ('assert ear.heard("Sick") is None', False),
        ('assert ear.times("Sick") == told', False),
        ('until(lambda: ear.heard("Sick", "resolved"), 60, "over")', False),
        ('scene.hears_the_end_of("Sick", 60)', False),
        ("other(scene)", False),
    ],
)
def test_only_a_wait_for_an_alert_counts(body: str, asked: bool) -> None:
    text = f'def test_it(scene):\n    {body}\n\ndef helper(scene):\n    scene.hears("page", "Sick", 1)\n\ndef other(scene):\n    pass\n'
    assert asked_of(ast.parse(text), "test_it", "Sick") is asked
