"""Cleanup after the moves: their own throttle is removed, preexisting ones are restored, others stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tuner_cases import LIMITS, NOW_MS, OWN_LISTS, SEEN, SOURCE, TARGET, F, L, live, move, owned, throttle

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.cleanup_rules import cleanup_after_moves, may_need_cleanup, restore_all
from tuner.control.throttle.decision import ClearLists, Reason, RestoreRate
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster, RateSetting
from tuner.core.throttle_limits import MB, ThrottleLimits

# We took the source from 4.5 to 21; the target is as the tool set it.
AFTER = Memory(moving_replicas=SEEN, throttled=True, owned={SOURCE: owned(4_500_000, 21 * MB)})
RATES = {SOURCE: 21 * MB, TARGET: 10 * MB}
EVERY = ThrottledReplicas(all_replicas=True)


def idle(rates: Any = RATES, **others: Any) -> LiveCluster:
    return live(rates, moves=(), **others)


def plan(cluster: LiveCluster, memory: Memory = AFTER, limits: ThrottleLimits = LIMITS) -> list[tuple[Any, ...]]:
    """The cleanup steps without their texts."""
    return [
        ("clear", d.topic, d.sides)
        if isinstance(d, ClearLists)
        else ("back", (d.broker, d.side), d.current_bytes_per_s, d.value_bytes_per_s)
        for d in cleanup_after_moves(cluster, memory, limits)
    ]


@pytest.mark.parametrize(
    ("memory", "cluster", "ends"),
    [
        (AFTER, idle(), False),
        (replace(AFTER, idle_snapshots=1), idle(), True),
        (replace(AFTER, idle_snapshots=1, moving_replicas={}), idle(), True),
        (replace(AFTER, idle_snapshots=1, moving_replicas={}), None, True),
        (replace(AFTER, idle_snapshots=1, moving_replicas={}), idle(brokers=(2, 3)), False),
        (Memory(idle_snapshots=1), None, False),
    ],
)
def test_may_need_cleanup_while_replicas_or_owned_rates_remain(
    memory: Memory, cluster: LiveCluster | None, ends: bool
) -> None:
    """The broker of the only owned rate may never return."""
    assert may_need_cleanup(memory, cluster) is ends


CLEAR, SOURCE_REMOVED, TARGET_REMOVED = (
    ("clear", "orders", (L, F)),
    ("back", SOURCE, 21 * MB, None),
    ("back", TARGET, 10 * MB, None),
)
SOURCE_RESTORED = ("back", SOURCE, 21 * MB, 4_500_000)
THROTTLED = Memory(moving_replicas=SEEN, throttled=True)
EXTERNAL = replace(THROTTLED, externally_owned_until_ms={SOURCE: NOW_MS + 1})
INHERITED = replace(
    idle(lists={}), rates={SOURCE: RateSetting(21 * MB, is_set_on_broker=False), TARGET: RateSetting(10 * MB)}
)


@pytest.mark.parametrize(
    ("cluster", "memory", "expected"),
    [
        # The move brought the rate of the target, which the tuner has not written.
        pytest.param(idle(), AFTER, [CLEAR, SOURCE_REMOVED, TARGET_REMOVED], id="lists first"),
        pytest.param(idle(lists={}), AFTER, [SOURCE_REMOVED, TARGET_REMOVED], id="lists are gone"),
        pytest.param(idle({}, lists={}), THROTTLED, [], id="nothing is set"),
        pytest.param(idle(), EXTERNAL, [CLEAR, TARGET_REMOVED], id="external rate stays"),
        pytest.param(INHERITED, THROTTLED, [TARGET_REMOVED], id="inherited rate stays"),
        # The rate is another tool's: no list ever named a moving replica, and the tuner owns nothing.
        pytest.param(idle({SOURCE: 30 * MB}, lists={}), Memory(moving_replicas=SEEN), [], id="unthrottled move"),
        # The lists came with the move, so they go even where the rate stays.
        pytest.param(
            idle(), replace(AFTER, owned={}, preexisting_rates={SOURCE: 21 * MB}), [CLEAR, TARGET_REMOVED], id="preexisting rate stays"
        ),
        pytest.param(idle(), Memory(), [], id="no move was observed"),
        pytest.param(idle(), Memory(owned=AFTER.owned), [SOURCE_RESTORED], id="no move was observed, owned rate"),
    ],
)  # fmt: skip
def test_cleanup_has_exactly_the_expected_steps(cluster: LiveCluster, memory: Memory, expected: list[Any]) -> None:
    assert plan(cluster, memory) == expected


def test_clear_finished_off_restores_and_clears_nothing() -> None:
    assert plan(idle(), limits=ThrottleLimits(rate_bytes_per_s_max=50 * MB, clears_finished=False)) == [SOURCE_RESTORED]


def test_cleanup_texts() -> None:
    clear, source, _ = cleanup_after_moves(idle(), AFTER, LIMITS)
    assert clear.text == "topic orders: its move has ended, so its throttled-replica lists are removed"
    assert source.text == (
        "broker 1 leader throttle 21.0 MB/s removed: the move has ended, and the throttle was set for this move"
    )
    assert {clear.reason, source.reason} == {Reason.MOVE_ENDED}


@pytest.mark.parametrize(
    ("lists", "sides"),
    [(throttle(leader=[(0, 1)]), (L,)), (throttle(follower=[(0, 3)]), (F,)), (OWN_LISTS["orders"], (L, F))],
)
def test_cleanup_clears_only_existing_lists(lists: TopicThrottle, sides: tuple[Any, ...]) -> None:
    assert plan(idle(lists={"orders": lists}))[0] == ("clear", "orders", sides)


def test_cleanup_keeps_rates_of_brokers_without_moves() -> None:
    assert ("back", (4, L), 8 * MB, None) not in plan(idle(RATES | {(4, L): 8 * MB}, brokers=(1, 2, 3, 4)))
    assert len(plan(idle(RATES | {(4, L): 8 * MB}, brokers=(1, 2, 3, 4)))) == 3


STANDING = {
    "*": {"orders": TopicThrottle(EVERY, EVERY)},
    "* on one side": {"orders": replace(OWN_LISTS["orders"], follower=EVERY)},
    "a partition that did not move": {"orders": throttle(leader=[(0, 1), (7, 1)])},
    "a replica that did not move": {"orders": throttle(leader=[(0, 1), (0, 9)])},
    "another topic": OWN_LISTS | {"payments": throttle(leader=[(0, 1)])},
    "another topic, follower side": OWN_LISTS | {"payments": throttle(follower=[(0, 3)])},
}


@pytest.mark.parametrize("name", STANDING)
def test_cleanup_restores_a_preexisting_throttle(name: str) -> None:
    memory = replace(AFTER, preexisting_lists=frozenset(STANDING[name]))
    assert plan(idle(lists=STANDING[name]), memory) == [("back", SOURCE, 21 * MB, 4_500_000)]


# Without a snapshot from before the move, the other cases look like a partition that was done before the first snapshot.
@pytest.mark.parametrize("name", [name for name in STANDING if not name.endswith("did not move")])
def test_cleanup_recognises_preexisting_lists_without_an_earlier_snapshot(name: str) -> None:
    assert plan(idle(lists=STANDING[name])) == [("back", SOURCE, 21 * MB, 4_500_000)]


@pytest.mark.parametrize("before", [None, frozenset()])
def test_cleanup_keeps_the_throttle_of_another_topic(before: frozenset[str] | None) -> None:
    """An operator throttles a rebuilt broker on "payments", without a reassignment, while "orders" moves."""
    lists = OWN_LISTS | {"payments": throttle(leader=[(0, 1)], follower=[(0, 2)])}
    assert plan(idle(lists=lists), replace(AFTER, preexisting_lists=before)) == [("back", SOURCE, 21 * MB, 4_500_000)]


def test_restore_text_names_the_earlier_rate() -> None:
    (decision,) = cleanup_after_moves(idle(lists=STANDING["*"]), AFTER, LIMITS)
    assert decision.text == (
        "broker 1 leader throttle 21.0 MB/s → 4.50 MB/s: the move has ended; 4.50 MB/s was set before"
    )


def test_restore_without_an_earlier_rate_removes_it() -> None:
    memory = replace(AFTER, owned={SOURCE: owned(None, 21 * MB)})
    (decision,) = cleanup_after_moves(idle(lists=STANDING["*"]), memory, LIMITS)
    assert isinstance(decision, RestoreRate)
    assert decision.value_bytes_per_s is None
    assert decision.text.endswith("removed: the move has ended; no rate was set before")


@pytest.mark.parametrize("away", [{"brokers": (2, 3)}, {"unreadable": (1,)}])
def test_cleanup_skips_a_dead_broker(away: Any) -> None:
    cluster = idle({TARGET: 10 * MB}, lists={}, **away)
    assert plan(cluster) == [("back", TARGET, 10 * MB, None)]
    assert plan(replace(cluster, lists=STANDING["*"])) == []
    assert (
        plan(replace(cluster, rates=idle().rates, lists=STANDING["*"])) == []
    )  # Even if the last known rates are still set.


def test_cleanup_restores_a_changed_preexisting_rate() -> None:
    memory = replace(AFTER, preexisting_rates={SOURCE: 4_500_000})
    (_, source, _) = cleanup_after_moves(idle(), memory, LIMITS)
    assert isinstance(source, RestoreRate)
    assert (source.current_bytes_per_s, source.value_bytes_per_s) == (21 * MB, 4_500_000)
    assert source.text.endswith("→ 4.50 MB/s: the move has ended; 4.50 MB/s was set before the move")


def test_cleanup_keeps_a_preexisting_rate_that_others_changed() -> None:
    memory = replace(AFTER, owned={}, preexisting_rates={SOURCE: 30 * MB})
    assert ("back", SOURCE) not in [step[:2] for step in plan(idle(), memory)]


# -- what is wrong today -----------------------------------------------------------------------------------------------


def test_cleanup_ignores_list_entries_of_partitions_done_before() -> None:
    """A plan of two; partition 1 is empty and done within a second, so only partition 0 was ever seen moving."""
    lists = {"orders": throttle(leader=[(0, 1), (0, 2), (1, 1), (1, 2)], follower=[(0, 3), (1, 3)])}
    assert plan(idle(lists=lists))[0] == ("clear", "orders", (L, F))


# -- a broker that was away at the end of an earlier move -----------------------------------------------------------------

BACK = (5, F)
SINCE = {**RATES, BACK: 40 * MB}


@pytest.mark.parametrize("before", [None, 4 * MB])
def test_cleanup_restores_owned_rates_of_an_earlier_move(before: int | None) -> None:
    """Its broker was absent when the earlier move ended, and has no part in this move."""
    memory = replace(AFTER, owned={**AFTER.owned, BACK: owned(before, 40 * MB)})
    found = plan(idle(SINCE, brokers=(1, 2, 3, 5)), memory)
    assert found[0] == ("clear", "orders", (L, F))
    assert found[-1] == ("back", BACK, 40 * MB, before)
    assert len(found) == 4


def test_cleanup_removes_rates_of_an_earlier_move() -> None:
    memory = replace(AFTER, brokers_to_clear=frozenset({5}), owned={**AFTER.owned, BACK: owned(10 * MB, 40 * MB)})
    assert plan(idle(SINCE, brokers=(1, 2, 3, 5)), memory)[-1] == ("back", BACK, 40 * MB, None)


def test_release_clears_a_returned_broker_without_moves() -> None:
    memory = Memory(brokers_to_clear=frozenset({5}), owned={SOURCE: owned(4_500_000, 21 * MB)})
    cluster = idle(SINCE, brokers=(1, 2, 3, 5), lists={})
    found = restore_all(cluster, memory, Reason.RELEASED, "released")
    assert [(d.broker, d.side, d.value_bytes_per_s, d.reason) for d in found] == [
        (*SOURCE, 4_500_000, Reason.RELEASED),
        (*BACK, None, Reason.RELEASED),
    ]
    assert len(restore_all(idle(RATES, lists={}), memory, Reason.RELEASED, "released")) == 1
    # By now another move uses the broker, and its rate may belong to that move.
    taken = replace(cluster, moves=(replace(move(), adding=(5,)),))
    assert len(restore_all(taken, memory, Reason.RELEASED, "released")) == 1
