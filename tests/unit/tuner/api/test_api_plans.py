"""Plans over HTTP and on the page: progress, expected end, concurrency and blockers."""

from __future__ import annotations

from typing import Any

from api_rig import WELL, Rig
from reassign_rig import Rig as Executor
from reassign_rig import still
from tuner_cases import STALLED, TARGET, live, move, move_signal

from streaming.shared.units import span_text
from tuner.api.metrics import make_registry
from tuner.api.plan_status_store import OVERDUE_REASON, SNAPSHOT_AGE_S_MAX, PlanStatusStore
from tuner.api.plan_views import plan_json
from tuner.api.sentences import moment
from tuner.control.reassignment.admission import OperatorLimits
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.partition_progress import PartitionProgress
from tuner.control.reassignment.policy import PlanDecision
from tuner.control.throttle.state import Memory
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import (
    CurrentAssignment,
    DesiredPlanState,
    Plan,
    PlanHead,
    PlanPartition,
    TopicPartition,
)
from tuner.core.throttle_limits import MB

A, B, C = ("t", 0), ("t", 1), ("t", 2)
TO = {A: (4, 2), B: (4, 2), C: (1, 4)}


def executing(rig: Rig, *, at_a_time: int = 1) -> Executor:
    """A real executor that reports to the plan status store of the API."""
    bounds = OperatorLimits(BatchLimits(partition_movements_max=at_a_time))
    made = Executor({A: still(1, 2), B: still(1, 2), C: still(1, 2)}, online=[1, 2, 3, 4], bounds=bounds)
    made.loop._observer = rig.plans
    return made


def rows(rig: Rig) -> Any:
    return rig.get("/api/v1/plans").json()["plans"]


def test_plans_route_without_plans_is_empty() -> None:
    rig = Rig()
    rig.cycle()
    assert rig.get("/api/v1/plans").json() == {
        "limits": None, "observed_at_ms": None, "unknown_reason": None, "unknown_since_ms": None, "order": "", "total": 0, "next_offset": None, "plans": [],
    }  # fmt: skip
    assert "No plan" in rig.get("/page/plans").text


def test_running_plan_shows_progress_batch_and_limits() -> None:
    rig = Rig()
    rig.cycle(WELL, cluster=live({}, moves=()), memory=Memory())
    executor = executing(rig)
    executor.give(TO, BatchLimits(leader_movements_max=7))
    executor.cycle()
    found = rig.get("/api/v1/plans").json()
    assert found["limits"] == {"leader_movements_max": 7, "partition_movements_max": 1, "replica_movements_max": None}
    (row,) = found["plans"]
    assert (row["plan"], row["submitted_by"], row["desired"]) == ("p", "kim@desk", "running")
    assert (row["partitions"], row["arrived"], row["moving"], row["waiting"]) == (3, 0, 1, 2)
    assert (row["total_bytes"], row["copied_bytes"], row["done_ratio"], row["eta_s"]) == (3000.0, 0.0, 0.0, None)
    assert len(row["batch"]) == 1
    assert row["batch"][0]["adding"] == [4]
    executor.now_s += 58.0
    executor.cycle()
    (row,) = rows(rig)
    assert (row["arrived"], row["moving"], row["waiting"]) == (1, 1, 1)
    assert row["copied_bytes"] == 1000.0
    # A third of it in a minute, of which ten seconds are its start: two thirds take a hundred.
    assert row["eta_s"] == 100.0
    assert rig.get("/api/v1/status").json()["next"] == ["The tuner waits for the next step of a plan."]
    page = rig.get("/page/plans").text
    assert "<b>33 %</b> copied: 1.00 kB of 3.00 kB." in page
    assert "1 of 3 partitions have arrived, 1 moving, 1 waiting for a step;" in page
    assert "at most 1 at a time" in page
    order = "min.insync.replicas first, then partitions of payments-* (tuner.first_topics), then by bytes."
    assert order in page
    assert order in found["order"]
    executor.until_ended()
    executor.cycle()
    assert rows(rig) == []


def test_copied_part_of_a_moving_partition_counts_as_progress() -> None:
    rig = Rig()
    executor = executing(rig)
    executor.give({A: (4, 2)})
    executor.cycle(finish=False)
    executor.cycle(finish=False)
    shown = rig.plans.snapshot()._replace(
        measurements=PartitionMeasurements(size_bytes={A: 1000.0}, remaining_bytes={A: 250.0})
    )
    row = plan_json(shown, shown.plans[0], 7.0)
    assert (row["copied_bytes"], row["done_ratio"], row["eta_s"]) == (750.0, 0.75, 7.0)


