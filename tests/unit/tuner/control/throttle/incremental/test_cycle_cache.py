"""The cycle cache changes no decision: every cycle decides as with an empty cache."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import LIMITS, NOW_MS, STALL, F, L, move_signal

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.decision import AddPairs, RemovePairs
from tuner.control.throttle.incremental.cycle_cache import CopyPaths, CycleCache, IdentityMemo
from tuner.control.throttle.policy import decide
from tuner.control.throttle.replica_lists.list_rules import record_pairs_to_add, record_removed_pairs, required_by_topic
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster, Observation, PartitionMove, RateSetting
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB

THROTTLES = replace(LIMITS, closed_loop=True, throttles_all_moves=True)
BROKERS = frozenset(range(1, 7))
RATES = {(broker, side): RateSetting(50 * MB) for broker in BROKERS for side in (L, F)}
SIGNALS = {(broker, side): move_signal(broker, side) for broker in BROKERS for side in (L, F)}


def moving(topic: str, partition: int, leader: int, target: int, isr: tuple[int, ...] | None = None) -> PartitionMove:
    own = (leader, leader % 6 + 1)
    adding = tuple({target} - {*own})
    return PartitionMove(topic, partition, leader, (*own, *adding), adding, (), own if isr is None else isr)


moves = st.builds(
    moving,
    st.sampled_from(["orders", "pay", "log"]),
    st.integers(0, 3),
    st.integers(-1, 6).filter(bool),
    st.integers(1, 6),
    st.one_of(st.none(), st.just((1, 2, 3)), st.just((4, 5, 6))),
)
looks = st.lists(
    st.lists(moves, max_size=8, unique_by=lambda move: (move.topic, move.partition)), min_size=2, max_size=6
)


@given(looks=looks, reversed_order=st.booleans(), paused=st.sets(st.integers(0, 5)), lost=st.sets(st.integers(0, 5)))
def test_decisions_with_cache_equal_those_without(
    looks: list[list[PartitionMove]], reversed_order: bool, paused: set[int], lost: set[int]
) -> None:
    kept, memory = CycleCache(), Memory()
    lists: dict[str, TopicThrottle] = {}
    known: dict[PartitionMove, PartitionMove] = {}
    for at, look in enumerate(looks):
        # What moves as it did is the object that it was, as a look has it.
        same = tuple(known.setdefault(move, move) for move in (reversed(look) if reversed_order else look))
        seen = Observation(
            NOW_MS, LiveCluster(BROKERS, same, RATES, dict(lists)), move_signals=SIGNALS,
            orders=Orders(pause=Pause(0, "a test")) if at in paused else Orders(),
        )  # fmt: skip
        found, decisions = decide(seen, memory, THROTTLES, STALL, kept)
        assert (found, decisions) == decide(seen, memory, THROTTLES, STALL)
        assert list(found.moving_replicas) == list(decide(seen, memory, THROTTLES, STALL)[0].moving_replicas)
        if at in lost:
            continue  # The journal did not take it, so it is not remembered.
        adds = [decision for decision in decisions if isinstance(decision, AddPairs)]
        removals = [decision for decision in decisions if isinstance(decision, RemovePairs)]
        for removal in removals:
            lists[removal.topic] = lists[removal.topic].without(removal.pairs)
        for add in adds:
            lists[add.topic] = lists.get(add.topic, TopicThrottle()).plus(add.pairs)
        memory = record_pairs_to_add(record_removed_pairs(found, removals), adds)


@given(looks=looks)
def test_cached_paths_equal_recomputed_paths(looks: list[list[PartitionMove]]) -> None:
    kept = CycleCache()
    for look in looks:
        kept.follow(tuple(look))
        new = CopyPaths()
        new.add(look, 1)
        assert kept.paths.destinations_of == new.destinations_of
        assert set(kept.paths.destinations) == set(new.destinations)
        assert kept.paths.leaderless == new.leaderless
        for destination in new.destinations:
            assert kept.paths.leaders_of(destination) == new.leaders_of(destination)
        assert {topic: set(found) for topic, found in kept.topics.items()} == {
            topic: {move for move in look if move.topic == topic} for topic in {move.topic for move in look}
        }


def test_unchanged_moves_are_not_recomputed() -> None:
    kept = CycleCache()
    first, second = moving("orders", 0, 1, 3), moving("pay", 0, 1, 3)
    before = required_by_topic(LiveCluster(BROKERS, (first, second)), kept)
    after = required_by_topic(LiveCluster(BROKERS, (first, moving("pay", 0, 1, 4))), kept)
    assert after["orders"] is before["orders"]
    assert after["pay"].follower == {(0, 4)}
    assert required_by_topic(LiveCluster(BROKERS, (first,)), kept) == {"orders": before["orders"]}


def test_unrecorded_moves_are_listed_again() -> None:
    kept = CycleCache()
    first, second, third = (moving("orders", partition, 1, 3) for partition in range(3))
    kept.follow((first,))
    kept.mark_recorded(recorded := {("orders", 0): frozenset({1, 2, 3})})
    kept.follow((first, second))
    assert kept.moves_not_in(recorded) == [second]
    assert kept.moves_not_in(dict(recorded)) == (first, second)  # Another memory, of which nothing is known.
    kept.follow((first, second, third))
    assert kept.moves_not_in(recorded) == (first, second, third)


def test_identity_memo_recomputes_for_equal_but_different_objects() -> None:
    asked: list[frozenset[int]] = []

    def count(numbers: frozenset[int]) -> int:
        asked.append(numbers)
        return len(numbers)

    answers = IdentityMemo(count)
    one, equal = frozenset({1, 2}), frozenset({2, 1})
    assert [
        answers.result_for("a", one),
        answers.result_for("a", one),
        answers.result_for("b", one),
        answers.result_for("a", equal),
    ] == [2] * 4
    assert len(asked) == 3
    answers.retain({"b"})
    assert (answers.result_for("b", one), len(asked)) == (2, 3)
    assert (answers.result_for("a", equal), len(asked)) == (2, 4)


def test_externally_changed_list_is_recomputed() -> None:
    kept, memory = CycleCache(), Memory()
    move = moving("orders", 0, 1, 3)
    _, [add] = _list_writer(LiveCluster(BROKERS, (move,), RATES), memory, kept)
    assert isinstance(add, AddPairs)
    memory = record_pairs_to_add(memory, [add])
    assert _list_writer(LiveCluster(BROKERS, (move,), RATES, {"orders": add.pairs}), memory, kept)[1] == []
    less = TopicThrottle(add.pairs.leader, ThrottledReplicas())
    _, [again] = _list_writer(LiveCluster(BROKERS, (move,), RATES, {"orders": less}), memory, kept)
    assert (again.leader, again.follower) == ((), ((0, 3),))


def _list_writer(live: LiveCluster, memory: Memory, kept: CycleCache) -> tuple[Memory, list[AddPairs | RemovePairs]]:
    memory, decisions = decide(Observation(NOW_MS, live, move_signals=SIGNALS), memory, THROTTLES, STALL, kept)
    return memory, [decision for decision in decisions if isinstance(decision, AddPairs | RemovePairs)]
