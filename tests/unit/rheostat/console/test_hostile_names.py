"""Names with control characters or markup, in every module that prints: they arrive as plain text."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from metrics_rig import replication_signal
from rich.console import Console
from tuner_cases import NOW_MS, TARGET, broker_signal, move_signal

import rheostat
from rheostat.config.schedule import show_preview
from rheostat.console import logs
from rheostat.console.escape import printable, printable_name
from rheostat.console.output import out, tell
from rheostat.console.rich_console import Terminal, console_for
from rheostat.demo.view import DemoView as DemoView
from rheostat.doctor import view as doctor_view
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.fetchers import live_view
from rheostat.fetchers import view as fetchers_view
from rheostat.fetchers.live_threads import LogSizes, analyse_threads
from rheostat.fetchers.report import analyse_fetchers
from rheostat.history import view as history_view
from rheostat.history.report import build_report as build_history
from rheostat.journal import command as journal_command
from rheostat.journal.scan import JournalScan
from rheostat.limits import view as limits_view
from rheostat.limits.report import build_report as limits_report
from rheostat.plan.estimate import view as plan_view
from rheostat.plan.estimate.report import EstimateOptions, estimate_plan
from rheostat.plan.estimate.sources import EstimateFigures
from rheostat.quotas import live as quotas_live
from rheostat.quotas.calibrate import view as calibrate_view
from rheostat.quotas.calibrate.report import CalibrationReport
from rheostat.quotas.measure import view as measure_view
from rheostat.quotas.measure.tenant_rates import measure_tenants
from rheostat.quotas.what_if import ChosenTotal, what_if_json
from rheostat.reassign.progress import PlanProgress, measure_progress
from rheostat.reassign.text import describe_plan
from rheostat.reassign.view import PlanView as ReassignView
from rheostat.reassign.view import render_progress
from rheostat.replay import command as replay
from rheostat.signals.tables import SHEETS, tables
from rheostat.status import text as status_text
from rheostat.status.active_tuner import tuner_json
from rheostat.status.screen import RateHistory, render_screen
from rheostat.throttles import view as throttles_view
from rheostat.throttles.report import ThrottleHistory, throttle_rows
from streaming.shared.contract import (
    BrokerHistory,
    HistoryPeriod,
    LaggingPartition,
    MovingPartition,
    Side,
    Signal,
    TenantSignal,
)
from streaming.shared.kafka.values import PartitionState
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.control.throttle.audit import ThrottleSettings
from tuner.control.throttle.state import Memory
from tuner.core.controller import ControllerObjective
from tuner.core.fetcher_load import FetchedPartition
from tuner.core.operator_orders import Orders
from tuner.core.partition_limits import PartitionCounts, PartitionLimits
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import (
    CurrentAssignment,
    Plan,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanState,
    ReassignmentSnapshot,
)
from tuner.core.side_load import PlannedPartition
from tuner.journal.unreadable import UnreadableRecord
from tuner.planning.calibration_proposal import estimate_rates, propose_quota
from tuner.planning.calibration_steps import MutationKind, StepResult
from tuner.planning.kip73 import kip73_figures

HOSTILE = {
    "clears the screen": "a\x1b[2J\x1b[1;1Hb",
    "sets the title": "\x1b]0;owned\x07",
    "links": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "C1 sequence": "\x9b31mred",
    "turns the direction": "a\u202eb\u2066c\u200fd",
    "breaks the line": "a\nb\r\nc\x0bd\x85e\u2028f\u2029g",
    "closes markup": "[/x]",
    "opens markup": "[link=http://evil.example]x[/link][bold red]y",
    "emoji code": ":skull:",
    "lone surrogate": "a\ud800b",
    "long": "x" * 10_000,
    "backspaces": "ok\b\b\x7f\x00",
    "empty": "",
}
Renderer = Callable[[str, Console], None]


def signals(hostile: str, console: Console) -> None:
    broker, move = broker_signal(1, leader=1e6), move_signal(*TARGET, remaining=1e9)
    of_tenant = (hostile, 100, NOW_MS, NOW_MS, 6, 1.0)
    every: list[Signal] = [
        TenantSignal(*of_tenant, user=hostile, client_id=hostile, mutation_rate_per_s=0.25),
        replace(move, cluster=hostile, largest=(MovingPartition(hostile, 0, 1e6),)),
        replace(broker, cluster=hostile, throttled_by=hostile),
        replace(replication_signal(3, NOW_MS, hostile), worst=(LaggingPartition(hostile, 0, 5.0),)),
    ]
    for kind, signal in zip(("tenant", "move", "broker", "replication"), every, strict=True):
        for made in tables(SHEETS[kind], [signal], NOW_MS, 15, console, wide=True, has_cluster_column=True):
            console.print(made)


def status_of(hostile: str) -> dict[str, Any]:
    entry = {"at_ms": NOW_MS, "kind": hostile, "text": hostile, "outcome": "failed", "failure": hostile}
    sides = ("current_rate_bytes_per_s", "throttled_bytes_per_s", "min_rate_bytes_per_s")
    broker = {"broker": 1, "produce_p99_ms": 1.0, "latency_limit": None} | {
        f"{side}_{key}": 1e6 for side in Side for key in sides
    }
    onto = {
        "broker": 2, "done_ratio": 0.5, "remaining_bytes": 1e6, "remaining_slope_bytes_per_s": -1.0, "eta_s": 60.0, "stalled": True,
        "stalled_since_ms": NOW_MS, "progress_lost_s": 0.0,
    }  # fmt: skip
    tuner = TunerPresence(hostile, TunerMode.ACTIVE, NOW_MS, hostile, 1e6, 1e5, page=hostile, waits_for=hostile)
    plan = {"plan": hostile, "desired": hostile, "partitions": 1, "moving": 1, "blockers": [hostile]}
    return {
        "cluster": hostile, "schedule": None, "now_ms": NOW_MS, "headline": hostile, "done_ratio": 0.5, "eta_s": 60, "ends_at_ms": NOW_MS,
        "tuner": tuner_json((tuner, tuner), 5e7),
        "collector": {"state": "active", "holder": hostile, "standbys": [hostile], "problem": None},
        "stream": {"state": "unknown", "holder": None, "standbys": [], "problem": hostile}, "stalled_brokers": [1], "infeasible": [{"broker": 1, "side": "leader"}],
        "rate_bytes_per_s_max": 1e6, "brokers": [broker], "destinations": [onto], "next": [hostile], "throttle_decisions": [entry],
        "moves": [{"topic": hostile, "partition": 0, "leader": 1, "adding": [2], "removing": []}],
        "remaining_bytes_by_broker": {"2": 1e6}, "plans": [plan], "unreadable_records": [hostile],
        "paused": {"by": hostile, "released": False},
        "overrides": [{"broker": 1, "side": "leader", "rate_bytes_per_s": 1e6, "by": hostile}],
        "last_decisions": [entry], "last_steering_ticks": [entry], "log_dirs": [], "cordons": [],
    }  # fmt: skip


def tenants_of(hostile: str) -> dict[str, Any]:
    row = {
        "user": hostile, "client_id": hostile, "demand_per_s": 4.25, "quota_per_s": 12.5, "quota_setpoint_per_s": 12.5,
        "tokens": 137.5, "throttled": True, "managed": True, "rule": 0, "reason": hostile,
    }  # fmt: skip
    return {
        "enabled": False, "pressure": 0.4, "total_text": hostile, "holds": [hostile], "tenants": [row],
        "quotas": [{"entity": hostile, "rate_per_s": 12.5, "managed": True}], "metering_left": True,
        "what_if": what_if_json({Tenant(hostile, hostile): 9.0}, None, ChosenTotal(5.0, "option"), MutationPolicy()),
    }  # fmt: skip


def shown_status(hostile: str, console: Console) -> None:
    status_text.print_status(status_of(hostile), console)


def watched_status(hostile: str, console: Console) -> None:
    made = render_screen(status_of(hostile), RateHistory(), hostile, [hostile], tenants_of(hostile))
    console.print(made)


def quotas(hostile: str, console: Console) -> None:
    quotas_live.print_quotas(tenants_of(hostile), console)


def measured(hostile: str, console: Console) -> None:
    measure_view.show(measure_tenants([{Tenant(hostile, hostile): 9.0}]), console)


def calibrated(hostile: str, console: Console) -> None:
    estimates = estimate_rates(
        [StepResult(kind, 1, rate, rate, 5.0, rate / 6, hostile) for kind in MutationKind for rate in (5.0, 10.0)]
    )
    report = CalibrationReport(
        cluster=hostile,
        bootstrap_servers=hostile,
        objective=ControllerObjective(create_probe_p90_ms_max=60.0),
        rest_p90_ms=20.0,
        measures_controller=False,
        samples=11,
        window_s=1.0,
        estimates=estimates,
        proposal=propose_quota(estimates, 10, 11, 1.0),
        ended_early=hostile,
    )
    calibrate_view.show(report, console)


def doctor(hostile: str, console: Console) -> None:
    for verdict in FindingVerdict:
        doctor_view.show(Finding(hostile, verdict, hostile, hostile), console)


def throttles(hostile: str, console: Console) -> None:
    lists = {hostile: TopicThrottle(ThrottledReplicas(all_replicas=True))}
    rows = throttle_rows(ThrottleSettings(lists=lists), ThrottleHistory(Memory(), Orders()), {}, NOW_MS)
    throttles_view.show(rows, console, NOW_MS)


def fetchers(hostile: str, console: Console) -> None:
    topic = hostile.encode(errors="replace").decode()  # Kafka's names are UTF-8.
    partitions = [FetchedPartition(topic, p, 1, (1, 2), 4e6) for p in (1, 3, 5, 7)]
    made = analyse_fetchers(hostile, partitions, {1: 2, 2: 2}, by_writes=True, notes=(hostile,))
    fetchers_view.show(made, console)


def watched_fetchers(hostile: str, console: Console) -> None:
    topic = hostile.encode(errors="replace").decode()  # Kafka's names are UTF-8.
    states = [PartitionState(topic, p, 1, (1, 2), (1, 2)) for p in (1, 3, 5, 7)]
    logs = LogSizes(10.0)
    for n in range(2):
        size = {(topic, state.partition): 4_000_000 * (n + 1) for state in states}
        logs.add(2.0 * n, {1: size, 2: size})
    console.print(live_view.render(analyse_threads(hostile, states, {1: 2, 2: 2}, logs), hostile))


def limits(hostile: str, console: Console) -> None:
    counts = PartitionCounts({1: 3})
    made = limits_report(hostile, {1: hostile}, counts, PartitionLimits(4, 10), are_set=True, missing_reason=hostile)
    limits_view.show(made, console)


def schedule(hostile: str, console: Console) -> None:
    period = {"from_ms": NOW_MS, "until_ms": None, "rules": [hostile], "rate_bytes_per_s_max": 1e6, "mode": hostile}
    show_preview({"time_zone": "UTC", "periods": [{**period, "tolerance": None}]}, console)


def history(hostile: str, console: Console) -> None:
    period = HistoryPeriod(hostile, NOW_MS, (BrokerHistory(1, 100, client_in_bytes_per_s=1e6),))
    history_view.show(build_history(hostile, [period], (), NOW_MS, NOW_MS + 3_600_000), console)


def plan(hostile: str, console: Console) -> None:
    planned = (PlannedPartition(hostile, 0, 1, frozenset({1}), 1e5, {2: 1e9}),)
    figures = EstimateFigures(hostile, kip73_figures(1, 10, [1e9], [1e5]), planned, notes=(hostile,))
    plan_view.show(estimate_plan(figures, EstimateOptions(rate_bytes_per_s=1e6)), console)


def reassigned(hostile: str) -> PlanProgress:
    said = PlanState(acknowledged_at_ms=5, blockers=(hostile,), concurrency=(hostile,))
    made = Plan(PlanHead(hostile, hostile, 0, 5, 1), {(hostile, 0): PlanPartition((3, 4), (1, 2), 1e9)}, {}, said)
    key = (hostile, 0)
    look = ReassignmentSnapshot(
        frozenset({1, 2, 3, 4}), {key: CurrentAssignment(1, (3, 4, 1, 2), (1, 2), (3, 4), (1, 2))}
    )
    return replace(measure_progress(made, look, 100_000), batch=((key, (1, 2), (3, 4)),), new_partitions=(hostile,))


def reassign(hostile: str, console: Console) -> None:
    shown = reassigned(hostile)
    console.print(render_progress(shown, 1e6))
    with ReassignView(console) as view:
        view.show(shown, 1e6)
        ended = replace(shown.plan, state=replace(shown.plan.state, ending=PlanEnding.DONE))
        view.show(replace(shown, plan=ended), None)


def replayed(hostile: str, console: Console) -> None:
    count = {"same": 1, "different": 1}
    kinds = ("cycles", "decisions", "steering_ticks", "quotas", "quota_decisions", "elections", "movements", "memory")
    counts = dict.fromkeys(kinds, count)
    difference = {"at_ms": NOW_MS, "kind": hostile, "then": hostile, "now": hostile}
    missed = {"before_a_frame": 0, "unfinished": 0, "unreadable": 0}
    body = {
        "program": hostile,
        "recorded_by": [hostile],
        "tuner_settings": hostile,
        "runs": 1,
        "from_ms": NOW_MS,
        "to_ms": NOW_MS,
    }
    replay._show(
        {**body, **counts, "steering_ticks_without_objective": 1, "missed": missed, "differences": [difference]},
        console,
    )


def demo(hostile: str, console: Console) -> None:
    with DemoView(console) as view:
        view.print_heading(hostile)
        view.print_line(hostile)
        view.show_activity(hostile)


def journal(hostile: str, console: Console) -> None:
    record = UnreadableRecord(hostile.encode(errors="replace"), 7, 99, hostile)
    journal_command.show(JournalScan([record], {record.key: record}), "rheostat.journal", "rheostat.orders", console)


# Module → what is printed from it. A module that prints or makes a table and is not here fails the test below.
RENDERERS: dict[str, Renderer] = {
    "signals/tables": signals,
    "signals/live": signals,
    "status/text": shown_status,
    "status/screen": watched_status,
    "status/watch": watched_status,
    "quotas/live": quotas,
    "quotas/calibrate/view": calibrated,
    "quotas/measure/view": measured,
    "doctor/view": doctor,
    "fetchers/view": fetchers,
    "fetchers/live_view": watched_fetchers,
    "fetchers/watch": watched_fetchers,
    "throttles/view": throttles,
    "limits/view": limits,
    "config/schedule": schedule,
    "history/view": history,
    "plan/estimate/view": plan,
    "reassign/view": reassign,
    "replay/command": replayed,
    "demo/view": demo,
    "journal/command": journal,
}


def test_renderers_cover_every_module_that_prints() -> None:
    root = Path(rheostat.__file__).parent
    printing = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Call)
            makes_table = is_call and isinstance(node.func, ast.Name) and node.func.id == "Table"
            prints = is_call and isinstance(node.func, ast.Attribute) and node.func.attr == "print"
            if makes_table or prints:
                printing.add(str(path.relative_to(root).with_suffix("")))
    assert printing == set(RENDERERS)


def text_of(renderer: Renderer, hostile: str, width: int) -> str:
    file = io.StringIO()
    renderer(hostile, Terminal(file=file, width=width, force_terminal=False, no_color=True))
    return file.getvalue()


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("renderer", dict.fromkeys(RENDERERS.values()), ids=lambda r: r.__name__)
def test_renderer_hostile_name_arrives_as_text(renderer: Renderer, hostile: str) -> None:
    harmless = text_of(renderer, "name", 30_000)
    text = text_of(renderer, hostile, 30_000)
    assert_harmless(text)
    if 0 < len(hostile) < 100:
        assert len(text.splitlines()) == len(harmless.splitlines())  # No line of its own.
        assert hostile in text or not hostile.isprintable()  # Markup and emoji codes arrive as they are.
    assert_harmless(text_of(renderer, hostile, 80))


def assert_harmless(text: str) -> None:
    assert not {c for c in text if not c.isprintable()} - {"\n"}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_lines_hostile_name_arrives_as_text(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    out(f"topic {hostile}", "second")
    tell(f"client {hostile}")
    printed = capsys.readouterr()
    assert_harmless(printed.out + printed.err)
    assert printed.out.endswith("\nsecond\n")
    assert_harmless("".join(map(printable, describe_plan(reassigned(hostile)))))


def test_log_on_a_terminal_holds_no_control_sequence() -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen, before = Screen(), structlog.get_config()
    try:
        logs.set_up_logs(screen)
        structlog.get_logger("x").info("topic \x1b[2J", name="\x1b]0;owned\x07")
    finally:
        structlog.configure(**before)
    assert "\x1b[2J" not in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


def test_name_is_cut_where_a_sentence_is_not() -> None:
    assert len(printable_name("x" * 10_000)) == 249
    assert printable("x" * 3000) == "x" * 3000
    assert printable("a\x1bb") == "a\\x1bb"


def test_console_off_a_terminal_is_as_wide_as_needed() -> None:
    console = console_for(io.StringIO())
    assert console.width >= 1000
    assert not console.is_terminal
