"""The replicas that have to be listed: literal cases, and generated ones where only managed, moving replicas are listed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import LIMITS, NOW_MS, SOURCE, TARGET, F, L, live, move, move_signal, observation, throttle

from streaming.shared.throttle_settings import LIST_CHARS_MAX, ThrottledReplicas, TopicThrottle
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import AddPairs, Decision, Hold, Reason, RemovePairs, StartRate
from tuner.control.throttle.replica_lists.list_rules import (
    Copies,
    count_copies,
    decide_list_changes,
    draining_rate_bytes_per_s,
    external_lists,
    record_pairs_to_add,
    record_removed_pairs,
    remove_unneeded_pairs,
    required_by_topic,
    start_rate_bytes_per_s,
    without_sides,
)
from tuner.control.throttle.state import Memory
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove, RateSetting
from tuner.core.operator_orders import Orders, Override
from tuner.core.throttle_limits import MB

THROTTLES = replace(LIMITS, closed_loop=True, throttles_all_moves=True)
EVERYWHERE = {(b, side): 10.0 * MB for b in (1, 2, 3) for side in (L, F)}


def view_of(cluster: LiveCluster, *, orders: Orders | None = None) -> MovesView:
    seen = replace(observation(cluster), orders=orders or Orders())
    return MovesView(seen, cluster, THROTTLES)


def think(cluster: LiveCluster, memory: Memory | None = None) -> list[Decision]:
    return [*decide_list_changes(view_of(cluster), memory or Memory(), {})]


def adds(decisions: list[Decision]) -> dict[str, TopicThrottle]:
    return {d.topic: d.pairs for d in decisions if isinstance(d, AddPairs)}


def removed(decisions: list[Decision]) -> dict[str, TopicThrottle]:
    return {d.topic: d.pairs for d in decisions if isinstance(d, RemovePairs)}


def starts(decisions: list[Decision]) -> set[BrokerSide]:
    return {(d.broker, d.side) for d in decisions if isinstance(d, StartRate)}


# -- what is needed -----------------------------------------------------------------------------------------------------


def test_leader_list_has_possible_leaders_follower_list_has_added_replicas() -> None:
    decisions = think(live({}, lists={}))
    assert adds(decisions) == {"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])}
    assert starts(decisions) == {(1, L), (2, L), (3, F)}


def test_only_missing_pairs_are_added() -> None:
    stands = {"orders": throttle(leader=[(0, 1), (9, 9)])}
    assert adds(think(live(EVERYWHERE, lists=stands))) == {"orders": throttle(leader=[(0, 2)], follower=[(0, 3)])}


def test_complete_list_needs_no_change() -> None:
    stands = {"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])}
    assert think(live(lists=stands)) == []


def test_wildcard_list_needs_no_change() -> None:
    star = ThrottledReplicas(all_replicas=True)
    assert think(live(EVERYWHERE, lists={"orders": TopicThrottle(star, star)})) == []
    assert adds(think(live(EVERYWHERE, lists={"orders": TopicThrottle(leader=star)}))) == {
        "orders": throttle(follower=[(0, 3)])
    }


@pytest.mark.parametrize(
    "still",
    [
        move(adding=(), removing=(1,), replicas=(2, 1)),
        move(adding=(3,), isr=(1, 2, 3)),
    ],
    ids=["only removing", "all of it in sync"],
)
def test_move_without_copies_needs_no_list_entry(still: PartitionMove) -> None:
    assert think(live({}, moves=(still,), lists={})) == []


def test_added_replica_already_in_sync_is_not_listed() -> None:
    half = move(replicas=(3, 4, 2, 1), adding=(3, 4), isr=(1, 2, 3))
    assert required_by_topic(live(moves=(half,)))["orders"].follower == {(0, 4)}


# -- what goes ----------------------------------------------------------------------------------------------------------

OURS = Memory(listed={"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])})


def test_joined_replica_is_removed_and_needed_pairs_stay() -> None:
    half = move(replicas=(3, 4, 2, 1), adding=(3, 4), isr=(1, 2, 3))
    memory = Memory(listed={"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3), (0, 4)])})
    decisions = think(live(EVERYWHERE, moves=(half,), lists=dict(memory.listed)), memory)
    assert removed(decisions) == {"orders": throttle(follower=[(0, 3)])}


def test_ended_or_cancelled_move_leaves_no_managed_pairs() -> None:
    assert removed([*remove_unneeded_pairs(OURS, {})]) == OURS.listed
    others = live(moves=(move(topic="payments"),), lists=dict(OURS.listed))
    assert removed(think(others, OURS)) == OURS.listed


def test_externally_listed_pair_is_never_removed() -> None:
    stands = {"orders": throttle(leader=[(0, 1), (0, 2), (7, 7)], follower=[(0, 3)])}
    memory = Memory(listed={"orders": throttle(follower=[(0, 3)])})
    assert removed([*remove_unneeded_pairs(memory, {})]) == {"orders": throttle(follower=[(0, 3)])}
    assert external_lists(live(lists=stands), memory) == {"orders": throttle(leader=[(0, 1), (0, 2), (7, 7)])}
    assert external_lists(live(lists=OURS.listed), OURS) == {}


def test_redirected_move_lists_the_new_broker_only() -> None:
    elsewhere = move(replicas=(4, 3, 2, 1), adding=(4,), removing=(3, 1), isr=(1, 2))
    found = required_by_topic(live(moves=(elsewhere,), brokers=(1, 2, 4)))["orders"]
    assert found.leader == {(0, 1), (0, 2), (0, 3)}
    assert found.follower == {(0, 4)}


# -- after a sweep -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stood", "starts_at"),
    [
        (30, 30_000_000),
        (13, 13_000_000),  # Less than 1.2 times the 12 MB/s that keep up, and enough to drain.
        (12.5, 12_600_000),  # Less than 1.05 times the current rate: too small to be intended.
        (5, 12_600_000),
        (80, 50_000_000),  # The ceiling.
    ],
)
def test_cleared_rate_is_set_again_if_it_still_drains(stood: float, starts_at: int) -> None:
    """6 MB/s are written by now, and two followers fetch each byte."""
    cluster = live({}, lists={})
    signals = (replace(move_signal(*SOURCE), write_bytes_per_s=6 * MB), move_signal(*TARGET))
    view = MovesView(observation(cluster, signals), cluster, THROTTLES)
    found = {
        (d.broker, d.side): d
        for d in decide_list_changes(view, Memory(), {SOURCE: round(stood * MB)})
        if isinstance(d, StartRate)
    }
    assert found[SOURCE].value_bytes_per_s == starts_at
    if starts_at == 12_600_000:
        assert (
            f"another tool removed the rate of {rate_text(stood * MB)}, at which the move would no longer end"
            in found[SOURCE].text
        )
    else:
        assert "another tool removed this rate, so the tuner sets it again" in found[SOURCE].text


def test_cleared_rate_is_not_raised_without_fresh_signals() -> None:
    """Which partition is written to is not known: of the one with two copies, or of the one with five."""
    cluster = live({}, lists={})
    (move, *_) = cluster.moves
    many = replace(move, partition=7, isr=(1, 2, 4, 5), replicas=frozenset({1, 2, 3, 4, 5}))
    cluster = replace(cluster, moves=(move, many), brokers=cluster.brokers | {4, 5})
    copies = count_copies(cluster.moves)[SOURCE[0]]
    assert copies == Copies(2, 4)
    signals = (replace(move_signal(*SOURCE), write_bytes_per_s=10 * MB), move_signal(*TARGET))
    view = MovesView(observation(cluster, signals), cluster, THROTTLES)
    assert draining_rate_bytes_per_s(SOURCE, view, copies) == 21 * MB
    assert start_rate_bytes_per_s(SOURCE, view, copies) == 48 * MB
    for stood, starts_at in ((40 * MB, 40 * MB), (20 * MB, 21 * MB)):
        found = {
            (d.broker, d.side): d
            for d in decide_list_changes(view, Memory(), {SOURCE: stood})
            if isinstance(d, StartRate)
        }
        assert found[SOURCE].value_bytes_per_s == starts_at
    blind = MovesView(observation(cluster, ()), cluster, THROTTLES)
    (found_blind,) = (
        d for d in decide_list_changes(blind, Memory(), {SOURCE: 2 * MB}) if isinstance(d, StartRate) and d.broker == 1
    )
    assert found_blind.value_bytes_per_s == 2 * MB


# -- replicas that fell out ---------------------------------------------------------------------------------------------

LOST = move(isr=(1,))


def test_partition_of_recovering_replica_leaves_leader_list() -> None:
    cluster = live(EVERYWHERE, moves=(LOST, move(partition=1)), lists={})
    assert adds(think(cluster)) == {"orders": throttle(leader=[(1, 1), (1, 2)], follower=[(0, 3), (1, 3)])}
    decisions = think(live(EVERYWHERE, moves=(LOST,), lists=dict(OURS.listed)), OURS)
    [gone] = [d for d in decisions if isinstance(d, RemovePairs)]
    assert gone.pairs == throttle(leader=[(0, 1), (0, 2)])
    assert gone.reason is Reason.ISR_RECOVERY
    assert gone.text == (
        "topic orders: replicas of partition 0 fell out of sync, so they are removed from the leader's throttled-replica "
        "list until they are in sync, and catch up without a throttle"
    )


def test_replica_of_dead_broker_stays_listed() -> None:
    cluster = live(EVERYWHERE, moves=(LOST,), brokers=(1, 3), lists={})
    assert required_by_topic(cluster)["orders"].leader == {(0, 1), (0, 2)}


def test_leaderless_partition_has_no_lost_replica() -> None:
    cluster = live(EVERYWHERE, moves=(move(leader=-1, isr=()),), lists={})
    assert required_by_topic(cluster)["orders"].leader == {(0, 1), (0, 2)}


# -- rates --------------------------------------------------------------------------------------------------------------


def test_existing_rate_of_any_owner_counts() -> None:
    inherited = replace(
        live({}, lists={}), rates={side: RateSetting(8 * MB, is_set_on_broker=False) for side in EVERYWHERE}
    )
    assert starts(think(inherited)) == set()
    assert adds(think(inherited)) == {"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])}


@pytest.mark.parametrize(
    ("memory", "cluster"),
    [
        (Memory(externally_owned_until_ms={SOURCE: NOW_MS + 1}), live({}, lists={})),
        (Memory(missing_rates=frozenset({SOURCE})), live({}, lists={})),
        (Memory(), live({}, lists={}, unreadable=(1,))),
        (Memory(), live({}, lists={}, brokers=(2, 3))),
    ],
    ids=["removed externally", "perhaps cleared by a tool", "does not tell its settings", "down"],
)
def test_side_without_allowed_rate_is_not_listed(memory: Memory, cluster: LiveCluster) -> None:
    decisions = think(cluster, memory)
    assert starts(decisions) == {(2, L), (3, F)}
    assert adds(decisions) == {"orders": throttle(leader=[(0, 2)], follower=[(0, 3)])}


def test_start_rate_is_smallest_that_drains() -> None:
    """Partition 0 is written with 4 MB/s: two followers in all take 8 from its leader, and 20 % more drain."""
    cluster = live({}, lists={})
    source = replace(move_signal(*SOURCE, listed=0, steady_state=0.0), write_bytes_per_s=4.0 * MB)
    target = replace(move_signal(*TARGET, listed=0, steady_state=0.0), write_bytes_per_s=4.0 * MB)
    view = MovesView(observation(cluster, [source, target]), cluster, THROTTLES)
    copies = count_copies(cluster.moves)
    two = Copies(2, 2)
    assert copies[SOURCE[0]] == two
    assert start_rate_bytes_per_s(SOURCE, view, two) == 9_600_000
    assert start_rate_bytes_per_s(TARGET, view, two) == 5 * MB
    assert start_rate_bytes_per_s((2, L), view, Copies(1, 1)) == 5 * MB
    fast = replace(source, write_bytes_per_s=80.0 * MB)
    assert start_rate_bytes_per_s(SOURCE, MovesView(observation(cluster, [fast]), cluster, THROTTLES), two) == 50 * MB


def test_start_rate_after_clearing_is_earlier_rate_or_order() -> None:
    cluster = live({}, lists={})
    found = decide_list_changes(view_of(cluster), Memory(), {SOURCE: 21 * MB, TARGET: 99 * MB})
    rates = {(d.broker, d.side): d.value_bytes_per_s for d in found if isinstance(d, StartRate)}
    assert rates == {SOURCE: 21 * MB, (2, L): 5 * MB, TARGET: 50 * MB}
    order = Orders(NOW_MS, overrides={SOURCE: Override(7 * MB, NOW_MS + 1000, "kim@desk")})
    found = decide_list_changes(view_of(cluster, orders=order), Memory(), {SOURCE: 21 * MB})
    assert next(d for d in found if isinstance(d, StartRate)).value_bytes_per_s == 7 * MB


def test_pairs_of_a_refused_rate_are_not_listed() -> None:
    add = AddPairs("orders", ((0, 1), (0, 2)), ((0, 3),), Reason.MOVE_FOUND, "")
    assert without_sides([add], {(1, L)}) == [replace(add, leader=((0, 2),))]
    assert without_sides([add], {(1, L), (2, L), (3, F)}) == []


# -- lists that are full ------------------------------------------------------------------------------------------------


def test_full_list_takes_leaders_first_and_says_so() -> None:
    many = tuple(move(partition=p) for p in range(4000))
    decisions = think(live(EVERYWHERE, moves=many, lists={}))
    [add] = [d for d in decisions if isinstance(d, AddPairs)]
    assert len(add.pairs.leader.to_text()) <= LIST_CHARS_MAX
    assert len(add.pairs.follower.to_text()) <= LIST_CHARS_MAX
    assert len(add.leader) > 4000  # Each partition's leader, and some of the others.
    assert {pair for pair in add.leader if pair[1] == 1} == {(p, 1) for p in range(4000)}
    [full] = [d for d in decisions if isinstance(d, Hold)]
    assert full.reason is Reason.LIST_FULL
    assert "topic orders: more replicas move than fit" in full.text


def test_removed_pairs_make_room_for_added_ones() -> None:
    done = frozenset((p, b) for p in range(2000, 4000) for b in (1, 2))
    memory = Memory(listed={"orders": throttle(leader=done)})
    moves = tuple(move(partition=p) for p in range(2000))
    decisions = think(live(EVERYWHERE, moves=moves, lists=dict(memory.listed)), memory)
    assert len(adds(decisions)["orders"].leader.pairs) == 4000
    assert not [d for d in decisions if isinstance(d, Hold)]


# -- generated cases ---------------------------------------------------------------------------------------------------

PARTITIONS, BROKERS = range(3), (1, 2, 3, 4)
PAIRS = st.frozensets(st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(BROKERS)), max_size=4)
OTHERS = st.builds(throttle, PAIRS, PAIRS) | st.just(TopicThrottle(ThrottledReplicas(all_replicas=True)))


@st.composite
def a_move(draw: st.DrawFn) -> PartitionMove:
    replicas = tuple(draw(st.permutations(BROKERS)))
    count = draw(st.integers(0, 3))
    isr = (replicas[count], *draw(st.sets(st.sampled_from(replicas))))
    leader = draw(st.sampled_from((replicas[count], -1)))
    return PartitionMove("a", draw(st.sampled_from(PARTITIONS)), leader, replicas, replicas[:count], (), isr)


MOVES = st.lists(a_move(), max_size=3, unique_by=lambda found: found.partition)
RATED = st.sets(st.tuples(st.sampled_from(BROKERS), st.sampled_from((L, F))))


@given(OTHERS, st.lists(st.tuples(MOVES, RATED), min_size=1, max_size=4))
def test_managed_pairs_belong_to_live_moves_after_any_snapshots(
    others: TopicThrottle, looks: list[tuple[list[PartitionMove], set[BrokerSide]]]
) -> None:
    memory = Memory()
    for moves, rated in looks:
        ours = memory.listed.get("a", TopicThrottle())
        stands = others if others.leader.all_replicas else others.plus(ours)
        cluster = live(
            dict.fromkeys(rated, 10.0 * MB), moves=tuple(moves), brokers=BROKERS, lists={"a": stands} if stands else {}
        )
        decisions = think(cluster, memory)
        gone = removed(decisions).get("a", TopicThrottle())
        come = adds(decisions).get("a", TopicThrottle())
        moving = {found.partition: found for found in moves}
        for side in (L, F):
            assert gone.for_side(side).pairs <= ours.for_side(side).pairs, "what others listed is taken off"
            assert come.for_side(side).pairs.isdisjoint(stands.for_side(side).pairs)
            assert not (come.for_side(side) and stands.for_side(side).all_replicas)
            assert {(broker, side) for _, broker in come.for_side(side).pairs} <= rated | starts(decisions)
        memory = record_removed_pairs(memory, [d for d in decisions if isinstance(d, RemovePairs)])
        memory = record_pairs_to_add(memory, [d for d in decisions if isinstance(d, AddPairs)])
        now = memory.listed.get("a", TopicThrottle())
        assert all(b in moving[p].replicas and b not in moving[p].adding for p, b in now.leader.pairs)
        assert all(b in moving[p].adding and b not in moving[p].isr for p, b in now.follower.pairs)
        assert all(memory.listed.values()), "a topic of which nothing is ours is not remembered"
    assert record_removed_pairs(memory, remove_unneeded_pairs(memory, {})).listed == {}
