"""`rheostat reassign start`: the refusals of bad input, and the progress that it shows."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_rig import Command
from rich.console import Console
from tuner_cases import move_signal

from rheostat.errors import BadInputError
from rheostat.reassign.interrupted import EXIT_INTERRUPTED
from rheostat.reassign.plan_store import StoredPlans
from rheostat.reassign.progress import PlanProgress, as_record, picture
from rheostat.reassign.step_preview import as_rows, sentences_of_steps
from rheostat.reassign.text import limits_text, progress, sentences
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
PARTS = {("t", n): PlanPartition((3, 4), (1, 2), 1e9) for n in range(3)}
LOOK = ReassignmentSnapshot(
    frozenset({1, 2, 3, 4}),
    {
        ("t", 0): CurrentAssignment(3, (3, 4), (3, 4)),
        ("t", 1): CurrentAssignment(1, (3, 4, 1, 2), (1, 2), (3, 4), (1, 2)),
        ("t", 2): CurrentAssignment(1, (1, 2), (1, 2)),
    },
    log_bytes={1: {("t", 1): 1_000_000_000}, 3: {("t", 1): 500_000_000}, 4: {("t", 1): 0}},
)


def a_plan(asked: dict[TopicPartition, RequestedStep] | None = None, **state: object) -> Plan:
    return Plan(HEAD, PARTS, asked or {}, PlanState(acknowledged_at_ms=5, **state))  # type: ignore[arg-type]  # by name, whatever a test sets


def shown() -> PlanProgress:
    return picture(a_plan({("t", 1): RequestedStep((3, 4), (1, 2), True)}), LOOK, 100_000)


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "plan.json:1: not JSON"),
        ("nonsense", "plan.json:1: not JSON"),
        ('{"version": 2, "partitions": []}', "plan.json:1: version: expected 1, the one there is, found 2"),
        ('{"version": 1, "partitions": []}', "expected a list of at least one {topic, partition, replicas}, found []"),
        (
            '{"version": 1, "partitions": [\n{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
            "plan.json:2: partitions[0].replicas[1]: broker 1 is listed twice",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/a"]}]}',
            "t-0 names log_dirs: rheostat moves replicas between brokers, not between directories of one",
        ),
    ],
)
def test_a_plan_that_cannot_be_meant_is_named_before_any_cluster_is_asked(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    assert said in refused(str(file), "--config", str(tmp_path / "none.yaml"))


def test_options_that_do_not_go_together_and_files_that_are_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "plan.json"
    assert "cannot be read: No such file" in refused(str(missing), "-c", "none.yaml")
    assert "--detach" in refused(str(missing), "-c", "none.yaml", "--detach", "--standalone")
    assert "--leader-movements" in refused(str(missing), "-c", "none.yaml", "--leader-movements", "0")


def test_options_may_stand_before_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("nonsense")
    assert "plan.json:1: not JSON" in refused("-c", "none.yaml", str(file))


# -- which plan -----------------------------------------------------------------------------------------------------------


def test_a_word_without_a_plan_is_about_the_one_that_runs() -> None:
    one, other = a_plan(), Plan(PlanHead("p2", "lee", 1, 1, 1), PARTS)
    ended = Plan(PlanHead("p0", "lee", 1, 1, 1), {}, {}, PlanState(ending=PlanEnding.DONE))
    assert StoredPlans((ended, one)).of(None) is one
    assert StoredPlans((ended, one)).of("p0") is ended
    with pytest.raises(BadInputError, match="several plans run, say which: p1, p2"):
        StoredPlans((one, other)).of(None)
    with pytest.raises(BadInputError, match="no plan of reassignments is on record that has not ended"):
        StoredPlans((ended,)).of(None)
    with pytest.raises(BadInputError, match="there is no plan 'p9' on record; those that run: p1"):
        StoredPlans((one,)).of("p9")


# -- how it stands --------------------------------------------------------------------------------------------------------


def test_how_far_a_plan_is_in_bytes_and_partitions() -> None:
    found = shown()
    assert (found.arrived, found.partitions) == (1, 3)
    assert (found.total_bytes, found.copied_bytes) == (6e9, 2.5e9)
    assert found.eta_s == 126.0, "ten seconds of the hundred are counted as its start"


def test_the_current_batch_is_told_in_the_words_of_the_kip() -> None:
    record = as_record(shown())
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
    assert json.loads(json.dumps(record)) == record


def test_a_plan_in_sentences() -> None:
    assert sentences(shown()) == [
        "Plan p1, given by kim@desk, 2026-01-31 06:00:00 UTC: running.",
        "  1 of 3 partitions, 2.50 GB of 6.00 GB, 1 under way, about 2 min 6 s left",
        "  t-1: [3, 4, 1, 2] → [3, 4]",
        "  at most 2 leader movements, 8 partition movements at a time",
        "  throttled at the ceiling of the tuner at most, on each broker and side",
    ]


def test_a_topic_that_has_grown_is_said_and_holds_nothing_up() -> None:
    parts = {key: replace(part, topic=OriginalTopic("t1", 3)) for key, part in PARTS.items()}
    more = {("t", n): CurrentAssignment(1, (1, 2), (1, 2)) for n in (3, 4)}
    look = replace(LOOK, partitions={**LOOK.partitions, **more, ("other", 9): more[("t", 3)]}, topic_ids={"t": "t1"})
    plan = replace(a_plan(), partitions=parts)
    found = picture(plan, look, 100_000)
    said = "topic t has 2 more partitions than when the plan was submitted; the plan does not move them"
    assert f"  {said}" in sentences(found)
    assert as_record(found)["grown"] == [said]
    assert found.well
    assert picture(plan, replace(look, topic_ids={"t": "t2"}), 100_000).new_partitions == (), (
        "made anew, it has not grown"
    )
    assert picture(plan, replace(LOOK, topic_ids={"t": "t1"}), 100_000).new_partitions == ()


def test_a_plan_that_has_ended_or_is_not_heeded_yet() -> None:
    done = picture(a_plan(ending=PlanEnding.DONE, dropped={("t", 0): "gone"}), LOOK, 1)
    assert sentences(done)[0].endswith("done, but for 1 partitions that are not there any more.")
    assert not done.well
    assert picture(a_plan(ending=PlanEnding.DONE), LOOK, 1).well
    waiting = picture(Plan(HEAD, PARTS), LOOK, 1)
    assert sentences(waiting)[0].endswith("running, as soon as a tuner heeds it.")
    held = picture(a_plan(blockers=("t-0: waiting for brokers that are down: 4",)), LOOK, 1)
    assert not held.well
    assert "  t-0: waiting for brokers that are down: 4" in sentences(held)


def test_how_many_partitions_a_plan_had_is_known_when_it_has_ended() -> None:
    head = Plan(HEAD, {}, {}, PlanState(5, PlanEnding.CANCELLED, 9, result=PlanResult(200, 3, 8e9, 1e9)))
    found = picture(head, LOOK, 1)
    record = as_record(found)
    assert [record[key] for key in ("partitions", "arrived", "total_bytes", "copied_bytes")] == [200, 3, 8e9, 1e9]
    assert sentences(found)[0].endswith("cancelled; 3 of 200 partitions are at their target.")
    # An older program saw it end.
    record = as_record(picture(replace(head, state=replace(head.state, result=None)), LOOK, 1))
    assert [record[key] for key in ("partitions", "arrived", "total_bytes", "copied_bytes")] == [None] * 4


def test_the_time_to_its_end_leaves_pauses_out() -> None:
    plan = a_plan({("t", 1): RequestedStep((3, 4), (1, 2))})
    at_once = picture(plan, LOOK, 100_000).eta_s
    assert at_once is not None
    rested = picture(replace(plan, state=replace(plan.state, paused_total_ms=900_000)), LOOK, 1_000_000).eta_s
    assert rested == pytest.approx(at_once)


def test_time_left_is_no_less_than_that_of_the_moves() -> None:
    plan = a_plan({("t", 1): RequestedStep((3, 4), (1, 2))})
    slow = [move_signal(3, Side.FOLLOWER, remaining=600.0, slope=-2.0)]
    found = picture(plan, LOOK, 100_000, slow)
    assert found.eta_s == 300.0, "as status and page have it"
    assert found.eta_s == expected_end(slow, stalled=False, plans={"p1": found.progress}).eta_s
    assert "about 5 min left" in progress(found, 50e6)
    assert picture(a_plan(), LOOK, 100_000, slow).eta_s is None, "nothing of it is under way"


def test_time_left_is_not_told_while_a_plan_begins() -> None:
    begun = picture(a_plan({("t", 1): RequestedStep((3, 4), (1, 2))}), LOOK, 20_000)
    assert begun.eta_s is None
    assert progress(begun, 4e6) == "1 of 3 partitions, 2.50 GB of 6.00 GB, 1 under way, 4.00 MB/s"


def test_a_plan_that_is_put_back_has_no_time_to_its_end() -> None:
    plan = Plan(PlanHead("p", "kim", 0, 5, 1, DesiredPlanState.CANCELLING), PARTS, {}, PlanState(acknowledged_at_ms=5))
    assert picture(plan, LOOK, 100_000).eta_s is None
    assert limits_text(BatchLimits()) == "no limits of its own"


def test_the_steps_of_a_dry_run_are_those_of_the_kip() -> None:
    way = PartitionTransition("t", 0, (0, 1, 2, 3, 4), (5, 6, 7, 8, 9), 0, frozenset(range(5)))
    assert sentences_of_steps([way], 2) == [
        "t-0: (0,1,2,3,4) → (5,0,1,2,3,4) → (5,6,2,3,4) → (5,6,7,8,4) → (5,6,7,8,9)"
    ]  # fmt: skip
    (row,) = as_rows([way], 2**31 - 1)
    assert [step["replicas"] for step in row["steps"]] == [[5, 6, 7, 8, 9]]
    assert EXIT_INTERRUPTED == 130


def test_without_a_terminal_what_holds_a_plan_up_is_said_once_and_how_far_it_is_in_lines() -> None:
    text = io.StringIO()
    held = picture(a_plan({("t", 1): RequestedStep((3, 4), (1, 2))}, blockers=("t-2: waiting",)), LOOK, 100_000)
    with PlanView(Console(file=text, width=200)) as view:
        view.show(held, None)
        view.show(held, 50e6)
        view.show(shown(), 50e6)
    assert text.getvalue().splitlines() == [
        "  t-2: waiting",
        "1 of 3 partitions, 2.50 GB of 6.00 GB, 1 under way, about 2 min 6 s left",
    ]


def test_a_rate_that_is_measured_tells_how_long_it_takes() -> None:
    assert progress(shown(), 50e6) == (
        "1 of 3 partitions, 2.50 GB of 6.00 GB, 1 under way, 50.0 MB/s, about 2 min 6 s left"
    )  # fmt: skip
