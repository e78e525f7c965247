"""Running and finished plans of the journal: list, page, timeline, partitions, expected and real duration, hostile names, bounds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from api_rig import Rig
from tuner_cases import CLUSTER, NOW_MS

from tuner.api import plan_history
from tuner.api.plan_history import PlanHistory
from tuner.api.plan_history_routes import Curve, progress_curve
from tuner.core.reassignment_plan import (
    DesiredPlanState,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanResult,
    PlanState,
    TopicPartition,
)
from tuner.journal.entries import STEP_OUTCOMES, STEPS, Entry
from tuner.journal.plan_records import encode_head, encode_parts, encode_state, head_key, part_key, state_key

MINUTE_MS = 60_000
START_MS = NOW_MS - 60 * MINUTE_MS
HOSTILE = "<img src=x>\u202e注文-" + "ж" * 200


def head(plan: str = "p1", **changes: Any) -> PlanHead:
    return replace(PlanHead(plan, "kim", START_MS, START_MS, part_records=1, expected_s=600.0), **changes)


def ended(minutes: float, partitions: int = 3) -> PlanState:
    result = PlanResult(partitions, partitions, 3e9, 3e9)
    return PlanState(
        ending=PlanEnding.DONE,
        ended_at_ms=START_MS + round(minutes * MINUTE_MS),
        paused_total_ms=MINUTE_MS,
        result=result,
    )


def steps(keys: Sequence[TopicPartition], at_ms: int, plan: str = "p1", **changes: Any) -> Entry:
    rows = [[*key, [1, 2], [2, 3], "advance"] for key in keys]
    return Entry(at_ms, STEPS, "reassign", "advance", f"plan {plan}: start", {"plan": plan, "steps": rows}, **changes)


def outcomes(at_ms: int, arrived: int, plan: str = "p1", **rows: Any) -> Entry:
    decision = {"plan": plan, "reached": [], "rolled_back": [], "never_taken": [], "given_up": [], "arrived": arrived}
    return Entry(at_ms, STEP_OUTCOMES, "reassign", "ended", f"plan {plan}: reached", {**decision, **rows})


def rig_with(*entries: Entry, records: dict[bytes, bytes] | None = None) -> Rig:
    rig = Rig()
    rig.cycle()
    for key, value in (records or {}).items():
        rig.journal.apply_plan_record(key, value)
    for offset, entry in enumerate(entries):
        rig.journal.add(entry, offset)
    return rig


def finished(topic: str = "orders") -> Rig:
    keys = [(topic, number) for number in range(3)]
    parts = {key: PlanPartition((2, 3), (1, 2), 1e9) for key in keys}
    return rig_with(
        steps(keys[:2], START_MS + MINUTE_MS),
        outcomes(START_MS + 5 * MINUTE_MS, 1, reached=[keys[0]]),
        outcomes(START_MS + 9 * MINUTE_MS, 3, reached=[keys[1]]),
        records={
            head_key(CLUSTER, "p1"): encode_head(head()),
            part_key(CLUSTER, "p1", 0): encode_parts(parts),
            state_key(CLUSTER, "p1"): encode_state(ended(11)),
        },
    )


def test_finished_plan_has_expected_and_real_duration_without_pauses() -> None:
    (plan,) = finished().get("/api/v1/plan-history").json()["plans"]
    assert (plan["state"], plan["duration_s"], plan["expected_s"]) == ("done", 600.0, 600.0)
    assert (plan["partitions"], plan["arrived"], plan["copied_bytes"]) == (3, 3, 3e9)


def test_timeline_has_steps_and_outcomes_newest_first() -> None:
    plan = finished().get("/api/v1/plan-history/p1").json()
    assert [(event["started"], event["ended"], event["arrived"]) for event in plan["events"]] == [
        (0, 1, 3), (0, 1, 1), (2, 0, None),
    ]  # fmt: skip
    assert plan["events_total"] == 3


def test_partitions_have_state_and_times_and_are_sorted_by_the_tuner() -> None:
    rig = finished()
    body = rig.get("/api/v1/plan-history/p1/partitions?sort=ended&descending=true&limit=2").json()
    assert (body["total"], body["next_offset"]) == (3, 2)
    first = body["partitions"][0]
    assert (first["partition"], first["state"], first["target"], first["size_bytes"]) == (1, "arrived", [2, 3], 1e9)
    assert first["ended_at_ms"] - first["started_at_ms"] == 8 * MINUTE_MS
    # The third partition was at its target before its first step.
    assert rig.get("/api/v1/plan-history/p1/partitions?find=orders-2").json()["partitions"][0]["state"] == "arrived"


def test_running_plan_counts_moving_and_arrived_partitions() -> None:
    keys = [("orders", number) for number in range(3)]
    rig = rig_with(
        steps(keys, START_MS),
        outcomes(START_MS + MINUTE_MS, 1, reached=[keys[0]], given_up=[[*keys[1], "the topic is gone"]]),
        records={head_key(CLUSTER, "p1"): encode_head(head(desired=DesiredPlanState.PAUSED))},
    )
    (plan,) = rig.get("/api/v1/plan-history").json()["plans"]
    assert (plan["state"], plan["ended_at_ms"], plan["arrived"], plan["duration_s"]) == ("paused", None, 1, 3600.0)
    states = {
        row["partition"]: row["state"] for row in rig.get("/api/v1/plan-history/p1/partitions").json()["partitions"]
    }
    assert states == {0: "arrived", 1: "given_up", 2: "moving"}


def test_plan_whose_orders_are_gone_keeps_its_steps() -> None:
    rig = rig_with(steps([("orders", 0)], START_MS), outcomes(START_MS + 1, 1, reached=[("orders", 0)]))
    (plan,) = rig.get("/api/v1/plan-history").json()["plans"]
    assert (plan["state"], plan["submitted_by"], plan["duration_s"]) == ("unknown", None, None)
    assert plan["started_at_ms"] == START_MS


def test_dry_run_moves_no_partition() -> None:
    rig = rig_with(steps([("orders", 0)], START_MS, dry_run=True))
    assert rig.get("/api/v1/plan-history/p1/partitions").json()["total"] == 0


def test_clock_that_was_set_back_gives_no_negative_duration() -> None:
    record = {
        head_key(CLUSTER, "p1"): encode_head(head(submitted_at_ms=NOW_MS + 10**9)),
        state_key(CLUSTER, "p1"): encode_state(ended(1)),
    }
    (plan,) = rig_with(records=record).get("/api/v1/plan-history").json()["plans"]
    assert plan["duration_s"] == 0


def test_pages_of_a_plan_show_names_of_every_script_as_text() -> None:
    rig = finished(HOSTILE)
    rig.journal.add(replace(steps([(HOSTILE, 0)], START_MS), text=f"plan p1: {HOSTILE}"), 9)
    for path in ("/page/plan-history", "/page/plan/p1", "/page/plan/p1/partitions"):
        html = rig.get(path).text
        assert "<img" not in html
    text = unescape(re.sub(r"<[^>]*>", " ", rig.get("/page/plan/p1/partitions").text))
    assert HOSTILE in text
    assert "the plan took 100 % of this time" in rig.get("/page/plan/p1").text
    assert "<polyline points=" in rig.get("/page/plan/p1").text


@pytest.mark.parametrize("plan", ["p9", "%3Cimg%3E", "x" * 249, "%00"])
def test_unknown_plan_is_named(plan: str) -> None:
    rig = finished()
    assert rig.get(f"/api/v1/plan-history/{plan}").status_code == 404
    assert rig.get(f"/api/v1/plan-history/{plan}/partitions").status_code == 404
    assert "have no plan" in rig.get(f"/page/plan/{plan}").text
    assert rig.get(f"/plans/{plan}", None).status_code == 200


@pytest.mark.parametrize(
    "query", ["?sort=random", "?offset=-1", "?limit=0", "?limit=501", "?find=" + "x" * 513, "?by=1"]
)
def test_invalid_parameters_are_refused(query: str) -> None:
    assert finished().get(f"/api/v1/plan-history/p1/partitions{query}").status_code == 422


def test_journal_that_is_not_read_is_named() -> None:
    rig = Rig()
    rig.journal.mark_unreadable("the journal rheostat.journal cannot be read: no answer")
    assert rig.get("/api/v1/plan-history").json()["notes"] == [
        "The journal rheostat.journal cannot be read: no answer."
    ]  # fmt: skip


def test_forged_records_change_nothing() -> None:
    history = PlanHistory(CLUSTER)
    for key in (
        b"plan|" + CLUSTER.encode() + b"|p",
        b"plan|other|p",
        b"\xff",
        b"plan-part|" + CLUSTER.encode() + b"|p|0",
    ):
        for value in (b"\xff", b"{}", None):
            history.apply(key, value)
    history.add_entry(Entry(1, STEPS, "reassign", "advance", "x", {"plan": 7}), 1)
    assert [story.id for story in history.newest_first() if story.head or story.events_total] == []


def test_many_plans_keep_the_newest_and_drop_old_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_history, "_PLANS_MAX", 5)
    monkeypatch.setattr(plan_history, "PARTITIONS_MAX", 3)
    history = PlanHistory(CLUSTER)
    for number in range(9):
        history.add_entry(steps([("t", 0), ("t", 1)], START_MS + number, plan=f"p{number}"), 1)
    stories = history.newest_first()
    assert [story.id for story in stories] == [f"p{number}" for number in (8, 7, 6, 5, 4)]
    assert [story.partitions is not None for story in stories] == [True, False, False, False, False]


def test_curve_of_a_long_plan_has_few_points_and_ends_at_the_last() -> None:
    curve = progress_curve([(START_MS + number, number) for number in range(5_000)])
    assert len(curve.points.split()) <= 201
    assert curve.points.endswith("100.0,0.0")
    assert progress_curve([(START_MS, 1)]) == Curve("", 0, 0, 0)


@pytest.mark.parametrize(
    "rows", [None, 7, "abc", [7], [["t"]], [["t", "x", [], [1]]], [["t", 2**31, [], [1]]], [["t", 0, [], 5]]]
)
def test_steps_of_another_form_are_left_out(rows: object) -> None:
    rig = rig_with(
        Entry(START_MS, STEPS, "reassign", "advance", "x", {"plan": "p1", "steps": rows}),
        Entry(START_MS, STEP_OUTCOMES, "reassign", "ended", "x", {"plan": "p1", "reached": rows, "arrived": "all"}),
    )
    partitions = rig.get("/api/v1/plan-history/p1/partitions").json()["partitions"]
    assert [row for row in partitions if row["state"] == "moving"] == []
    assert rig.get("/api/v1/plan-history/p1").json()["events_total"] == 2
