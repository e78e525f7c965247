"""Plan steps are throttled and listed before they are requested, like moves that have not copied anything yet."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from reassign_rig import Rig as Plans
from reassign_rig import still
from test_list_writer import NOTHING, STANDBY, WANTED, cycle, listed, unthrottled
from tuner_cases import SOURCE, TARGET, F, L, move, throttle

from tuner.control.throttle.replica_lists.prepared_moves import (
    REASSIGNED_EXTERNALLY,
    FailedThrottles,
    find_deferred_steps,
    sides_not_readable,
    steps_as_moves,
    with_prepared_moves,
)
from tuner.control.throttle.state import Memory
from tuner.core.backoff import RETRY_S_MIN
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.operator_orders import Orders, Pause
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import DesiredPlanState, ReassignmentSnapshot
from tuner.core.reassignment_steps import ReassignmentStep, StepReason
from tuner.runtime.reassignment.prepare import PREPARE_S_MAX, PrepareStep

STEP = ReassignmentStep(
    "orders", 0, (3, 2), (3,), (1,), StepReason.REPLICAS, moves_leader=True, needs_election=True, is_last=True
)
ANNOUNCED = PartitionMove("orders", 0, 1, (3, 2, 1), (3,), (1,), (1, 2))
T0, T1 = ("t", 0), ("t", 1)


# -- what a step is, and what keeps it back --------------------------------------------------------------------------------


def test_prepared_step_equals_kafkas_reassignment() -> None:
    look = ReassignmentSnapshot(frozenset({1, 2, 3}), {("orders", 0): still(1, 2), ("orders", 1): still(1, 2)})
    reorder = ReassignmentStep(
        "orders", 1, (2, 1), (), (), StepReason.PREFERRED_LEADER, moves_leader=True, needs_election=True, is_last=True
    )
    assert steps_as_moves([STEP, reorder, replace(STEP, topic="gone")], look) == (ANNOUNCED,)


def test_running_step_is_taken_from_the_cluster() -> None:
    begun = replace(ANNOUNCED, isr=(1, 2, 3))
    live = LiveCluster(frozenset({1, 2, 3}), (begun,))
    assert with_prepared_moves(live, [ANNOUNCED]) is live
    other = replace(ANNOUNCED, partition=7)
    assert with_prepared_moves(live, [ANNOUNCED, other]).moves == (begun, other)


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (FailedThrottles(), None),
        (FailedThrottles(sides=frozenset({(1, F), (2, L), (3, L)})), None),  # None of them is passed.
        (FailedThrottles(sides=frozenset({(1, L)})), "broker 1 leader throttle could not be read or set"),
        (FailedThrottles(sides=frozenset({(3, F)})), "broker 3 follower throttle could not be read or set"),
        (FailedThrottles(topics=frozenset({"payments"})), None),
        (FailedThrottles(topics=frozenset({"orders"})), "lists of topic orders could not be written"),
    ],
)
def test_step_that_would_run_unthrottled_is_deferred(failed: FailedThrottles, why: str | None) -> None:
    found = find_deferred_steps([ANNOUNCED], failed)
    assert (why is None and not found) or (why is not None and why in found[("orders", 0)])


def test_step_that_another_tool_reassigns_is_deferred() -> None:
    (why,) = find_deferred_steps([ANNOUNCED], FailedThrottles(), moving={("orders", 0)}).values()
    assert why == "not begun: another client has begun to reassign the partition"
    assert find_deferred_steps([ANNOUNCED], FailedThrottles(), moving={("orders", 1)}) == {}


def test_unread_rate_is_no_throttle() -> None:
    live = LiveCluster(frozenset({1, 2, 3}), unreadable=frozenset({3}))
    assert sides_not_readable(live, Memory(missing_rates=frozenset({(1, L)}))) == {(3, F), (3, L), (1, L)}
    assert find_deferred_steps([ANNOUNCED], FailedThrottles(), sides_not_readable(live, Memory())).keys() == {
        ("orders", 0)
    }


# -- the tuner's cycle ----------------------------------------------------------------------------------------------------


def test_prepared_step_has_rates_and_lists_before_it_moves() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.live.moves = ()
    rig.loop.connect_plans(dict, announcing)
    cycle(rig)
    assert not rig.throttles.rates
    announcing.submit([move()])
    cycle(rig)
    assert announcing.deferred == {}
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}
    assert listed(rig) == WANTED
    assert rig.live.also == {"orders"}


def test_prepared_step_that_never_started_leaves_the_lists() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.live.moves = ()
    rig.loop.connect_plans(dict, announcing)
    announcing.submit([move()])
    cycle(rig)
    announcing.clear()
    for _ in range(4):
        cycle(rig)
    assert not listed(rig)
    assert not rig.throttles.rates


def test_step_with_refused_lists_or_rates_is_deferred() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.live.moves = ()
    rig.loop.connect_plans(dict, announcing)
    announcing.submit([move()])
    rig.throttles.refusing["orders"] = "not authorized"
    cycle(rig)
    assert announcing.deferred is not None
    assert "lists of topic orders" in announcing.deferred[("orders", 0)]
    # Left alone for a while after a failure, and withheld all the while.
    announcing.submit([move()])
    rig.now_s += 1.0
    rig.cycle()
    assert announcing.deferred
    rig.throttles.refusing.clear()
    rig.throttles.lists["orders"] = NOTHING
    for _ in range(20):
        announcing.submit([move()])
        cycle(rig)
    assert announcing.deferred == {}


def test_steps_get_no_answer_without_cluster_or_journal() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.loop.connect_plans(dict, announcing)
    announcing.submit([replace(move(), partition=5)])
    rig.live.not_seen = "no answer"
    cycle(rig)
    assert announcing.is_pending
    rig.live.not_seen = None
    rig.journal.refusing = True
    cycle(rig)
    assert announcing.is_pending


def test_step_triggers_an_early_cycle_at_limited_rate() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.loop.connect_plans(dict, announcing)
    cycle(rig)
    announcing.submit([replace(move(), partition=5)])
    assert not rig.loop.cycle_is_due()
    rig.now_s += 1.0
    assert rig.loop.cycle_is_due()
    looks = len(rig.live.looks)
    rig.cycle()
    assert not any(rig.live.looks[looks:])
    rig.now_s += 1.0
    assert not announcing.is_pending


@pytest.mark.parametrize(("cost_s", "rests_s"), [(0.01, 1.0), (0.5, 2.0)])
def test_early_cycle_pauses_by_its_processor_time(cost_s: float, rests_s: float) -> None:
    """Not by what Kafka's answers took: slots that have come free would stand empty."""
    rig, announcing = unthrottled(), PrepareHandshake()
    used = itertools.count()
    rig.loop._processor_s = lambda: cost_s * next(used)
    rig.loop.connect_plans(dict, announcing)
    cycle(rig)
    announcing.submit([replace(move(), partition=5)])
    rig.now_s += rests_s - 0.01
    assert not rig.loop.cycle_is_due()
    rig.now_s += 0.02
    assert rig.loop.cycle_is_due()


