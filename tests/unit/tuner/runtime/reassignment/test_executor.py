"""Tests the executor of plans: records before requests, crashes, external changes, and rollbacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reassign_rig import START_S, Killed, Rig, still
from structlog.testing import capture_logs

from streaming.shared.kafka.cluster import ClusterError
from tuner.api.plan_status_store import PlanStatusStore
from tuner.control.reassignment.admission import STUCK_S_MIN, OperatorLimits
from tuner.core.batch_limits import BatchLimits
from tuner.core.operator_orders import Orders, Pause
from tuner.core.outcome import Outcome
from tuner.core.partition_limits import PartitionLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanEnding, PlanResult, ReassignmentSnapshot, TopicPartition
from tuner.journal.entries import STEP_OUTCOMES, STEPS
from tuner.runtime.reassignment.recorder import PLANS_KEPT

ONE_BY_ONE = BatchLimits(replica_movements_max=1)
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
PAUSED = Orders(at_ms=1, pause=Pause(1, "kim@desk"))


def two(*keys: TopicPartition) -> Rig:
    """Partitions on brokers 1 and 2 of four."""
    return Rig({key: still(1, 2) for key in keys or (T0,)}, online={1, 2, 3, 4})


# -- the way of a plan ----------------------------------------------------------------------------------------------------


def test_plan_reaches_target_step_by_step() -> None:
    rig = two()
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    rig.until_ended()
    assert [wanted for _, wanted in rig.cluster.asked] == [(3, 1, 2), (3, 2), (3, 4)]
    assert rig.replicas() == {T0: (3, 4)}
    assert rig.cluster.partitions[T0].leader == 3
    assert rig.plan().state.ending is PlanEnding.DONE
    assert [e.kind for e in rig.journal.entries if e.kind in (STEPS, STEP_OUTCOMES)][:2] == [STEPS, STEP_OUTCOMES]
    assert rig.plan().partitions == {}, "of a plan that has ended only its head and its end are kept"


def test_preferred_leader_is_elected_before_next_step() -> None:
    rig = two()
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    rig.cycle()
    assert rig.cluster.partitions[T0].leader == 1
    rig.cycle()
    assert rig.cluster.partitions[T0].leader == 3
    assert len(rig.cluster.asked) == 1


def test_plan_without_limits_takes_one_step_per_partition() -> None:
    rig = two(T0, T1, T2)
    rig.give({T0: (3, 4), T1: (3, 4), T2: (4, 1)})
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4), T1: (3, 4), T2: (4, 1)}
    assert len(rig.cluster.asked) == 3


def test_limits_apply_to_all_plans_and_can_change() -> None:
    rig = two(*(("t", n) for n in range(8)))
    rig.give({("t", n): (3, 4) for n in range(4)}, BatchLimits(partition_movements_max=2))
    rig.give({("t", n): (3, 4) for n in range(4, 8)}, plan="q")
    rig.cycle()
    assert rig.cluster.under_way_most == 2
    rig.say(None, BatchLimits(partition_movements_max=5))
    rig.cycle(finish=False)
    assert rig.cluster.under_way_most == 5
    rig.until_ended()
    assert set(rig.replicas().values()) == {(3, 4)}


def test_free_slot_is_refilled_at_once() -> None:
    rig = two(T0, T1, T2)
    rig.give(dict.fromkeys((T0, T1, T2), (3, 4)), BatchLimits(partition_movements_max=2))
    rig.cycle(finish=False)
    first = [key for key, _ in rig.cluster.asked]
    rig.cluster.finish(first[:1])
    rig.cycle(finish=False)
    assert len(rig.cluster.asked) == 3
    assert rig.cluster.partitions[first[1]].is_reassigning


# -- killed anywhere ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_crash_at_any_step_lets_next_term_end_plan(data: st.DataObject) -> None:
    """Within a write, within a request, between the two; the port asserts that what it is asked for is on record."""
    brokers = list(range(1, 7))
    count = data.draw(st.integers(1, 5))
    replica_lists = st.lists(st.sampled_from(brokers), min_size=2, max_size=3, unique=True).map(tuple)
    before = {("t", n): data.draw(replica_lists) for n in range(count)}
    target = {key: data.draw(replica_lists) for key in before}
    rig = Rig({key: still(*replicas) for key, replicas in before.items()}, online=brokers)
    limits = BatchLimits(
        partition_movements_max=data.draw(st.integers(1, 3)), replica_movements_max=data.draw(st.integers(1, 2))
    )
    moved = {key: replicas for key, replicas in target.items() if replicas != before[key]}
    if not moved:
        return
    rig.give(moved, limits)
    for _ in range(data.draw(st.integers(0, 4))):
        if data.draw(st.booleans()):
            rig.journal.kills = data.draw(st.integers(0, 4))
        else:
            rig.cluster.kill_after = data.draw(st.integers(0, 4))
        with suppress(Killed):
            for _ in range(6):
                rig.cycle(finish=data.draw(st.booleans()))
        rig.begin_anew()
        rig.now_s += data.draw(st.sampled_from([0.0, 30.0]))
    rig.until_ended()
    assert rig.replicas() == before | moved
    assert rig.cluster.under_way_most <= limits.partition_movements_max
    assert rig.plan().state.ending is PlanEnding.DONE


def test_incomplete_plan_is_not_executed() -> None:
    rig = two(T0)
    rig.give({T0: (3, 4)})
    rig.journal.records = [(key, value) for key, value in rig.journal.records if not key.startswith(b"plan-part|")]
    rig.begin_anew()
    rig.cycle()
    assert rig.loop.recorder.active_plans == ()
    assert rig.cluster.asked == []


# -- failures -------------------------------------------------------------------------------------------------------------


def test_unavailable_journal_prevents_requests() -> None:
    rig = two()
    rig.give({T0: (3, 4)})
    rig.journal.away = True
    rig.cycle()
    assert rig.cluster.asked == []
    rig.journal.away = False
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4)}


def test_journal_outage_reports_since_when_plans_are_unknown() -> None:
    rig = two(T0, T1)
    board = rig.loop._observer
    assert isinstance(board, PlanStatusStore)
    rig.give({T0: (3, 4), T1: (3, 4)}, BatchLimits(partition_movements_max=1))
    rig.cycle()
    seen_at_ms = round(rig.now_s * 1000)
    rig.journal.away = True
    for _ in range(3):
        rig.cycle()
        shown = board.snapshot()
        assert (shown.unknown_reason, shown.unknown_since_ms) == (
            "the journal accepts no record: the journal is away",
            seen_at_ms,
        )
    # Another reason is no other beginning.
    rig.cluster.away = True
    rig.cycle()
    assert (board.snapshot().unknown_reason, board.snapshot().unknown_since_ms) == ("nobody answers", seen_at_ms)
    rig.journal.away = rig.cluster.away = False
    rig.cycle()
    assert (board.snapshot().unknown_reason, board.snapshot().unknown_since_ms) == (None, None)


def test_refusal_during_journal_outage_is_recorded_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = two(T0, T1)
    rig.cluster.refuses = {T0: "error 39 InvalidReplicaAssignmentError"}
    rig.give({T0: (3, 4), T1: (3, 4)})
    ask = rig.cluster.request

    def asked_and_away(replicas: Mapping[TopicPartition, tuple[int, ...] | None]) -> Outcome:
        outcome = ask(replicas)
        rig.journal.away = True
        return outcome

    monkeypatch.setattr(rig.cluster, "request", asked_and_away)
    rig.cycle()
    rig.cycle()
    assert not any(e.failure for e in rig.journal.entries)
    monkeypatch.undo()
    rig.cluster.refuses, rig.journal.away = {}, False
    rig.until_ended()
    assert [e.failure for e in rig.journal.entries if e.failure] == ["t-0: error 39 InvalidReplicaAssignmentError"]
    assert rig.replicas() == {T0: (3, 4), T1: (3, 4)}


def test_plans_never_seen_are_unknown_since_first_failure() -> None:
    rig = two()
    rig.give({T0: (3, 4)})
    rig.cluster.away = True
    rig.cycle()
    first_ms = round(rig.now_s * 1000)
    rig.cycle()
    assert isinstance(rig.loop._observer, PlanStatusStore)
    assert rig.loop._observer.snapshot().unknown_since_ms == first_ms


def test_refused_step_is_reported_and_retried_later() -> None:
    rig = two(T0, T1)
    rig.cluster.refuses = {T0: "error 39 InvalidReplicaAssignmentError"}
    rig.give({T0: (3, 4), T1: (3, 4)})
    rig.cycle()
    rig.cycle()
    assert rig.replicas()[T1] == (3, 4)
    assert T0 not in rig.plan().requested
    assert any(e.failure and "t-0: error 39" in e.failure for e in rig.journal.entries)
    rig.cluster.refuses = {}
    rig.cycle()
    assert rig.replicas()[T0] == (1, 2), "not before some seconds have gone by"
    rig.now_s += 5.0
    rig.until_ended()
    assert rig.replicas()[T0] == (3, 4)


def test_step_without_answer_is_not_requested_again() -> None:
    rig = two()
    rig.cluster.silent = True
    rig.give({T0: (3, 4)})
    rig.cycle(finish=False)
    rig.cluster.silent = False
    for _ in range(3):
        rig.cycle(finish=False)
    assert len(rig.cluster.asked) == 1
    rig.cluster.finish()
    rig.until_ended()
    assert len(rig.cluster.asked) == 1


def test_refusal_prevents_requests() -> None:
    rig = two()
    rig.refused = "another has the lease"
    rig.give({T0: (3, 4)})
    rig.cycle()
    assert rig.cluster.asked == []
    assert rig.plan().requested == {}


def test_unreadable_cluster_makes_plans_wait() -> None:
    rig = two()
    rig.give({T0: (3, 4)})
    rig.cluster.away = True
    rig.cycle()
    rig.cluster.away = False
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4)}


def test_step_without_answer_and_effect_is_requested_again() -> None:
    rig = two()
    rig.cluster.deaf = True
    rig.give({T0: (3, 4)})
    rig.cycle()
    assert T0 in rig.plan().requested, "Kafka may have taken it"
    rig.cluster.deaf = False
    rig.cycle()
    assert rig.cluster.asked == []
    rig.now_s += 25.0
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4)}


# -- brokers, topics, other people ----------------------------------------------------------------------------------------


def test_partitions_with_dead_target_wait_while_others_continue() -> None:
    rig = two(T0, T1)
    rig.cluster.online = {1, 2, 3}
    rig.give({T0: (3, 4), T1: (3, 1)}, ONE_BY_ONE)
    for _ in range(8):
        rig.cycle()
    assert rig.replicas() == {T0: (3, 2), T1: (3, 1)}
    assert rig.plan().state.blockers == ("t-0: waiting for brokers that are down: 4",)
    rig.cluster.online = {1, 2, 3, 4}
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4), T1: (3, 1)}


def test_step_with_dead_target_frees_its_slot_later() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 1)}, BatchLimits(partition_movements_max=1))
    rig.cycle(finish=False)
    assert [key for key, _ in rig.cluster.asked] == [T0]
    rig.cluster.online = {1, 2, 3}
    rig.cycle()
    assert rig.plan().state.blockers == ("t-0: in progress, and cannot end while brokers are down: 4",)
    assert len(rig.cluster.asked) == 1, "a broker that is restarted is back in a minute"
    rig.now_s += STUCK_S_MIN
    rig.cycle()
    rig.cycle()
    assert rig.replicas()[T1] == (3, 1)
    assert T0 in rig.plan().requested
    rig.cluster.online = {1, 2, 3, 4}
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4), T1: (3, 1)}


def test_step_with_dead_source_frees_its_slot() -> None:
    rig = Rig({T0: still(1), T1: still(2)}, online={1, 2, 3})
    rig.give({T0: (3,), T1: (3,)}, BatchLimits(partition_movements_max=1))
    rig.cycle(finish=False)
    (first,) = [key for key, _ in rig.cluster.asked]
    source = rig.cluster.partitions[first].leader
    rig.cluster.online -= {source}
    rig.cluster.partitions[first] = replace(rig.cluster.partitions[first], leader=-1)
    rig.cycle(finish=False)
    name = f"{first[0]}-{first[1]}"
    assert rig.plan().state.blockers == (f"{name}: in progress, and cannot end while brokers are down: {source}",)
    rig.now_s += STUCK_S_MIN
    rig.cycle(finish=False)
    assert len(rig.cluster.asked) == 2


def test_blocked_rollback_says_how_to_end_plan() -> None:
    rig = two()
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    while rig.replicas()[T0] != (3, 2):
        rig.cycle()
    rig.say(DesiredPlanState.CANCELLING)
    rig.cycle(finish=False)
    rig.cluster.online -= {1}
    rig.cycle(finish=False)
    assert rig.plan().state.blockers == (
        "t-0: in progress, and cannot end while brokers are down: 1; `rheostat reassign cancel p --no-rollback` ends the plan without a rollback",
    )
    rig.leave()
    rig.until_ended()
    assert rig.replicas() == {T0: (2, 3)}, "as Kafka merged it for the step back"


def test_step_redirected_by_another_tool_is_external() -> None:
    rig = two()
    rig.give({T0: (3, 4)})
    rig.cycle(finish=False)
    rig.cluster.reassign(T0, (2, 3))
    rig.cycle(finish=False)
    assert rig.plan().state.blockers == (
        "t-0: another tool's reassignment is in progress; the plan waits until it has ended",
    )
    assert rig.plan().requested == {}
    rig.cluster.finish()
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4)}


def test_deleted_topic_is_dropped_and_reported() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)})
    del rig.cluster.partitions[T0]
    rig.cycle()
    rig.cycle()
    assert rig.plan().is_active
    rig.now_s += 25.0
    rig.cycle()
    state = rig.plan().state
    assert state.ending is PlanEnding.DONE
    assert list(state.dropped) == [T0]
    assert state.blockers == ("t-0: no longer part of the plan, because the partition no longer exists",)


def test_external_reassignment_is_awaited() -> None:
    rig = two()
    rig.cluster.reassign(T0, (2, 3))
    rig.give({T0: (3, 4)})
    rig.cycle(finish=False)
    assert rig.cluster.asked == []
    assert rig.plan().state.blockers == (
        "t-0: another tool's reassignment is in progress; the plan waits until it has ended",
    )
    rig.cluster.finish()
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4)}


def test_step_cancelled_externally_waits_for_resume() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)})
    rig.cycle(finish=False)
    rig.cluster.reassign(T0, None)
    rig.cluster.finish()
    for _ in range(30):
        rig.cycle()
    assert rig.replicas() == {T0: (1, 2), T1: (3, 4)}
    assert rig.plan().state.blockers == (
        "t-0: another tool stopped the step; the plan does not start it again until `rheostat reassign resume p`",
    )  # fmt: skip
    rig.begin_anew()
    rig.cycle()
    assert rig.replicas()[T0] == (1, 2), "also by another tuner"
    rig.say(DesiredPlanState.RUNNING)
    rig.until_ended()
    assert rig.replicas() == {T0: (3, 4), T1: (3, 4)}


def test_plan_waits_for_broker_at_partition_limit() -> None:
    rig = two(T0, T1)
    rig.bounds = OperatorLimits(partitions=PartitionLimits(by_broker={3: 1}))
    rig.begin_anew()
    rig.give({T0: (1, 3), T1: (1, 3)})
    for _ in range(5):
        rig.cycle()
    assert sorted(rig.replicas().values()) == [(1, 2), (1, 3)]
    assert rig.plan().state.blockers == (
        "1 steps wait for brokers that are at their partition limit: 3",
    )  # fmt: skip


def test_two_full_brokers_swap_replicas() -> None:
    """Each broker has room only after the other gave up a replica; no broker ends above its limit."""
    keys = [("t", n) for n in range(4)]
    rig = Rig(dict(zip(keys, map(still, (1, 1, 2, 2)), strict=True)))
    rig.bounds = OperatorLimits(partitions=PartitionLimits(2))
    rig.begin_anew()
    rig.give({keys[0]: (2,), keys[1]: (2,), keys[2]: (1,), keys[3]: (1,)})
    most = 0
    for _ in range(20):
        rig.cycle(finish=False)
        hosts = Counter(b for now in rig.cluster.partitions.values() for b in now.replicas)
        most = max(most, *hosts.values())
        rig.cluster.finish()
    assert rig.plan().state.ending is PlanEnding.DONE
    assert most == 3, "one above it, and no more"


def test_topic_without_permission_blocks_plans_and_is_not_dropped() -> None:
    rig = two(T0)
    rig.bounds = OperatorLimits(partitions=PartitionLimits(9))
    rig.begin_anew()
    asked: list[tuple[set[str], bool]] = []
    look = rig.cluster.read_snapshot

    def looked(
        topics: Collection[str], measured: Collection[TopicPartition] = (), *, all_topics: bool = False
    ) -> object:
        asked.append((set(topics), all_topics))
        return look(topics, measured, all_topics=all_topics)

    rig.cluster.read_snapshot = looked  # type: ignore[method-assign, assignment]  # what it answers is passed on as it is
    rig.give({T0: (3, 4)})
    rig.cycle()
    assert asked == [({"t"}, True)], "its own topics by name"


# -- a person's word ------------------------------------------------------------------------------------------------------


def test_paused_plan_finishes_running_steps_only() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, BatchLimits(partition_movements_max=1))
    rig.cycle(finish=False)
    rig.say(DesiredPlanState.PAUSED)
    for _ in range(4):
        rig.cycle()
    assert sorted(rig.replicas().values()) == [(1, 2), (3, 4)]
    assert rig.plan().state.blockers == (
        "paused by lee@desk: no new step starts, but steps in progress continue to their end",
    )
    rig.say(DesiredPlanState.RUNNING)
    rig.until_ended()
    assert set(rig.replicas().values()) == {(3, 4)}


def test_plan_with_a_start_waits_for_it_also_after_a_restart() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, not_before_ms=round(1000 * rig.now_s) + 10_000)
    with capture_logs() as logged:
        for _ in range(5):
            rig.cycle()
    assert [line["event"] for line in logged] == ["plan p: running, starts 2020-09-13 12:26:50 UTC"]
    assert rig.cluster.asked == []
    assert rig.plan().state.blockers == ()
    assert rig.plan().state.acknowledged_at_ms == rig.plan().head.ordered_at_ms
    rig.begin_anew()
    for _ in range(4):
        rig.cycle()
    assert rig.cluster.asked == []
    rig.cycle()
    assert rig.cluster.asked != []
    rig.until_ended()
    assert set(rig.replicas().values()) == {(3, 4)}


def test_cancel_before_the_start_ends_the_plan_at_once() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, not_before_ms=round(1000 * rig.now_s) + 3_600_000)
    rig.cycle()
    rig.say(DesiredPlanState.CANCELLING)
    rig.cycle()
    assert rig.plan().state.ending is PlanEnding.CANCELLED
    assert rig.cluster.asked == []
    assert not rig.plan().head.waits_for_start(round(1000 * rig.now_s)), "a rollback does not wait"


def test_pause_and_resume_keep_the_start_of_a_plan() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, not_before_ms=round(1000 * rig.now_s) + 5_500)
    for order in (DesiredPlanState.PAUSED, DesiredPlanState.RUNNING):
        rig.cycle()
        rig.say(order)
    for _ in range(3):
        rig.cycle()
    assert rig.cluster.asked == []
    rig.cycle()
    assert rig.cluster.asked != []


def test_other_plan_runs_while_one_waits_for_its_start() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4)}, plan="later", not_before_ms=round(1000 * rig.now_s) + 3_600_000)
    rig.give({T1: (3, 4)}, plan="now")
    for _ in range(4):
        rig.cycle()
    assert rig.replicas() == {T0: (1, 2), T1: (3, 4)}
    assert [plan.id for plan in rig.loop.recorder.active_plans] == ["later"]


def test_paused_tuner_begins_no_step() -> None:
    rig = two(T0, T1)
    rig.orders.latest = PAUSED
    rig.give({T0: (3, 4), T1: (3, 4)})
    rig.cycle()
    assert rig.cluster.asked == []
    rig.orders.latest = Orders()
    rig.until_ended()
    assert set(rig.replicas().values()) == {(3, 4)}


@pytest.mark.parametrize("word", ["paused", "released"])
def test_paused_or_released_tuner_begins_and_cancels_nothing(word: str) -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, BatchLimits(partition_movements_max=1))
    rig.cycle(finish=False)
    pause = replace(PAUSED.pause or Pause(1, ""), released=word == "released")
    rig.orders.latest = replace(PAUSED, pause=pause)
    rig.say(DesiredPlanState.CANCELLING)
    for _ in range(3):
        rig.cycle(finish=False)
    assert len(rig.cluster.asked) == 1
    assert rig.plan().state.blockers == (
        f"no new step starts: rheostat is {word} by kim@desk, until `rheostat resume`",
    )
    rig.orders.latest = Orders()
    rig.until_ended()
    assert set(rig.replicas().values()) == {(1, 2)}


def test_cancel_rolls_back_unfinished_partitions_only() -> None:
    rig = two(T0, T1, T2)
    rig.give(dict.fromkeys((T0, T1, T2), (3, 4)), BatchLimits(partition_movements_max=1, replica_movements_max=1))
    while (3, 4) not in rig.replicas().values():
        rig.cycle()
    while sorted(rig.replicas().values())[1] == (1, 2):  # The second one is on its way.
        rig.cycle(finish=False)
    rig.say(DesiredPlanState.CANCELLING)
    rig.until_ended()
    assert sorted(rig.replicas().values()) == [(1, 2), (1, 2), (3, 4)]
    assert rig.plan().state.ending is PlanEnding.CANCELLED
    assert all(not now.is_reassigning for now in rig.cluster.partitions.values())


def test_cancel_moves_intermediate_step_back() -> None:
    rig = two()
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    while rig.replicas()[T0] != (3, 2):
        rig.cycle()
    rig.say(DesiredPlanState.CANCELLING)
    rig.until_ended()
    assert rig.replicas() == {T0: (1, 2)}
    assert rig.cluster.partitions[T0].leader == 1


def test_running_rollback_is_not_cancelled() -> None:
    rig = two()
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    while rig.replicas()[T0] != (3, 2):
        rig.cycle()
    rig.say(DesiredPlanState.CANCELLING)
    before = len(rig.cluster.asked)
    for _ in range(5):
        rig.cycle(finish=False)
    back = rig.cluster.asked[before:]
    assert [wanted for _, wanted in back] == [(1, 2)], "asked for once"
    rig.until_ended()
    assert None not in [wanted for _, wanted in rig.cluster.asked]
    assert rig.replicas() == {T0: (1, 2)}


def test_cancelled_step_ends_with_replicas_in_another_order() -> None:
    rig = two()
    rig.give({T0: (2, 3)})
    rig.cycle(finish=False)
    rig.say(DesiredPlanState.CANCELLING)
    rig.cycle(finish=False)
    assert rig.replicas() == {T0: (2, 1)}, "as Kafka merges them"
    began_s = rig.now_s
    rig.until_ended()
    assert rig.now_s - began_s < 10
    assert rig.replicas() == {T0: (1, 2)}


def test_impossible_rollback_names_no_rollback_option() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, ONE_BY_ONE)
    while rig.replicas()[T0] != (3, 2):
        rig.cycle()
    rig.cycle(finish=False)
    rig.cluster.online = {2, 3, 4}
    rig.say(DesiredPlanState.CANCELLING)
    for _ in range(40):
        rig.cycle()
    (said,) = rig.plan().state.blockers
    assert (
        "waiting for brokers that are down: 1; `rheostat reassign cancel p --no-rollback` ends the plan without a rollback"
        in said
    )
    stands = rig.replicas()
    rig.leave()
    rig.until_ended()
    assert rig.replicas() == stands
    assert rig.plan().state.ending is PlanEnding.CANCELLED
    rig.begin_anew()
    assert rig.plan().head.no_rollback, "on record"


def test_cancel_without_rollback_cancels_running_steps() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, BatchLimits(partition_movements_max=1))
    rig.cycle()
    rig.cycle(finish=False)
    rig.leave()
    rig.until_ended()
    assert sorted(rig.replicas().values()) == [(1, 2), (3, 4)]
    assert not any(now.is_reassigning for now in rig.cluster.partitions.values())
    tally = rig.plan().state.result
    assert tally == PlanResult(partitions=2, at_target=1, total_bytes=4000.0, copied_bytes=2000.0)


def test_plan_duration_excludes_pauses() -> None:
    rig = two(T0, T1)
    rig.give({T0: (3, 4), T1: (3, 4)}, BatchLimits(partition_movements_max=1))
    rig.cycle()
    rig.say(DesiredPlanState.PAUSED)
    rig.cycle()
    rig.now_s += 1000.0
    rig.say(None, BatchLimits(partition_movements_max=2))
    rig.cycle()
    rig.say(DesiredPlanState.RUNNING)
    rig.cycle()
    state = rig.plan().state
    assert state.paused_total_ms == pytest.approx(1_002_000, abs=10)
    assert state.paused_since_ms == 0


@pytest.mark.parametrize(("resumed_h", "paused_h"), [(20, 0), (23, 2)])
def test_pause_before_the_planned_start_does_not_count(resumed_h: float, paused_h: float) -> None:
    rig = two(T0, T1)
    began_s = rig.now_s
    rig.give({T0: (3, 4), T1: (3, 4)}, not_before_ms=round(1000 * began_s) + 21 * 3_600_000)
    rig.cycle()
    rig.say(DesiredPlanState.PAUSED)
    rig.cycle()
    rig.now_s = began_s + 3600 * resumed_h
    rig.say(DesiredPlanState.RUNNING)
    rig.cycle(finish=False)
    assert rig.plan().state.paused_total_ms == 3_600_000 * paused_h


def test_cancelled_plan_awaits_no_election() -> None:
    """The new preferred leader is in sync and does not lead yet; a rollback does not wait for its election."""
    rig = two()
    rig.give({T0: (3, 4)}, ONE_BY_ONE)
    rig.cycle()
    assert rig.replicas()[T0] == (3, 1, 2)
    assert rig.cluster.partitions[T0].leader == 1
    rig.say(DesiredPlanState.CANCELLING)
    rig.until_ended(20)
    assert rig.replicas() == {T0: (1, 2)}
    assert rig.plan().state.ending is PlanEnding.CANCELLED


def test_last_ended_plans_are_kept() -> None:
    rig = two()
    for n in range(PLANS_KEPT + 3):
        rig.now_s += 10.0
        rig.give({T0: (3, 4) if n % 2 == 0 else (1, 2)}, plan=f"p{n}")
        rig.until_ended()
    kept = [plan.id for plan in rig.journal.recovered().plans]
    assert kept == [f"p{n}" for n in range(3, PLANS_KEPT + 3)]


# -- its time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waits_s", "processor_s", "rests_s"), [(3.0, 0.01, 1.0), (3.0, 0.5, 2.0)])
def test_pause_follows_cpu_time_of_cycle_not_waiting(
    waits_s: float, processor_s: float, rests_s: float
) -> None:  # fmt: skip
    """Rested for four times Kafka's answers as well, slots that have come free would stand empty on a busy cluster."""
    rig = two()
    rig.give({T0: (3, 4)})
    cluster, used_s = rig.cluster, 0.0

    class Slow:
        request, elect_preferred = cluster.request, cluster.elect_preferred

        def read_snapshot(
            self, topics: Collection[str], measured: Collection[TopicPartition] = (), *, all_topics: bool = False
        ) -> ReassignmentSnapshot | ClusterError:
            nonlocal used_s
            used_s += processor_s
            rig.now_s += waits_s
            return cluster.read_snapshot(topics, measured, all_topics=all_topics)

    rig.loop._actuator = Slow()
    rig.loop._processor_s = lambda: used_s
    for _ in range(4):
        rig.loop.tick()
    assert rig.loop.next_due_s() == rig.now_s + rests_s


def test_no_plan_sends_no_request() -> None:
    rig = two()
    rig.loop.tick()
    assert rig.loop.next_due_s() == START_S + 1.0
    rig.cluster.away = True
    rig.now_s += 6.0
    rig.loop.tick()
    assert rig.loop.pending_bytes == {}