def test_plan_end_is_equal_in_status_page_and_metric() -> None:
    rig = Rig()
    executor = executing(rig)
    executor.give(TO)
    executor.cycle()
    executor.now_s += 58.0
    executor.cycle()
    slow = move_signal(*TARGET, remaining=600 * MB, slope=-2 * MB)
    for signals, ends_s in (([], 100.0), ([slow], 300.0)):  # At its pace so far; no sooner than what is under way.
        seen = rig.cycle(cluster=live(moves=(move(adding=(3,)),)), memory=Memory(), signals=signals)
        status = rig.get("/api/v1/status").json()
        (row,) = rows(rig)
        assert (status["eta_s"], row["eta_s"], status["plans"]) == (ends_s, ends_s, 1)
        assert status["ends_at_ms"] == seen.now_ms + ends_s * 1000
        assert rig.get("/status").json()["ends_at_ms"] == status["ends_at_ms"]
        assert f"done in about {span_text(ends_s)}." in status["headline"]
        page = rig.get("/page/now").text
        assert (
            f'done in about {span_text(ends_s)}. <span class="dim">(at {moment(status["ends_at_ms"])[11:16]} UTC)</span>'
            in page
        )
        # The page shows the end once: that of the only plan is the end of all moves.
        assert page.count("done in about") == 1
        assert "done in about" not in rig.get("/page/plans").text
        assert "ends in" not in rig.get("/page/moves").text
        metric = make_registry(rig.board, rig.quotas, plans=rig.plans)
        assert metric.get_sample_value(
            "rheostat_move_expected_end_timestamp_seconds", {"cluster": rig.board.cluster}
        ) == (status["ends_at_ms"] / 1000)
    rig.cycle(cluster=live(moves=(move(adding=(3,)),)), memory=Memory(stalls={3: STALLED}), signals=[slow])
    assert rig.get("/api/v1/status").json()["eta_s"] is None
    assert rows(rig)[0]["eta_s"] is None


def test_plan_that_starts_later_shows_its_start() -> None:
    rig = Rig()
    rig.cycle()
    executor = executing(rig)
    starts_ms = round(1000 * executor.now_s) + 3_600_000
    executor.give(TO, not_before_ms=starts_ms)
    executor.cycle()
    (row,) = rows(rig)
    assert (row["not_before_ms"], row["moving"], row["eta_s"], row["blockers"]) == (starts_ms, 0, None, [])
    assert "starts 2020-09-13 13:26:40 UTC" in rig.get("/page/plans").text
    executor.now_s += 3_600.0
    executor.cycle()
    (row,) = rows(rig)
    assert (row["not_before_ms"], row["moving"]) == (None, 1)
    assert "starts 2020" not in rig.get("/page/plans").text


def test_paused_plan_shows_the_operator_that_paused_it() -> None:
    rig = Rig()
    rig.cycle()
    executor = executing(rig)
    executor.give(TO)
    executor.cycle()
    executor.say(DesiredPlanState.PAUSED)
    executor.cycle()
    (row,) = rows(rig)
    assert (row["desired"], row["ordered_by"], row["eta_s"]) == ("paused", "lee@desk", None)
    assert any("paused by lee@desk" in line for line in row["blockers"])
    page = rig.get("/page/plans").text
    assert "paused by lee@desk" in page
    executor.say(DesiredPlanState.CANCELLING)
    executor.cycle(finish=False)
    (row,) = rows(rig)
    assert (row["desired"], row["done_ratio"], row["copied_bytes"]) == ("cancelling", None, None)
    page = rig.get("/page/plans").text
    assert "partitions are rolled back" in page
    assert "cancelled by lee@desk, rolling back" in page


def test_plan_waits_for_reassignment_of_another_tool() -> None:
    rig = Rig()
    rig.cycle()
    executor = executing(rig)
    executor.cluster.partitions[A] = CurrentAssignment(1, (3, 1, 2), (1, 2), adding=(3,))
    executor.give({A: (4, 2)})
    executor.cycle(finish=False)
    (row,) = rows(rig)
    assert (row["externally_owned"], row["moving"]) == (1, 0)
    page = rig.get("/page/plans").text
    assert '<span class="pill bad">blocked</span>' in page
    assert "t-0: another tool&#39;s reassignment is in progress; the plan waits until it has ended." in page