def test_ended_step_with_listed_pairs_triggers_early_cycle() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.live.moves = (move(), move(partition=1))
    rig.loop.connect_plans(dict, announcing)
    cycle(rig)
    cycle(rig)
    rig.now_s += 1.0
    assert not rig.loop.cycle_is_due()
    rig.live.moves = (move(partition=1),)
    announcing.step_ended = True
    assert not rig.loop.cycle_is_due(), "another may begin, and then one change of the lists does for both"
    rig.now_s += 1.0
    assert rig.loop.cycle_is_due()
    rig.cycle()
    assert listed(rig) == {"orders": throttle(leader=[(1, 1), (1, 2)], follower=[(1, 3)])}
    rig.now_s += 2.0
    assert not rig.loop.cycle_is_due(), "it has been seen to"


def test_ended_step_without_listed_pairs_triggers_no_cycle() -> None:
    rig, announcing = unthrottled(throttles_moves=False), PrepareHandshake()
    rig.loop.connect_plans(dict, announcing)
    cycle(rig)
    announcing.step_ended = True
    rig.now_s += 2.0
    assert not rig.loop.cycle_is_due()
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.loop.connect_plans(dict, announcing)
    cycle(rig)
    rig.throttles.refusing["orders"] = "not authorized"
    rig.live.moves = ()
    cycle(rig)
    assert rig.loop.memory.listed
    announcing.step_ended = True
    rig.now_s += 2.0
    assert not rig.loop.cycle_is_due(), "whether the move has ended two looks tell that are a cycle apart"


