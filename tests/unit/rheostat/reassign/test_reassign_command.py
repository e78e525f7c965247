"""`rheostat reassign start`: refused input, and the progress that it shows."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command_rig import Command
from rich.console import Console
from tuner_cases import move_signal

from rheostat.errors import BadInputError
from rheostat.reassign.plan_store import StoredPlans
from rheostat.reassign.progress import CurrentMoves, PlanProgress, as_record, measure_progress
from rheostat.reassign.step_preview import describe_steps, steps_as_records
from rheostat.reassign.text import describe_plan, limits_text, progress_text
from rheostat.reassign.view import PlanView
from streaming.shared.contract import Side
from tuner.core.batch_limits import BatchLimits
from tuner.core.plan_progress import expected_end
from tuner.core.reassignment_plan import (
    CurrentAssignment,
    DesiredPlanState,
    OriginalTopic,
    Plan,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanResult,
    PlanState,
    ReassignmentSnapshot,
    RequestedStep,
    TopicPartition,
)
from tuner.core.reassignment_steps import PartitionTransition

refused = Command("reassign start").refused

HEAD = PlanHead("p1", "kim@desk, 2026-01-31 06:00:00 UTC", 0, 5, 1, limits=BatchLimits(2, 8))
PARTITIONS = {("t", n): PlanPartition((3, 4), (1, 2), 1e9) for n in range(3)}
SNAPSHOT = ReassignmentSnapshot(
    frozenset({1, 2, 3, 4}),
    {
        ("t", 0): CurrentAssignment(3, (3, 4), (3, 4)),
        ("t", 1): CurrentAssignment(1, (3, 4, 1, 2), (1, 2), (3, 4), (1, 2)),
        ("t", 2): CurrentAssignment(1, (1, 2), (1, 2)),
    },
    log_bytes={1: {("t", 1): 1_000_000_000}, 3: {("t", 1): 500_000_000}, 4: {("t", 1): 0}},
)
RUNNING_STEP = {("t", 1): RequestedStep((3, 4), (1, 2))}


def make_plan(requested: dict[TopicPartition, RequestedStep] | None = None, **state: object) -> Plan:
    return Plan(HEAD, PARTITIONS, requested or {}, PlanState(acknowledged_at_ms=5, **state))  # type: ignore[arg-type]  # by name, whatever a test sets


def running_progress() -> PlanProgress:
    return measure_progress(make_plan({("t", 1): RequestedStep((3, 4), (1, 2), True)}), SNAPSHOT, 100_000)


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "plan.json:1: not JSON"),
        ("nonsense", "plan.json:1: not JSON"),
        ('{"version": 2, "partitions": []}', "plan.json:1: version: expected 1, the only version, found 2"),
        ('{"version": 1, "partitions": []}', "expected a list of at least one {topic, partition, replicas}, found []"),
        (
            '{"version": 1, "partitions": [\n{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
            "plan.json:2: partitions[0].replicas[1]: broker 1 is listed twice",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/a"]}]}',
            "t-0 names log_dirs: rheostat moves replicas between brokers, not between log directories of a broker",
        ),
    ],
)
@pytest.mark.parametrize("options_first", [False, True])
def test_plan_file_with_faults_is_refused_before_reading_the_cluster(
    tmp_path: Path, text: str, message: str, options_first: bool
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    options = ("--config", str(tmp_path / "none.yaml"))
    assert message in refused(*((*options, str(file)) if options_first else (str(file), *options)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "cannot be read: No such file"),
        (("--detach", "--standalone"), "--detach"),
        (("--at", "22:00", "--standalone"), "give --at or --standalone, not both"),
        (("--leader-movements", "0"), "--leader-movements"),
    ],
)
def test_missing_file_and_wrong_options_are_refused(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    assert message in refused(str(tmp_path / "plan.json"), "-c", "none.yaml", *options)


def test_start_time_is_checked_before_the_cluster_is_read(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}')
    options = (str(file), "--config", str(tmp_path / "none.yaml"))
    assert "--at: expected now, best, a time of day" in refused(*options, "--at", "soon")
    assert "--at: 2020-01-01" in refused(*options, "--at", "2020-01-01T00:00")
    assert "--at best and --unthrottled" in refused(*options, "--at", "best", "--unthrottled")


# -- selection of a plan --------------------------------------------------------------------------------------------------


def test_find_without_id_returns_the_only_active_plan() -> None:
    active, other = make_plan(), Plan(PlanHead("p2", "lee", 1, 1, 1), PARTITIONS)
    ended = Plan(PlanHead("p0", "lee", 1, 1, 1), {}, {}, PlanState(ending=PlanEnding.DONE))
    assert StoredPlans((ended, active)).find(None) is active
    assert StoredPlans((ended, active)).find("p0") is ended
    for plans, plan_id, message in (
        ((active, other), None, "Several plans are active: give the id of one of them: p1, p2."),
        ((ended,), None, "No active reassignment plan is on record"),
        ((active,), "p9", "There is no plan 'p9' on record. Active plans: p1."),
    ):
        with pytest.raises(BadInputError, match=message):
            StoredPlans(plans).find(plan_id)


# -- progress -------------------------------------------------------------------------------------------------------------


def test_progress_counts_partitions_and_bytes() -> None:
    progress = running_progress()
    assert (progress.arrived, progress.partitions) == (1, 3)
    assert (progress.total_bytes, progress.copied_bytes) == (6e9, 2.5e9)
    assert progress.eta_s == 126.0, "ten seconds of the hundred are counted as its start"


def test_record_has_the_current_batch_in_kip_435_names() -> None:
    record = as_record(running_progress())
    assert record["CurrentBatch"] == [
        {
            "Name": "t",
            "Partitions": [{"PartitionId": 1, "CurrentBrokers": [3, 4, 1, 2], "TargetBrokers": [3, 4]}],
        }
    ]
    assert [p["PartitionId"] for p in record["Topics"][0]["Partitions"]] == [1, 2]
    assert record["limits"] == {
        "reassignment.max.concurrent.leader.movements": 2,
        "reassignment.max.concurrent.partition.movements": 8,
        "reassignment.max.concurrent.replica.movements": None,
    }
    assert (record["moving"], record["new_partitions"]) == (1, [])
    assert json.loads(json.dumps(record)) == record


def test_describe_plan_has_state_progress_moves_and_limits() -> None:
    assert describe_plan(running_progress()) == [
        "Plan p1, submitted by kim@desk, 2026-01-31 06:00:00 UTC: running.",
        "  1 of 3 partitions, 2.50 GB of 6.00 GB, 1 moving, about 2 min 6 s left",
        "  t-1: (3,4,1,2) → (3,4)",
        "  at most 2 leader movements, 8 partition movements at a time",
        "  each leader and follower throttle is at most the ceiling of the tuner",
    ]


def test_new_partitions_of_a_topic_are_named_and_block_nothing() -> None:
    partitions = {key: replace(part, topic=OriginalTopic("t1", 3)) for key, part in PARTITIONS.items()}
    new = {("t", n): CurrentAssignment(1, (1, 2), (1, 2)) for n in (3, 4)}
    current = {**SNAPSHOT.partitions, **new, ("other", 9): new[("t", 3)]}
    snapshot = replace(SNAPSHOT, partitions=current, topic_ids={"t": "t1"})
    plan = replace(make_plan(), partitions=partitions)
    progress = measure_progress(plan, snapshot, 100_000)
    sentence = "topic t has 2 more partitions than when the plan was submitted; the plan does not move them"
    assert f"  {sentence}" in describe_plan(progress)
    assert as_record(progress)["new_partitions"] == [sentence]
    assert progress.is_well
    recreated = replace(snapshot, topic_ids={"t": "t2"})
    unchanged = replace(SNAPSHOT, topic_ids={"t": "t1"})
    for other in (recreated, unchanged):
        assert measure_progress(plan, other, 100_000).new_partitions == ()


def test_state_of_ended_waiting_and_blocked_plans() -> None:
    done = measure_progress(make_plan(ending=PlanEnding.DONE, dropped={("t", 0): "gone"}), SNAPSHOT, 1)
    assert describe_plan(done)[0].endswith("done, except 1 partition that no longer exists.")
    assert not done.is_well
    assert measure_progress(make_plan(ending=PlanEnding.DONE), SNAPSHOT, 1).is_well
    waiting = measure_progress(Plan(HEAD, PARTITIONS), SNAPSHOT, 1)
    assert describe_plan(waiting)[0].endswith("running, once a tuner acknowledges it.")
    blocked = measure_progress(make_plan(blockers=("t-0: waiting for brokers that are down: 4",)), SNAPSHOT, 1)
    assert not blocked.is_well
    assert "  t-0: waiting for brokers that are down: 4" in describe_plan(blocked)


def test_plan_that_starts_later_shows_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    plan = replace(make_plan(), head=replace(HEAD, not_before_ms=3_600_000))
    waiting = measure_progress(plan, SNAPSHOT, 3_599_999)
    assert describe_plan(waiting)[0].endswith("waiting; it starts 1970-01-01 01:00+00:00.")
    assert as_record(waiting)["not_before_ms"] == 3_600_000
    assert (waiting.is_well, waiting.eta_s) == (True, None)
    begun = measure_progress(plan, SNAPSHOT, 3_600_000)
    assert describe_plan(begun)[0].endswith("running.")
    assert as_record(begun)["not_before_ms"] is None


def test_time_left_counts_from_the_start_of_the_plan() -> None:
    plan = replace(make_plan(RUNNING_STEP), head=replace(HEAD, not_before_ms=3_600_000))
    assert measure_progress(plan, SNAPSHOT, 3_700_000).eta_s == pytest.approx(126.0)


def test_ended_plan_has_the_counts_of_its_result() -> None:
    ended = Plan(HEAD, {}, {}, PlanState(5, PlanEnding.CANCELLED, 9, result=PlanResult(200, 3, 8e9, 1e9)))
    without_result = replace(ended, state=replace(ended.state, result=None))  # An older version ended it.
    for plan, counts in ((ended, [200, 3, 8e9, 1e9]), (without_result, [None] * 4)):
        record = as_record(measure_progress(plan, SNAPSHOT, 1))
        assert [record[key] for key in ("partitions", "arrived", "total_bytes", "copied_bytes")] == counts
    first_line = describe_plan(measure_progress(ended, SNAPSHOT, 1))[0]
    assert first_line.endswith("cancelled; 3 of 200 partitions are at their target.")


def test_time_left_is_at_least_that_of_the_moves() -> None:
    signals = (move_signal(3, Side.FOLLOWER, remaining=600.0, slope=-2.0),)
    slow = CurrentMoves(signals)
    progress = measure_progress(make_plan(RUNNING_STEP), SNAPSHOT, 100_000, slow)
    assert progress.eta_s == 300.0, "as status and page have it"
    assert progress.eta_s == expected_end(signals, stalled=False, plans={"p1": progress.progress}).eta_s
    assert "about 5 min left" in progress_text(progress, 50e6)
    assert measure_progress(make_plan(), SNAPSHOT, 100_000, slow).eta_s is None, "no step runs"
    slower = CurrentMoves(signals, {(3, Side.FOLLOWER): 2.0})
    assert measure_progress(make_plan(RUNNING_STEP), SNAPSHOT, 100_000, slower).eta_s == 600.0, "the forecast counts"


def changed_plan(state: PlanState, desired: DesiredPlanState = DesiredPlanState.RUNNING) -> Plan:
    return Plan(PlanHead("p", "kim", 0, 5, 1, desired), PARTITIONS, RUNNING_STEP, state)


@pytest.mark.parametrize(
    ("plan", "at_ms", "eta_s"),
    [
        (changed_plan(PlanState(5)), 100_000, 126.0),
        (changed_plan(PlanState(5, paused_total_ms=900_000)), 1_000_000, 126.0),
        (changed_plan(PlanState(5)), 20_000, None),
        (changed_plan(PlanState(5), DesiredPlanState.CANCELLING), 100_000, None),
    ],
    ids=["running", "paused before", "just begun", "rolled back"],
)
def test_time_left_excludes_pauses_start_and_rollback(plan: Plan, at_ms: int, eta_s: float | None) -> None:
    assert measure_progress(plan, SNAPSHOT, at_ms).eta_s == (None if eta_s is None else pytest.approx(eta_s))


@pytest.mark.parametrize(
    ("at_ms", "rate", "text"),
    [
        (20_000, 4e6, "1 of 3 partitions, 2.50 GB of 6.00 GB, 1 moving, 4.00 MB/s"),
        (100_000, 50e6, "1 of 3 partitions, 2.50 GB of 6.00 GB, 1 moving, 50.0 MB/s, about 2 min 6 s left"),
    ],
)
def test_progress_text_has_rate_and_known_time_left(at_ms: int, rate: float, text: str) -> None:
    assert progress_text(measure_progress(make_plan(RUNNING_STEP), SNAPSHOT, at_ms), rate) == text


@pytest.mark.parametrize(
    ("limits", "text"),
    [(BatchLimits(), "no limits of its own"), (BatchLimits(2, 1), "at most 2 leader movements, 1 partition movement at a time")],
)  # fmt: skip
def test_limits_text_names_only_set_limits(limits: BatchLimits, text: str) -> None:
    assert limits_text(limits) == text


def test_dry_run_shows_the_steps_of_kip_435() -> None:
    transition = PartitionTransition("t", 0, (0, 1, 2, 3, 4), (5, 6, 7, 8, 9), 0, frozenset(range(5)))
    assert describe_steps([transition], 2) == [
        "t-0: (0,1,2,3,4) → (5,0,1,2,3,4) → (5,6,2,3,4) → (5,6,7,8,4) → (5,6,7,8,9)"
    ]  # fmt: skip
    (record,) = steps_as_records([transition], 2**31 - 1)
    assert [step["replicas"] for step in record["steps"]] == [[5, 6, 7, 8, 9]]


def test_view_without_terminal_prints_blockers_once_and_progress_lines() -> None:
    text = io.StringIO()
    blocked = measure_progress(make_plan(RUNNING_STEP, blockers=("t-2: waiting",)), SNAPSHOT, 100_000)
    with PlanView(Console(file=text, width=200)) as view:
        view.show(blocked, None)
        view.show(blocked, 50e6)
        view.show(running_progress(), 50e6)
    assert text.getvalue().splitlines() == [
        "  t-2: waiting",
        "1 of 3 partitions, 2.50 GB of 6.00 GB, 1 moving, about 2 min 6 s left",
    ]