POLICY = "error 44 PolicyViolationError"


def test_repeatedly_refused_steps_show_the_cause_and_no_progress() -> None:
    rig = Rig()
    rig.cycle()
    executor = executing(rig)
    executor.cluster.refuses = dict.fromkeys(TO, POLICY)
    executor.give(TO)
    executor.cycle()
    # One at a time: each look tries another, and later the same again.
    for _ in range(12):
        executor.now_s += 2.0
        executor.cycle()
        (row,) = rows(rig)
        assert (row["moving"], row["waiting"], row["batch"]) == (0, 3, [])
    assert row["blockers"] == [f"t-0 and others: the last request failed: {POLICY}; the tuner tries again"]
    page = rig.get("/page/plans").text
    assert '<span class="pill bad">blocked</span>' in page
    assert POLICY in page
    executor.cluster.refuses = {}
    executor.now_s += 300.0
    executor.cycle(finish=False)
    executor.cycle(finish=False)
    (row,) = rows(rig)
    assert row["moving"] == 1
    executor.until_ended()
    assert executor.loop.recorder.refusals == {}


def test_accepted_steps_count_as_moving_beside_a_refused_one() -> None:
    rig = Rig()
    executor = executing(rig, at_a_time=2)
    executor.cluster.refuses = {A: POLICY}
    executor.give(TO)
    executor.cycle()
    executor.cycle()  # The accepted step ends before the next snapshot.
    (row,) = rows(rig)
    assert (row["moving"], row["arrived"], row["waiting"]) == (1, 1, 1)
    assert row["blockers"] == [f"t-0: the last request failed: {POLICY}; the tuner tries again"]
    executor.now_s += 5.0
    executor.cycle()
    (row,) = rows(rig)
    assert (row["moving"], row["arrived"], row["waiting"]) == (0, 2, 1), "what was refused is tried again, and no more"


def test_accepted_step_clears_its_refusal_even_if_never_observed() -> None:
    rig = Rig()
    executor = executing(rig)
    executor.cluster.refuses = {A: POLICY}
    executor.give({A: (3, 4)}, BatchLimits(replica_movements_max=1))
    executor.cycle()
    executor.cluster.refuses = {}
    executor.now_s += 5.0
    executor.cycle()
    assert rows(rig)[0]["blockers"] != []
    executor.cycle()  # The leader of the first of three steps is elected.
    executor.cycle()
    (row,) = rows(rig)
    assert (row["moving"], row["arrived"], row["blockers"]) == (1, 0, [])


def test_pause_replaces_the_refusal_in_blockers() -> None:
    rig = Rig()
    executor = executing(rig, at_a_time=3)
    executor.refused = "the lease was not proved"
    executor.give(TO)
    executor.cycle()
    executor.cycle()
    (row,) = rows(rig)
    assert row["blockers"] == [
        "t-0 and others: the last request failed: the lease was not proved; the tuner tries again"
    ]
    executor.say(DesiredPlanState.PAUSED)
    executor.cycle()
    (row,) = rows(rig)
    assert [line.partition(":")[0] for line in row["blockers"]] == ["paused by lee@desk"], "nothing is tried again"


def test_missing_response_is_no_refusal_once_step_runs() -> None:
    rig = Rig()
    executor = executing(rig, at_a_time=3)
    executor.cluster.silent = True
    executor.give(TO)
    executor.cycle(finish=False)
    executor.cluster.silent = False
    executor.cycle(finish=False)
    (row,) = rows(rig)
    assert (row["moving"], row["blockers"]) == (3, [])
    assert executor.loop.recorder.refusals == {}
    # A stop that is refused is told of what runs.
    executor.cluster.refuses = {A: POLICY}
    executor.now_s += 5.0
    executor.say(DesiredPlanState.CANCELLING)
    executor.cycle(finish=False)
    executor.cycle(finish=False)
    (row,) = rows(rig)
    assert row["blockers"] == [f"t-0: the last request failed: {POLICY}; the tuner tries again"]