def test_move_started_by_another_tool_is_left_alone() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.loop.connect_plans(dict, announcing)
    announcing.submit([move(), replace(move(), partition=5)])
    cycle(rig)
    assert announcing.deferred == {("orders", 0): "not begun: another client has begun to reassign the partition"}


def test_vanished_rate_is_confirmed_by_a_second_regular_snapshot() -> None:
    """A tool that takes rates off one by one would else be taken for a person, who has an hour."""
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.loop.connect_plans(dict, announcing)
    cycle(rig)
    del rig.throttles.rates[TARGET]
    cycle(rig)
    assert rig.loop.memory.missing_rates == {TARGET}
    announcing.submit([replace(move(), partition=5)])
    rig.now_s += 2.0
    assert not rig.loop.cycle_is_due()


# -- the executor ---------------------------------------------------------------------------------------------------------


class Announced(Plans):
    """The executor together with the throttle controller."""

    def begin_anew(self) -> None:
        super().begin_anew()
        self.announcing = PrepareHandshake()
        self.loop._prepare = PrepareStep(self.announcing, PREPARE_S_MAX, self._now)

    def ticks(self, count: int = 4) -> None:
        for _ in range(count):
            self.loop.tick()


def rig(*, limits: BatchLimits | None = None) -> Announced:
    made = Announced({T0: still(1, 2), T1: still(1, 2)}, online={1, 2, 3, 4})
    made.give({T0: (3, 2), T1: (4, 2)}, limits)
    made.ticks()
    return made


def test_step_is_recorded_and_prepared_before_its_request() -> None:
    made = rig()
    assert {(m.topic, m.partition) for m in made.announcing.moves} == {T0, T1}
    assert not made.cluster.asked
    assert made.journal.recovered().plans[0].requested.keys() == {T0, T1}
    made.announcing.answer({})
    made.ticks()
    assert dict(made.cluster.asked) == {T0: (3, 2), T1: (4, 2)}
    assert not made.announcing.moves


def test_step_end_is_reported_while_others_run() -> None:
    made = rig()
    made.announcing.answer({})
    made.ticks()
    assert not made.announcing.step_ended
    for key in (T0, T1):
        made.cluster.finish([key])
        made.now_s += 1.0
        made.loop._due_s = float("-inf")
        made.ticks()
        assert made.announcing.step_ended == (key == T0)
        made.announcing.step_ended = False


def test_deferred_or_refused_step_has_not_ended() -> None:
    made = rig()
    made.announcing.answer({T0: "not begun, because it would run without a throttle"})
    made.ticks()
    made.now_s += 1.0
    made.loop._due_s = float("-inf")
    made.ticks()
    assert not made.announcing.step_ended


def test_deferred_step_is_retried_and_others_start() -> None:
    made = rig()
    made.announcing.answer({T0: "not begun, because it would run without a throttle"})
    made.ticks()
    assert dict(made.cluster.asked) == {T1: (4, 2)}
    assert T0 not in made.plan().requested
    made.cluster.finish()
    for _ in range(120):
        made.now_s += 1.0
        made.loop._due_s = float("-inf")
        made.ticks()
        if made.announcing.is_pending:
            made.announcing.answer({})
        made.ticks()
        made.cluster.finish()
    assert made.replicas() == {T0: (3, 2), T1: (4, 2)}
    assert not made.loop.recorder.active_plans


def test_executor_with_all_steps_deferred_sends_no_request() -> None:
    made = rig()
    made.announcing.answer(dict.fromkeys((T0, T1), "not begun"))
    made.ticks()
    assert not made.cluster.asked
    assert not made.plan().requested
    assert not made.announcing.moves


def test_stalled_cycle_defers_steps_and_none_counts_as_running() -> None:
    made = rig()
    made.now_s += PREPARE_S_MAX - 0.1
    made.ticks()
    assert made.announcing.is_pending
    made.now_s += 0.2
    made.ticks()
    assert not made.cluster.asked
    assert not made.plan().requested
    assert not made.announcing.moves


