"""Tests moves without a throttle in the loop: rates first, then lists; removal at the end; clearing by tools."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from loop_rig import Rig
from test_steering_tick import OBJECTIVE, loaded, seconds
from tuner_cases import LIMITS, NOW_MS, SEEN, SOURCE, STALL, TARGET, L, move, move_signal, owned, throttle

from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import AddPairs, Reason, RemovePairs, StartRate
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.list_writer import ReplicaListWriter

WANTED = {"orders": throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])}
STANDBY = (2, L)
NOTHING = TopicThrottle()


def unthrottled(memory: Memory | None = None, *, dry_run: bool = False, throttles_moves: bool = True) -> Rig:
    """The standard move, started without a throttle by another tool."""
    rig = Rig(
        memory or Memory(),
        objective=OBJECTIVE,
        dry_run=dry_run,
        law_limits=ControlLimits(rate_bytes_per_s_max=50 * MB, takeover_ramp_s=0.1),
        throttles_moves=throttles_moves,
    )
    rig.throttles.rates.clear()
    rig.throttles.lists = {"orders": NOTHING, "payments": NOTHING}
    rig.signals.brokers = {b: loaded(b) for b in (1, 2, 3)}
    rig.signals.moves = {
        side: replace(move_signal(*side, listed=0, steady_state=0.0), write_bytes_per_s=3.0 * MB)
        for side in (SOURCE, TARGET)
    }
    return rig


def cycle(rig: Rig) -> list[Reason]:
    rig.now_s += 5.0
    return rig.cycle()


def listed(rig: Rig) -> dict[str, TopicThrottle]:
    return {topic: lists for topic, lists in rig.throttles.lists.items() if lists}


def test_move_is_throttled_within_a_cycle_rates_first() -> None:
    rig = unthrottled()
    assert cycle(rig)[:4] == [Reason.MOVE_FOUND] * 4  # Three rates, one topic.
    assert rig.throttles.rates == {SOURCE: 7_200_000, STANDBY: 5 * MB, TARGET: 5 * MB}
    assert listed(rig) == WANTED
    assert rig.loop.memory.listed == WANTED
    kinds: list[Any] = [e[:2] if e[0] in ("intent", "outcome") else e[0] for e in rig.events]
    assert kinds.index("write") < kinds.index("add")
    assert kinds.index(("intent", "start")) < kinds.index("write") < kinds.index(("outcome", "start"))
    assert kinds.index(("intent", "add_pairs")) < kinds.index("add") < kinds.index(("outcome", "add_pairs"))
    assert {**rig.journal.memories[-1].listed, **rig.journal.listed} == WANTED


def test_started_rate_is_steered_after_an_early_cycle() -> None:
    rig = unthrottled()
    cycle(rig)
    rig.now_s += 1.0
    assert rig.loop.cycle_is_due()
    assert rig.cycle() == [Reason.FOLLOWS_CLIENTS] * 2
    rig.now_s += 1.0
    assert not rig.loop.cycle_is_due()


def test_rate_that_did_not_start_causes_no_early_cycle() -> None:
    rig = unthrottled()
    rig.throttles.refusing |= {SOURCE, STANDBY, TARGET}
    cycle(rig)
    rig.now_s += 1.0
    assert not rig.loop.cycle_is_due()


def test_steering_takes_listed_move_in_next_cycle() -> None:
    rig = unthrottled()
    cycle(rig)
    assert cycle(rig) == [Reason.FOLLOWS_CLIENTS] * 2
    seconds(rig, 4)
    assert rig.throttles.rates[SOURCE] > 8 * MB


def test_list_changes_need_one_intent_and_one_outcome_record() -> None:
    """Each record is a transaction, which brokers have to carry out, and none of it is kept for the next cycle."""
    rig = unthrottled()
    rig.live.moves = (move(), move(partition=1))
    cycle(rig)
    rig.live.moves = (move(partition=1), move(partition=2))
    rig.journal.writes = 0
    rig.events.clear()
    rig.signals.brokers = {}  # Nothing else is said: the law has no word without them.
    cycle(rig)
    kinds: list[Any] = [e[:2] if e[0] in ("intent", "outcome") else e[0] for e in rig.events]
    assert [kind for kind in kinds if kind in ("remove", "add") or isinstance(kind, tuple)] == [
        ("intent", "remove_pairs"), ("intent", "add_pairs"), "remove", "add",
        ("outcome", "remove_pairs"), ("outcome", "add_pairs"),
    ]  # fmt: skip
    assert rig.journal.writes == 2 + 1, "and one of the cycle's own"
    assert rig.loop.memory.listed == {
        "orders": throttle(leader=[(1, 1), (1, 2), (2, 1), (2, 2)], follower=[(1, 3), (2, 3)])
    }
    assert listed(rig) == rig.loop.memory.listed


def test_pair_removed_and_added_again_is_managed() -> None:
    rig = unthrottled()
    listing = ReplicaListWriter(rig.throttles, rig.loop.recorder, rig.observer, Clock(lambda: 0.0))
    comes = AddPairs("orders", (), ((0, 3),), Reason.MOVE_FOUND, "comes")
    goes = RemovePairs("orders", (), ((0, 3),), Reason.IN_SYNC, "goes")
    listing.carry_out([comes])
    listing.carry_out([goes, comes])
    assert rig.loop.memory.listed == listed(rig) == {"orders": throttle(follower=[(0, 3)])}


def test_nothing_is_written_twice() -> None:
    rig = unthrottled()
    cycle(rig)
    rig.events.clear()
    cycle(rig)
    assert rig.writes() == []


def test_each_pair_leaves_list_once_in_sync() -> None:
    rig = unthrottled()
    rig.live.moves = (move(replicas=(3, 4, 2, 1), adding=(3, 4)), move(partition=1))
    rig.throttles.brokers.add(4)
    cycle(rig)
    assert listed(rig)["orders"].follower.pairs == {(0, 3), (0, 4), (1, 3)}
    rig.live.moves = (move(replicas=(3, 4, 2, 1), adding=(3, 4), isr=(1, 2, 4)), move(partition=1))
    cycle(rig)
    assert listed(rig)["orders"] == throttle(leader=[(0, 1), (0, 2), (1, 1), (1, 2)], follower=[(0, 3), (1, 3)])
    rig.live.moves = (move(partition=1),)
    cycle(rig)
    assert listed(rig)["orders"] == throttle(leader=[(1, 1), (1, 2)], follower=[(1, 3)])
    rig.live.moves = ()
    cycle(rig)
    assert listed(rig) == {}
    assert rig.throttles.rates != {}  # Perhaps only the moment between two batches.
    for _ in range(3):
        cycle(rig)
    assert rig.throttles.rates == {}
    assert (rig.loop.memory.owned, rig.loop.memory.listed, rig.loop.memory.moving_replicas) == ({}, {}, {})


def test_second_move_is_listed_and_static_list_is_preserved() -> None:
    rig = unthrottled()
    static = throttle(leader=[(7, 2)], follower=[(7, 1)])
    rig.throttles.lists["payments"] = static
    cycle(rig)
    rig.live.moves = (move(), move(topic="payments", partition=2, leader=2, adding=(3,), replicas=(3, 2), isr=(2,)))
    cycle(rig)
    assert listed(rig)["payments"] == throttle(leader=[(7, 2), (2, 2)], follower=[(7, 1), (2, 3)])
    rig.live.moves = ()
    for _ in range(5):
        cycle(rig)
    assert listed(rig) == {"payments": static}
    assert rig.throttles.rates == {}


def test_throttle_that_came_with_move_ends_with_it() -> None:
    rig = unthrottled()
    rig.throttles.rates = {SOURCE: 10 * MB, TARGET: 10 * MB}
    rig.throttles.lists["orders"] = WANTED["orders"]
    cycle(rig)
    assert rig.loop.memory.listed == {}
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert listed(rig) == {}
    assert rig.throttles.rates == {}
    assert "remove" not in {e[0] for e in rig.writes()}


def test_unthrottled_move_is_left_alone_by_setting() -> None:
    rig = unthrottled(throttles_moves=False)
    cycle(rig)
    assert rig.writes() == []
    assert rig.cycle() == [Reason.NOT_THROTTLED] * 2


def test_throttled_move_stays_listed_when_setting_becomes_leave() -> None:
    rig = unthrottled(Memory(listed=WANTED, moving_replicas=SEEN), throttles_moves=False)
    rig.throttles.lists |= WANTED
    rig.live.moves = (move(), move(partition=7))
    cycle(rig)
    assert listed(rig) == WANTED, "only what has been throttled already"
    rig.live.moves = ()
    cycle(rig)
    assert listed(rig) == {}


def test_dry_run_logs_lists_once_and_writes_nothing() -> None:
    rig = unthrottled(dry_run=True)
    for _ in range(3):
        cycle(rig)
    assert rig.writes() == []
    assert rig.loop.memory.listed == {}
    told = [e for e in rig.journal.entries if e.action == "add_pairs"]
    assert [(e.kind, e.dry_run) for e in told] == [("intent", True)]
    assert told[0].decision["leader"] == ((0, 1), (0, 2))
    assert [e.dry_run for e in rig.journal.entries if e.action == "start"] == [True] * 3


def test_refused_list_write_is_retried_while_others_continue() -> None:
    rig = unthrottled()
    rig.live.moves = (move(), move(topic="payments"))
    rig.throttles.refusing["orders"] = "missing right: AlterConfigs on Topic"
    cycle(rig)
    assert listed(rig) == {"payments": WANTED["orders"]}
    assert [e.failure for e in rig.journal.entries if e.action == "add_pairs" and e.kind == "outcome"] == [
        "topic orders: missing right: AlterConfigs on Topic"
    ]
    del rig.throttles.refusing["orders"]
    rig.events.clear()
    rig.loop.cycle()
    assert rig.writes() == []
    cycle(rig)
    assert listed(rig).keys() == {"orders", "payments"}


def test_failed_rate_prevents_listing() -> None:
    rig = unthrottled()
    rig.throttles.refusing[1] = "broker 1 is busy"
    cycle(rig)
    assert listed(rig) == {"orders": throttle(leader=[(0, 2)], follower=[(0, 3)])}
    del rig.throttles.refusing[1]
    cycle(rig)
    cycle(rig)
    assert listed(rig) == WANTED
    assert SOURCE in rig.throttles.rates


def test_rate_set_externally_at_same_moment_is_preserved() -> None:
    rig = unthrottled()
    look = rig.live.snapshot

    def and_then_kim(
        *, full: bool, extra_topics: Collection[str] = (), waiting_brokers: Collection[int] = ()
    ) -> object:
        found = look(full=full, extra_topics=extra_topics, waiting_brokers=waiting_brokers)
        rig.throttles.rates[SOURCE] = 7 * MB
        return found

    rig.live.snapshot = and_then_kim  # type: ignore[method-assign,assignment]
    cycle(rig)
    assert rig.throttles.rates[SOURCE] == 7 * MB
    assert SOURCE not in rig.loop.memory.owned
    assert listed(rig) == {"orders": throttle(leader=[(0, 2)], follower=[(0, 3)])}
    rig.live.snapshot = look  # type: ignore[method-assign]
    cycle(rig)
    assert listed(rig) == WANTED


def test_without_a_record_nothing_is_done() -> None:
    rig = unthrottled()
    rig.journal.refusing_kinds = frozenset({"intent"})
    cycle(rig)
    assert rig.writes() == []
    assert rig.loop.memory.listed == {}


@pytest.mark.parametrize("act", ["start", "add_pairs"])
def test_list_outcome_is_recorded_after_journal_outage(act: str) -> None:
    rig = unthrottled()
    if act == "add_pairs":
        rig.throttles.rates.update({SOURCE: 30 * MB, STANDBY: 30 * MB, TARGET: 30 * MB})
    rig.journal.refusing_kinds = frozenset({"outcome"})
    cycle(rig)
    intents = rig.kinds(act)
    assert set(intents) == {"intent"}
    rig.journal.refusing_kinds = frozenset()
    cycle(rig)
    assert rig.kinds(act) == [*intents, *["outcome"] * len(intents)]


def test_unrecorded_rate_is_known_in_next_term() -> None:
    """Or a person who takes it away would be taken for us, who had not set it yet."""
    rig = unthrottled()
    rig.journal.refusing_kinds = frozenset({"outcome"})
    cycle(rig)
    assert {None in ours.possible_rates for ours in rig.journal.memories[-1].owned.values()} == {True}
    rig.begin_another_term()
    assert {None in ours.possible_rates for ours in rig.loop.memory.owned.values()} == {False}


def test_pause_keeps_lists_and_release_removes_them() -> None:
    rig = unthrottled()
    rig.orders.latest = Orders(NOW_MS, pause=Pause(NOW_MS, "kim@desk"))
    cycle(rig)
    assert rig.writes() == []
    rig.orders.latest = Orders(NOW_MS + 1)
    cycle(rig)
    assert listed(rig) == WANTED
    rig.events.clear()
    rig.orders.latest = Orders(NOW_MS + 2, pause=Pause(NOW_MS + 2, "kim@desk", released=True))
    cycle(rig)
    assert (listed(rig), rig.throttles.rates, rig.loop.memory.listed) == ({}, {}, {})
    assert next(e[0] for e in rig.writes()) == "remove", "lists before rates"


def test_deleted_topic_is_forgotten() -> None:
    rig = unthrottled()
    cycle(rig)
    del rig.throttles.lists["orders"]
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert rig.throttles.rates == {}
    assert rig.loop.memory.listed == {}


def test_rates_stay_while_managed_pairs_cannot_be_removed() -> None:
    rig = unthrottled()
    cycle(rig)
    rig.throttles.refusing["orders"] = "missing right: AlterConfigs on Topic"
    rig.live.moves = ()
    for _ in range(5):
        cycle(rig)
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}
    del rig.throttles.refusing["orders"]
    rig.now_s += 300.0
    for _ in range(2):
        cycle(rig)
    assert (listed(rig), rig.throttles.rates) == ({}, {})


def test_cleanup_clears_tool_lists_and_removes_managed_pairs() -> None:
    rig = unthrottled()
    rig.live.moves = (move(), move(topic="payments"))
    rig.throttles.lists["payments"] = WANTED["orders"]
    cycle(rig)
    assert rig.loop.memory.listed == WANTED
    rig.throttles.refusing["orders"] = "busy"
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert {e[1] for e in rig.writes() if e[0] == "clear"} == {"payments"}
    assert listed(rig) == WANTED


def test_tool_verify_after_move_is_no_external_change() -> None:
    rig = unthrottled()
    cycle(rig)
    rig.live.moves = ()
    rig.throttles.rates.clear()
    rig.throttles.lists["orders"] = NOTHING
    for _ in range(4):
        assert Reason.EXTERNAL_CHANGE not in cycle(rig)
    assert (rig.loop.memory.owned, rig.loop.memory.listed, rig.loop.memory.externally_owned_until_ms) == ({}, {}, {})
    rig.live.moves = (move(),)
    cycle(rig)
    assert listed(rig) == WANTED


# -- cleared by a tool, or changed externally -------------------------------------------------------------------------------


def steered_for_a_while() -> Rig:
    rig = unthrottled()
    cycle(rig)
    cycle(rig)
    seconds(rig, 4)
    return rig


def test_throttles_cleared_by_tool_are_set_again() -> None:
    rig = steered_for_a_while()
    stood = dict(rig.throttles.rates)
    rig.throttles.rates.clear()
    rig.throttles.lists["orders"] = NOTHING
    assert Reason.CLEARED_BY_TOOL in cycle(rig)
    assert rig.throttles.rates == stood
    assert listed(rig) == WANTED
    assert rig.loop.memory.externally_owned_until_ms == {}
    assert rig.kinds("relinquish") == []


def test_tool_clearing_seen_by_steering_is_no_external_change() -> None:
    rig = steered_for_a_while()
    rig.throttles.rates.clear()
    seconds(rig, 2)
    rig.throttles.lists["orders"] = NOTHING
    assert Reason.CLEARED_BY_TOOL in cycle(rig)
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}
    assert rig.loop.memory.externally_owned_until_ms == {}


def test_partly_seen_tool_clearing_is_recognized_by_next_snapshot() -> None:
    rig = steered_for_a_while()
    del rig.throttles.rates[SOURCE]
    assert Reason.EXTERNAL_CHANGE not in cycle(rig)
    assert rig.loop.memory.missing_rates == {SOURCE}
    assert SOURCE not in rig.throttles.rates, "it is not known yet who removed the rate"
    rig.throttles.rates.clear()
    rig.throttles.lists["orders"] = NOTHING
    assert Reason.CLEARED_BY_TOOL in cycle(rig)
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}


def test_single_removed_rate_is_external_change() -> None:
    rig = steered_for_a_while()
    del rig.throttles.rates[SOURCE]
    cycle(rig)
    assert Reason.EXTERNAL_CHANGE in cycle(rig)
    for _ in range(3):
        cycle(rig)
    assert SOURCE not in rig.throttles.rates
    assert rig.loop.memory.externally_owned_until_ms.keys() == {SOURCE}


def test_all_rates_removed_twice_is_external_change() -> None:
    """As `--cancel` of another topic's plan does it, which leaves the lists of ours. Who insists means it."""
    rig = steered_for_a_while()
    rig.throttles.rates.clear()
    assert Reason.CLEARED_BY_TOOL in cycle(rig)
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}
    rig.die_and_start_again()
    cycle(rig)
    rig.throttles.rates.clear()
    for _ in range(4):
        assert Reason.CLEARED_BY_TOOL not in cycle(rig)
    assert rig.throttles.rates == {}
    assert rig.loop.memory.externally_owned_until_ms.keys() == {SOURCE, STANDBY, TARGET}


