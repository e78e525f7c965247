"""A step waits for others to share a batch, but no side becomes idle and no producer waits."""

from __future__ import annotations

import math
from dataclasses import replace

from streaming.shared.contract import Side
from tuner.control.reassignment.batching_delay import BATCHING_DELAY_S_MAX
from tuner.control.reassignment.scheduler import schedule
from tuner.control.reassignment.scheduler_model import (
    HeldBy,
    RunningStep,
    Schedule,
    SchedulerConstraints,
    WaitingPartition,
)
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, next_step

MB = 1_000_000.0
RATE = 10 * MB
ONLINE = frozenset(range(1, 10))
RATES = {(b, side): RATE for b in ONLINE for side in Side}
TERMS = SchedulerConstraints(
    ONLINE, BatchLimits(), dict.fromkeys(RATES, 5), 1_000, 50, RATES, since_last_request_s=1.0, snapshot_interval_s=1.0
)


def waits(
    number: int, on: tuple[int, ...] = (1, 2), to: tuple[int, ...] = (1, 3), mb: float = 100.0
) -> WaitingPartition:
    return WaitingPartition(PartitionTransition("orders", number, on, to, on[0], frozenset(on)), mb * MB, 0.0)


# All that runs is large and not written to, so that a slot holds one: three are more than half of the five.
LONG = 60.0


def long_ones(on: tuple[int, ...] = (1, 2), to: tuple[int, ...] = (1, 3)) -> list[RunningStep]:
    return [runs(number, LONG / 3, on, to) for number in (7, 8, 9)]


def runs(number: int, left_s: float, on: tuple[int, ...] = (1, 2), to: tuple[int, ...] = (1, 3)) -> RunningStep:
    """With so much left as its sides copy in that time."""
    way = PartitionTransition("orders", number, on, to, on[0], frozenset(on))
    step = next_step(way, ONLINE)
    assert isinstance(step, ReassignmentStep)
    return RunningStep(way, step, left_s * RATE * len(step.adding), 1_000 * MB, 0.0)


def begun(made: Schedule) -> list[int]:
    return sorted(start.transition.partition for start in made.starts)


def test_ready_partition_waits_to_be_batched_when_enough_runs() -> None:
    made = schedule([waits(1)], long_ones(), TERMS)
    assert (begun(made), made.held) == ([], {HeldBy.REQUEST: 1})


def test_no_batching_delay_without_ready_partitions() -> None:
    assert schedule([waits(1)], long_ones(), replace(TERMS, slots=dict.fromkeys(RATES, 3))).held == {HeldBy.SLOTS: 1}
    assert schedule([], long_ones(), TERMS).held == {}


def test_batch_starts_before_next_snapshot_would_be_too_late() -> None:
    for ago_s, look_s in (
        (BATCHING_DELAY_S_MAX - 0.9, 1.0),
        (0.5, BATCHING_DELAY_S_MAX),
        (math.inf, 1.0),
        (1.0, math.inf),
    ):
        made = schedule([waits(1)], long_ones(), replace(TERMS, since_last_request_s=ago_s, snapshot_interval_s=look_s))
        assert (begun(made), made.held) == ([1], {})


def test_batch_starts_at_once_when_a_side_may_idle() -> None:
    """The destination of the second has nothing under way; with it goes whoever else may."""
    assert begun(schedule([waits(1), waits(2, to=(1, 4))], long_ones(), TERMS)) == [1, 2]
    assert begun(schedule([waits(1)], [runs(n, 0.9) for n in (7, 8, 9)], TERMS)) == [1]


def test_longer_snapshot_interval_needs_more_running_copies() -> None:
    running = [runs(n, 1.5) for n in (7, 8, 9)]
    assert begun(schedule([waits(1)], running, replace(TERMS, snapshot_interval_s=2.0))) == []
    assert begun(schedule([waits(1)], running, replace(TERMS, snapshot_interval_s=3.0))) == [1]


def test_single_large_partition_is_not_enough_to_wait() -> None:
    assert begun(schedule([waits(1)], [runs(9, 3_600.0)], TERMS)) == [1]


def test_remaining_copy_counts_on_both_sides() -> None:
    """Two replicas are added: their leader sends both, each destination takes one."""
    both = [runs(n, 0.9, (1, 2), (1, 3, 4)) for n in (7, 8, 9)]
    assert begun(schedule([waits(1)], both, TERMS)) == [1], "broker 3 has 2.7 s of it"
    assert begun(schedule([waits(1)], [*both, runs(6, 1.0, (5, 6), (5, 3))], TERMS)) == [], "and broker 1 has 5.4"


def test_copy_to_absent_broker_occupies_no_side() -> None:
    running, terms = long_ones(to=(1, 3, 4)), replace(TERMS, online=ONLINE - {3})
    assert begun(schedule([waits(1, to=(1, 4))], running, terms)) == []
    assert begun(
        schedule([waits(1, to=(1, 5))], [*running, *long_ones((6, 7), (6, 5))], replace(terms, online=ONLINE - {3, 4}))
    ) == [1]
    assert begun(schedule([waits(1, to=(1, 5))], [*running, *long_ones((6, 7), (6, 5))], terms)) == []


def test_full_request_starts_at_once() -> None:
    assert begun(schedule([waits(1), waits(2)], long_ones(), replace(TERMS, starts_max=1))) == [1]


def test_urgent_partition_is_never_delayed() -> None:
    refused = WaitingPartition(
        PartitionTransition("orders", 1, (1, 2), (1, 3), 1, frozenset({1}), min_in_sync=2), 100 * MB, 0.0
    )
    assert begun(schedule([refused], long_ones((1, 5)), replace(TERMS, online=ONLINE - {2}))) == [1]


def test_partition_without_copy_is_never_delayed() -> None:
    assert begun(schedule([waits(1, to=(2, 1))], long_ones(), TERMS)) == [1]


def test_unthrottled_side_has_unknown_copy_time() -> None:
    assert begun(schedule([waits(1)], long_ones(), replace(TERMS, max_rates={}))) == [1]
