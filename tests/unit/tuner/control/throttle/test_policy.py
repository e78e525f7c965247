"""The decisions of one cycle, and the state that one cycle hands to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tuner_cases import (
    LIMITS,
    NOW_MS,
    OWN_LISTS,
    SEEN,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    UNSEEN,
    WELL,
    broker_signal,
    live,
    move,
    move_signal,
    observation,
    owned,
    throttle,
    traced,
)

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.decision import (
    ClearLists,
    Decision,
    Hold,
    Reason,
    Relinquish,
    RestoreRate,
    SetRate,
)
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory, RateSince
from tuner.control.throttle.write_intents import record_change_intents, record_success
from tuner.core.cluster import ClusterUnreadable, LiveCluster, Observation, RateSetting
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB, ThrottleLimits

EVERY = ThrottledReplicas(all_replicas=True)
OURS = {SOURCE: owned(4_500_000, 21 * MB)}
IDLE = live({SOURCE: 21 * MB}, moves=())
GONE = live({}, moves=(), lists={})
SET = SetRate(*SOURCE, 4_500_000, 21 * MB, Reason.STALLED_BELOW_STEADY_STATE, "")


def think(
    seen: LiveCluster | Observation, memory: Memory, *, limits: ThrottleLimits = LIMITS
) -> tuple[Memory, tuple[Decision, ...]]:
    return decide(seen if isinstance(seen, Observation) else observation(seen), memory, limits, STALL)


def reasons(decisions: tuple[Decision, ...]) -> list[Reason]:
    return [d.reason for d in decisions]


# -- not seen ----------------------------------------------------------------------------------------------------------


def test_unreadable_cluster_changes_nothing() -> None:
    memory = Memory(stalls={3: STALLED}, rescued=frozenset({3}), owned=OURS, moving_replicas=SEEN, idle_snapshots=1)
    after, decisions = think(Observation(NOW_MS, ClusterUnreadable("no broker answers")), memory)
    assert after is memory
    assert decisions == (Hold(None, None, Reason.CLUSTER_NOT_SEEN, "the cluster cannot be read: no broker answers"),)


# -- what a tuner before this one had sent, and came late ---------------------------------------------------------------


def late(stands: float = 21, stood: float = 14) -> Memory:
    return Memory(
        stalls={3: WELL},
        owned={SOURCE: owned(4_500_000, round(stood * MB), round(stands * MB), round(stood * MB))},
        predecessor_writes_until_ms=NOW_MS + 1_000,
        late_predecessor_writes={SOURCE: (round(stands * MB), round(stood * MB))},
    )


@pytest.mark.parametrize("stands", [21, 10])
def test_late_write_correction_replaces_the_hold(stands: float) -> None:
    _, decisions = think(live({SOURCE: stands * MB, TARGET: 10 * MB}), late(stands))
    changes = [d for d in decisions if isinstance(d, SetRate)]
    assert [(d.broker, d.side, d.setpoint_bytes_per_s, d.reason) for d in changes] == [
        (*SOURCE, 14 * MB, Reason.LATE_PREDECESSOR_WRITE)
    ]
    assert [(d.broker, d.side) for d in decisions if isinstance(d, Hold)] == [TARGET]


def test_late_write_is_kept_without_signals_or_during_a_ramp() -> None:
    there = live({SOURCE: 21 * MB, TARGET: 10 * MB})
    for seen in (observation(there, signals=()), observation(there, busy=[SOURCE])):
        _, decisions = think(seen, late())
        assert not any(isinstance(d, SetRate) for d in decisions), reasons(decisions)


def test_late_write_is_not_corrected_with_an_objective() -> None:
    seen = observation(live({SOURCE: 21 * MB, TARGET: 10 * MB}))
    _, decisions = decide(seen, late(), replace(LIMITS, closed_loop=True), STALL)
    assert not any(isinstance(d, SetRate) for d in decisions), reasons(decisions)


def test_late_write_correction_keeps_the_restore_rate() -> None:
    memory = Memory(owned={SOURCE: replace(owned(5 * MB, 15 * MB), restore_to_bytes_per_s=5 * MB)})
    change = SetRate(*SOURCE, 21 * MB, 15 * MB, Reason.LATE_PREDECESSOR_WRITE, "")
    assert record_change_intents(memory, [(change, [15 * MB])]).owned[SOURCE].restore_to_bytes_per_s == 5 * MB


# -- moves -------------------------------------------------------------------------------------------------------------


def test_decide_returns_one_decision_per_side_leaders_first() -> None:
    _, decisions = think(live(), Memory(stalls={3: WELL}))
    assert [(d.broker, d.side) for d in decisions if isinstance(d, Hold)] == [SOURCE, TARGET]


def test_state_holds_all_replicas_of_a_move() -> None:
    """Also those that leave, and also when the next batch no longer moves the partition."""
    memory, _ = think(live(), Memory())
    assert memory.moving_replicas == {("orders", 0): {1, 2, 3}}
    memory, _ = think(live(moves=(move("payments", 5, replicas=(2, 3), adding=(2,), removing=()),)), memory)
    assert memory.moving_replicas == {("orders", 0): {1, 2, 3}, ("payments", 5): {2, 3}}


def test_stall_is_answered_on_both_sides_and_recorded() -> None:
    memory, decisions = think(live(), Memory(stalls={3: STALLED}))
    assert reasons(decisions) == [Reason.STALLED_THROTTLE_BOUND] * 2
    assert memory.rescued == {3}


def test_unanswered_stall_is_not_recorded_as_rescued() -> None:
    idle_brokers = [broker_signal(1, leader=1 * MB), broker_signal(3, follower=1 * MB)]
    memory, decisions = think(observation(live(), brokers=idle_brokers), Memory(stalls={3: STALLED}))
    assert reasons(decisions) == [Reason.STALLED_NOT_THROTTLE_BOUND] * 2
    assert memory.rescued == frozenset()


def test_rescued_lasts_until_the_destinations_moves_end() -> None:
    memory, _ = think(live(), Memory(stalls={3: WELL}, rescued=frozenset({3, 9})))
    assert memory.rescued == {3}


def test_stall_is_judged_before_the_decision() -> None:
    """The steps that make the stall are in this very observation."""
    steps = tuple(traced([0.0] * 7, start_ms=NOW_MS - 40_000))
    signals = [move_signal(*SOURCE), move_signal(*TARGET, steady_state=3 * MB, steps=steps)]
    memory, decisions = think(observation(live(), signals), Memory())
    assert memory.stalls[3].stalled
    assert isinstance(decisions[0], SetRate)


def test_external_change_is_the_first_decision() -> None:
    memory, decisions = think(live({SOURCE: 12 * MB, TARGET: 10 * MB}), Memory(stalls={3: STALLED}, owned=OURS))
    assert isinstance(decisions[0], Relinquish)
    by_side = {(d.broker, d.side): d.reason for d in decisions[1:] if not isinstance(d, ClearLists)}
    assert by_side[SOURCE] is Reason.EXTERNALLY_OWNED
    assert memory.owned == {}


# -- the end -----------------------------------------------------------------------------------------------------------


def test_one_idle_cycle_starts_no_cleanup() -> None:
    memory, decisions = think(IDLE, Memory(owned=OURS, moving_replicas=SEEN, stalls={3: WELL}, rescued=frozenset({3})))
    assert decisions == ()
    assert memory.idle_snapshots == 1
    assert (memory.moving_replicas, memory.owned, memory.rescued) == (SEEN, OURS, {3})


def test_second_idle_cycle_starts_the_cleanup() -> None:
    _, decisions = think(IDLE, Memory(owned=OURS, moving_replicas=SEEN, throttled=True, idle_snapshots=1))
    assert [type(d) for d in decisions] == [ClearLists, RestoreRate]


def test_throttle_that_appears_after_the_end_is_kept() -> None:
    """Somebody takes the throttle of the last move off and puts one on for the next, before it was certain that the last is over:
    the same rate, and lists that name the same replicas."""
    limits = replace(LIMITS, idle_snapshots_before_cleanup=4)
    memory = Memory(owned=OURS, moving_replicas=SEEN, throttled=True)
    found: list[Decision] = []
    for cluster in (IDLE, GONE, IDLE, IDLE, IDLE):
        memory, decisions = think(cluster, memory, limits=limits)
        found += decisions
    assert [d for d in found if isinstance(d, RestoreRate | ClearLists)] == []
    # Without the gap the two could not be told apart.
    memory = Memory(owned=OURS, moving_replicas=SEEN, throttled=True)
    for _ in range(4):
        memory, decisions = think(IDLE, memory, limits=limits)
    assert {type(d) for d in decisions} == {RestoreRate, ClearLists}
    # What moves meanwhile is of the next move, and its end takes its throttle away.
    memory = Memory(owned=OURS, moving_replicas=SEEN, throttled=True)
    for cluster in (IDLE, GONE, IDLE, live({SOURCE: 21 * MB, TARGET: 10 * MB}), IDLE, IDLE, IDLE, IDLE):
        memory, decisions = think(cluster, memory, limits=limits)
    assert {type(d) for d in decisions} == {RestoreRate, ClearLists}


def test_new_list_entries_delay_the_cleanup() -> None:
    """Batches so small that they are over between two looks; their throttle was taken away with what moved first."""
    limits = replace(LIMITS, idle_snapshots_before_cleanup=3)
    memory, found = Memory(owned=OURS, moving_replicas=SEEN, throttled=True), list[Decision]()
    for partition in range(9):
        lists = {"orders": throttle(leader=[(partition, 1)], follower=[(partition, 3)])}
        # Off again before every third look.
        memory, decisions = think(replace(IDLE, lists={} if partition % 3 == 2 else lists), memory, limits=limits)
        found += decisions
    assert [d for d in found if isinstance(d, RestoreRate | ClearLists)] == []
    for _ in range(3):
        memory, decisions = think(replace(IDLE, lists=lists), memory, limits=limits)
    assert RestoreRate in {type(d) for d in decisions}
    # To take something off is no new beginning.
    memory = Memory(owned=OURS, moving_replicas=SEEN, throttled=True)
    for cluster in (IDLE, IDLE, replace(IDLE, lists={"orders": throttle(leader=[(0, 1)])})):
        memory, decisions = think(cluster, memory, limits=limits)
    assert {type(d) for d in decisions} == {RestoreRate, ClearLists}


def test_returned_broker_loses_the_throttle_of_its_ended_move() -> None:
    """The broker was absent from the first idle snapshot; its throttle is old, not one just set."""
    limits = replace(LIMITS, idle_snapshots_before_cleanup=4)
    both = live({SOURCE: 21 * MB, TARGET: 10 * MB}, moves=())
    away = replace(both, brokers=both.brokers - {TARGET[0]}, rates={SOURCE: both.rates[SOURCE]})
    unread = replace(away, brokers=both.brokers, unreadable=frozenset({TARGET[0]}))
    for hidden in (away, unread):
        memory, decisions = Memory(owned=OURS, moving_replicas=SEEN, throttled=True), ()
        for cluster in (hidden, hidden, both, both):
            memory, decisions = think(cluster, memory, limits=limits)
        assert (*TARGET, None) in [
            (d.broker, d.side, d.value_bytes_per_s) for d in decisions if isinstance(d, RestoreRate)
        ]


def test_move_between_idle_cycles_restarts_the_count() -> None:
    memory, _ = think(IDLE, Memory(owned=OURS, moving_replicas=SEEN))
    memory, _ = think(live({SOURCE: 21 * MB, TARGET: 10 * MB}), memory)
    assert memory.idle_snapshots == 0
    memory, decisions = think(IDLE, memory)
    assert (memory.idle_snapshots, decisions) == (1, ())


@pytest.mark.parametrize(
    ("lists", "throttled"),
    [
        (OWN_LISTS, True),
        ({"orders": throttle(follower=[(0, 3)])}, True),
        ({"orders": throttle(leader=[(0, 9)])}, False),  # Lists no moving replica.
        ({"payments": throttle(leader=[(0, 1)])}, False),
        ({}, False),
    ],
)
def test_throttled_is_recorded_if_a_list_names_moving_replicas(lists: Any, throttled: bool) -> None:
    memory, _ = think(live(lists=lists), Memory())
    assert memory.throttled is throttled
    memory, _ = think(live(lists={}), memory)
    assert memory.throttled is throttled  # The lists may go before the move does.


def test_idle_rates_are_recorded_as_preexisting() -> None:
    cluster = replace(
        live(moves=(), lists={}), rates={SOURCE: RateSetting(30 * MB), TARGET: RateSetting(5, is_set_on_broker=False)}
    )
    first, _ = think(cluster, Memory())
    assert first.preexisting_rates == {}
    second, _ = think(cluster, first)
    assert second.preexisting_rates == {SOURCE: 30 * MB}


def test_idle_throttles_keep_the_time_of_their_first_idle_cycle() -> None:
    cluster = live({SOURCE: 30 * MB, TARGET: 5 * MB}, moves=(), lists={"orders": TopicThrottle(EVERY, EVERY)})
    memory, _ = decide(observation(cluster), Memory(), LIMITS, STALL)
    for _ in range(2):
        memory, _ = decide(observation(cluster), memory, LIMITS, STALL)
    assert memory.idle_rates_since[SOURCE] == RateSince(30 * MB, NOW_MS)
    assert memory.idle_lists_since_ms == {"orders": NOW_MS}
    later = replace(observation(replace(cluster, rates={**cluster.rates, SOURCE: RateSetting(7)})), now_ms=NOW_MS + 9)
    memory, _ = decide(later, memory, LIMITS, STALL)
    assert memory.idle_rates_since == {SOURCE: RateSince(7, NOW_MS + 9), TARGET: RateSince(5 * MB, NOW_MS)}
    gone = replace(later, live=replace(cluster, rates={}, lists={}, unreadable=frozenset({3})))
    memory, _ = decide(gone, memory, LIMITS, STALL)
    assert memory.idle_rates_since == {TARGET: RateSince(5 * MB, NOW_MS)}, "broker 3 could not be read"
    assert memory.idle_lists_since_ms == {}


@pytest.mark.parametrize("lists", [OWN_LISTS, {"orders": TopicThrottle(EVERY, EVERY)}])
def test_preexisting_rate_with_lists_is_preserved_through_a_move(lists: Any) -> None:
    """A throttle for good, with its lists, is seen idle; then a move begins below it and stalls."""
    respects, memory = replace(LIMITS, adopts_existing=False), Memory()
    stands = {SOURCE: 4_500_000, TARGET: 4_500_000}
    for looks in range(1, 4):
        memory, _ = think(live(stands, moves=(), lists=lists), memory)
        assert (memory.preexisting_rates == stands) is (looks == 3), "lists and rates of a move come a moment before it"
    memory = replace(memory, stalls={3: STALLED})
    memory, decisions = decide(observation(live(stands, lists=lists)), memory, respects, STALL)
    assert reasons(decisions) == [Reason.PRESERVED, Reason.PRESERVED]
    _, decisions = decide(observation(live(stands, lists=lists)), memory, LIMITS, STALL)
    assert {(d.broker, d.side) for d in decisions if isinstance(d, SetRate)} == {SOURCE, TARGET}


def test_new_rates_beside_an_existing_list_are_not_preexisting() -> None:
    memory = Memory()
    for _ in range(4):
        memory, _ = think(live({}, moves=(), lists=OWN_LISTS), memory)
    memory, _ = think(live({SOURCE: 4_500_000}, moves=(), lists=OWN_LISTS), memory)
    assert memory.preexisting_rates == {}
    memory, _ = think(live({SOURCE: 4_500_000}, moves=(), lists=OWN_LISTS), memory)
    assert memory.preexisting_rates == {SOURCE: 4_500_000}


def test_release_forgets_brokers_without_rates_to_clear() -> None:
    """The leftover throttle is removed once; a throttle set later is externally owned."""
    released = Orders(at_ms=NOW_MS, pause=Pause(NOW_MS, "kim@desk", released=True))
    memory = Memory(brokers_to_clear=frozenset({3}))
    for rates, removed in (
        ({TARGET: 40 * MB}, True),
        ({}, False),
        ({TARGET: 20 * MB}, False),
        ({TARGET: 20 * MB}, False),
    ):
        seen = replace(observation(live(rates, moves=(), lists={})), orders=released)
        memory, decisions = decide(seen, memory, LIMITS, STALL)
        assert any(isinstance(d, RestoreRate) for d in decisions) is removed
    assert memory.brokers_to_clear == frozenset()


def test_preexisting_rate_survives_a_throttled_move() -> None:
    """Quiet, a move of the tool over it, raised by us, the end: what stood stands again."""
    memory = Memory(preexisting_rates={SOURCE: 4_500_000})
    memory, _ = think(live({SOURCE: 4_500_000, TARGET: 10 * MB}), memory)
    memory = record_success(record_change_intents(memory, [(SET, [21 * MB])]), SET)
    for _ in range(2):
        memory, decisions = think(live({SOURCE: 21 * MB, TARGET: 10 * MB}, moves=()), memory)
    back = {(d.broker, d.side): d.value_bytes_per_s for d in decisions if isinstance(d, RestoreRate)}
    assert back == {SOURCE: 4_500_000, TARGET: None}


def test_moving_replicas_are_kept_until_the_cleanup_is_complete() -> None:
    memory = Memory(owned=OURS, moving_replicas=SEEN, throttled=True, idle_snapshots=1)
    for _ in range(3):  # The writes fail again and again.
        memory, decisions = think(IDLE, memory)
        assert len(decisions) == 2
        assert memory.moving_replicas == SEEN
    memory = record_success(memory, decisions[1])
    memory, decisions = think(GONE, memory)
    assert decisions == ()
    assert (memory.moving_replicas, memory.throttled) == ({}, False)


def test_stalls_are_forgotten_after_the_moves() -> None:
    memory, _ = think(IDLE, Memory(moving_replicas=SEEN, idle_snapshots=1, stalls={3: STALLED}, rescued=frozenset({3})))
    assert (memory.stalls, memory.rescued) == ({}, frozenset())


def test_dead_broker_is_restored_when_it_returns() -> None:
    standing = {"orders": throttle(leader=[(0, 1), (7, 1)])}
    memory = Memory(owned=OURS, moving_replicas=SEEN, idle_snapshots=1)
    memory, decisions = think(live({}, moves=(), lists=standing, brokers=(2, 3)), memory)
    assert [d.reason for d in decisions] == [Reason.BROKER_DOWN]
    assert memory.owned == OURS
    _, decisions = think(live({SOURCE: 21 * MB}, moves=(), lists=standing), memory)
    assert [d.value_bytes_per_s for d in decisions if isinstance(d, RestoreRate)] == [4_500_000]


# -- from a decision to memory -----------------------------------------------------------------------------------------


def test_change_intent_records_every_step() -> None:
    memory = record_change_intents(Memory(), [(SET, [10 * MB, 16 * MB, 21 * MB])])
    assert memory.owned == {SOURCE: owned(4_500_000, 21 * MB, 4_500_000, 10 * MB, 16 * MB, 21 * MB)}


def test_second_change_intent_keeps_the_first_earlier_rate() -> None:
    second = replace(SET, current_bytes_per_s=21 * MB, setpoint_bytes_per_s=30 * MB)
    memory = record_change_intents(Memory(owned=OURS), [(second, [25 * MB, 30 * MB])])
    assert memory.owned == {SOURCE: owned(4_500_000, 30 * MB, 21 * MB, 25 * MB, 30 * MB)}


def test_intents_of_several_sides_are_recorded_together() -> None:
    other = SetRate(*TARGET, 10 * MB, 30 * MB, Reason.STALLED_THROTTLE_BOUND, "")
    memory = record_change_intents(Memory(owned=OURS), [(SET, [21 * MB]), (other, [30 * MB])])
    assert memory.owned == {
        SOURCE: owned(4_500_000, 21 * MB, 4_500_000, 21 * MB),
        TARGET: owned(10 * MB, 30 * MB, 10 * MB, 30 * MB),
    }


def test_success_narrows_possible_rates_to_the_setpoint() -> None:
    memory = record_success(record_change_intents(Memory(), [(SET, [10 * MB, 21 * MB])]), SET)
    assert memory.owned == {SOURCE: owned(4_500_000, 21 * MB, 21 * MB)}


def test_success_after_relinquishing_is_ignored() -> None:
    assert record_success(Memory(), SET) == Memory()


def test_success_of_a_restore_ends_ownership() -> None:
    back = RestoreRate(*SOURCE, 21 * MB, 4_500_000, Reason.MOVE_ENDED, "")
    other = {TARGET: owned(None, 9 * MB)}
    assert record_success(Memory(owned=OURS | other), back) == Memory(owned=other)


@pytest.mark.parametrize(
    "decision", [Hold(None, None, Reason.WATCHING, ""), ClearLists("t", (), Reason.MOVE_ENDED, "")]
)
def test_success_of_other_decisions_changes_nothing(decision: Any) -> None:
    assert record_success(Memory(owned=OURS), decision) == Memory(owned=OURS)


# -- what is wrong today -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", [OURS, {}], ids=["raised by us", "as the tool set it"])
def test_absent_broker_is_cleared_when_it_returns(ours: Any) -> None:
    memory = Memory(owned=ours, moving_replicas=SEEN, throttled=True, idle_snapshots=1)
    memory, _ = think(live({}, moves=(), lists={}, brokers=(2, 3)), memory)
    _, decisions = think(live({SOURCE: 21 * MB}, moves=(), lists={}), memory)
    assert [d.value_bytes_per_s for d in decisions if isinstance(d, RestoreRate)] == [None]


def test_inherited_rate_is_restored_by_removal() -> None:
    """4.5 came from <default>: on the broker itself nothing stood."""
    memory = record_change_intents(Memory(), [(replace(SET, is_set_on_broker=False), [21 * MB])])
    cluster = live({SOURCE: 21 * MB}, moves=(), lists={"orders": throttle(leader=[(7, 1)])})
    _, decisions = think(cluster, replace(memory, moving_replicas=SEEN, idle_snapshots=1))
    assert [d.value_bytes_per_s for d in decisions if isinstance(d, RestoreRate)] == [None]


def test_leaderless_move_is_reported() -> None:
    _, decisions = think(live(moves=(move(leader=-1, isr=()),)), Memory(stalls={3: UNSEEN}))
    assert decisions != ()


@pytest.mark.parametrize("away", [{"unreadable": (1,)}, {"brokers": (2, 3)}])
def test_owned_rate_of_an_absent_broker_is_reported(away: Any) -> None:
    memory = Memory(preexisting_rates={SOURCE: 30 * MB}, idle_snapshots=5)
    memory, _ = think(live({}, moves=(), lists={}, **away), memory)
    assert memory.preexisting_rates == {SOURCE: 30 * MB}


def test_throttle_set_just_before_its_move_belongs_to_it() -> None:
    """kafka-reassign-partitions sets lists and rates first, and then submits the plan."""
    memory = Memory(idle_snapshots=5)
    memory, _ = think(live({SOURCE: 10 * MB, TARGET: 10 * MB}, moves=()), memory)
    memory, _ = think(live(), memory)
    for _ in range(2):
        memory, decisions = think(live(moves=()), memory)
    assert {d.value_bytes_per_s for d in decisions if isinstance(d, RestoreRate)} == {None}
