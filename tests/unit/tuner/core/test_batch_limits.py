"""The steps that start now: KIP-435's order, its three limits, and slots that are filled again without a barrier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.batch_limits import BatchLimits, next_batch
from tuner.core.reassignment_steps import (
    PartitionTransition,
    ReassignmentStep,
    StepReason,
    Wait,
    WaitReason,
    apply_step,
    next_step,
)

UP = frozenset(range(10))


def leads(partition: int) -> PartitionTransition:
    """Its leader moves, from 0 to 3."""
    return PartitionTransition("orders", partition, (0, 1, 2), (3, 1, 2), 0, frozenset({0, 1, 2}))


def follows(partition: int) -> PartitionTransition:
    """A follower moves, from 2 to 3."""
    return PartitionTransition("orders", partition, (0, 1, 2), (0, 1, 3), 0, frozenset({0, 1, 2}))


def refused(partition: int) -> PartitionTransition:
    """One replica in sync of two that producers need."""
    return PartitionTransition("orders", partition, (0, 1), (0, 3), 0, frozenset({0}), min_in_sync=2)


def numbers(*steps: ReassignmentStep) -> list[int]:
    return [step.partition for step in steps]


@pytest.mark.parametrize(
    ("transitions", "limits", "started"),
    [
        pytest.param([follows(0), leads(1), follows(2), leads(3), follows(4)], BatchLimits(partition_movements_max=3), [1, 3, 0], id="leaders first"),
        pytest.param([leads(0), leads(1), leads(2), follows(3), follows(4)], BatchLimits(1, 3), [0, 3, 4], id="leader limit"),
        pytest.param([leads(0), leads(1), leads(2)], BatchLimits(2, 3), [0, 1], id="smaller batch at leader limit"),
        pytest.param([leads(0), follows(1), refused(2)], BatchLimits(partition_movements_max=2), [2, 0], id="refused writes first"),
        pytest.param([follows(7), follows(2), follows(5)], BatchLimits(partition_movements_max=2), [7, 2], id="one kind keeps its order"),
    ],
)  # fmt: skip
def test_batch_takes_partitions_by_urgency_within_limits(
    transitions: list[PartitionTransition], limits: BatchLimits, started: list[int]
) -> None:
    assert numbers(*next_batch(transitions, UP, limits).steps) == started


def test_slots_are_filled_as_steps_end() -> None:
    limits = BatchLimits(1, 3)
    first = next_batch([leads(0), leads(1), follows(2), follows(3)], UP, limits).steps
    assert numbers(*first) == [0, 2, 3]
    assert next_batch([leads(1)], UP, limits, first).steps == ()
    assert numbers(*next_batch([leads(1)], UP, limits, first[1:]).steps) == [1]


def test_limit_below_running_count_starts_nothing() -> None:
    running = next_batch([leads(n) for n in range(5)], UP, BatchLimits()).steps
    assert next_batch([follows(9), leads(8)], UP, BatchLimits(1, 2), running).steps == ()


def test_finished_partitions_are_skipped_and_waiting_ones_named() -> None:
    arrived = PartitionTransition("orders", 0, (0, 1), (0, 1), 0, frozenset({0, 1}))
    found = next_batch([arrived, leads(1), follows(2)], UP - {3}, BatchLimits())
    assert found.steps == ()
    assert found.waits == tuple(Wait("orders", n, WaitReason.BROKERS_OFFLINE, (3,)) for n in (1, 2))


def test_batch_limit_below_one_is_a_programming_error() -> None:
    with pytest.raises(AssertionError):
        BatchLimits(partition_movements_max=0)


replicas_of = st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True).map(tuple)


@st.composite
def worlds(draw: st.DrawFn) -> list[PartitionTransition]:
    made = []
    for n in range(draw(st.integers(1, 8))):
        replicas = draw(replicas_of)
        isr = draw(st.sets(st.sampled_from(replicas), min_size=1))
        made.append(
            PartitionTransition("orders", n, replicas, draw(replicas_of), min(isr), frozenset(isr), draw(st.integers(1, 3)))
        )  # fmt: skip
    return made


@given(ways=worlds(), limits=st.builds(BatchLimits, *[st.integers(1, 4)] * 3), data=st.data())
def test_plan_ends_within_limits_for_any_order_of_ends(
    ways: list[PartitionTransition], limits: BatchLimits, data: st.DataObject
) -> None:
    standing, running = dict(enumerate(ways)), dict[int, ReassignmentStep]()
    for _ in range(500):
        idle = [way for n, way in standing.items() if n not in running]
        batch = next_batch(idle, UP, limits, list(running.values()))
        assert not batch.waits
        running |= {step.partition: step for step in batch.steps}
        assert len(running) <= limits.partition_movements_max
        assert sum(step.moves_leader for step in running.values()) <= limits.leader_movements_max
        for step in batch.steps:
            assert step.reason is StepReason.MIN_IN_SYNC or len(step.adding) <= limits.replica_movements_max
        if not running:
            break
        ended = data.draw(st.sampled_from(sorted(running)))
        standing[ended] = apply_step(standing[ended], running.pop(ended))
    assert all(way.replicas == way.target for way in standing.values())
    assert all(next_step(way, UP) is None for way in standing.values())