def test_order_given_during_the_wait_applies() -> None:
    for say in ("cancel", "pause"):
        made = rig()
        if say == "cancel":
            made.say(DesiredPlanState.CANCELLING)
        else:
            made.orders.latest = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
        made.announcing.answer({})
        made.ticks()
        assert not made.cluster.asked, say
        assert not made.announcing.moves
        said = "an operator has changed the order meanwhile"
        assert told(made) == [("deferred", f"2 steps wait: t-0: {said}; t-1: {said}")]
        assert_waits_and_has_not_failed(made)


def test_urgent_step_waits_for_no_throttle() -> None:
    made = Announced({T0: still(1, 2, isr=(1,)), T1: still(1, 3)}, online={1, 3, 4})
    made.cluster.min_in_sync = {"t": 2}
    made.give({T0: (1, 3), T1: (1, 4)})
    made.ticks()
    made.announcing.answer(dict.fromkeys((T0, T1), "not begun, because it would run without a throttle"))
    made.ticks()
    assert dict(made.cluster.asked) == {T0: (1, 3)}
    # A partition that another tool reassigns by now belongs to that tool.
    made = Announced({T0: still(1, 2, isr=(1,))}, online={1, 3, 4})
    made.cluster.min_in_sync = {"t": 2}
    made.give({T0: (1, 3)})
    made.ticks()
    made.announcing.answer({T0: "not begun: another client has begun to reassign the partition"})
    made.ticks()
    assert not made.cluster.asked


def test_cancellation_waits_for_no_throttle() -> None:
    made = Announced({T0: still(1, 2), T1: still(1, 2)}, online={1, 2, 3, 4})
    made.give({T0: (3, 2)}, plan="a")
    made.ticks()
    made.announcing.answer({})
    made.ticks()
    made.say(DesiredPlanState.CANCELLING, plan="a")
    made.give({T1: (4, 2)}, plan="b")
    made.now_s += 1.0
    made.loop._due_s = float("-inf")
    made.ticks()
    assert made.cluster.asked[1:] == [(T0, None)]
    assert not made.announcing.moves
    assert told(made) == [("deferred", "1 step waits: t-1: cancelled steps are stopped first")]
    assert_waits_and_has_not_failed(made)
    # And the next look goes on with it.
    made.now_s += 1.0
    made.loop._due_s = float("-inf")
    made.ticks()
    assert {(m.topic, m.partition) for m in made.announcing.moves} == {T1}


def told(made: Announced) -> list[tuple[str, str]]:
    """What the journal has of steps that were not begun, and why."""
    return [(e.reason, e.text) for e in made.journal.entries if e.reason in ("deferred", "not_accepted")]


def assert_waits_and_has_not_failed(made: Announced) -> None:
    assert not any(e.failure for e in made.journal.entries)
    assert not made.loop.recorder.backing_off
    assert not made.loop.recorder.refusals


def test_unthrottleable_step_fails_and_is_retried_later() -> None:
    made = rig()
    made.announcing.answer({T0: "not begun, because it would run without a throttle", T1: REASSIGNED_EXTERNALLY})
    made.ticks()
    assert [reason for reason, _ in told(made)] == ["not_accepted", "deferred"]
    assert made.loop.recorder.backing_off == {T0}
    assert made.loop.recorder.refusals == {T0: "not begun, because it would run without a throttle"}
    assert not made.plan().requested


def test_step_waiting_for_room_is_retried_after_shortest_pause() -> None:
    made = rig()
    for _ in range(3):
        made.announcing.answer({T0: "no room", T1: "no room"}, {T0, T1})
        made.ticks()
        assert not made.plan().requested
        assert made.loop.recorder.backing_off == {T0, T1}
        assert not made.loop.recorder.refusals
        made.now_s += RETRY_S_MIN
        assert not made.loop.recorder.backing_off
        made.loop._due_s = float("-inf")
        made.ticks()
        assert {(m.topic, m.partition) for m in made.announcing.moves} == {T0, T1}
    assert {reason for reason, _ in told(made)} == {"deferred"}
    assert not any(e.failure for e in made.journal.entries)


def test_failed_executor_leaves_no_step_prepared() -> None:
    made = rig()
    made.announcing.answer({})

    def fails(*_: object) -> None:
        raise ValueError("a fault of ours")

    made.loop._write_refusal = fails  # type: ignore[assignment]
    with pytest.raises(ValueError, match="a fault of ours"):
        made.ticks()
    assert not made.announcing.moves