def test_rates_removed_with_lists_are_always_tool_clearing() -> None:
    rig = steered_for_a_while()
    for _ in range(3):
        rig.throttles.rates.clear()
        rig.throttles.lists["orders"] = NOTHING
        assert Reason.CLEARED_BY_TOOL in cycle(rig)
        assert listed(rig) == WANTED


def test_rates_removed_on_one_broker_are_external_change() -> None:
    rig = unthrottled()
    rig.throttles.rates = {STANDBY: 10 * MB, TARGET: 10 * MB}  # Somebody else's.
    cycle(rig)
    assert rig.loop.memory.owned.keys() == {SOURCE}
    del rig.throttles.rates[SOURCE]
    cycle(rig)
    assert Reason.EXTERNAL_CHANGE in cycle(rig)


def test_changed_rate_is_external_change_at_once() -> None:
    rig = steered_for_a_while()
    rig.throttles.rates[SOURCE] = 7 * MB
    assert Reason.EXTERNAL_CHANGE in cycle(rig)
    assert rig.throttles.rates[SOURCE] == 7 * MB


def test_external_throttle_cleared_by_tool_is_replaced() -> None:
    rig = unthrottled()
    rig.throttles.rates = {SOURCE: 10 * MB, STANDBY: 10 * MB, TARGET: 10 * MB}
    rig.throttles.lists["orders"] = WANTED["orders"]
    rig.signals.moves = {side: move_signal(*side) for side in (SOURCE, TARGET)}
    cycle(rig)
    seconds(rig, 4)
    assert rig.loop.memory.owned.keys() == {SOURCE, TARGET}
    rig.throttles.rates.clear()
    rig.throttles.lists["orders"] = NOTHING
    cycle(rig)
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}
    assert rig.throttles.rates[SOURCE] > 10 * MB
    rig.live.moves = ()
    for _ in range(4):
        cycle(rig)
    assert (listed(rig), rig.throttles.rates) == ({}, {})


