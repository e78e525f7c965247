"""Replicas onto which little is left are not on the follower's list: which they are, and that the loop does so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from reassign_rig import Rig as Plans
from reassign_rig import still
from test_listing import cycle, listed, unthrottled
from test_lists import adds, removed, think
from tuner_cases import F, L, live, move, throttle

from tuner.announcing import Announcing
from tuner.decide.light import Lacking, light, with_light
from tuner.decide.lists import needed_pairs
from tuner.decide.reassign_pace import Throttling
from tuner.model.cluster import BrokerSide, LiveCluster
from tuner.model.limits import MB
from tuner.model.memory import Memory
from tuner.model.reassigning import Key
from tuner.plan.slew import WINDOW_S

A, B, C = (("t", i) for i in range(3))
RATES = {3: 2.0 * MB}  # An idle window of it lets 22 MB through.


# -- which they are --------------------------------------------------------------------------------------------------------


def test_the_smallest_are_light_as_far_as_an_idle_window_goes() -> None:
    lacking = [Lacking(A, 3, 12 * MB), Lacking(B, 3, 9 * MB), Lacking(C, 3, 4 * MB)]
    assert light(lacking, RATES, {}) == {C: (3,), B: (3,)}


def test_what_was_light_stays_so_before_others_become_it() -> None:
    lacking = [Lacking(A, 3, 12 * MB), Lacking(B, 3, 9 * MB), Lacking(C, 3, 4 * MB)]
    assert light(lacking, RATES, {A: (3,)}) == {A: (3,), C: (3,)}


def test_every_broker_has_a_window_of_its_own_and_one_without_a_rate_has_none() -> None:
    lacking = [Lacking(A, 3, 20 * MB), Lacking(A, 4, 20 * MB), Lacking(A, 5, 1.0)]
    assert light(lacking, RATES | {4: 3 * MB}, {}) == {A: (3, 4)}


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3), st.floats(0, 1e9)), unique_by=lambda one: one[:2]),
    st.dictionaries(st.integers(1, 3), st.floats(0, 1e8)),
    st.dictionaries(st.tuples(st.just("t"), st.integers(0, 20)), st.tuples(st.integers(1, 3))),
)
def test_together_they_are_never_more_than_an_idle_window_lets_through(
    drawn: list[tuple[int, int, float]], rates: Mapping[int, float], before: Mapping[Key, tuple[int, ...]]
) -> None:
    lacking = [Lacking(("t", p), broker, left) for p, broker, left in drawn]
    found = light(lacking, rates, before)
    for broker in (1, 2, 3):
        uncounted = sum(one.left_bytes for one in lacking if one.broker == broker and broker in found.get(one.key, ()))
        assert uncounted <= WINDOW_S * rates.get(broker, 0.0) * (1 + 1e-9)


# -- and that they are not listed ------------------------------------------------------------------------------------------


def test_the_leaders_side_counts_them_and_the_followers_does_not() -> None:
    nothing_listed = replace(live({(1, L): 10e6, (2, L): 10e6, (3, F): 10e6}, lists={}), moves=(move(),))
    marked = with_light(nothing_listed, {("orders", 0): (3,)})
    assert adds(think(marked)) == {"orders": throttle(leader=[(0, 1), (0, 2)])}
    assert needed_pairs(marked)["orders"].follower == frozenset()


def test_an_entry_of_ours_leaves_the_followers_list_and_others_stay() -> None:
    stands = {"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])}
    marked = with_light(live(lists=stands), {("orders", 0): (3,)})
    assert removed(think(marked, Memory(listed=stands))) == {"orders": throttle(follower=[(0, 3)])}
    assert removed(think(marked, Memory())) == {}


def test_what_is_not_marked_is_the_same_object() -> None:
    cluster = live()
    assert with_light(cluster, {}) is cluster
    assert with_light(cluster, {("payments", 0): (3,)}) is cluster
    two = LiveCluster(frozenset({1, 2, 3}), (move(), replace(move(), partition=1)))
    assert with_light(two, {("orders", 1): (3,)}).moves[0] is two.moves[0]


def test_a_step_that_is_announced_as_light_begins_with_its_leaders_entries_alone() -> None:
    rig, announcing = unthrottled(), Announcing()
    rig.live.moves = ()
    rig.throttles.rates = {(1, L): 10_000_000, (2, L): 10_000_000, (3, F): 10_000_000}
    rig.loop.heed_plans(dict, announcing)
    cycle(rig)
    announcing.light = {("orders", 0): (3,)}
    announcing.begin([move()])
    cycle(rig)
    assert announcing.withheld == {}
    assert listed(rig) == {"orders": throttle(leader=[(0, 1), (0, 2)])}


# -- what the executor of plans says ---------------------------------------------------------------------------------------


def told(rig: Plans) -> Mapping[Key, tuple[int, ...]]:
    return rig.loop._memory.light


def rated(rate: float) -> Throttling:
    sides: dict[BrokerSide, float] = {(b, side): rate for b in (1, 2, 3) for side in (L, F)}
    return Throttling(sides, sides)


def test_a_plans_steps_are_light_by_what_they_have_to_copy() -> None:
    """1,000 bytes each: at 100 bytes/s an idle window is one of them and a little, at a million it is all."""
    parts = {A: still(1, 2), B: still(1, 2)}
    for rate, count in ((100.0, 1), (1e6, 2), (0.0, 0)):
        rig = Plans(parts, online={1, 2, 3})
        rig.loop._throttling = lambda rate=rate: rated(rate)
        rig.give({A: (1, 3), B: (1, 3)})
        rig.cycle(finish=False)
        rig.cycle(finish=False)
        assert list(told(rig).values()) == [(3,)] * count


def test_with_the_last_plan_it_is_forgotten() -> None:
    announcing = Announcing()
    rig = Plans({A: still(1, 2)}, online={1, 2, 3})
    rig.loop._announced._announcing = announcing
    rig.loop._throttling = lambda: rated(1e6)
    rig.give({A: (1, 3)})
    rig.now_s += 1.0
    for _ in range(2):
        rig.loop.tick()
    assert announcing.light == {A: (3,)}
    announcing.seen_to({})
    for _ in range(4):
        rig.cycle()
    assert announcing.light == {}
