"""Commands that should not act beside a plan on record, or should say that there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import CommandError
from rheostat.fetchers import command
from rheostat.fetchers.command import check_no_plan_goes_on
from rheostat.reassign import active_plans as of_record
from rheostat.reassign.active_plans import said_of_unfinished
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead, PlanPartition, RequestedStep

RUNS = Plan(PlanHead("p", "kim@desk", 0, 0, 1), {("t", 0): PlanPartition((3,), (1,))})
PAUSED = replace(RUNS, head=replace(RUNS.head, desired=DesiredPlanState.PAUSED))
ENDS = replace(PAUSED, requested={("t", 0): RequestedStep((3,), (1,))})


@pytest.fixture
def settings() -> Settings:
    text = "cluster: c\nkafka: {bootstrap_servers: 'x:1'}\nstream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 50000000}\n"
    return parse_settings(text, "f.yaml", {})


def away(_: Settings) -> tuple[Plan, ...]:
    raise CommandError("The journal cannot be read.")


@pytest.mark.parametrize(("plan", "refused"), [(RUNS, True), (PAUSED, False), (ENDS, True)])
def test_fetcher_threads_are_not_started_anew_between_two_steps_of_a_plan(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, plan: Plan, refused: bool
) -> None:
    monkeypatch.setattr(command, "unfinished", lambda _: (plan,))
    said: list[str] = []
    if refused:
        with pytest.raises(
            CommandError, match=r"Plan p, given by kim@desk, has not ended.*`rheostat reassign pause p` first"
        ):
            check_no_plan_goes_on(settings, said.append)
    else:
        check_no_plan_goes_on(settings, said.append)
    assert said == []


def test_who_may_not_read_the_journal_is_told_that_it_is_not_known(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(command, "unfinished", away)
    said: list[str] = []
    check_no_plan_goes_on(settings, said.append)
    assert said == ["Whether a plan of reassignments goes on is not known: The journal cannot be read."]
    monkeypatch.setattr(of_record, "unfinished", away)
    assert said_of_unfinished(settings) == [
        "Whether plans are on record that have not ended is not known: The journal cannot be read."
    ]


def test_who_plans_moves_is_told_of_a_plan_that_has_not_ended(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(of_record, "unfinished", lambda _: (PAUSED,))
    assert said_of_unfinished(settings) == [
        "Plan p, given by kim@desk, has not ended and moves 1 partitions: this one goes by where they stand now"
    ]
