"""KIP-435's steps: its own examples; and for any partition: they end, at the target, and safely."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.reassignment_steps import (
    PartitionTransition,
    ReassignmentStep,
    StepReason,
    Wait,
    WaitReason,
    all_steps,
    apply_step,
    next_step,
)

KIP = PartitionTransition("orders", 0, (0, 1, 2, 3, 4), (5, 6, 7, 8, 9), leader=0, isr=frozenset({0, 1, 2, 3, 4}))


def way(replicas: tuple[int, ...], target: tuple[int, ...], *, isr: set[int] | None = None, min_in_sync: int = 1,
        leader: int | None = None) -> PartitionTransition:  # fmt: skip
    return PartitionTransition("orders", 0, replicas, target, replicas[0] if leader is None else leader,
               frozenset(replicas if isr is None else isr), min_in_sync)  # fmt: skip


def targets(of: PartitionTransition, replicas_max: int) -> list[tuple[int, ...]]:
    return [step.replicas for step in all_steps(of, replicas_max)]


# -- the KIP's example -----------------------------------------------------------------------------------------------------


def test_kip_example_with_two_replicas_matches() -> None:
    assert targets(KIP, 2) == [(5, 0, 1, 2, 3, 4), (5, 6, 2, 3, 4), (5, 6, 7, 8, 4), (5, 6, 7, 8, 9)]
    first, second, third, last = all_steps(KIP, 2)
    assert (first.adding, first.dropping, first.reason) == ((5,), (), StepReason.PREFERRED_LEADER)
    assert (first.moves_leader, first.needs_election, first.is_last) == (True, True, False)
    assert (second.adding, second.dropping, second.moves_leader) == ((6,), (0, 1), False)
    assert (third.adding, third.dropping) == ((7, 8), (2, 3))
    assert (last.adding, last.dropping, last.is_last) == ((9,), (4,), True)


def test_kip_example_with_one_replica_changes_one_at_a_time() -> None:
    assert targets(KIP, 1) == [
        (5, 0, 1, 2, 3, 4), (5, 1, 2, 3, 4), (5, 6, 2, 3, 4), (5, 6, 7, 3, 4), (5, 6, 7, 8, 4), (5, 6, 7, 8, 9),
    ]  # fmt: skip


def test_kip_example_with_three_replicas_matches() -> None:
    assert targets(KIP, 3) == [(5, 0, 1, 2, 3, 4), (5, 6, 7, 3, 4), (5, 6, 7, 8, 9)]


def test_without_limit_all_changes_are_one_step() -> None:
    (only,) = all_steps(KIP)
    assert (only.replicas, only.is_last, only.moves_leader, only.needs_election) == ((5, 6, 7, 8, 9), True, True, False)


def test_too_few_in_sync_replicas_exceed_the_step_limit() -> None:
    """The KIP: 4 brokers, min.insync.replicas 3, 1 in sync: 2 others in one step, so that producers go on."""
    step = next_step(way((0,), (1, 2, 3), min_in_sync=3), {0, 1, 2, 3}, 1)
    assert isinstance(step, ReassignmentStep)
    assert (step.adding, step.dropping, step.reason) == ((1, 2), (), StepReason.MIN_IN_SYNC)
    assert step.replicas == (1, 2, 0)


# -- other ways ------------------------------------------------------------------------------------------------------------


def test_replacing_the_only_replica_is_one_step() -> None:
    (only,) = all_steps(way((0, 1, 2), (3, 1, 2)), 1)
    assert (only.adding, only.dropping, only.moves_leader, only.needs_election, only.is_last) == (
        (3,),
        (0,),
        True,
        False,
        True,
    )


def test_reordering_step_copies_nothing_and_elects_leader() -> None:
    (only,) = all_steps(way((0, 1, 2), (2, 1, 0)), 1)
    assert (only.replicas, only.adding, only.dropping, only.needs_election) == ((2, 1, 0), (), (), True)


def test_nonpreferred_leader_keeps_leading_while_it_stays() -> None:
    (only,) = all_steps(way((0, 1, 2), (0, 1, 3), leader=1), 1)
    assert not only.moves_leader
    (drops,) = all_steps(way((0, 1, 2), (0, 2, 3), leader=1), 1)
    assert (drops.moves_leader, drops.needs_election) == (True, False)


def test_steps_change_number_of_replicas() -> None:
    assert targets(way((0,), (0, 1, 2, 3)), 1) == [(0, 1), (0, 1, 2), (0, 1, 2, 3)]
    assert targets(way((0, 1), (2, 3, 4, 5)), 2) == [(2, 0, 1), (2, 3, 4), (2, 3, 4, 5)]
    assert targets(way((0, 1, 2, 3), (0,)), 2) == [(0, 3), (0,)]


def test_finished_partition_has_no_step() -> None:
    assert next_step(way((0, 1), (0, 1)), {0, 1}) is None


# -- brokers that are down -------------------------------------------------------------------------------------------------


def test_leaderless_partition_waits() -> None:
    assert next_step(way((0, 1), (2, 1), leader=-1, isr=set()), {1, 2}) == Wait("orders", 0, WaitReason.NO_LEADER)
    assert next_step(way((0, 1), (2, 1), isr={0}), {1, 2}) == Wait("orders", 0, WaitReason.NO_LEADER)
    assert next_step(way((0, 1), (2, 1)), {1, 2}) == Wait("orders", 0, WaitReason.NO_LEADER), "an election is to come"


def test_partition_waits_for_offline_target_broker() -> None:
    waits = Wait("orders", 0, WaitReason.BROKERS_OFFLINE, (3,))
    assert next_step(way((0, 1, 2), (0, 1, 3)), {0, 1, 2}, 1) == waits


def test_offline_target_broker_does_not_delay_other_targets() -> None:
    step = next_step(KIP, {0, 1, 2, 3, 4, 6, 7, 8, 9}, 2)
    assert isinstance(step, ReassignmentStep)
    assert (step.replicas, step.reason) == ((6, 7, 2, 3, 4), StepReason.REPLICAS)


def test_last_addition_removes_at_most_one_replica() -> None:
    step = next_step(KIP, {0, 1, 2, 3, 4, 6}, 3)
    assert isinstance(step, ReassignmentStep)
    assert step.replicas == (6, 1, 2, 3, 4)


def test_dead_replica_to_remove_is_removed_at_once() -> None:
    step = next_step(way((0, 1, 2, 3, 4), (5, 6, 7, 8, 9), isr={0, 1, 2, 3}), {0, 1, 2, 3, 5, 6, 7, 8, 9}, 1)
    assert isinstance(step, ReassignmentStep)
    assert (step.replicas, step.dropping) == ((5, 0, 1, 2, 3), (4,))
    led = next_step(way((0, 1, 2, 3, 4), (0, 6, 7, 8, 9), isr={0, 1, 2, 3}), {0, 1, 2, 3, 6, 7, 8, 9}, 1)
    assert isinstance(led, ReassignmentStep)
    assert (led.replicas, led.adding, led.dropping) == ((0, 6, 2, 3), (6,), (1, 4))


def test_dead_replica_to_keep_is_awaited_unless_writes_fail() -> None:
    kept = way((0, 1, 2), (0, 1, 3), isr={0, 2}, min_in_sync=2)
    assert next_step(kept, {0, 2, 3}, 1) == Wait("orders", 0, WaitReason.BROKERS_OFFLINE, (1,))
    refused = way((0, 1, 2), (0, 1, 3), isr={0}, min_in_sync=2)
    step = next_step(refused, {0, 3}, 1)
    assert isinstance(step, ReassignmentStep)
    assert (step.adding, step.dropping, step.reason) == ((3,), (2,), StepReason.MIN_IN_SYNC)


def test_empty_or_duplicate_target_is_a_programming_error() -> None:
    with pytest.raises(AssertionError):
        way((0,), ())
    with pytest.raises(AssertionError):
        way((0,), (1, 1))


# -- any partition ---------------------------------------------------------------------------------------------------------

replicas_of = st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True).map(tuple)
brokers_up = st.sets(st.integers(0, 9))


@st.composite
def ways(draw: st.DrawFn) -> PartitionTransition:
    replicas = draw(replicas_of)
    isr = draw(st.sets(st.sampled_from(replicas), min_size=1))
    leader = draw(st.sampled_from(sorted(isr)))
    return PartitionTransition(
        "orders", 0, replicas, draw(replicas_of), leader, frozenset(isr), draw(st.integers(1, 4))
    )


@given(of=ways(), most=st.integers(1, 5))
def test_steps_end_at_ordered_target_without_cycles(of: PartitionTransition, most: int) -> None:
    steps = all_steps(of, most)
    places = [of.replicas, *(step.replicas for step in steps)]
    assert places[-1] == of.target
    assert len(set(places)) == len(places)
    assert [step.is_last for step in steps] == [place == of.target for place in places[1:]]
    assert len(steps) <= 1 + len(of.replicas) + len(of.target)


@given(of=ways(), most=st.integers(1, 5))
def test_leader_ends_as_first_replica_of_target(of: PartitionTransition, most: int) -> None:
    for step in all_steps(of, most):
        of = apply_step(of, step)
        assert of.leader in of.replicas
    assert of.leader == of.target[0] or of.leader in of.target


@given(of=ways(), up=brokers_up, most=st.integers(1, 5))
def test_only_min_in_sync_steps_exceed_the_limit(of: PartitionTransition, up: set[int], most: int) -> None:
    step = next_step(of, up, most)
    if isinstance(step, ReassignmentStep):
        assert set(step.adding) <= up & set(of.target)
        assert set(step.adding).isdisjoint(of.replicas)
        assert set(step.dropping).isdisjoint(of.target)
        assert {*of.replicas, *step.adding} - set(step.dropping) == set(step.replicas)
        lacking = of.min_in_sync - len(of.isr & up)
        assert len(step.adding) <= (lacking if step.reason is StepReason.MIN_IN_SYNC else most)
        assert len(set(step.dropping) & up) <= most
        assert lacking <= 0 or step.reason is StepReason.MIN_IN_SYNC or not set(of.target) - set(of.replicas) & up


@given(of=ways(), up=brokers_up, most=st.integers(1, 5))
def test_no_step_lowers_in_sync_replicas_below_target(of: PartitionTransition, up: set[int], most: int) -> None:
    step = next_step(of, up, most)
    if isinstance(step, ReassignmentStep):
        in_sync = len(of.isr & up)
        assert len(step.replicas) >= min(in_sync, len(of.target))
        if in_sync >= of.min_in_sync and len(of.target) >= of.min_in_sync:
            assert len(step.replicas) >= of.min_in_sync
        assert len(step.replicas) <= max(len(of.replicas), len(of.target)) + max(1, of.min_in_sync)


@given(of=ways(), up=brokers_up, most=st.integers(1, 5), rounds=st.lists(brokers_up, max_size=8))
def test_steps_end_when_absent_brokers_return(
    of: PartitionTransition, up: set[int], most: int, rounds: list[set[int]]
) -> None:
    for alive in [up, *rounds]:
        step = next_step(of, alive, most)
        if isinstance(step, ReassignmentStep) and set(step.replicas) <= alive:
            of = apply_step(of, step)
        elif isinstance(step, Wait) and step.reason is WaitReason.BROKERS_OFFLINE:
            assert set(step.brokers)
            assert set(step.brokers).isdisjoint(alive)
    assert not all_steps(of, most) or all_steps(of, most)[-1].replicas == of.target
