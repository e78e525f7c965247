"""Tests plans that are not executed: in a dry run, which logs its steps, and after an error, which is reported everywhere."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from reassign_rig import Rig, still
from structlog.testing import capture_logs

from tuner.api.metrics import make_registry
from tuner.api.plan_status_store import PlanCollector, PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanPartition
from tuner.core.throttle_limits import ThrottleLimits
from tuner.journal.plan_records import encode_parts, part_key
from tuner.runtime.clock import Clock
from tuner.runtime.leadership_term import Controllers, run
from tuner.runtime.reassignment.recorder import HEADLESS_S_MAX

RULES = Path(__file__).parents[5] / "dashboards" / "rules" / "moves.yaml"
T0, T1 = ("t", 0), ("t", 1)
ONE_BY_ONE = BatchLimits(partition_movements_max=1, replica_movements_max=1)


# -- a dry run ------------------------------------------------------------------------------------------------------------


def test_dry_run_logs_steps_and_requests_nothing() -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1)}, online={1, 2, 3, 4}, dry_run=True)
    rig.give({T0: (3, 4), T1: (4, 3)}, ONE_BY_ONE)
    records = list(rig.journal.records)
    with capture_logs() as said:
        for _ in range(5):
            rig.cycle()
    assert [line["event"] for line in said] == [
        "a dry run executes no plans: plan p (running, 0 of 2 partitions arrived): would begin 1 steps: t-0 to [3, 1, 2]"
    ]
    assert (rig.cluster.asked, rig.journal.entries, rig.journal.records) == ([], [], records)
    assert rig.loop.pending_bytes == {}, "nor does it hurry for what it does not do"


def test_dry_run_logs_again_after_new_order() -> None:
    rig = Rig({T0: still(1, 2)}, online={1, 2, 3}, dry_run=True)
    rig.give({T0: (8, 9)})
    with capture_logs() as said:
        rig.cycle()
        rig.say(DesiredPlanState.PAUSED)
        rig.cycle()
    first, second = (line["event"] for line in said)
    assert first.endswith("would begin nothing now; t-0: waiting for brokers that are down: 8, 9")
    assert "plan p (paused, " in second


@pytest.mark.parametrize("dry_run", [False, True])
def test_headless_parts_are_deleted_after_hour_except_dry_run(dry_run: bool) -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1)}, online={1, 2, 9}, dry_run=dry_run)
    rig.give({T0: (8, 9)})
    for number in range(2):
        rig._from_people(part_key("c", "died", number), encode_parts({T1: PlanPartition((3, 4), (1, 2))}))
    rig.cycle()
    for _ in range(3):
        rig.now_s += HEADLESS_S_MAX / 3 - 1
        rig.cycle()
    assert rig.journal.recovered().parts_without_head == {"died": 2}
    rig.now_s += 60.0
    rig.cycle()
    assert rig.journal.recovered().parts_without_head == ({"died": 2} if dry_run else {})
    assert [plan.id for plan in rig.journal.recovered().plans] == ["p"], "what has a head is no part of that"


# -- an error of its own --------------------------------------------------------------------------------------------------


def test_executor_error_withdraws_announced_steps() -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1)}, online={1, 2, 3, 4})
    rig.give({T0: (3, 4), T1: (3, 4)}, ONE_BY_ONE)
    rig.cycle(finish=False)
    assert rig.loop.pending_bytes

    def broken(*_: object, **__: object) -> None:
        raise TypeError("a bug")

    rig.cluster.read_snapshot = broken  # type: ignore[assignment, method-assign]  # what it answers is never read
    with pytest.raises(TypeError):
        rig.cycle()
    assert rig.loop.pending_bytes == {}
    shown = rig.loop._observer.snapshot()  # type: ignore[attr-defined]  # the rig's is a board
    assert shown.unknown_reason == "the executor of plans failed with an internal error: TypeError: a bug"


@pytest.mark.parametrize("dry_run", [False, True])
def test_metrics_report_unreadable_cluster_except_dry_run(
    dry_run: bool,
) -> None:
    rig = Rig({key: still(1, 2) for key in (T0, T1)}, online={1, 2, 3, 4}, dry_run=dry_run)
    rig.give({T0: (3, 4), T1: (3, 4)}, ONE_BY_ONE)
    rig.cycle(finish=False)
    assert told(rig) == ({} if dry_run else {"moving": 1.0, "waiting": 1.0}, 0.0)
    rig.cluster.away = True
    rig.cycle(finish=False)
    assert told(rig) == ({}, 0.0 if dry_run else 1.0)
    rig.cluster.away = False
    rig.cycle(finish=False)
    assert told(rig) == ({} if dry_run else {"moving": 1.0, "waiting": 1.0}, 0.0)
    rig.cluster.away = True
    rig.cycle(finish=False)
    rig.loop._observer.clear()
    assert told(rig) == ({}, 0.0), "it is another's to tell"


def told(rig: Rig) -> tuple[dict[str, float], float | None]:
    """Partitions of the plan by state, and whether the cluster cannot be read, as a scrape finds it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PlanCollector(rig.loop._observer))  # type: ignore[arg-type]  # the rig's is a board
    samples = [s for each in registry.collect() for s in each.samples if s.name == "rheostat_plan_partitions"]
    states = {s.labels["state"]: s.value for s in samples if s.value}
    return states, registry.get_sample_value("rheostat_plans_state_unknown", {"cluster": "c"})


