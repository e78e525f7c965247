"""KIP-578: its examples, and any cluster: nothing is refused that a maximum flow could place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from max_flow import max_flow

from tuner.core.partition_limits import PRESETS, PartitionCounts, PartitionLimits, brokers_above_limit, count_partitions
from tuner.planning.placement import PlacementRequest, PolicyViolation, place

Racks = Mapping[int, str | None]
NONE: Racks = dict.fromkeys((1, 2, 3))


def after(counts: dict[int, int], placed: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    return dict(Counter(counts) + Counter(b for replicas in placed for b in replicas))


# -- the KIP's examples ----------------------------------------------------------------------------------------------------

TEN = PartitionLimits(broker_partitions_max=10)


def test_place_kip578_first_example() -> None:
    counts = {1: 8, 2: 6, 3: 9}
    first = place(PlacementRequest("a", 1, 3), NONE, PartitionCounts(counts), TEN)
    then = after(counts, first)
    assert then == {1: 9, 2: 7, 3: 10}
    with pytest.raises(PolicyViolation):
        place(PlacementRequest("b", 1, 3), NONE, PartitionCounts(then), TEN)
    assert set(place(PlacementRequest("b", 1, 2), NONE, PartitionCounts(then), TEN)[0]) == {1, 2}


def test_place_without_room_refuses_the_whole_topic() -> None:
    with pytest.raises(PolicyViolation) as refused:
        place(PlacementRequest("a", 2, 3), NONE, PartitionCounts({1: 8, 2: 6, 3: 9}), TEN)
    assert str(refused.value) == (
        "POLICY_VIOLATION: 2 partitions of topic a with replication factor 3 need room for 6 replicas within "
        "max.broker.partitions=10 and max.partitions=unlimited. The brokers can take 5, one of each partition at most "
        "(1: 8 of 10, 2: 6 of 10, 3: 9 of 10); the cluster unlimited (23 of unlimited)."
    )


def test_place_kip578_second_example() -> None:
    counts = {1: 10, 2: 20, 3: 30}
    placed = place(PlacementRequest("a", 30, 2), NONE, PartitionCounts(counts), PartitionLimits(40))
    assert after(counts, placed) == {1: 40, 2: 40, 3: 40}
    assert Counter(frozenset(replicas) for replicas in placed) == {frozenset({1, 2}): 20, frozenset({1, 3}): 10}
    with pytest.raises(PolicyViolation):
        place(PlacementRequest("a", 31, 2), NONE, PartitionCounts(counts), PartitionLimits(40))


# -- limits ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        (PartitionLimits(10, 100), True),
        (PartitionLimits(10, 28), True),
        (PartitionLimits(10, 27), False),  # The cluster's is the stricter one.
        (PartitionLimits(8, 100), False),
        (PartitionLimits(8, 100, {3: 9}), False),
        (PartitionLimits(8, 100, {1: 9, 2: 9, 3: 10}), True),
        (PartitionLimits(10, 100, {1: 8}), False),
    ],
)
def test_place_strictest_limit_applies(limits: PartitionLimits, fits: bool) -> None:
    counts, wanted = PartitionCounts({1: 8, 2: 8, 3: 9}), PlacementRequest("a", 1, 3)
    if fits:
        assert sorted(place(wanted, NONE, counts, limits)[0]) == [1, 2, 3]
    else:
        with pytest.raises(PolicyViolation, match=r"max\.broker\.partitions=(8|10) and max\.partitions=(27|100)\."):
            place(wanted, NONE, counts, limits)


def test_count_partitions_skips_internal_topics() -> None:
    counts = count_partitions(
        [(("a", 0), (1, 2)), (("__consumer_offsets", 0), (1, 2)), (("__transaction_state", 1), (3,)),
         (("a", 1), (1, 2, 3))],
        [1, 2, 3, 4],
    )  # fmt: skip
    assert counts.by_broker == {1: 2, 2: 2, 3: 1, 4: 0}
    assert counts.total == 5


def test_place_broker_above_limit_gets_no_more() -> None:
    counts = PartitionCounts({1: 12, 2: 3, 3: 3})
    assert counts.headroom(1, TEN) == 0
    assert set(place(PlacementRequest("a", 5, 2), NONE, counts, TEN)) == {(2, 3), (3, 2)}
    with pytest.raises(PolicyViolation):
        place(PlacementRequest("a", 1, 3), NONE, counts, TEN)
    assert brokers_above_limit(counts, {1: -1, 2: 1}, TEN) == {}
    assert brokers_above_limit(counts, {1: 1, 2: 8, 3: 7}, TEN) == {1: 13, 2: 11}
    assert brokers_above_limit(counts, {2: 1}, PartitionLimits(10, 5)) == {}, (
        "a reassignment may be where the cluster is full"
    )


def test_presets_match_their_sources() -> None:
    assert (PRESETS["kafka"].limits.broker_partitions_max, PRESETS["kafka"].limits.partitions_max) == (4000, 200_000)
    assert [PRESETS[f"msk.{size}"].limits.broker_partitions_max for size in ("t3.small", "large", "2xlarge")] == [
        300, 1000, 2000,
    ]  # fmt: skip


# -- evenness and racks ----------------------------------------------------------------------------------------------------


def test_place_spreads_replicas_and_leaders_evenly() -> None:
    racks: Racks = dict.fromkeys(range(6))
    placed = place(PlacementRequest("a", 12, 3), racks, PartitionCounts({}), PartitionLimits())
    assert set(Counter(b for replicas in placed for b in replicas).values()) == {6}
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}
    pairs = Counter(frozenset((a, b)) for replicas in placed for a in replicas for b in replicas if a < b)
    assert len(pairs) == 15
    assert max(pairs.values()) <= 4


def test_place_uses_a_rack_per_replica() -> None:
    racks: Racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for replicas in place(PlacementRequest("a", 9, 3), racks, PartitionCounts({}), PartitionLimits()):
        assert {racks[b] for b in replicas} == {"a", "b", "c"}


def test_place_full_rack_shares_another_rack() -> None:
    racks: Racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    limits = PartitionLimits(10, by_broker={3: 1, 4: 1})
    placed = place(PlacementRequest("a", 4, 2), racks, PartitionCounts({}), limits)
    assert sorted(len({racks[b] for b in replicas}) for replicas in placed) == [1, 1, 2, 2]


def test_place_ignores_racks_if_one_is_unknown() -> None:
    racks: Racks = {1: "a", 2: "a", 3: None}
    placed = place(PlacementRequest("a", 30, 2), racks, PartitionCounts({}), PartitionLimits())
    assert Counter(b for replicas in placed for b in replicas) == {1: 20, 2: 20, 3: 20}


# -- any cluster -----------------------------------------------------------------------------------------------------------


@st.composite
def questions(draw: st.DrawFn) -> tuple[PlacementRequest, Racks, PartitionCounts, PartitionLimits]:
    brokers = range(1, draw(st.integers(1, 6)) + 1)
    names = st.sampled_from(["a", "b", "c"]) if draw(st.booleans()) else st.none()
    racks = {b: draw(names) for b in brokers}
    wanted = PlacementRequest("a", draw(st.integers(1, 5)), draw(st.integers(1, len(brokers))))
    counts = PartitionCounts({b: draw(st.integers(0, 8)) for b in brokers})
    own = draw(st.dictionaries(st.sampled_from(brokers), st.integers(0, 20)))
    limits = PartitionLimits(draw(st.integers(0, 14)), draw(st.integers(0, 80)), own)
    return wanted, racks, counts, limits


def flows(
    wanted: PlacementRequest, racks: Racks, counts: PartitionCounts, limits: PartitionLimits, per_rack: int
) -> int:
    """Partitions → their share of each rack → brokers, in whole replicas: the most that any placement gets in."""
    edges: dict[tuple[str, str], int] = {}
    for p in range(wanted.partitions):
        edges[("source", f"p{p}")] = wanted.replication
        for b, rack in racks.items():
            edges[(f"p{p}", f"p{p} in {rack}")] = per_rack
            edges[(f"p{p} in {rack}", f"b{b}")] = 1
    for b in racks:
        edges[(f"b{b}", "sink")] = max(0, limits.for_broker(b) - counts.on_broker(b))
    return max_flow(edges, "source", "sink")


@settings(deadline=None, max_examples=150)
@given(question=questions())
def test_place_succeeds_iff_maximum_flow_does(
    question: tuple[PlacementRequest, Racks, PartitionCounts, PartitionLimits],
) -> None:
    wanted, racks, counts, limits = question
    fits = flows(*question, per_rack=wanted.replication) == wanted.replicas
    fits = fits and wanted.replicas <= limits.partitions_max - counts.total
    try:
        placed = place(*question)
    except PolicyViolation:
        assert not fits
        return
    assert fits
    assert len(placed) == wanted.partitions
    assert all(len(set(replicas)) == len(replicas) == wanted.replication for replicas in placed)
    then = after(dict(counts.by_broker), placed)
    assert all(then.get(b, 0) <= max(limits.for_broker(b), counts.on_broker(b)) for b in racks)


@settings(deadline=None, max_examples=100)
@given(question=questions())
def test_place_uses_as_many_racks_as_possible(
    question: tuple[PlacementRequest, Racks, PartitionCounts, PartitionLimits],
) -> None:
    _, racks, _, _ = question
    try:
        placed = place(*question)
    except PolicyViolation:
        return
    if None in racks.values():
        return
    # With one replica of a partition a rack, a flow counts the pairs of partition and rack that can be had.
    pairs = sum(len({racks[b] for b in replicas}) for replicas in placed)
    assert pairs == flows(*question, per_rack=1)
