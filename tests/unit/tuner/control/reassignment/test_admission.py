"""Admission of plan partitions: current and possible throttles, and one queue for all plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.shared.contract import Side
from tuner.control.reassignment.admission import Admission, ClusterMeasurements, OperatorLimits, admit
from tuner.control.reassignment.concurrency_model import ConcurrencyState
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.partition_progress import PlanMemory, classify_partitions
from tuner.control.reassignment.scheduler_model import HeldBy
from tuner.core.cluster import LiveCluster, RateSetting, Setpoint
from tuner.core.reassignment_plan import (
    CurrentAssignment,
    Plan,
    PlanHead,
    PlanPartition,
    ReassignmentSnapshot,
    RequestedStep,
    TopicPartition,
)
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.core.throttle_state import ThrottleState, throttle_state_of

L1, F1, F3 = (1, Side.LEADER), (1, Side.FOLLOWER), (3, Side.FOLLOWER)
LIVE = LiveCluster(frozenset({1, 2}), rates={L1: RateSetting(20 * MB)})


def test_no_side_is_throttled_before_first_snapshot() -> None:
    assert throttle_state_of(None, {}, ThrottleLimits(100 * MB)) == ThrottleState()


def test_side_without_closed_loop_uses_current_rate() -> None:
    found = throttle_state_of(LIVE, {}, ThrottleLimits(100 * MB))
    assert (found.setpoints, found.max_rates) == ({L1: 20 * MB}, {L1: 20 * MB})


def test_setpoint_above_current_rate_may_reach_ceiling() -> None:
    found = throttle_state_of(LIVE, {L1: Setpoint(35 * MB)}, ThrottleLimits(100 * MB, closed_loop=True))
    assert (found.setpoints, found.max_rates) == ({L1: 35 * MB}, {L1: 100 * MB})


def test_throttling_control_law_uses_ceiling_on_every_side() -> None:
    found = throttle_state_of(LIVE, {}, ThrottleLimits(100 * MB, closed_loop=True, throttles_all_moves=True))
    assert found.setpoints == {L1: 20 * MB}
    assert set(found.max_rates) == {(b, side) for b in (1, 2) for side in Side}
    assert found.max_rates[F1] == 100 * MB


def test_side_in_window_warmup_counts_with_full_rate() -> None:
    found = throttle_state_of(LIVE, {}, ThrottleLimits(100 * MB), {L1: 60.0 * MB})
    assert (found.setpoints, found.max_rates) == ({L1: 60 * MB}, {L1: 60 * MB})


def test_unused_side_counts_with_plan_rate() -> None:
    """A replica that only may lead has a twelfth: with that its side would be given hardly anything to begin."""
    standby = LiveCluster(frozenset({1, 2}), rates={L1: RateSetting(1 * MB), F1: RateSetting(9 * MB)})
    found = throttle_state_of(standby, {}, ThrottleLimits(100 * MB), {}, {F1: 12 * MB}, 12.0 * MB)
    assert found.setpoints == {L1: 12 * MB, F1: 9 * MB, (2, Side.LEADER): 12 * MB, (2, Side.FOLLOWER): 12 * MB}
    assert found.max_rates == dict.fromkeys(found.setpoints, 12 * MB)


def plan_of(name: str, *keys: TopicPartition) -> Plan:
    return Plan(PlanHead(name, "kim", 0, 0, 1), {key: PlanPartition((3, 2), (1, 2), 1e9) for key in keys})


def line(writes: float, most: float) -> tuple[list[str], dict[HeldBy, int], float]:
    """Two plans of a partition each, both from broker 1 to broker 3: which begin, what holds the others, what is pending."""
    plans = [plan_of("p", ("a", 0)), plan_of("q", ("b", 0))]
    look = ReassignmentSnapshot(frozenset({1, 2, 3}), {(t, 0): CurrentAssignment(1, (1, 2), (1, 2)) for t in "ab"})
    stands = [(plan, classify_partitions(plan, look, PlanMemory(), 0), True) for plan in plans]
    figures = PartitionMeasurements(write_bytes_per_s={("a", 0): writes, ("b", 0): writes})
    measures = ClusterMeasurements(figures, ThrottleState({F3: most}, {F3: most}))
    begun = admit(stands, look, measures, ConcurrencyState(), OperatorLimits(), 0)
    names = sorted(start.step.topic for start in begun.schedule.starts)
    return names, dict(begun.schedule.held), begun.pending_bytes[F3]


def test_partitions_of_all_plans_share_one_queue() -> None:
    assert line(writes=1 * MB, most=100 * MB) == (["a", "b"], {}, 2e9)


def test_partition_with_steady_state_filling_throttle_waits() -> None:
    names, held, _ = line(writes=6 * MB, most=10 * MB)
    assert (len(names), held) == (1, {HeldBy.QUOTA: 1})


def test_two_large_partitions_start_before_write_rates_are_known() -> None:
    """More beside them would take the quota for keeping up, if much is written; and what two bring says nothing of five."""
    keys = [("a", p) for p in range(9)]
    plan = plan_of("p", *keys)
    plan = replace(
        plan,
        requested={key: RequestedStep((3, 2), (1, 2), moves_leader=True, needs_election=False) for key in keys[:2]},
    )
    moving, waits = CurrentAssignment(1, (3, 1, 2), (1, 2), (3,), (1,)), CurrentAssignment(1, (1, 2), (1, 2))
    look = ReassignmentSnapshot(frozenset({1, 2, 3}), {key: moving if key in plan.requested else waits for key in keys})
    stands = [(plan, classify_partitions(plan, look, PlanMemory(), 0), True)]
    assert set(stands[0][1].running) == set(keys[:2])

    def begun(**writes: float) -> Admission:
        figures = PartitionMeasurements(write_bytes_per_s={("a", int(p[1:])): rate for p, rate in writes.items()})
        sides = {(1, Side.LEADER): 30 * MB, F3: 30 * MB}
        # The second look: slots are as the first one gave them.
        first = admit(
            stands,
            look,
            ClusterMeasurements(figures, ThrottleState(sides, sides)),
            ConcurrencyState(),
            OperatorLimits(),
            0,
        )
        return admit(
            stands,
            look,
            ClusterMeasurements(figures, ThrottleState(sides, sides)),
            first.concurrency.state,
            OperatorLimits(),
            3_000,
        )

    unknown, quiet = begun(), begun(p0=0.0)
    assert len(unknown.schedule.starts) == 0
    assert len(quiet.schedule.starts) == 3
    assert [unknown.concurrency.state.sides[side].fully_used_at_ms for side in (L1, F3)] == [None, None]


def test_freed_slots_are_filled_together_on_schedule() -> None:
    """Looks a second apart; three large ones are under way on every side."""
    keys = [("a", p) for p in range(9)]
    plan = plan_of("p", *keys)
    moving, waits = CurrentAssignment(1, (3, 1, 2), (1, 2), (3,), (1,)), CurrentAssignment(1, (1, 2), (1, 2))
    sides = {(1, Side.LEADER): 30 * MB, F3: 30 * MB}
    measures = ClusterMeasurements(
        PartitionMeasurements(write_bytes_per_s={("a", 0): 0.0}), ThrottleState(sides, sides)
    )

    def look(memory: ConcurrencyState, under_way: int, now_ms: int) -> Admission:
        asked = {
            key: RequestedStep((3, 2), (1, 2), moves_leader=True, needs_election=False) for key in keys[:under_way]
        }
        seen = ReassignmentSnapshot(frozenset({1, 2, 3}), {key: moving if key in asked else waits for key in keys})
        now = replace(plan, requested=asked)
        return admit(
            [(now, classify_partitions(now, seen, PlanMemory(), 0), True)],
            seen,
            measures,
            memory,
            OperatorLimits(),
            now_ms,
        )

    made = look(ConcurrencyState(), 0, 1_000_000)
    assert len(made.schedule.starts) == 5
    begun = []
    for second in range(1, 6):
        made = look(made.concurrency.state, 3, 1_000_000 + 1_000 * second)
        begun.append(len(made.schedule.starts))
    assert begun == [0, 0, 0, 2, 0]
    set_back = look(made.concurrency.state, 3, 1_000)
    assert len(set_back.schedule.starts) == 2


def test_small_partitions_become_due_over_time() -> None:
    """Four of 1 MB beside large ones of 5 GB: a fraction of one with every look, carried from request to request."""
    keys = [("a", p) for p in range(4)] + [("b", p) for p in range(4)]
    plan = plan_of("p", *keys)
    plan = replace(
        plan,
        partitions={
            key: replace(part, size_bytes=1e6 if key[0] == "a" else 5e9) for key, part in plan.partitions.items()
        },
    )
    look = ReassignmentSnapshot(frozenset({1, 2, 3}), {key: CurrentAssignment(1, (1, 2), (1, 2)) for key in keys})
    sides = {(1, Side.LEADER): 300 * MB, F3: 300 * MB}
    measures = ClusterMeasurements(
        PartitionMeasurements(write_bytes_per_s={("a", 0): 0.0}), ThrottleState(sides, sides)
    )
    stands = [(plan, classify_partitions(plan, look, PlanMemory(), 0), True)]
    made = admit(stands, look, measures, ConcurrencyState(), OperatorLimits(), 0)
    carried = []
    for second in range(1, 9):
        made = admit(stands, look, measures, made.concurrency.state, OperatorLimits(), 1_000 * second)
        carried.append(made.concurrency.state.carried_small_share)
    assert carried == pytest.approx([0.06 * i for i in range(1, 9)], rel=0.01)
