"""Plan steps wait for room in a throttled-replica list, take none from running moves, and start when it is free."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_list_writer import NOTHING, cycle, unthrottled
from test_prepared_moves import T0, Announced, still
from tuner_cases import move, throttle

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import (
    LIST_CHARS_MAX,
    ThrottledReplicas,
    TopicThrottle,
    replica_list_text,
)
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.replica_lists.capacity import steps_that_fit
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.operator_orders import Orders, Pause
from tuner.core.prepare_handshake import PrepareHandshake

ONE = PartitionMove("orders", 9000, 1, (3, 2, 1), (3,), (1,), (1, 2))
ITS_CHARS = {Side.LEADER: len(",9000:1,9000:2"), Side.FOLLOWER: len(",9000:3")}


def of_length(chars: int) -> ThrottledReplicas:
    """A list of another tool with exactly this length."""
    pairs = {(1000 + n, 1) for n in range(chars // 7)}
    missing = chars - len(replica_list_text(pairs))
    assert 0 <= missing < 14
    for n in range(missing):
        pairs.remove((1000 + n, 1))
        pairs.add((1000 + n, 10))
    assert len(replica_list_text(pairs)) == chars
    return ThrottledReplicas(pairs=frozenset(pairs))


def cluster(leader: int = 0, follower: int = 0, *moves: PartitionMove) -> LiveCluster:
    return LiveCluster(
        frozenset({1, 2, 3}), moves, lists={"orders": TopicThrottle(of_length(leader), of_length(follower))}
    )


@pytest.mark.parametrize("side", list(Side))
def test_step_needs_list_room_on_both_sides(side: Side) -> None:
    fits = LIST_CHARS_MAX - ITS_CHARS[side]
    lengths = {Side.LEADER: 0, Side.FOLLOWER: 0}
    full = cluster(*(lengths | {side: fits}).values())
    assert steps_that_fit(full, [ONE]) == ((ONE,), {})
    over = cluster(*(lengths | {side: fits + 1}).values())
    found, waits = steps_that_fit(over, [ONE])
    assert not found
    assert "the throttled-replica lists of topic orders have no room for it" in waits[("orders", 9000)]


def test_running_moves_take_room_before_prepared_ones() -> None:
    first = ITS_CHARS[Side.LEADER]
    running = replace(ONE, partition=9001)
    live = cluster(LIST_CHARS_MAX - first, 0, running)
    assert steps_that_fit(live, [ONE])[1].keys() == {("orders", 9000)}
    # What is announced and moves by now is no newcomer.
    assert steps_that_fit(live, [running]) == ((running,), {})


def test_first_step_takes_room_and_topics_are_independent() -> None:
    live = cluster(LIST_CHARS_MAX - ITS_CHARS[Side.LEADER])
    later, elsewhere = replace(ONE, partition=9001), replace(ONE, topic="payments")
    found, waits = steps_that_fit(live, [later, ONE, elsewhere])
    assert found == (later, elsewhere)
    assert waits.keys() == {("orders", 9000)}


def test_listed_replica_needs_no_room() -> None:
    everything = TopicThrottle(ThrottledReplicas(all_replicas=True), ThrottledReplicas(all_replicas=True))
    live = LiveCluster(frozenset({1, 2, 3}), lists={"orders": everything})
    assert steps_that_fit(live, [ONE]) == ((ONE,), {})
    full = of_length(LIST_CHARS_MAX - ITS_CHARS[Side.LEADER]).pairs | {(9000, 1), (9000, 2)}
    live = LiveCluster(frozenset({1, 2, 3}), lists={"orders": throttle(leader=full)})
    assert steps_that_fit(live, [ONE]) == ((ONE,), {})


# -- the tuner's cycle ----------------------------------------------------------------------------------------------------


def test_step_without_room_is_deferred_until_others_end() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.live.moves = ()
    rig.loop.connect_plans(dict, announcing)
    rig.throttles.lists["orders"] = TopicThrottle(of_length(LIST_CHARS_MAX))
    announcing.submit([move()])
    assert Reason.LIST_FULL not in cycle(rig)  # That is said of what moves and is not throttled.
    assert announcing.deferred is not None
    assert "no room" in announcing.deferred[("orders", 0)]
    assert not rig.throttles.rates
    rig.throttles.lists["orders"] = NOTHING
    announcing.submit([move()])
    cycle(rig)
    assert announcing.deferred == {}
    assert rig.throttles.lists["orders"].leader.includes(0, 1)


def test_steps_need_no_room_when_moves_are_unthrottled() -> None:
    rig, announcing = unthrottled(), PrepareHandshake()
    rig.live.moves = ()
    rig.orders.latest = Orders(pause=Pause(1, "kim@desk"))
    rig.loop.connect_plans(dict, announcing)
    rig.throttles.lists["orders"] = TopicThrottle(of_length(LIST_CHARS_MAX))
    announcing.submit([move()])
    cycle(rig)
    assert announcing.deferred == {}


def test_urgent_step_needs_no_room() -> None:
    made = Announced({T0: still(1, 2, isr=(1,))}, online={1, 3, 4})
    made.cluster.min_in_sync = {"t": 2}
    made.give({T0: (1, 3)})
    made.ticks()
    (step,) = made.announcing.moves
    full = LiveCluster(frozenset({1, 3, 4}), lists={"t": TopicThrottle(of_length(LIST_CHARS_MAX))})
    _, waits = steps_that_fit(full, [step])
    assert waits.keys() == {T0}
    made.announcing.answer(waits, waits.keys())
    made.ticks()
    assert dict(made.cluster.asked) == {T0: (1, 3)}


def test_deferred_step_names_the_entries_that_fill_its_list() -> None:
    first, second = move(partition=0), move(partition=1)
    full = LiveCluster(frozenset({1, 3}), lists={"orders": TopicThrottle(of_length(LIST_CHARS_MAX))})
    _, waits = steps_that_fit(full, [first, second])
    assert all(
        "no partition of the topic moves, so delete the entries that another tool left there" in why
        for why in waits.values()
    )
    assert all("--entity-name orders --delete-config" in why for why in waits.values())
    _, waits = steps_that_fit(replace(full, moves=(first,)), [second])
    assert [why.endswith("until other steps are done") for why in waits.values()] == [True]
