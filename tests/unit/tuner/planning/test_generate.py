"""Generated plans: literal cases, invariants for any cluster, and a maximum flow as reference where capacity is short."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from max_flow import max_flow

from tuner.core.partition_limits import PartitionLimits, count_partitions
from tuner.planning.broker_load import BrokerLoads, PlacedPartition
from tuner.planning.generate import (
    GeneratedPlan,
    NoPlacementError,
    drain_brokers,
    extend_to_brokers,
    rebalance,
    replace_brokers,
)

MB = 1_000_000
NO_LIMITS = PartitionLimits()


def ground(
    partitions: Sequence[PlacedPartition],
    brokers: int | dict[int, str | None],
    limits: PartitionLimits = NO_LIMITS,
    cordoned: Sequence[int] = (),
) -> BrokerLoads:
    racks = dict.fromkeys(range(1, brokers + 1)) if isinstance(brokers, int) else brokers
    counts = count_partitions(((p.key, p.replicas) for p in partitions), racks)
    return BrokerLoads(partitions, racks, counts, limits, cordoned)


def one(number: int, *replicas: int, size: float = 1 * MB, topic: str = "a") -> PlacedPartition:
    return PlacedPartition(topic, number, replicas, size)


def moves(plan: GeneratedPlan) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(t.topic, t.partition): t.replicas for t in plan.targets}


# -- draining and replacing ------------------------------------------------------------------------------------------------


def test_drain_brokers_moves_to_emptiest_broker_in_same_position() -> None:
    plan = drain_brokers(
        ground([one(0, 2, 1, size=5 * MB), one(1, 1, 2, size=3 * MB), one(2, 3, 4, size=2 * MB)], 4), [2]
    )
    assert moves(plan) == {("a", 0): (3, 1), ("a", 1): (1, 4)}
    assert plan.copied_bytes == 8 * MB
    assert plan.held_bytes == {1: 8 * MB, 2: 0, 3: 7 * MB, 4: 5 * MB}
    assert plan.hosted == {1: 2, 2: 0, 3: 2, 4: 2}


def test_no_plan_moves_a_replica_to_a_cordoned_broker() -> None:
    partitions = [one(n, 1, 2, size=5 * MB) for n in range(6)]
    drained = drain_brokers(ground(partitions, 4, cordoned=[3]), [2])
    replaced = replace_brokers(ground(partitions, 4, cordoned=[3]), {2: 4})
    balanced = rebalance(ground(partitions, 4, cordoned=[3]))
    extended = extend_to_brokers(ground(partitions, 4, cordoned=[3]), [4])
    for plan in (drained, replaced, balanced, extended):
        assert plan.targets
        assert plan.held_bytes[3] == 0
    assert balanced.held_bytes[4] > 0


def test_cordoned_broker_still_gives_replicas() -> None:
    plan = rebalance(ground([one(n, 1, 2, size=5 * MB) for n in range(6)], 4, cordoned=[1, 2]))
    assert plan.held_bytes[1] < 30 * MB


def test_drain_brokers_without_open_broker_names_the_cordoned_ones() -> None:
    with pytest.raises(NoPlacementError, match=r"every other living broker has one or is cordoned \(cordoned: 3\)"):
        drain_brokers(ground([one(0, 1, 2)], 3, cordoned=[3]), [2])


def test_drain_brokers_keeps_number_of_racks() -> None:
    racks: dict[int, str | None] = {1: "x", 2: "y", 3: "x", 4: "y"}
    plan = drain_brokers(ground([one(0, 1, 2, size=5 * MB), one(1, 4, 1, size=50 * MB)], racks), [2])
    assert moves(plan) == {("a", 0): (1, 4)}, "3 holds nothing, but is in the rack of 1"
    assert plan.on_fewer_racks == ()


def test_drain_brokers_prefers_a_separate_rack() -> None:
    plan = drain_brokers(ground([one(0, 1, 2), one(1, 4, size=50 * MB)], {1: "x", 2: "x", 3: "x", 4: "y"}), [2])
    assert moves(plan) == {("a", 0): (1, 4)}


def test_drain_brokers_revises_choice_before_losing_a_rack() -> None:
    """a-0 goes to 3, the emptiest, though 5 would do for it; a-1 needs 3, for 5 is in the rack of 1."""
    racks: dict[int, str | None] = {1: "x", 2: "y", 3: "y", 5: "x", 8: "z"}
    partitions = [one(0, 8, 2, size=9 * MB), one(1, 1, 2), one(2, 5, size=4 * MB)]
    plan = drain_brokers(ground(partitions, racks, PartitionLimits(by_broker={1: 1, 3: 1, 8: 1})), [2])
    assert (moves(plan), plan.on_fewer_racks) == ({("a", 0): (8, 5), ("a", 1): (1, 3)}, ())


def test_drain_brokers_reports_partitions_that_lose_a_rack() -> None:
    plan = drain_brokers(ground([one(0, 1, 2)], {1: "x", 2: "y", 3: "x"}), [2])
    assert (moves(plan), plan.on_fewer_racks) == ({("a", 0): (1, 3)}, (("a", 0),))


def test_drain_brokers_dead_broker_is_drained() -> None:
    plan = drain_brokers(ground([one(0, 1, 9)], 3), [9])
    assert moves(plan) == {("a", 0): (1, 2)}


def test_drain_brokers_revises_choice_if_limits_are_tight() -> None:
    """a-0 goes to 3, the emptiest; a-1 is on 4 already and can only go there, so a-0 makes room for it on 4."""
    partitions = [one(0, 1, 2, size=2 * MB), one(1, 4, 2), one(2, 4, 1, size=9 * MB)]
    plan = drain_brokers(ground(partitions, 4, PartitionLimits(9, by_broker={1: 0, 3: 1, 4: 3})), [2])
    assert moves(plan) == {("a", 0): (1, 4), ("a", 1): (4, 3)}


def test_drain_brokers_without_room_names_replica_and_brokers() -> None:
    with pytest.raises(NoPlacementError, match=r"^a-1: its replica on broker 2 has no possible broker: no room on 3$"):
        drain_brokers(ground([one(0, 1, 2), one(1, 1, 2)], 3, PartitionLimits(by_broker={3: 1})), [2])
    with pytest.raises(NoPlacementError, match=r"^a-0: .* every other living broker has one$"):
        drain_brokers(ground([one(0, 1, 2, 3)], 3), [2])


def test_drain_brokers_internal_topics_ignore_limits() -> None:
    plan = drain_brokers(ground([one(0, 1, 2, topic="__consumer_offsets")], 3, PartitionLimits(0)), [2])
    assert plan.targets[0].replicas == (1, 3)
    assert plan.hosted == {1: 0, 2: 0, 3: 0}


def test_replace_brokers_successor_gets_all_it_lacks() -> None:
    partitions = [one(0, 2, 1), one(1, 1, 2), one(2, 2, 5), one(3, 1, 3)]
    plan = replace_brokers(ground(partitions, 5), {2: 5})
    assert moves(plan) == {("a", 0): (5, 1), ("a", 1): (1, 5), ("a", 2): (4, 5)}


# -- bringing in and evening out -------------------------------------------------------------------------------------------


def test_extend_to_brokers_only_fills_new_broker() -> None:
    partitions = [one(n, 1 + n % 2, 2 - n % 2) for n in range(12)]
    plan = extend_to_brokers(ground(partitions, 3), [3], 0.0)
    assert plan.held_bytes == {1: 8 * MB, 2: 8 * MB, 3: 8 * MB}
    assert plan.copied_bytes == 8 * MB
    assert all(3 in t.replicas for t in plan.targets)


def test_rebalance_stops_within_tolerance() -> None:
    partitions = [one(n, 1 + n % 2, 2 - n % 2) for n in range(12)]
    assert extend_to_brokers(ground(partitions, 3), [3], 0.25).copied_bytes == 6 * MB
    assert rebalance(ground(partitions, 2), 0.0).targets == ()


def test_rebalance_moves_bytes_to_the_mean() -> None:
    partitions = [one(n, 1) for n in range(6)] + [one(6, 2), one(7, 2), one(8, 3)]
    plan = rebalance(ground(partitions, 3), 0.0)
    assert plan.held_bytes == {1: 3 * MB, 2: 3 * MB, 3: 3 * MB}
    assert plan.copied_bytes == 3 * MB


def test_extend_to_brokers_broker_below_mean_gives_nothing() -> None:
    partitions = [one(0, 1, size=100 * MB), *(one(n, 2) for n in range(1, 11))]
    assert extend_to_brokers(ground(partitions, 3), [3], 0.0).targets == ()


def test_rebalance_spreads_excess_over_brokers_near_the_mean() -> None:
    """12.5 MB beside five times 9.5: the mean is 10, so only the first is further from it than a tenth."""
    sizes = {1: 25, 2: 19, 3: 19, 4: 19, 5: 19, 6: 19}
    partitions = [one(100 * b + n, b, size=MB / 2) for b, count in sizes.items() for n in range(count)]
    plan = rebalance(ground(partitions, 6), 0.1)
    assert (plan.copied_bytes, plan.held_bytes[1]) == (1.5 * MB, 11 * MB)


def test_rebalance_partition_larger_than_gap_stays() -> None:
    assert rebalance(ground([one(0, 1, size=100 * MB)], 2), 0.1).targets == ()


def test_extend_to_brokers_without_sizes_balances_replicas() -> None:
    plan = extend_to_brokers(ground([one(n, 1 + n % 2, size=0) for n in range(6)], 3), [3], 0.0)
    assert plan.hosted == {1: 2, 2: 2, 3: 2}


def test_extend_to_brokers_keeps_racks_and_limits() -> None:
    racks: dict[int, str | None] = {1: "x", 2: "y", 3: "x"}
    partitions = [one(n, 1, 2) for n in range(9)]
    assert {t.replicas for t in extend_to_brokers(ground(partitions, racks), [3], 0.0).targets} == {(3, 2)}
    assert len(extend_to_brokers(ground(partitions, racks, PartitionLimits(by_broker={3: 2})), [3], 0.0).targets) == 2


# -- any cluster -----------------------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> BrokerLoads:
    brokers = range(1, draw(st.integers(2, 6)) + 1)
    names = st.sampled_from(["x", "y", "z"]) if draw(st.booleans()) else st.none()
    racks = {b: draw(names) for b in brokers}
    partitions = [
        one(n, *draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True)),
            size=draw(st.integers(0, 20)) * MB, topic=draw(st.sampled_from(["a", "a", "__consumer_offsets"])))
        for n in range(draw(st.integers(0, 12)))
    ]  # fmt: skip
    limits = PartitionLimits(draw(st.sampled_from([1, 3, 5, 8, 100])), by_broker=draw(
        st.dictionaries(st.sampled_from(brokers), st.integers(0, 6), max_size=2)))  # fmt: skip
    return ground(partitions, racks, limits) if partitions else ground([], racks, limits)


def kept(before: BrokerLoads, plan: GeneratedPlan, limits: PartitionLimits) -> None:
    for target in plan.targets:
        old = before.partitions[(target.topic, target.partition)].replicas
        assert len(set(target.replicas)) == len(target.replicas) == len(old)
        assert target.replicas != old
        assert all(new == was or new not in old for new, was in zip(target.replicas, old, strict=True))
    first = count_partitions(((p.key, p.replicas) for p in before.partitions.values()), before.alive)
    last = count_partitions(
        ((key, moves(plan).get(key, p.replicas)) for key, p in before.partitions.items()), before.alive
    )
    assert all(last.on_broker(b) <= max(limits.for_broker(b), first.on_broker(b)) for b in before.alive)
    assert {b: plan.hosted[b] for b in before.alive} == dict(last.by_broker)


@settings(deadline=None)
@given(cluster=clusters(), tolerance=st.sampled_from([0.0, 0.1, 0.5]))
def test_rebalance_any_cluster_keeps_invariants(cluster: BrokerLoads, tolerance: float) -> None:
    held = [cluster.held_bytes[b] for b in cluster.alive]
    plan = rebalance(cluster, tolerance)
    kept(cluster, plan, cluster.limits)
    after = [plan.held_bytes[b] for b in cluster.alive]
    assert sum(after) == sum(held)
    assert max(after) <= max(held)
    assert min(after) >= min(held)
    assert plan.on_fewer_racks == ()


@settings(deadline=None)
@given(cluster=clusters())
def test_extend_to_brokers_any_cluster_new_broker_only_receives(cluster: BrokerLoads) -> None:
    new = cluster.alive[-1]
    plan = extend_to_brokers(cluster, [new])
    kept(cluster, plan, cluster.limits)
    assert all(
        new in t.replicas and new not in cluster.partitions[(t.topic, t.partition)].replicas for t in plan.targets
    )
    assert plan.on_fewer_racks == ()


def room_for_all(cluster: BrokerLoads, leaving: int) -> bool:
    """Whether every replica there finds a place, by a maximum flow."""
    edges: dict[tuple[str, str], int] = {}
    wanted = 0
    among = [b for b in cluster.alive if b != leaving]
    for key, p in cluster.partitions.items():
        if leaving in p.replicas:
            wanted += 1
            name = f"{key}"
            edges[("source", name)] = 1
            for b in among:
                if b not in p.replicas:
                    edges[(name, f"internal {b}" if key[0] != "a" else f"b{b}")] = 1
    for b in among:
        edges[(f"b{b}", "sink")] = max(0, cluster.limits.for_broker(b) - cluster.hosted[b])
        edges[(f"internal {b}", "sink")] = 99
    return wanted == 0 or max_flow(edges, "source", "sink") == wanted


@settings(deadline=None, max_examples=200)
@given(cluster=clusters())
def test_drain_brokers_single_succeeds_iff_maximum_flow_does(cluster: BrokerLoads) -> None:
    leaving = cluster.alive[0]
    possible = room_for_all(cluster, leaving)
    on_it = {key: p.size_bytes for key, p in cluster.partitions.items() if leaving in p.replicas}
    try:
        plan = drain_brokers(cluster, [leaving])
    except NoPlacementError:
        assert not possible
        return
    assert possible
    kept(cluster, plan, cluster.limits)
    assert moves(plan).keys() == on_it.keys()
    assert plan.copied_bytes == sum(on_it.values())
    assert plan.held_bytes[leaving] == 0


@settings(deadline=None)
@given(cluster=clusters(), data=st.data())
def test_drain_brokers_several_are_emptied_or_refused(cluster: BrokerLoads, data: st.DataObject) -> None:
    leaving = data.draw(st.sets(st.sampled_from(cluster.alive), min_size=1, max_size=len(cluster.alive) - 1))
    try:
        plan = drain_brokers(cluster, leaving)
    except NoPlacementError:
        return
    kept(cluster, plan, cluster.limits)
    assert not any(b in leaving for t in plan.targets for b in t.replicas)
    assert all(plan.held_bytes[b] == 0 for b in leaving)
