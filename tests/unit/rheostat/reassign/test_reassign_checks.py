"""Checks of a plan before it begins: each violation and note with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rheostat.plan.cluster_layout import ClusterLayout
from rheostat.reassign.checks import CheckResult, check_plan, list_transitions
from rheostat.reassign.plan_input import PlanChanges, PlanClusterState
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.kafka.reassignments import Disk
from tuner.core.batch_limits import BatchLimits
from tuner.core.partition_limits import PartitionLimits
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead, PlanPartition
from tuner.settings.objective import CapacitySettings, ObjectiveSettings
from tuner.settings.tuner import TunerSettings

GB = 1_000_000_000
EMPTY_DISKS = (Disk("/a", 100 * GB, 90 * GB),)
RACKS = {1: "a", 2: "b", 3: "c", 4: "c"}
STATES = {("t", 0): PartitionState("t", 0, 1, (1, 2), (1, 2))}


def cluster(
    states: Mapping[tuple[str, int], PartitionState] = STATES,
    *,
    disks: Mapping[int, tuple[Disk, ...]] | None = None,
    racks: Mapping[int, str | None] = RACKS,
) -> PlanClusterState:
    layout = ClusterLayout("here", racks, states)
    return PlanClusterState(layout, {}, dict.fromkeys(racks, EMPTY_DISKS) if disks is None else disks, {}, 1)


def changes(target: tuple[int, ...], *, size: float = GB, writes: float = 0.0) -> PlanChanges:
    return PlanChanges((), {("t", 0): PlanPartition(target, (1, 2), size, writes)})


def check(
    plan: PlanChanges,
    on: PlanClusterState | None = None,
    *,
    rate: float | None = 100e6,
    limits: PartitionLimits | None = None,
    may_change_factor: bool = False,
    batch_limits: BatchLimits | None = None,
    active_plans: tuple[Plan, ...] = (),
    effective_leader_ratio: float = 1.0,
) -> CheckResult:
    return check_plan(
        plan, on or cluster(), rate_bytes_per_s_max=rate, limits=limits or PartitionLimits(), may_change_factor=may_change_factor,
        batch_limits=batch_limits, active_plans=active_plans, effective_leader_ratio=effective_leader_ratio,
    )  # fmt: skip


def test_check_plan_without_faults_estimates_its_duration() -> None:
    result = check(changes((3, 4)), cluster(racks={1: "a", 2: "b", 3: "c", 4: "d"}))
    assert result.violations == ()
    assert result.bound.time_s == 20.0
    assert result.notes == ()
    assert result.duration == (
        "The plan copies 2.00 GB in about 34 s at 100 MB/s. No order of the steps takes less than 20 s, because of the broker 1 "
        "leader throttle.",
    )


def test_check_plan_without_throttle_estimates_no_duration() -> None:
    result = check(changes((3, 4), writes=1e9), rate=None)
    assert (result.violations, result.expected_s) == ((), None)
    assert result.duration == ("The plan copies 2.00 GB. The time without a throttle is not known.",)


def test_expected_duration_includes_the_lower_rate_of_leaders() -> None:
    from_one_leader = check(changes((3, 4)), effective_leader_ratio=0.8)
    assert from_one_leader.expected_s == pytest.approx(1.08 * 20 / 0.8 + 12)
    # Two leaders copy to one broker, which has the whole ceiling.
    parts = {("t", p): PlanPartition((p + 1, 3), (p + 1, 4), GB) for p in (0, 1)}
    states = {("t", p): PartitionState("t", p, p + 1, (p + 1, 4), (p + 1, 4)) for p in (0, 1)}
    from_two_leaders = check(PlanChanges((), parts), cluster(states), effective_leader_ratio=0.8)
    assert from_two_leaders.expected_s == pytest.approx(1.08 * 20 + 12)


@pytest.mark.parametrize(("mode", "ratio"), [("fast", 0.92), ("gentle", 1.0), (None, 0.92)])
def test_effective_leader_ratio_by_mode(mode: str | None, ratio: float) -> None:
    objective = None if mode is None else ObjectiveSettings.model_validate({"latency_ms": 50, "mode": mode})
    capacity = None if mode is None else CapacitySettings(in_bytes_per_s=1e8, out_bytes_per_s=1e8)
    settings = TunerSettings(rate_bytes_per_s_max=50_000_000, objective=objective, capacity=capacity)
    assert settings.effective_leader_ratio() == ratio


SMALL_DISKS = (Disk("/a", 10 * GB, GB // 4), Disk("/b", 10 * GB, GB // 4))
SAME_SIZE_DISKS = tuple(Disk(f"/{n}", 10 * GB, 4 * GB // 5) for n in range(4))


def disks_of_broker_3(*disks: Disk) -> PlanClusterState:
    return cluster(disks={**dict.fromkeys(RACKS, EMPTY_DISKS), 3: disks})


@pytest.mark.parametrize(
    ("plan", "on", "violation"),
    [
        (
            changes((1, 2, 3)), cluster(),
            "t-0: 2 replicas now and 3 in the plan; give --allow-replication-factor-change to allow that",
        ),
        (
            changes((1, 4)), cluster(racks={1: "a", 2: "b", 3: "c"}),
            "t-0: the plan adds replicas on brokers that are down: 4; start them first",
        ),
        (
            changes((1, 3)), disks_of_broker_3(*SMALL_DISKS),
            "broker 3: the plan copies 1.00 GB to it, and its disks have 500 MB free; add disk space, or move less",
        ),
        (
            changes((1, 3), size=4 * GB), disks_of_broker_3(*SAME_SIZE_DISKS),
            "broker 3: the plan copies 4.00 GB to it, and its disks have 3.20 GB free; add disk space, or move less",
        ),
        (
            changes((1, 3), writes=60e6), cluster(),
            "t-0: the write rate alone needs more than the throttle of 100 MB/s, for example on the broker 1 leader throttle: the copy "
            "would never end. Raise the rate (tuner.rate_bytes_per_s_max, or --throttle if you gave it), or move these partitions when "
            "producers write less",
        ),
    ],
    ids=["replication factor", "broker down", "disks full", "equal disks full", "endless copy"],
)  # fmt: skip
def test_check_plan_with_certain_fault_forbids_it(plan: PlanChanges, on: PlanClusterState, violation: str) -> None:
    assert check(plan, on).violations == (violation,)


@pytest.mark.parametrize(
    ("plan", "on", "note"),
    [
        (
            changes((1, 3)), disks_of_broker_3(Disk("/a", 10 * GB, 3 * GB // 2)),
            "broker 3: its disks will be 95% full",
        ),
        (changes((1, 3)), cluster(disks={}), "the free disk space of brokers 3 is not known"),
        # Several disks of one model report equal figures, and so do several directories on one disk.
        (
            changes((1, 3)), disks_of_broker_3(*SAME_SIZE_DISKS),
            "broker 3: the plan copies 1.00 GB to it. Its 4 directories report the same free space: if they share one disk, it has "
            "800 MB free",
        ),
        (changes((3, 4)), cluster(), "t-0: on fewer racks than now"),
        (
            changes((1, 3)), cluster({("t", 0): PartitionState("t", 0, 1, (1, 2, 4), (1, 2), adding=(4,))}),
            "t-0: already being reassigned; the plan waits until that reassignment has ended",
        ),
        (
            changes((1, 3)), cluster({("t", 0): PartitionState("t", 0, -1, (1, 2), ())}),
            "t-0: no leader; the plan waits until Kafka has elected one",
        ),
    ],
    ids=["nearly full", "unknown disks", "equal disks", "fewer racks", "reassigned elsewhere", "no leader"],
)  # fmt: skip
def test_check_plan_with_possible_fault_only_notes_it(plan: PlanChanges, on: PlanClusterState, note: str) -> None:
    result = check(plan, on)
    assert result.violations == ()
    assert note in result.notes


def test_replication_factor_change_is_allowed_by_its_option() -> None:
    assert check(changes((1, 2, 3)), may_change_factor=True).violations == ()


def test_broker_above_its_limit_forbids_the_plan() -> None:
    full = {**STATES, ("t", 1): PartitionState("t", 1, 3, (3,), (3,))}
    (violation,) = check(changes((1, 3)), cluster(full), limits=PartitionLimits(by_broker={3: 1})).violations
    assert violation == (
        "POLICY_VIOLATION: broker 3 would have 2 partitions, and its max.broker.partitions is 1 (the cluster would have 3, and "
        "max.partitions is not set)"
    )


def test_broker_still_above_its_limit_afterwards_gets_nothing() -> None:
    """The step to the broker would wait forever, because the broker is at its limit even without the replicas that leave."""
    states = {("t", n): PartitionState("t", n, 3, (3,), (3,)) for n in range(4)}
    states[("u", 0)] = PartitionState("u", 0, 1, (1,), (1,))
    leaving = {("t", n): PlanPartition((1,), (3,), GB, 0.0) for n in range(2)}
    plan = PlanChanges((), {**leaving, ("u", 0): PlanPartition((3,), (1,), GB, 0.0)})
    (violation,) = check(plan, cluster(states), limits=PartitionLimits(by_broker={3: 2})).violations
    assert violation.startswith(
        "POLICY_VIOLATION: broker 3 would have 3 partitions, and its max.broker.partitions is 2 ("
    )
    assert check(plan, cluster(states), limits=PartitionLimits(by_broker={3: 3})).violations == ()


def test_replicas_of_active_plans_count_against_the_limit() -> None:
    states = {**STATES, ("u", 0): PartitionState("u", 0, 1, (1,), (1,))}
    other = Plan(PlanHead("p", "kim", 0, 0, 1), {("u", 0): PlanPartition((3,), (1,))})

    def violations(*active_plans: Plan) -> tuple[str, ...]:
        limits = PartitionLimits(by_broker={3: 1})
        return check(changes((1, 3)), cluster(states), limits=limits, active_plans=active_plans).violations

    assert violations() == ()
    (violation,) = violations(other)
    assert "broker 3 would have 2 partitions" in violation
    # A cancelled plan brings its partitions back to where they were, unless it ends without rollback.
    cancelled = replace(other, head=replace(other.head, desired=DesiredPlanState.CANCELLING))
    assert violations(cancelled) == ()
    cancelled = replace(cancelled, partitions={("u", 0): PlanPartition((1,), (3,))})
    assert len(violations(cancelled)) == 1
    assert violations(replace(cancelled, head=replace(cancelled.head, no_rollback=True))) == ()


@pytest.mark.parametrize(
    ("target", "partitions_max", "violations"),
    [
        ((3, 4), 2, ()),
        ((3, 4), 1, ()),  # The cluster is above its limit already, and existing partitions keep working.
        ((1, 2, 3), 3, ()),
        (
            (1, 2, 3), 2,
            ("POLICY_VIOLATION: the cluster would have 3, and max.partitions is 2; the plan adds 1 replicas more than it removes",),
        ),
    ],
)  # fmt: skip
def test_cluster_limit_forbids_only_plans_that_add_replicas(
    target: tuple[int, ...], partitions_max: int, violations: tuple[str, ...]
) -> None:
    limits = PartitionLimits(partitions_max=partitions_max)
    assert check(changes(target), limits=limits, may_change_factor=True).violations == violations


@pytest.mark.parametrize(("min_in_sync", "expected"), [({"t": 2}, 2), ({}, 1)])
def test_transitions_have_the_min_in_sync_of_their_topic(min_in_sync: dict[str, int], expected: int) -> None:
    below_min = {("t", 0): PartitionState("t", 0, 1, (1, 2), (1,))}
    (transition,) = list_transitions(changes((3, 4)), replace(cluster(below_min), min_in_sync=min_in_sync))
    assert transition.min_in_sync == expected


@pytest.mark.parametrize(
    ("limits", "copy_s"),
    [(BatchLimits(), 50), (BatchLimits(partition_movements_max=1), 100), (BatchLimits(partition_movements_max=2), 50)],
)
def test_expected_duration_includes_the_batch_limits(limits: BatchLimits, copy_s: int) -> None:
    states = {("t", n): PartitionState("t", n, n % 2 + 1, (n % 2 + 1,), (n % 2 + 1,)) for n in range(10)}
    plan = PlanChanges((), {("t", n): PlanPartition((n % 2 + 3,), (n % 2 + 1,), GB, 0.0) for n in range(10)})
    assert check(plan, cluster(states), batch_limits=limits).expected_s == pytest.approx(1.08 * copy_s + 12)
