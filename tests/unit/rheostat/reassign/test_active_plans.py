"""Commands that refuse to act beside an active plan, or warn of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import CommandError
from rheostat.fetchers import command
from rheostat.fetchers.command import check_no_plan_is_running
from rheostat.reassign import active_plans
from rheostat.reassign.active_plans import describe_active_plans
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead, PlanPartition, RequestedStep

RUNNING = Plan(PlanHead("p", "kim@desk", 0, 0, 1), {("t", 0): PlanPartition((3,), (1,))})
PAUSED = replace(RUNNING, head=replace(RUNNING.head, desired=DesiredPlanState.PAUSED))
PAUSED_WITH_STEP = replace(PAUSED, requested={("t", 0): RequestedStep((3,), (1,))})


@pytest.fixture
def settings() -> Settings:
    text = "cluster: c\nkafka: {bootstrap_servers: 'x:1'}\nstream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 50000000}\n"
    return parse_settings(text, "f.yaml", {})


def fail_to_read(_: Settings) -> tuple[Plan, ...]:
    raise CommandError("The journal cannot be read.")


@pytest.mark.parametrize(("plan", "is_refused"), [(RUNNING, True), (PAUSED, False), (PAUSED_WITH_STEP, True)])
def test_fetcher_change_beside_a_running_plan_is_refused(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, plan: Plan, is_refused: bool
) -> None:
    monkeypatch.setattr(command, "read_active_plans", lambda _: (plan,))
    lines: list[str] = []
    if is_refused:
        with pytest.raises(
            CommandError,
            match=r"Plan p, submitted by kim@desk, has not ended.*pause it with `rheostat reassign pause p`",
        ):
            check_no_plan_is_running(settings, lines.append)
    else:
        check_no_plan_is_running(settings, lines.append)
    assert lines == []


def test_unreadable_journal_leaves_active_plans_unknown(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(command, "read_active_plans", fail_to_read)
    monkeypatch.setattr(active_plans, "read_active_plans", fail_to_read)
    lines: list[str] = []
    check_no_plan_is_running(settings, lines.append)
    assert lines == ["The plans of reassignments cannot be read, so a plan may be running: The journal cannot be read."]
    assert describe_active_plans(settings) == [
        "It is not known whether a plan is active, because the plans cannot be read: The journal cannot be read."
    ]


def test_describe_active_plans_names_plan_and_operator(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(active_plans, "read_active_plans", lambda _: (PAUSED,))
    assert describe_active_plans(settings) == [
        "Plan p, submitted by kim@desk, has not ended and moves 1 partitions: the new plan starts from their current replicas"
    ]
