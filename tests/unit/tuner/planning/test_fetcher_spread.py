"""Partitions are numbered so that few share a fetcher thread, and every other goal of the placement stays as it was."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.partition_limits import PartitionCounts, PartitionLimits
from tuner.planning.fetcher_spread import count_threads, shared_threads, spread_over_threads
from tuner.planning.placement import PlacementRequest, place

# The placement of LINE's slides: eight partitions in turn on six brokers.
ON_SIX_IN_TURN = tuple(((5 + p) % 6, (2 + p + p // 6) % 6, (3 + p + p // 6) % 6) for p in range(8))
THREE = dict.fromkeys(range(6), 3)


def test_spread_parts_the_collisions_of_line() -> None:
    before = shared_threads("timeline", 0, ON_SIX_IN_TURN, THREE, {})
    assert (
        before.collisions == 2
    )  # Broker 3 copies partitions 0 and 6 from broker 5, and broker 4 copies 1 and 7 from 0.
    spread = spread_over_threads("timeline", 0, ON_SIX_IN_TURN, THREE, {})
    assert shared_threads("timeline", 0, spread, THREE, {}).collisions == 0
    assert Counter(spread) == Counter(ON_SIX_IN_TURN)


def test_spread_without_collisions_keeps_the_order() -> None:
    assert spread_over_threads("timeline", 0, ON_SIX_IN_TURN[:6], THREE, {}) == ON_SIX_IN_TURN[:6]


def test_spread_single_thread_keeps_the_order() -> None:
    one = dict.fromkeys(range(6), 1)
    assert spread_over_threads("timeline", 0, ON_SIX_IN_TURN, one, {}) == ON_SIX_IN_TURN


def test_spread_avoids_threads_of_other_topics() -> None:
    placement = ((1, 2), (2, 1))
    two = {1: 2, 2: 2}
    # Another topic's partition 0 uses the thread of broker 2 that the given order would use.
    hosted = count_threads([("timeline", 0, 1, (1, 2))], two)
    spread = spread_over_threads("timeline", 0, placement, two, hosted)
    assert spread == ((2, 1), (1, 2))


def test_spread_more_partitions_counts_from_the_first_new_one() -> None:
    placement = ON_SIX_IN_TURN[:1] * 3
    assert len({next(iter(count_threads([("t", p, 5, placement[0])], THREE))) for p in (7, 8, 9)}) == 3
    assert shared_threads("t", 7, placement, THREE, {}).collisions == 0


def test_spread_large_topic_loads_threads_more_evenly() -> None:
    placement = place(PlacementRequest("t", 2_000, 3), dict.fromkeys(range(12)), PartitionCounts({}), PartitionLimits())
    threads = dict.fromkeys(range(12), 4)
    before = shared_threads("t", 0, placement, threads, {})
    after = shared_threads("t", 0, spread_over_threads("t", 0, placement, threads, {}), threads, {})
    assert after.own < before.own


@settings(deadline=None)
@given(data=st.data())
def test_spread_never_makes_any_goal_worse(data: st.DataObject) -> None:
    brokers = data.draw(st.integers(2, 8))
    racks = {b: data.draw(st.sampled_from(["a", "b", "c"])) for b in range(brokers)}
    request = PlacementRequest(
        data.draw(st.text("abc-.", min_size=1, max_size=5)),
        data.draw(st.integers(1, 40)),
        data.draw(st.integers(1, min(3, brokers))),
    )
    threads = {b: data.draw(st.integers(1, 6)) for b in racks}
    hosted = count_threads(
        [("old", p, p % brokers, (p % brokers, (p + 1) % brokers)) for p in range(data.draw(st.integers(0, 20)))],
        threads,
    )
    first = data.draw(st.integers(0, 50))
    placement = place(request, racks, PartitionCounts({}), PartitionLimits())
    spread = spread_over_threads(request.topic, first, placement, threads, hosted)
    # The same replica lists: so brokers host and lead as many partitions, on the same racks, with the same neighbours.
    assert Counter(spread) == Counter(placement)
    before = shared_threads(request.topic, first, placement, threads, hosted)
    after = shared_threads(request.topic, first, spread, threads, hosted)
    assert after <= before
    assert after.collisions <= before.collisions