def test_plans_of_unreadable_cluster_are_shown_as_unknown() -> None:
    rig = Rig()
    rig.cycle()
    executor = executing(rig)
    executor.give(TO)
    executor.cluster.away = True
    executor.cycle()
    found = rig.get("/api/v1/plans").json()
    assert (found["unknown_reason"], found["observed_at_ms"], found["plans"]) == ("nobody answers", None, [])
    page = rig.get("/page/plans").text
    assert "The state of the plans is not known" in page
    assert "so the tuner starts no step: nobody answers.</p>" in page
    assert "No plan is active" not in page
    rig.plans.clear()
    assert rig.get("/api/v1/plans").json()["unknown_reason"] is None
    executor.cluster.away = False
    executor.cycle(finish=False)
    assert rig.get("/api/v1/plans").json()["unknown_reason"] is None
    executor.cluster.away = True
    executor.cycle(finish=False)
    found = rig.get("/api/v1/plans").json()
    assert (found["unknown_reason"], len(found["plans"])) == ("nobody answers", 1)
    assert found["unknown_since_ms"] == found["observed_at_ms"] is not None
    page = rig.get("/page/plans").text
    assert f"is not known since {moment(found['observed_at_ms'])}, so the tuner starts no step: nobody answers." in page
    assert "The last known state follows." in page
    # Another cause does not make it younger.
    rig.plans.record_unknown("nobody answers at all")
    assert rig.get("/api/v1/plans").json()["unknown_since_ms"] == found["observed_at_ms"]
    rig.plans.clear()
    assert rig.get("/api/v1/plans").json()["unknown_reason"] is None


def test_plans_become_unknown_when_a_snapshot_is_overdue() -> None:
    """The snapshot of the executor never returns, so no newer state is reported."""
    rig = Rig()
    rig.cycle()
    executor = executing(rig)
    executor.give(TO)
    executor.cycle()
    seen_at_ms = rig.plans.snapshot().at_ms
    rig.clock.now_s += SNAPSHOT_AGE_S_MAX
    assert rig.get("/api/v1/plans").json()["unknown_reason"] is None
    rig.clock.now_s += 1.0
    found = rig.get("/api/v1/plans").json()
    assert (found["unknown_reason"], found["unknown_since_ms"], len(found["plans"])) == (OVERDUE_REASON, seen_at_ms, 1)
    assert f"is not known since {moment(seen_at_ms)}" in rig.get("/page/plans").text, (
        "no answer of before is given again"
    )
    registry = make_registry(rig.board, rig.quotas, plans=rig.plans)
    assert registry.get_sample_value("rheostat_plans_state_unknown", {"cluster": rig.board.cluster}) == 1.0
    executor.cycle(finish=False)
    found = rig.get("/api/v1/plans").json()
    assert (found["unknown_reason"], found["unknown_since_ms"]) == (None, None)


def test_unknown_plans_have_reason_and_given_start_time() -> None:
    board = PlanStatusStore("c")
    board.record_unknown("the journal accepts no record", 7_000)
    assert (board.snapshot().unknown_reason, board.snapshot().unknown_since_ms) == (
        "the journal accepts no record",
        7_000,
    )
    board.clear()
    assert board.snapshot().unknown_since_ms is None


def test_standby_tuner_shows_no_plan() -> None:
    rig = Rig()
    rig.cycle()
    executor = executing(rig)
    executor.give(TO)
    executor.cycle()
    assert rows(rig) != []
    rig.plans.clear()
    assert rows(rig) == []


def test_overdue_first_snapshot_is_reported_until_cleared() -> None:
    rig = Rig()
    rig.plans.expect_snapshot()
    rig.clock.now_s += SNAPSHOT_AGE_S_MAX
    rig.plans.expect_snapshot()
    assert rig.plans.snapshot().unknown_reason is None
    rig.clock.now_s += 1.0
    assert rig.plans.snapshot().unknown_reason == OVERDUE_REASON
    rig.plans.clear()
    rig.clock.now_s += 2 * SNAPSHOT_AGE_S_MAX
    assert rig.plans.snapshot().unknown_reason is None


def test_bytes_of_a_plan_are_summed_once() -> None:
    summed: list[TopicPartition] = []

    class Counted(dict[TopicPartition, PlanPartition]):
        def values(self) -> Any:
            summed.extend(self)
            return super().values()

    board = PlanStatusStore("lab")
    turn = PlanDecision(
        Plan(PlanHead("p", "kim", 0, 0, 1), Counted({("t", 0): PlanPartition((1, 2), (1, 3), size_bytes=7.0)})),
        PartitionProgress(),
    )
    for _ in range(3):
        board.record_step((turn,), BatchLimits())
    assert board.snapshot().total_bytes == {"p": 7.0}
    assert summed == [("t", 0)]
    board.record_step((), BatchLimits())
    assert board.snapshot().total_bytes == {}