@pytest.mark.parametrize("lost", [False, True])
def test_returning_replica_is_not_throttled(lost: bool) -> None:
    rig = steered_for_a_while()
    rig.live.moves = (move(isr=(1,) if lost else (1, 2)),)
    reasons = cycle(rig)
    assert (Reason.ISR_RECOVERY in reasons) is lost
    assert bool(listed(rig)["orders"].leader) is not lost
    assert listed(rig)["orders"].follower.pairs == {(0, 3)}
    rig.live.moves = (move(),)
    cycle(rig)
    assert listed(rig) == WANTED


def test_list_decision_is_comparable() -> None:
    rig = unthrottled()
    cycle(rig)
    seen, _, _ = rig.observer.cycles[-1]
    limits = replace(LIMITS, closed_loop=True, throttles_all_moves=True)
    _, decisions = decide(seen, Memory(), limits, STALL)
    assert [type(d) for d in decisions[:4]] == [StartRate, StartRate, StartRate, AddPairs]
    assert isinstance(seen.live, LiveCluster)
    over = replace(seen, live=replace(seen.live, moves=()))
    _, decisions = decide(over, Memory(listed=WANTED), limits, STALL)
    assert [type(d) for d in decisions] == [RemovePairs]


def test_rate_being_set_was_not_cleared_by_tool() -> None:
    rig = unthrottled(Memory(owned={SOURCE: owned(None, 5 * MB, None, 5 * MB)}, moving_replicas=SEEN, listed=WANTED))  # type: ignore[arg-type]
    assert Reason.CLEARED_BY_TOOL not in cycle(rig)
    assert listed(rig) == WANTED
    assert rig.throttles.rates.keys() == {SOURCE, STANDBY, TARGET}
