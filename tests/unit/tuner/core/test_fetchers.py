"""Fetcher threads: Java's hash arithmetic, LINE's experiment, and the advice."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.fetcher_choice import choose_fetcher_load
from tuner.core.fetcher_load import (
    FetchedPartition,
    FetcherLoad,
    TopicCollision,
    count_idle_threads,
    estimate_load,
    estimate_loads,
    find_topic_collisions,
    loads_by_thread,
    replicas_by_pair,
)
from tuner.core.fetchers import (
    fetcher_id,
    fetcher_number,
    resize_steps,
    topic_hash,
)
from tuner.simulation.replicas import fetcher_id as simulated_fetcher_id

# -- Kafka's sum -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "code"),
    [("", 0), ("a", 97), ("hello", 99_162_322), ("polygenelubricants", -(2**31)), ("Aa", 2112), ("BB", 2112),
     ("__consumer_offsets", -970_371_369)],
)  # fmt: skip
def test_topic_hash_equals_java_string_hash(topic: str, code: int) -> None:
    assert topic_hash(topic) == code


def test_fetcher_hash_wraps_at_32_bits_and_minimum_becomes_0() -> None:
    # 31 × −2³¹ wraps to −2³¹: partition 0 is Utils.abs's odd case, partition 1 the greatest number there is.
    assert fetcher_number("polygenelubricants", 0) == 0
    assert fetcher_number("polygenelubricants", 1) == 2**31 - 1
    assert fetcher_id("polygenelubricants", 1, 4) == 3
    assert [fetcher_id("hello", p, 3) for p in range(4)] == [0, 2, 1, 0]


@given(
    topic=st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True), partition=st.integers(0, 10_000), n=st.integers(1, 32)
)
def test_fetcher_id_equals_that_of_simulated_cluster(topic: str, partition: int, n: int) -> None:
    assert fetcher_id(topic, partition, n) == simulated_fetcher_id(topic, partition, n)


def test_fetcher_count_changes_between_half_and_double() -> None:
    assert resize_steps(1, 8) == (2, 4, 8)
    assert resize_steps(2, 5) == (4, 5)
    assert resize_steps(8, 3) == (4, 3)
    assert resize_steps(9, 1) == (4, 2, 1)
    assert resize_steps(4, 4) == ()


# -- LINE's experiment -----------------------------------------------------------------------------------------------------


def in_turn(partitions: int, brokers: int, replicas: int = 3, first: int = 0, shift: int = 0) -> list[FetchedPartition]:
    """The slides' placement: leaders in turn, followers in turn from elsewhere, one further each time round."""
    found = []
    for p in range(partitions):
        leader = (first + p) % brokers
        away = [1 + (shift + p // brokers + j) % (brokers - 1) for j in range(replicas - 1)]
        found.append(FetchedPartition("timeline", p, leader, tuple((leader + a) % brokers for a in away)))
    return found


def busiest(partitions: Iterable[FetchedPartition]) -> dict[int, int]:
    """Most partitions of one thread, by num.replica.fetchers."""
    return {n: one.partitions_max for n, one in enumerate(estimate_loads(replicas_by_pair(partitions), 10), start=1)}


def test_five_fetchers_for_25_brokers_equal_one() -> None:
    """40 partitions, 25 brokers: those that share leader and follower are 25 apart."""
    found = busiest(in_turn(40, 25))
    assert {n for n, most in found.items() if most > 1} == {1, 5}


def test_ten_fetchers_for_25_brokers_equal_two() -> None:
    """With 40 partitions a pair has two at most, which 10 threads still part; with four each it shows. As slides' law:
    n threads are worth n ÷ gcd(n, brokers)."""
    everywhere = busiest(in_turn(100, 25, replicas=25))
    assert everywhere == {1: 4, 2: 2, 3: 2, 4: 1, 5: 4, 6: 1, 7: 1, 8: 1, 9: 1, 10: 2}
    assert everywhere == {n: -(-4 // (n // gcd(n, 25))) for n in range(1, 11)}


def test_common_factors_collide_for_other_broker_counts() -> None:
    assert busiest(in_turn(6 * 32, 6)) == {1: 14, 2: 14, 3: 14, 4: 7, 5: 7, 6: 14, 7: 2, 8: 4, 9: 5, 10: 7}
    assert busiest(in_turn(12 * 32, 12)) == {1: 6, 2: 6, 3: 6, 4: 6, 5: 2, 6: 6, 7: 2, 8: 3, 9: 2, 10: 2}


def test_idle_threads_count_only_for_pairs_with_shareable_work() -> None:
    by_pair = replicas_by_pair(in_turn(40, 25))
    assert [one.idle for one in estimate_loads(by_pair, 10)] == [0, 0, 0, 0, 15, 0, 0, 0, 0, 0]
    (topic,) = find_topic_collisions(by_pair, dict.fromkeys(range(25), 5))
    assert (topic.topic, topic.idle, topic.partitions, topic.threads) == ("timeline", 15, 2, 1)
    assert find_topic_collisions(by_pair, dict.fromkeys(range(25), 4)) == ()


# -- loads -----------------------------------------------------------------------------------------------------------------


def test_cell_load_is_sum_of_its_partitions() -> None:
    """hash("a") is 97, so the sum of partition 0 is 3007: thread 1 of 3."""
    moved = [
        FetchedPartition("a", 0, 1, (2, 3), 5.0),
        FetchedPartition("a", 3, 1, (2,), 7.0),
        FetchedPartition("a", 1, 1, (2,), 1.0),
    ]
    by_pair = replicas_by_pair(moved)
    assert loads_by_thread(by_pair, {2: 3, 3: 1}) == {(2, 1, 1): (12.0, 2), (2, 1, 2): (1.0, 1), (3, 1, 0): (5.0, 1)}
    assert estimate_load(by_pair, {2: 3, 3: 1}) == FetcherLoad(None, 12.0, (2, 1, 1), 2, 1)
    assert find_topic_collisions(by_pair, {2: 3, 3: 1}) == (TopicCollision("a", 1, 2, 1, 3, 2),)


def test_leader_has_no_fetcher_load_from_itself() -> None:
    assert replicas_by_pair([FetchedPartition("a", 0, 1, (1, 2))]).keys() == {(2, 1)}


def test_without_copies_every_fetcher_count_is_equal() -> None:
    found = estimate_loads(replicas_by_pair([]), 4)
    assert [one.fetchers for one in found] == [1, 2, 3, 4]
    assert choose_fetcher_load(FetcherLoad(2), found).fetchers == 2


partitions_of = st.lists(
    st.builds(
        FetchedPartition, st.sampled_from(["a", "orders", "clicks.eu"]), st.integers(0, 500), st.integers(1, 4),
        st.lists(st.integers(1, 4), max_size=3, unique=True).map(tuple), st.integers(0, 100).map(float),
    ),
    max_size=40,
)  # fmt: skip


@given(partitions=partitions_of, n=st.integers(1, 32))
def test_total_load_is_independent_of_thread_count(partitions: list[FetchedPartition], n: int) -> None:
    found = loads_by_thread(replicas_by_pair(partitions), dict.fromkeys(range(1, 5), n))
    assert sum(load for load, _ in found.values()) == sum(
        p.load for p in partitions for f in p.followers if f != p.leader
    )
    seen = estimate_load(replicas_by_pair(partitions), dict.fromkeys(range(1, 5), n))
    assert seen.load_max == max((load for load, _ in found.values()), default=0.0)
    assert seen.partitions_max == max((count for _, count in found.values()), default=0)
    assert estimate_loads(replicas_by_pair(partitions))[n - 1] == (seen if partitions else FetcherLoad(n)), (
        "folded from 2 n as well"
    )
    if seen.busiest is not None:
        assert found.get(seen.busiest, (0.0, 0))[0] == seen.load_max


# -- what is advised -------------------------------------------------------------------------------------------------------


def looks(*loads: float) -> list[FetcherLoad]:
    return [FetcherLoad(n, load) for n, load in enumerate(loads, start=1)]


def test_fewest_threads_with_eighty_percent_of_best_are_chosen() -> None:
    all_of = looks(100, 60, 44, 60, 40, 36)  # 64 at most, so 51 are enough: down to 49.
    assert choose_fetcher_load(all_of[0], all_of).fetchers == 3
    assert choose_fetcher_load(all_of[3], all_of).fetchers == 3
    assert choose_fetcher_load(all_of[4], all_of).fetchers == 5, "today's stays where it does as well"
    few = looks(7, 4, 6, 3, 3, 3, 2, 2, *[2] * 7, 1)
    assert choose_fetcher_load(few[2], few).fetchers == 7, "the last partition's own thread is not worth nine more"


def test_known_thread_rate_limits_the_choice_to_headroom() -> None:
    all_of = looks(100, 60, 44, 60, 40, 36)
    assert choose_fetcher_load(all_of[0], all_of, 100.0).fetchers == 2
    assert choose_fetcher_load(all_of[0], all_of, 200.0).fetchers == 1
    assert choose_fetcher_load(all_of[0], all_of, 20.0).fetchers == 3, "none has room: as without"


@given(
    partitions=st.lists(
        st.tuples(
            st.sampled_from(("a", "orders", "polygenelubricants")), st.integers(0, 40), st.integers(0, 3),
            st.lists(st.integers(0, 5), max_size=3, unique=True),
        ),
        max_size=60, unique_by=lambda one: one[:2],
    ),
    fetchers=st.dictionaries(st.integers(0, 5), st.integers(1, 9)),
)  # fmt: skip
def test_count_idle_threads_equals_that_of_full_estimate(
    partitions: list[tuple[str, int, int, list[int]]], fetchers: dict[int, int]
) -> None:
    by_pair = replicas_by_pair(
        FetchedPartition(topic, p, leader, tuple(followers)) for topic, p, leader, followers in partitions
    )
    asked = {pair[0] for pair in by_pair} & fetchers.keys()
    known = {
        b: estimate_load({pair: those for pair, those in by_pair.items() if pair[0] == b}, fetchers).idle for b in asked
    }
    assert count_idle_threads(partitions, fetchers) == known
