"""What speaks against a plan: each by name, with what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rheostat.plan.cluster_layout import ClusterLayout
from rheostat.reassign.checks import checked, ways_of
from rheostat.reassign.plan_input import PlanGround, PlanInput
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.kafka.reassignments import Disk
from tuner.core.batch_limits import BatchLimits
from tuner.core.partition_limits import PartitionLimits
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead, PlanPartition
from tuner.settings.tuner import CapacitySettings, ObjectiveSettings, TunerSettings

GB = 1_000_000_000
ROOMY = (Disk("/a", 100 * GB, 90 * GB),)
RACKS = {1: "a", 2: "b", 3: "c", 4: "c"}


def ground(
    states: Mapping[tuple[str, int], PartitionState],
    *,
    disks: Mapping[int, tuple[Disk, ...]] | None = None,
    racks: Mapping[int, str | None] | None = None,
) -> PlanGround:
    known = RACKS if racks is None else racks
    return PlanGround(
        ClusterLayout("here", known, states), {}, dict.fromkeys(known, ROOMY) if disks is None else disks, {}, 1
    )


def one(target: tuple[int, ...], *, size: float = GB, writes: float = 0.0) -> PlanInput:
    return PlanInput((), {("t", 0): PlanPartition(target, (1, 2), size, writes)})


HERE = {("t", 0): PartitionState("t", 0, 1, (1, 2), (1, 2))}


def forbids(
    given: PlanInput, on: PlanGround | None = None, *, limits: PartitionLimits | None = None, may: bool = False
) -> tuple[str, ...]:
    return checked(
        given, on or ground(HERE), rate_bytes_per_s_max=100e6, limits=limits or PartitionLimits(), may_change_factor=may
    ).forbidden  # fmt: skip


def notes(given: PlanInput, on: PlanGround) -> tuple[str, ...]:
    return checked(given, on, rate_bytes_per_s_max=100e6, limits=PartitionLimits(), may_change_factor=False).notes


def test_a_plan_that_nothing_speaks_against() -> None:
    found = checked(
        one((3, 4)), ground(HERE, racks={1: "a", 2: "b", 3: "c", 4: "d"}), rate_bytes_per_s_max=100e6,
        limits=PartitionLimits(), may_change_factor=False,
    )  # fmt: skip
    assert found.forbidden == ()
    assert found.fluid.time_s == 20.0
    assert found.notes == ()
    assert found.takes == (
        "2.00 GB are to be copied: about 34 s at 100 MB/s. No order of the steps is faster than 20 s, which the broker 1 leader "
        "throttle needs.",
    )


def test_a_plan_that_is_not_throttled_foretells_no_time() -> None:
    found = checked(
        one((3, 4), writes=1e9), ground(HERE), rate_bytes_per_s_max=None, limits=PartitionLimits(), may_change_factor=False
    )  # fmt: skip
    assert (found.forbidden, found.expected_s) == ((), None)
    assert found.takes == ("2.00 GB are to be copied; how long that takes without a throttle is not known.",)


def test_what_is_expected_knows_that_leaders_have_less_while_a_plan_goes_on() -> None:
    def expected(given: PlanInput, states: Mapping[tuple[str, int], PartitionState]) -> float | None:
        return checked(
            given, ground(states), rate_bytes_per_s_max=100e6, limits=PartitionLimits(), may_change_factor=False, leaders_ratio=0.8
        ).expected_s  # fmt: skip

    assert expected(one((3, 4)), HERE) == pytest.approx(1.08 * 20 / 0.8 + 12)  # From one leader to two others.
    # From two leaders to one other broker, which has all of the ceiling.
    parts = {("t", p): PlanPartition((p + 1, 3), (p + 1, 4), GB) for p in (0, 1)}
    states = {("t", p): PartitionState("t", p, p + 1, (p + 1, 4), (p + 1, 4)) for p in (0, 1)}
    assert expected(PlanInput((), parts), states) == pytest.approx(1.08 * 20 + 12)


@pytest.mark.parametrize(("mode", "ratio"), [("fast", 0.92), ("gentle", 1.0), (None, 0.92)])
def test_leaders_have_less_where_an_objective_hurries(mode: str | None, ratio: float) -> None:
    objective = None if mode is None else ObjectiveSettings.model_validate({"latency_ms": 50, "mode": mode})
    capacity = None if mode is None else CapacitySettings(in_bytes_per_s=1e8, out_bytes_per_s=1e8)
    settings = TunerSettings(rate_bytes_per_s_max=50_000_000, objective=objective, capacity=capacity)
    assert settings.plan_leaders_ratio() == ratio


def test_another_number_of_replicas_has_to_be_meant() -> None:
    (said,) = forbids(one((1, 2, 3)))
    assert said == (
        "t-0: 2 replicas now and 3 in the plan; if that is meant, say --allow-replication-factor-change"
    )  # fmt: skip
    assert forbids(one((1, 2, 3)), may=True) == ()


def test_a_target_that_is_down_forbids() -> None:
    without = {broker: rack for broker, rack in RACKS.items() if broker != 4}
    (said,) = forbids(one((1, 4)), ground(HERE, racks=without))
    assert said == "t-0: to go to brokers that are down: 4; bring them back first"


def test_a_disk_without_room_forbids_and_a_nearly_full_one_is_told() -> None:
    small = {**dict.fromkeys(RACKS, ROOMY), 3: (Disk("/a", 10 * GB, GB // 4), Disk("/b", 10 * GB, GB // 4))}
    (said,) = forbids(one((1, 3)), ground(HERE, disks=small))
    assert said.startswith("broker 3: 1.00 GB are to be copied there, and its disks have room for 500 MB")
    nearly = {**small, 3: (Disk("/a", 10 * GB, 3 * GB // 2),)}
    assert forbids(one((1, 3)), ground(HERE, disks=nearly)) == ()
    assert "broker 3: its disks will be 95% full" in notes(one((1, 3)), ground(HERE, disks=nearly))
    unknown = ground(HERE, disks={})
    assert "how much room the disks of brokers 3 have is not known" in notes(one((1, 3)), unknown)


def test_equal_directories_may_be_one_disk_or_several() -> None:
    """New disks of one make tell of the same room; so do directories on one disk. What may be is told, what is certain forbids."""
    new = {**dict.fromkeys(RACKS, ROOMY), 3: tuple(Disk(f"/{n}", 10 * GB, 4 * GB // 5) for n in range(4))}
    assert forbids(one((1, 3)), ground(HERE, disks=new)) == ()
    assert (
        "broker 3: 1.00 GB are to be copied there. Its 4 directories tell of the same room: if they are on one disk, that has room "
        "for 800 MB"
    ) in notes(one((1, 3)), ground(HERE, disks=new))
    (said,) = forbids(one((1, 3), size=4 * GB), ground(HERE, disks=new))
    assert said.startswith("broker 3: 4.00 GB are to be copied there, and its disks have room for 3.20 GB")


def test_a_broker_above_its_limit_forbids() -> None:
    full = {**HERE, ("t", 1): PartitionState("t", 1, 3, (3,), (3,))}
    (said,) = forbids(one((1, 3)), ground(full), limits=PartitionLimits(by_broker={3: 1}))
    assert said == (
        "POLICY_VIOLATION: broker 3 would have 2 partitions, and its max.broker.partitions is 1 (the cluster would have 3, and "
        "max.partitions is not set)"
    )


def test_a_broker_that_stays_above_its_limit_gets_nothing_though_it_gives_more() -> None:
    """It would wait for ever: it is at its limit when all that goes has gone."""
    states = {("t", n): PartitionState("t", n, 3, (3,), (3,)) for n in range(4)} | {
        ("u", 0): PartitionState("u", 0, 1, (1,), (1,))
    }
    given = PlanInput(
        (),
        {
            ("t", 0): PlanPartition((1,), (3,), GB, 0.0),
            ("t", 1): PlanPartition((1,), (3,), GB, 0.0),
            ("u", 0): PlanPartition((3,), (1,), GB, 0.0),
        },
    )
    (said,) = forbids(given, ground(states), limits=PartitionLimits(by_broker={3: 2}))
    assert said.startswith("POLICY_VIOLATION: broker 3 would have 3 partitions, and its max.broker.partitions is 2")
    assert forbids(given, ground(states), limits=PartitionLimits(by_broker={3: 3})) == ()


def test_what_plans_on_record_will_bring_counts() -> None:
    states = {**HERE, ("u", 0): PartitionState("u", 0, 1, (1,), (1,))}
    limits = PartitionLimits(by_broker={3: 1})
    other = Plan(PlanHead("p", "kim", 0, 0, 1), {("u", 0): PlanPartition((3,), (1,))})

    def said(plan: Plan) -> tuple[str, ...]:
        return checked(
            one((1, 3)), ground(states), rate_bytes_per_s_max=100e6, limits=limits, may_change_factor=False, others=[plan]
        ).forbidden  # fmt: skip

    assert forbids(one((1, 3)), ground(states), limits=limits) == ()
    (found,) = said(other)
    assert "broker 3 would have 2 partitions" in found
    # It is put back to where it is; or from there to where it was, if it is not left where it stands.
    cancelled = replace(other, head=replace(other.head, desired=DesiredPlanState.CANCELLING))
    assert said(cancelled) == ()
    cancelled = replace(cancelled, partitions={("u", 0): PlanPartition((1,), (3,))})
    assert len(said(cancelled)) == 1
    assert said(replace(cancelled, head=replace(cancelled.head, no_rollback=True))) == ()


def test_a_plan_that_grows_is_held_against_the_clusters_limit_and_one_that_moves_is_not() -> None:
    full = PartitionLimits(partitions_max=2)
    assert forbids(one((3, 4)), limits=full) == ()
    assert forbids(one((3, 4)), limits=PartitionLimits(partitions_max=1)) == (), "an old excess goes on working"
    (said,) = forbids(one((1, 2, 3)), limits=full, may=True)
    assert said == (
        "POLICY_VIOLATION: the cluster would have 3, and max.partitions is 2; the plan adds 1 replicas more than it takes away"
    )
    assert forbids(one((1, 2, 3)), limits=PartitionLimits(partitions_max=3), may=True) == ()


def test_the_steps_that_are_shown_are_those_of_a_partition_whose_producers_are_refused() -> None:
    refused = {("t", 0): PartitionState("t", 0, 1, (1, 2), (1,))}
    on = replace(ground(refused), min_in_sync={"t": 2})
    (way,) = ways_of(one((3, 4)), on)
    assert way.min_in_sync == 2
    assert ways_of(one((3, 4)), ground(refused))[0].min_in_sync == 1


def test_few_at_a_time_take_longer_than_no_order_can_be_faster_than() -> None:
    states = {("t", n): PartitionState("t", n, n % 2 + 1, (n % 2 + 1,), (n % 2 + 1,)) for n in range(10)}
    given = PlanInput((), {("t", n): PlanPartition((n % 2 + 3,), (n % 2 + 1,), GB, 0.0) for n in range(10)})

    def takes(batch: BatchLimits) -> float | None:
        return checked(
            given,
            ground(states),
            rate_bytes_per_s_max=100e6,
            limits=PartitionLimits(),
            may_change_factor=False,
            batch=batch,
        ).expected_s

    assert takes(BatchLimits()) == pytest.approx(1.08 * 50 + 12)
    assert takes(BatchLimits(partition_movements_max=1)) == pytest.approx(1.08 * 100 + 12)
    assert takes(BatchLimits(partition_movements_max=2)) == pytest.approx(1.08 * 50 + 12)


def test_a_copy_that_never_ends_forbids() -> None:
    (said,) = forbids(one((1, 3), writes=60e6))
    assert said.startswith("t-0: keeping up with what is written takes more than the throttle (100 MB/s)")


def test_fewer_racks_and_somebody_elses_move_are_told() -> None:
    assert "t-0: on fewer racks than before" in notes(one((3, 4)), ground(HERE))
    moving = {("t", 0): PartitionState("t", 0, 1, (1, 2, 4), (1, 2), adding=(4,))}
    assert "t-0: being reassigned already; waited for" in notes(one((1, 3)), ground(moving))
    orphan = {("t", 0): PartitionState("t", 0, -1, (1, 2), ())}
    assert "t-0: nobody leads; waited for" in notes(one((1, 3)), ground(orphan))