def test_unknown_plans_metric_reports_both_causes() -> None:
    board = StatusStore("c", ThrottleLimits(rate_bytes_per_s_max=1e8), dry_run=False, wall_clock=lambda: 0.0)
    plans = PlanStatusStore("c")
    registry = make_registry(board, QuotaStatusStore("c", None), plans=plans)
    told = {s.name: s.value for each in registry.collect() for s in each.samples}
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    (rule,) = (r for g in groups for r in g["rules"] if r.get("alert") == "ReassignmentPlansNotExecuted")
    named = re.findall(r"rheostat_\w+", rule["expr"])
    assert named == ["rheostat_plan_executor_failed", "rheostat_plans_state_unknown"]
    assert [told[name] for name in named] == [0.0, 0.0], "without plans as well"
    board.suspended_controllers["plans"] = "TypeError: a bug"
    plans.record_unknown("nobody answers")
    assert [registry.get_sample_value(name, {"cluster": "c"}) for name in named] == [1.0, 1.0]


class Once:
    """A loop, or what ticks beside it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.ticks = error, 0
        self.errors_left = 1000

    def cycle_is_due(self) -> bool:
        return False

    def cycle(self) -> None: ...

    def tick(self) -> None:
        self.ticks += 1
        if self.error is not None and (left := self.errors_left) > 0:
            self.errors_left = left - 1
            raise self.error

    def next_due_s(self) -> float:
        return 0.0


def metric(board: StatusStore, name: str) -> float | None:
    return make_registry(board, QuotaStatusStore("c", None)).get_sample_value(name, {"cluster": "c"})


def test_executor_error_is_reported_and_retried_after_pause() -> None:
    board = StatusStore("c", ThrottleLimits(rate_bytes_per_s_max=1e8), dry_run=False, wall_clock=lambda: 0.0)
    board.become_active()
    assert metric(board, "rheostat_plan_executor_failed") == 0.0
    loop, plans, stop = Once(), Once(TypeError("a bug")), threading.Event()
    now_s, shown = 0.0, list[float | None]()

    def turns(*at_s: float) -> None:
        def acts() -> bool:
            nonlocal now_s
            shown.append(metric(board, "rheostat_plan_executor_failed"))
            now_s = next(left, -1.0)
            return now_s >= 0

        left = iter(at_s)
        parts: Any = SimpleNamespace(loop=loop, plans=plans)
        run(
            Controllers(parts.loop, plans=parts.plans), board,
            cycle_s=0.01, stop=stop, clock=Clock(monotonic_s=lambda: now_s), may_act=acts,
        )  # fmt: skip

    turns(0.0, 1.0, 59.0)
    assert (plans.ticks, loop.ticks) == (1, 3)
    assert board.ready() == (
        False,
        "the first cycle has not ended yet; no plan proceeds for 60 s after an internal error; then the tuner tries again: "
        "TypeError: a bug",
    )
    assert metric(board, "rheostat_plan_executor_failed") == 1.0
    assert board.cycle_failures["plans"] == 1
    board.become_standby()
    board.become_active()
    assert "no plan proceeds" not in board.ready()[1], "another term has another executor"
    assert metric(board, "rheostat_plan_executor_failed") == 0.0
    plans.errors_left = 2
    shown.clear()
    turns(0.0, 61.0, 122.0, 180.0, 183.0)
    assert plans.ticks == 1 + 5
    assert shown == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0], "it is well when it has gone well for a minute"
