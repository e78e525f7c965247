"""Tests the order of a cycle: what is recorded before a write, and what is not written without a record."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from loop_rig import RAISED, Rig, raised
from tuner_cases import (
    LIMITS,
    NOW_MS,
    SEEN,
    SOURCE,
    STALLED,
    TARGET,
    WELL,
    broker_signal,
    live,
    move_signal,
    owned,
    throttle,
)

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.api.status_store import StatusStore
from tuner.control.throttle.decision import Hold, Reason, Relinquish, RestoreRate, SetRate
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.quota_window.ramp import STARTING_S, WINDOW_S
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import ClusterUnreadable, LiveCluster, PartitionMove
from tuner.core.operator_orders import Orders, Override
from tuner.core.outcome import CHANGED_EXTERNALLY
from tuner.core.throttle_limits import MB
from tuner.runtime.leadership_term import Controllers, serve
from tuner.runtime.reload import NoReloads
from tuner.runtime.throttle.cleanup import WRITES_PER_CYCLE_MAX
from tuner.runtime.throttle.cycle_scheduler import FULL_SCAN_EVERY

# -- the active tuner --------------------------------------------------------------------------------------------------


def test_intent_and_ownership_are_recorded_before_first_write() -> None:
    rig = Rig()
    assert rig.cycle() == [Reason.STALLED_THROTTLE_BOUND] * 2
    assert rig.writes() == []
    assert [e for e in rig.events if e[0] in ("intent", "memory")][-3:] == [
        ("intent", "set"),
        ("intent", "set"),
        ("memory", (SOURCE, TARGET)),
    ]
    rig.loop.tick()
    assert len(rig.writes()) == 2


def test_every_ramp_value_is_recorded_as_possible_before() -> None:
    rig = Rig()
    rig.cycle()
    may_stand = {side: set(ours.possible_rates) for side, ours in rig.journal.memories[-1].owned.items()}
    rig.run_ramps()
    written = [(side, value) for _, side, value in rig.writes()]
    assert len(written) == 88
    assert all(value in may_stand[side] for side, value in written)
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}


def test_raise_waits_for_young_move_with_older_lists() -> None:
    """As they do where a look falls between the two requests of Kafka's own tool."""
    rig = Rig(Memory())
    moves, rig.live.moves = rig.live.moves, ()
    assert rig.live.throttles.lists, "lists stand, and nothing moves yet"
    rig.loop.cycle()
    rig.now_s, rig.live.moves = 1.0, moves
    rig.orders.latest = Orders(1, overrides={SOURCE: Override(20 * MB, NOW_MS + 600_000, "kim@desk")})
    assert Reason.OVERRIDDEN in rig.cycle()
    assert rig.loop.next_due_s() == STARTING_S + WINDOW_S
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 20 * MB


def test_outcome_follows_last_write_and_settles_memory() -> None:
    rig = Rig()
    rig.cycle()
    rig.run_ramps()
    after_last_write = rig.events[max(i for i, e in enumerate(rig.events) if e[0] == "write") + 1 :]
    assert [e[0] for e in after_last_write if e[0] == "outcome"] == ["outcome"] * 2
    assert rig.journal.memories[-1].owned == RAISED.owned
    assert [failure for _, failure in rig.observer.acts] == [None, None]


def test_intent_contains_decision_inputs() -> None:
    rig = Rig()
    rig.cycle()
    intent = next(e for e in rig.journal.entries if e.kind == "intent")
    assert intent.inputs["move"]["steady_state_bytes_per_s"] == 6 * MB
    assert intent.inputs["broker"]["leader_throttled_bytes_per_s"] == 9.5 * MB
    assert intent.inputs["stalls"]["3"]["lost_s"] == 20.0
    assert intent.inputs["limits"]["rate_bytes_per_s_max"] == 50 * MB
    assert intent.decision["setpoint_bytes_per_s"] == 50 * MB
    assert intent.at_ms == NOW_MS


def test_side_with_running_ramp_is_not_decided() -> None:
    rig = Rig()
    rig.cycle()
    rig.loop.tick()
    assert rig.cycle() == [Reason.RATE_IS_CHANGING] * 2
    assert rig.kinds("set") == ["intent", "intent"]


# -- without a journal -------------------------------------------------------------------------------------------------


def test_without_a_record_nothing_is_done() -> None:
    rig = Rig()
    rig.journal.refusing = True
    rig.cycle()
    rig.run_ramps()
    assert rig.writes() == []
    assert rig.loop.memory.owned == {}


def test_unrecorded_intent_prevents_write() -> None:
    rig = Rig()
    rig.journal.refusing_kinds = frozenset({"intent"})
    rig.cycle()
    assert rig.loop.next_due_s() is None
    assert rig.loop.memory.owned == {}


def test_unrecorded_restore_is_not_written() -> None:
    rig = raised()
    rig.end_the_move()
    rig.journal.refusing = True
    rig.cycle()
    assert rig.writes() == []
    assert rig.loop.memory.owned == RAISED.owned


def test_controller_acts_again_after_journal_outage() -> None:
    rig = Rig()
    rig.journal.refusing = True
    rig.cycle()
    rig.journal.refusing = False
    rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: STALLED})
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 50 * MB


def test_unrecorded_outcome_keeps_whole_ramp_possible() -> None:
    rig = Rig()
    rig.cycle()
    rig.journal.refusing_kinds = frozenset({"outcome"})
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 50 * MB
    assert rig.loop.memory.owned[SOURCE].possible_rates == (50 * MB,), "what came of it is so"
    assert {10 * MB, 50 * MB} <= set(rig.journal.memories[-1].owned[SOURCE].possible_rates)
    assert rig.kinds("set") == ["intent", "intent"]
    rig.journal.refusing_kinds = frozenset()
    rig.cycle()
    assert rig.journal.memories[-1].owned[SOURCE].possible_rates == (50 * MB,)
    rig.cycle()
    assert rig.kinds("set") == ["intent", "intent", "outcome", "outcome"], "told once it is taken, and once"


def test_external_return_to_previous_rate_is_recognized_in_next_term() -> None:
    """The ramp ended during a journal outage: by the record, each of its rates may be set."""
    rig = Rig()
    rig.cycle()
    rig.journal.refusing = True
    rig.run_ramps()
    rig.throttles.rates[SOURCE] = 10 * MB
    rig.journal.refusing = False
    rig.begin_another_term()
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 50 * MB}
    assert rig.kinds("set") == ["intent", "intent", "outcome", "outcome"]
    assert rig.kinds("relinquish") == ["decision"]


@pytest.mark.parametrize("away", [False, True])
def test_term_end_records_outcome_of_each_ramp(away: bool) -> None:
    rig = Rig()
    rig.cycle()
    for _ in range(3):
        rig.loop.tick()
        rig.now_s += 0.5
    stands = rig.throttles.rates[SOURCE]
    assert stands is not None
    assert 10 * MB < stands < 50 * MB
    rig.journal.refusing = away
    lost: Any = SimpleNamespace(lost=True, holder="h")
    board: Any = StatusStore("c", LIMITS, dry_run=False, wall_clock=lambda: rig.now_s)
    serve(
        Controllers(rig.loop), board,
        journal=lost, lease=None, reloads=NoReloads(), cluster_error=lambda: None,
        cycle_s=5.0, stop=threading.Event(), clock=rig.clock,
    )  # fmt: skip
    assert rig.loop.next_due_s() is None
    rig.journal.refusing = False
    rig.begin_another_term()
    before = 11_818_182  # Which the broker may show for a while.
    assert rig.loop.memory.owned[SOURCE].possible_rates == (stands, before)
    rig.throttles.rates[SOURCE] = 10 * MB  # What stood before the ramp: a person's word, for it was past that.
    rig.cycle()
    assert [e.failure for e in rig.journal.entries if e.kind == "outcome"] == [
        "interrupted: this tuner's term has ended"
    ] * 2
    assert rig.kinds("relinquish") == ["decision"]


def test_unreadable_orders_end_term() -> None:
    """One of them may be a pause."""
    rig = Rig()
    journal: Any = SimpleNamespace(lost=False, holder="h")
    board = StatusStore("c", LIMITS, dry_run=False, wall_clock=lambda: rig.now_s)
    serve(
        Controllers(rig.loop), board,
        journal=journal, lease=None, reloads=NoReloads(), cluster_error=lambda: None, orders_error=lambda: "records 3 to 5 are not read",
        cycle_s=5.0, stop=threading.Event(), clock=rig.clock,
    )  # fmt: skip
    assert rig.throttles.rates == Rig().throttles.rates
    assert not board.active
    assert board.ready() == (False, "records 3 to 5 are not read")


@pytest.mark.parametrize("acts", ["clear_lists", "restore"])
def test_cleanup_outcome_is_recorded_after_journal_outage(acts: str) -> None:
    rig = raised()
    rig.end_the_move()
    if acts == "restore":
        rig.throttles.lists = {"orders": TopicThrottle()}
    rig.journal.refusing_kinds = frozenset({"outcome"})
    rig.cycle()
    assert rig.kinds(acts) == ["intent"]
    rig.journal.refusing_kinds = frozenset()
    for _ in range(3):
        rig.cycle()
    kinds = rig.kinds(acts)
    assert kinds.count("outcome") == kinds.count("intent")
    assert (rig.throttles.rates, rig.loop.memory.owned) == ({}, {})


def test_unrecorded_restore_is_not_managed_in_next_term() -> None:
    rig = raised()
    rig.end_the_move()
    rig.throttles.lists = {"orders": TopicThrottle()}
    rig.journal.refusing_kinds = frozenset({"outcome"})
    rig.cycle()
    assert rig.throttles.rates == {TARGET: 50 * MB}
    assert rig.journal.memories[-1].owned.keys() == {SOURCE, TARGET}
    rig.begin_another_term()
    assert rig.loop.memory.owned.keys() == {TARGET}


def test_external_stop_of_ramp_holds_during_journal_outage() -> None:
    rig = Rig()
    rig.cycle()
    for _ in range(3):
        rig.loop.tick()
        rig.now_s += 0.5
    rig.throttles.rates[SOURCE] = 10 * MB  # What stood before the ramp.
    rig.journal.refusing_kinds = frozenset({"outcome"})
    rig.loop.tick()
    assert SOURCE in rig.loop.memory.externally_owned_until_ms
    rig.journal.refusing_kinds = frozenset()
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 10 * MB
    assert rig.kinds("relinquish") == ["decision"]


def test_observer_receives_cycle_without_journal() -> None:
    rig = Rig()
    rig.journal.refusing = True
    decisions = rig.loop.cycle()
    assert [(o.now_ms, d) for o, _, d in rig.observer.cycles] == [(NOW_MS, decisions)]


# -- ending ------------------------------------------------------------------------------------------------------------


def test_move_end_removes_lists_and_restores_rates() -> None:
    rig = raised()
    rig.end_the_move()
    assert rig.writes() == []
    rig.cycle()
    assert rig.throttles.rates == {}
    assert not rig.throttles.lists["orders"]
    assert rig.loop.memory.owned == {}
    rig.cycle()
    assert rig.loop.memory.moving_replicas == {}
    assert rig.journal.memories[-1] == replace(rig.loop.memory, idle_snapshots=rig.journal.memories[-1].idle_snapshots)


def test_cleanup_records_each_write_and_begins_with_lists() -> None:
    rig = raised()
    rig.end_the_move()
    rig.events.clear()
    rig.cycle()
    told = [e[:2] for e in rig.events if e[0] != "memory"]
    assert told == [
        ("intent", "clear_lists"),
        ("clear", "orders"),
        ("outcome", "clear_lists"),
        ("intent", "restore"),
        ("write", SOURCE),
        ("outcome", "restore"),
        ("intent", "restore"),
        ("write", TARGET),
        ("outcome", "restore"),
    ]


def test_failed_restore_is_retried_in_next_cycle() -> None:
    rig = raised()
    rig.end_the_move()
    rig.throttles.refusing[1] = "broker 1 is busy"
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 50 * MB}
    assert set(rig.loop.memory.owned) == {SOURCE}
    assert [e.failure for e in rig.journal.entries if e.kind == "outcome" and e.failure] == ["broker 1 is busy"]
    assert [f for _, f in rig.observer.acts if f] == ["broker 1 is busy"]
    del rig.throttles.refusing[1]
    rig.now_s += 5.0  # A cycle later.
    rig.cycle()
    assert rig.throttles.rates == {}
    assert rig.loop.memory.owned == {}


def test_rates_stay_while_list_cannot_be_cleared() -> None:
    rig = raised()
    rig.end_the_move()
    rig.throttles.refusing["orders"] = "missing right: AlterConfigs on Topic"
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}
    rig.now_s += 5.0
    del rig.throttles.refusing["orders"]
    rig.cycle()
    assert rig.throttles.rates == {}


def test_cleanup_stops_running_ramp() -> None:
    rig = Rig()
    rig.cycle()
    rig.loop.tick()
    rig.end_the_move()
    rig.cycle()
    assert rig.loop.next_due_s() is None
    assert rig.throttles.rates == {}
    assert rig.kinds("set") == ["intent", "intent", "outcome", "outcome"]
    for entry in rig.journal.entries:
        if (entry.action, entry.kind) == ("set", "outcome"):
            assert "the move has ended" in str(entry.failure)
    stopped = [failure for d, failure in rig.observer.acts if isinstance(d, SetRate)]
    assert [str(failure).split(":")[0] for failure in stopped] == ["interrupted"] * 2


def test_ramp_of_ended_move_does_not_begin() -> None:
    """Of a standing throttle that still stands as it stood nothing is put back, and from then on nothing of it is ours."""
    rig = Rig()
    rig.throttles.lists |= {"payments": throttle(leader=[(1, 1)])}
    rig.cycle()
    rig.live.moves = ()
    for _ in range(3):
        rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert rig.kinds("set") == ["intent", "intent", "outcome", "outcome"]
    assert {failure for _, failure in rig.observer.acts} == {"interrupted: the reason for the change is over"}


# -- other people ------------------------------------------------------------------------------------------------------


def test_relinquish_stops_ramp() -> None:
    rig = Rig()
    rig.cycle()
    rig.loop.tick()
    rig.throttles.rates[SOURCE] = 7 * MB
    decisions = rig.loop.cycle()
    assert isinstance(decisions[0], Relinquish)
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 7 * MB, TARGET: 50 * MB}
    (stopped, why), *others = [((d.broker, d.side), failure) for d, failure in rig.observer.acts]
    assert (stopped, others) == (SOURCE, [(TARGET, None)])
    assert str(why).startswith("interrupted: broker 1 leader throttle")
    assert [entry.failure for entry in rig.journal.entries if entry.kind == "outcome"] == [why, None], (
        "each intent has one"
    )
    assert SOURCE not in rig.loop.memory.owned
    assert rig.journal.memories[-1].externally_owned_until_ms == {SOURCE: NOW_MS + 3_600_000}
    assert rig.kinds("relinquish") == ["decision"]


def test_cleanup_preserves_external_values() -> None:
    rig = raised()
    rig.throttles.rates[SOURCE] = 7 * MB
    rig.cycle()
    rig.end_the_move()
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 7 * MB}


def while_written(rig: Rig, action: str, then: Callable[[], None]) -> None:
    """Somebody acts in the moment in which this intent goes on record, once."""
    write, left = rig.journal.write, [then]

    def written(entries: Any = (), **kwargs: Any) -> None:
        write(entries, **kwargs)
        if left and any((e.kind, e.action) == ("intent", action) for e in entries):
            left.pop()()

    rig.journal.write = written  # type: ignore[method-assign]


def test_rate_set_externally_during_restore_is_preserved() -> None:
    rig = raised()
    rig.end_the_move()
    while_written(rig, "restore", lambda: rig.throttles.rates.update({SOURCE: 7 * MB}))
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 7 * MB}
    assert [failure for _, failure in rig.observer.acts if failure] == [CHANGED_EXTERNALLY]
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 7 * MB}
    assert SOURCE in rig.loop.memory.externally_owned_until_ms


def test_lists_of_new_move_survive_cleanup() -> None:
    rig = raised()
    rig.end_the_move()
    theirs = {"orders": throttle(leader=[(4, 1)], follower=[(4, 2)])}
    while_written(rig, "clear_lists", lambda: rig.throttles.lists.update(theirs))
    rig.cycle()
    assert rig.throttles.lists["orders"] == theirs["orders"]
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}


def test_failed_list_clear_does_not_block_others() -> None:
    topics = [f"t{number:02d}" for number in range(WRITES_PER_CYCLE_MAX + 5)]
    moved = {(topic, 0): frozenset({1, 2, 3}) for topic in topics}
    rig = Rig(replace(RAISED, moving_replicas={**SEEN, **moved}))
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    rig.throttles.lists |= {topic: throttle(leader=[(0, 1)]) for topic in topics}
    rig.throttles.refusing |= dict.fromkeys(topics[:WRITES_PER_CYCLE_MAX], "missing right: AlterConfigs on Topic")
    rig.end_the_move()
    for _ in range(3):
        rig.cycle()
    assert {topic for topic in topics if rig.throttles.lists[topic]} == set(topics[:WRITES_PER_CYCLE_MAX])
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}


@pytest.mark.parametrize("over", ["expired", "cleared"])
def test_expired_override_restores_previous_rate(over: str) -> None:
    """The restore is needed without an objective too, where a rescue only raises; a later order does not prevent it."""
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    for rate in (8 * MB, 9 * MB):
        order = Override(rate, NOW_MS + 60_000, "an operator")
        rig.orders.latest = Orders(rate, overrides={SOURCE: order})
        assert Reason.OVERRIDDEN in rig.cycle()
        rig.run_ramps()
        assert rig.throttles.rates == {SOURCE: rate, TARGET: 10 * MB}
    rig.die_and_start_again()
    if over == "expired":
        rig.now_ms += 60_000
        assert Reason.RESTORED not in rig.cycle(), "nothing is raised on news of a minute ago"
        told_now(rig)
    else:
        rig.orders.latest = Orders(10 * MB)
    assert Reason.RESTORED in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert Reason.RESTORED not in rig.cycle()
    assert SOURCE not in rig.loop.memory.owned, "what stands is what stood before we came"


def told_now(rig: Rig) -> None:
    rig.signals.moves = {side: replace(told, sampled_at_ms=rig.now_ms) for side, told in rig.signals.moves.items()}
    rig.signals.brokers = {b: replace(told, sampled_at_ms=rig.now_ms) for b, told in rig.signals.brokers.items()}


def test_expired_override_without_signals_only_lowers() -> None:
    """Both sides were ordered away from 10 MB/s, one up and one down, and meanwhile nothing is heard of either any more."""
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    until = NOW_MS + 60_000
    rates = {SOURCE: 2 * MB, TARGET: 40 * MB}
    rig.orders.latest = Orders(1, overrides={side: Override(rate, until, "kim") for side, rate in rates.items()})
    rig.loop.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == rates
    rig.now_ms = until
    for _ in range(12):
        rig.loop.cycle()
        run_until(rig, rig.now_s + 5.0)
    assert rig.throttles.rates == {SOURCE: 2 * MB, TARGET: 10 * MB}
    assert [failure for _, failure in rig.observer.acts if failure] == [], "nor is its way down cut short"
    told_now(rig)
    rig.loop.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_missing_broker_is_reported_and_not_awaited() -> None:
    """Its part of the move was cancelled. When it is back, or another with its number, it gets what stood before."""
    rig = raised()
    rig.throttles.brokers.discard(TARGET[0])
    rate = rig.throttles.rates.pop(TARGET)  # It tells none while it is away, and has it all the same.
    rig.live.moves = ()
    for _ in range(4 + 2 * FULL_SCAN_EVERY):
        decisions = rig.loop.cycle()
    assert [d.text for d in decisions] == [
        "broker 3 follower throttle: rheostat's rate of 50.0 MB/s may still be set, because broker 3 is down: the tuner restores the earlier "
        "rate when the broker is back"
    ]
    assert sum(rig.live.looks[-2 * FULL_SCAN_EVERY :]) == 2, "everything is looked at as seldom as ever"
    rig.throttles.brokers.add(TARGET[0])
    rig.throttles.rates[TARGET] = rate
    for _ in range(3):
        rig.loop.cycle()
    assert TARGET not in rig.throttles.rates
    assert not rig.loop.memory.owned


def test_lowered_ceiling_lowers_managed_rate() -> None:
    """And nothing else: what a person has set above it is a person's."""
    rig = raised()
    rig.throttles.rates[TARGET] = 60 * MB
    rig.loop.cycle()
    rig.set_ceiling(30 * MB)
    reasons = rig.cycle()
    assert Reason.AT_CEILING in reasons
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 30 * MB, TARGET: 60 * MB}


def silent(rig: Rig) -> None:
    rig.now_ms += 30_000  # Old, and not so old that what was raised sinks anyway.


def gone_silent(rig: Rig) -> None:
    rig.signals.moves, rig.signals.brokers = {}, {}


@pytest.mark.parametrize("unheard", [silent, gone_silent])
def test_lowered_ceiling_applies_without_signals(unheard: Callable[[Rig], None]) -> None:
    rig = raised()
    rig.loop.cycle()
    rig.set_ceiling(30 * MB)
    unheard(rig)
    for _ in range(4):
        rig.loop.cycle()
        run_until(rig, rig.now_s + 5.0)
    assert rig.throttles.rates == {SOURCE: 30 * MB, TARGET: 30 * MB}
    assert [failure for _, failure in rig.observer.acts if failure] == []


def test_ceiling_does_not_lower_external_rate() -> None:
    rig = raised()
    rig.loop.recorder.memory = replace(RAISED, owned={SOURCE: owned(40 * MB, 50 * MB), TARGET: owned(10 * MB, 50 * MB)})
    rig.set_ceiling(30 * MB)
    rig.loop.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 40 * MB, TARGET: 30 * MB}


def test_isr_recovery_rate_follows_lowered_ceiling() -> None:
    rig, whole = recovering()
    assert rig.throttles.rates[SOURCE] == 50 * MB
    rig.set_ceiling(30 * MB)
    for _ in range(4):
        rig.loop.cycle()
        run_until(rig, rig.now_s + 5.0)
    assert rig.throttles.rates[SOURCE] == 30 * MB
    assert [failure for _, failure in rig.observer.acts if failure] == []
    rig.live.moves = (whole,)
    assert Reason.RESTORED in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 10 * MB


def test_isr_recovery_does_not_decay_without_signals() -> None:
    """Its leader is, and says so. What is not measured is not raised either."""
    rig = raised()
    (whole,) = rig.live.moves
    rig.live.moves = (replace(whole, isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    rig.signals.moves = {s: replace(m, sampled_at_ms=NOW_MS - 300_000) for s, m in rig.signals.moves.items()}
    for _ in range(6):
        rig.loop.cycle()
        run_until(rig, rig.now_s + 5.0)
    assert rig.throttles.rates[SOURCE] == 50 * MB


def test_late_shown_step_is_managed_after_new_order() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    order(rig, 50 * MB)
    rig.loop.cycle()
    run_until(rig, 5.0)
    before = rig.throttles.rates[SOURCE]
    run_until(rig, 5.25)
    newest = rig.throttles.rates[SOURCE]
    assert before < newest
    order(rig, 2 * MB)
    rig.loop.cycle()
    rig.throttles.rates[SOURCE] = before  # As it shows.
    assert Reason.OVERRIDDEN in rig.cycle()
    rig.throttles.rates[SOURCE] = newest
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 2 * MB
    assert Reason.EXTERNAL_CHANGE not in rig.cycle()


@pytest.mark.parametrize("steered", [True, False])
def test_cluster_wide_rate_is_preserved_after_override(steered: bool) -> None:
    memory = Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True)
    rig = Rig(memory, objective=Objective(latency_ms=50.0) if steered else None)
    rig.respect()
    rig.throttles.rates.clear()
    rig.throttles.default_rates.update({side[1]: 10 * MB for side in (SOURCE, TARGET)})
    order(rig, 20 * MB)
    rig.loop.cycle()
    rig.run_ramps()
    rig.orders.latest = Orders(at_ms=rig.now_ms + 1)
    assert Reason.RESTORED in rig.cycle()
    while rig.loop.memory.owned[SOURCE].possible_rates != (10 * MB,):
        run_until(rig, rig.now_s + 1.0)
    rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: STALLED})
    assert rig.cycle().count(Reason.PRESERVED) == 2
    rig.live.moves = ()
    for _ in range(5):
        rig.loop.cycle()
    assert rig.throttles.rates == {}, "nothing of ours is left"


def test_crash_after_restore_leaves_throttle_preserved() -> None:
    rig = Rig(Memory(stalls={3: WELL}, preexisting_rates={SOURCE: 10 * MB, TARGET: 10 * MB}))
    rig.respect()
    order(rig, 20 * MB)
    rig.loop.cycle()
    rig.run_ramps()
    rig.orders.latest = Orders(at_ms=rig.now_ms + 1)
    assert Reason.RESTORED in rig.cycle()
    rig.throttles.rates[SOURCE] = 10 * MB  # The last step of the ramp, which is not recorded.
    rig.die_and_start_again()
    rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: STALLED})
    assert rig.cycle().count(Reason.PRESERVED) == 2


def test_preserved_throttle_is_preserved_after_override() -> None:
    rig = Rig(
        Memory(
            stalls={3: WELL}, moving_replicas=SEEN, throttled=True, preexisting_rates={SOURCE: 10 * MB, TARGET: 10 * MB}
        )
    )
    rig.respect()
    assert rig.cycle().count(Reason.PRESERVED) == 2
    order(rig, 20 * MB)
    rig.loop.cycle()
    rig.run_ramps()
    rig.orders.latest = Orders(at_ms=rig.now_ms + 1)
    assert Reason.RESTORED in rig.cycle()
    rig.run_ramps()
    rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: STALLED})
    assert rig.cycle().count(Reason.PRESERVED) == 2
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_override_revoked_before_first_step_preserves_throttle() -> None:
    rig = Rig(Memory(preexisting_rates={SOURCE: 10 * MB, TARGET: 10 * MB}))
    rig.respect()
    moves, rig.live.moves = rig.live.moves, ()
    rig.loop.cycle()
    rig.live.moves, rig.now_s = moves, 1.0
    order(rig, 20 * MB)
    assert Reason.OVERRIDDEN in rig.cycle()
    rig.orders.latest = Orders(at_ms=rig.now_ms + 1)
    rig.loop.cycle()
    rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: STALLED})
    assert rig.cycle().count(Reason.PRESERVED) == 2
    assert not rig.loop.memory.owned


def test_cluster_wide_rate_is_preserved() -> None:
    """No tool sets the throttle of a move cluster-wide, so this rate did not come with one."""
    rig = Rig(Memory(stalls={3: STALLED}, moving_replicas=SEEN, throttled=True))
    rig.respect()
    rig.throttles.rates.clear()
    rig.throttles.default_rates.update({side[1]: 10 * MB for side in (SOURCE, TARGET)})
    assert rig.cycle().count(Reason.PRESERVED) == 2
    rig.run_ramps()
    assert rig.throttles.rates == {}


def test_isr_recovery_opens_throttle_until_replicas_return() -> None:
    """Without an objective, too. The tool's list names replica 2 as well, which was in sync and comes back through it."""
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    (whole,) = rig.live.moves
    rig.live.moves = (replace(whole, isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    assert Reason.ISR_RECOVERY in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 10 * MB}
    assert rig.cycle()[0] is Reason.ISR_RECOVERY
    assert rig.loop.next_due_s() is None
    rig.live.moves = (whole,)
    assert Reason.RESTORED in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert Reason.RESTORED not in rig.cycle()


def test_isr_recovery_does_not_wait_for_move_age() -> None:
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    (whole,) = rig.live.moves
    rig.live.moves = ()
    rig.cycle()
    rig.now_s, rig.live.moves = 1.0, (replace(whole, isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    assert Reason.ISR_RECOVERY in rig.cycle()
    assert rig.loop.next_due_s() == 1.0


def recovering() -> tuple[Rig, PartitionMove]:
    """As above, when it is open; and the move as it is when the replica is back."""
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    (whole,) = rig.live.moves
    rig.live.moves = (replace(whole, isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 50 * MB
    return rig, whole


def test_interrupted_return_from_isr_recovery_is_completed() -> None:
    rig, whole = recovering()
    rig.live.moves = (whole,)
    rig.cycle()
    for _ in range(4):
        rig.now_s += 0.5
        rig.loop.tick()
    assert 10 * MB < rig.throttles.rates[SOURCE] < 50 * MB
    rig.die_and_start_again()
    assert Reason.RESTORED in rig.cycle()
    rig.throttles.refusing[1] = "broker 1 is busy"
    rig.run_ramps()
    del rig.throttles.refusing[1]
    rig.now_s += 60.0
    assert Reason.RESTORED in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 10 * MB


def test_isr_recovery_stays_open_while_isr_is_unknown() -> None:
    """After a start nothing has been told yet, and the replica is still out."""
    rig, whole = recovering()
    told = rig.signals.brokers
    rig.die_and_start_again()
    rig.signals.brokers = {}
    assert Reason.RESTORED not in rig.cycle()
    assert rig.throttles.rates[SOURCE] == 50 * MB
    rig.signals.brokers = told
    assert Reason.ISR_RECOVERY in rig.cycle()
    # It is in sync again: who leads need not say so.
    rig.signals.brokers, rig.live.moves = {}, (whole,)
    assert Reason.RESTORED in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 10 * MB


def test_isr_recovery_ignores_stale_broker_signal() -> None:
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    rig.live.moves = (replace(rig.live.moves[0], isr=(1,)),)
    old = replace(rig.signals.brokers[1], under_min_isr_partitions=1.0, sampled_at_ms=NOW_MS - 300_000)
    rig.signals.brokers = {**rig.signals.brokers, 1: old}
    assert Reason.ISR_RECOVERY not in rig.cycle()


def test_isr_recovery_opens_follower_side_under_wildcard_list() -> None:
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    every = ThrottledReplicas(all_replicas=True)
    rig.throttles.lists = {"orders": TopicThrottle(every, every)}
    lost = (2, Side.FOLLOWER)
    rig.throttles.rates[lost] = 10 * MB
    (whole,) = rig.live.moves
    rig.live.moves = (replace(whole, isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    rig.cycle()
    rig.run_ramps()
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[lost]) == (50 * MB, 50 * MB)
    rig.live.moves = (whole,)
    rig.cycle()
    rig.run_ramps()
    assert (rig.throttles.rates[SOURCE], rig.throttles.rates[lost]) == (10 * MB, 10 * MB)


ASIDE = ((4, Side.LEADER), (2, Side.FOLLOWER))
BOTH_LAWS = pytest.mark.parametrize("objective", [None, Objective(latency_ms=50.0)], ids=["rescue", "law"])


class Aside:
    """A topic with a "*" that does not move, on brokers that no move touches; it takes no writes until its replica is back."""

    def __init__(self, objective: Objective | None = None) -> None:
        self.rig = rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True), objective=objective)
        every = ThrottledReplicas(all_replicas=True)
        rig.throttles.lists["payments"] = TopicThrottle(every, every)
        rig.throttles.brokers |= {4}
        rig.throttles.rates |= dict.fromkeys(ASIDE, 10 * MB)
        rig.live.beside = {4: frozenset(ASIDE)}
        self.told = rig.signals.brokers
        rig.signals.brokers = {**self.told, 4: replace(broker_signal(4), under_min_isr_partitions=1.0)}

    def rates(self) -> set[int | None]:
        return {self.rig.throttles.rates[side] for side in ASIDE}

    def back(self) -> None:
        self.rig.live.beside = {}
        self.rig.signals.brokers = {**self.told, 4: broker_signal(4)}

    def goes_on(self, steps: int = 50) -> None:
        """Cycle, and half seconds."""
        self.rig.loop.cycle()
        for _ in range(steps):
            self.rig.now_s += 0.5
            self.rig.loop.tick()

    def opened(self) -> Aside:
        self.goes_on()
        assert self.rates() == {50 * MB}
        return self


@BOTH_LAWS
def test_isr_recovery_opens_idle_broker_under_wildcard_list(objective: Objective | None) -> None:
    aside = Aside(objective).opened()
    aside.back()
    aside.goes_on()
    assert aside.rates() == {10 * MB}


@BOTH_LAWS
def test_override_limits_isr_recovery(objective: Objective | None) -> None:
    """On the way up it is let end first; then the order, and what stood before when that is over."""
    aside = Aside(objective)
    rig = aside.rig
    aside.goes_on(4)
    until_ms = NOW_MS + 3_600_000
    rig.orders.latest = Orders(overrides={side: Override(20 * MB, until_ms, "kim") for side in ASIDE})
    aside.goes_on()
    assert Reason.OVERRIDDEN in rig.cycle()
    aside.goes_on()
    assert aside.rates() == {20 * MB}
    aside.back()
    aside.goes_on()
    assert aside.rates() == {20 * MB}
    rig.orders.latest = Orders()
    aside.goes_on()
    assert aside.rates() == {10 * MB}


@BOTH_LAWS
def test_move_end_does_not_close_isr_recovery(objective: Objective | None) -> None:
    aside = Aside(objective).opened()
    rig = aside.rig
    rig.live.moves = ()
    for _ in range(6):
        aside.goes_on(4)
    assert aside.rates() == {50 * MB}
    assert rig.cycle().count(Reason.ISR_RECOVERY) == 2
    aside.back()
    for _ in range(3):
        aside.goes_on(4)
    assert aside.rates() == {10 * MB}
    assert not rig.loop.memory.owned


@BOTH_LAWS
def test_move_end_restores_rate_under_override(objective: Objective | None) -> None:
    """2 MB/s by order where 10 stood: that is no opening, and the end of the moves puts it back."""
    aside = Aside(objective)
    rig = aside.rig
    rig.orders.latest = Orders(overrides={side: Override(2 * MB, NOW_MS + 3_600_000, "kim") for side in ASIDE})
    for _ in range(2):
        aside.goes_on()
    assert aside.rates() == {2 * MB}
    rig.live.moves = ()
    for _ in range(4):
        aside.goes_on(4)
    assert aside.rates() == {10 * MB}


def test_move_end_keeps_isr_recovery_of_steering() -> None:
    """A side of the moves themselves: the law has raised it, and no record says what for."""
    rig = Rig(
        Memory(
            stalls={3: WELL},
            moving_replicas=SEEN,
            throttled=True,
            owned={SOURCE: OwnedRate(3 * MB, 10 * MB, (10 * MB,))},
        )
    )
    every = ThrottledReplicas(all_replicas=True)
    rig.throttles.lists["orders"] = TopicThrottle(every, every)
    told = rig.signals.brokers
    rig.signals.brokers = {**told, 1: replace(broker_signal(1), under_min_isr_partitions=1.0)}
    rig.live.moves, rig.live.beside = (), {1: frozenset({SOURCE})}
    for _ in range(5):
        reasons = rig.cycle()
    assert rig.throttles.rates[SOURCE] == 10 * MB
    assert reasons == [Reason.ISR_RECOVERY]
    rig.signals.brokers = told
    for _ in range(5):
        rig.cycle()
    assert rig.throttles.rates[SOURCE] == 3 * MB
    assert not rig.loop.memory.owned


def test_isr_recovery_holds_without_leader_signals() -> None:
    aside = Aside()
    rig = aside.rig
    aside.goes_on(4)
    (half,) = aside.rates()
    assert 10 * MB < (half or 0) < 50 * MB
    rig.signals.brokers = aside.told
    aside.goes_on()
    aside.goes_on()
    assert aside.rates() == {half}
    assert not rig.observer.acts, "that is no failure"
    aside.back()
    aside.goes_on()
    assert aside.rates() == {10 * MB}


def test_snapshot_reads_stationary_partitions_during_isr_recovery() -> None:
    aside = Aside()
    rig = aside.rig
    aside.goes_on()
    aside.goes_on()
    assert rig.live.waits == [frozenset(), {2, 4}], "the first look is the one that sees the moves"
    rig.signals.brokers = aside.told
    rig.cycle()
    assert rig.live.waits[-1] == {2, 4}
    aside.back()
    aside.goes_on()
    rig.cycle()
    assert rig.live.waits[-1] == frozenset()


def test_open_side_with_new_move_returns_to_its_rate() -> None:
    """With an objective: the law has nothing to go by yet, and the replica is back."""
    aside = Aside(Objective(latency_ms=50.0)).opened()
    aside.rig.live.moves = (*aside.rig.live.moves, PartitionMove("orders", 5, 4, (4, 2, 1), (2,), (1,), (4, 1)))
    aside.back()
    aside.goes_on()
    assert aside.rates() == {10 * MB}


def test_isr_recovery_ramp_ends_when_replica_returns() -> None:
    """Half of the way up is enough: what came back needs no more, and the moves would get it."""
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    (whole,) = rig.live.moves
    rig.live.moves = (replace(whole, isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    rig.cycle()
    for _ in range(6):
        rig.now_s += 0.5
        rig.loop.tick()
    half = rig.throttles.rates[SOURCE]
    assert 10 * MB < half < 50 * MB
    rig.cycle()
    assert rig.loop.next_due_s() is not None
    rig.live.moves = (whole,)
    rig.cycle()
    stopped = rig.throttles.rates[SOURCE]
    assert half <= stopped < 50 * MB
    assert not rig.observer.acts, "that is no failure"
    rig.now_s += 60.0
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 10 * MB


def test_return_from_isr_recovery_keeps_move_draining() -> None:
    """10 MB/s stood there, and by now 20 go to keeping up; when it is less again, the rest of the way is gone."""
    rig, whole = recovering()
    rig.live.moves = (whole,)
    told = rig.signals.moves
    rig.signals.moves = {**told, SOURCE: move_signal(*SOURCE, steady_state=20 * MB)}
    assert Reason.RESTORED in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 24 * MB
    assert Reason.RESTORED not in rig.cycle()
    rig.signals.moves = told
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 10 * MB


def test_return_from_isr_recovery_stops_when_more_is_needed() -> None:
    """Clients write more since it began: what it leads to would not drain."""
    rig, whole = recovering()
    rig.live.moves = (whole,)
    rig.cycle()
    rig.loop.tick()
    rig.signals.moves = {**rig.signals.moves, SOURCE: move_signal(*SOURCE, steady_state=20 * MB)}
    stood = rig.throttles.rates[SOURCE]
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == stood
    assert any("the move needs at least 24.0 MB/s now" in str(failure) for _, failure in rig.observer.acts)
    rig.now_s += 60.0
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 24 * MB


def test_return_from_isr_recovery_is_no_rescue() -> None:
    """An order of 1 MB/s has stalled the move; what stands after it is judged again before it is raised."""
    rig, whole = recovering()
    rig.live.moves = (whole,)
    rig = Rig(replace(rig.loop.memory, stalls={3: STALLED}))
    rig.throttles.rates[SOURCE] = 50 * MB
    assert Reason.RESTORED in rig.cycle()
    assert rig.loop.memory.rescued == frozenset()


def test_isr_recovery_ignores_stale_isr() -> None:
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    rig.live.moves = (replace(rig.live.moves[0], isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    rig.now_ms += 40_000
    assert Reason.ISR_RECOVERY not in rig.cycle()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


# -- saying ------------------------------------------------------------------------------------------------------------


def test_hold_is_recorded_once() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    for _ in range(3):
        assert rig.cycle() == [Reason.PROGRESSING] * 2
    assert rig.kinds("hold") == ["decision"] * 2


def test_hold_with_new_reason_is_recorded_again() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    rig.cycle()
    rig.signals.moves = {SOURCE: move_signal(*SOURCE, age_s=60), TARGET: rig.signals.moves[TARGET]}
    rig.cycle()
    assert [e.reason for e in rig.journal.entries if e.decision["side"] == "leader"] == ["progressing", "signals_stale"]


def test_diagnosis_state_alone_is_not_recorded() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    rig.cycle()
    saved = len(rig.journal.memories)
    rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: replace(WELL, lost_s=3.0)})
    rig.cycle()
    assert len(rig.journal.memories) == saved == 1


def test_unreadable_cluster_is_recorded_and_changes_nothing() -> None:
    rig = raised()
    rig.live.not_seen = "no broker answers"
    assert rig.cycle() == [Reason.CLUSTER_NOT_SEEN]
    assert rig.writes() == []
    assert rig.loop.memory.owned == RAISED.owned


# -- looking -----------------------------------------------------------------------------------------------------------


def test_full_scan_runs_regularly() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    for _ in range(2 * FULL_SCAN_EVERY):
        rig.cycle()
    assert rig.live.looks == ([True] + [False] * (FULL_SCAN_EVERY - 1)) * 2


def test_cleanup_needs_full_scan() -> None:
    rig = raised()
    rig.cycle()
    rig.end_the_move()
    rig.cycle()
    assert rig.live.looks[:3] == [True, False, True]


def test_new_move_stops_cleanup() -> None:
    """Between the look and the act the operator has started the next batch on the same topics."""
    rig = raised()
    rig.end_the_move()
    look = rig.live.snapshot

    def next_batch(
        *, full: bool, extra_topics: Collection[str] = (), waiting_brokers: Collection[int] = ()
    ) -> LiveCluster | ClusterUnreadable:
        found = look(full=full, extra_topics=extra_topics, waiting_brokers=waiting_brokers)
        rig.live.moves = live().moves
        return found

    rig.live.snapshot = next_batch  # type: ignore[method-assign]
    rig.cycle()
    assert rig.writes() == []
    assert set(rig.loop.memory.owned) == {SOURCE, TARGET}


def test_cleanup_preserves_rate_changed_since_snapshot() -> None:
    rig = raised()
    rig.end_the_move()
    look = rig.live.snapshot

    def somebody_is_quicker(
        *, full: bool, extra_topics: Collection[str] = (), waiting_brokers: Collection[int] = ()
    ) -> LiveCluster | ClusterUnreadable:
        found = look(full=full, extra_topics=extra_topics, waiting_brokers=waiting_brokers)
        rig.throttles.rates[SOURCE] = 7 * MB
        return found

    rig.live.snapshot = somebody_is_quicker  # type: ignore[method-assign]
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 7 * MB}


def test_cleanup_preserves_list_changed_since_snapshot() -> None:
    """The next plan has written its lists, and is about to submit its moves."""
    rig = raised()
    rig.end_the_move()
    look = rig.live.snapshot

    def next_plan(
        *, full: bool, extra_topics: Collection[str] = (), waiting_brokers: Collection[int] = ()
    ) -> LiveCluster | ClusterUnreadable:
        found = look(full=full, extra_topics=extra_topics, waiting_brokers=waiting_brokers)
        rig.throttles.lists |= {"orders": throttle(leader=[(0, 2)], follower=[(0, 1)])}
        return found

    rig.live.snapshot = next_plan  # type: ignore[method-assign]
    rig.cycle()
    assert rig.writes() == []


def test_rates_stay_while_failed_list_awaits_retry() -> None:
    rig = raised()
    rig.end_the_move()
    rig.throttles.refusing["orders"] = "missing right: AlterConfigs on Topic"
    for _ in range(3):  # Within the pause after the failure.
        rig.cycle()
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}


def test_failed_write_backs_off() -> None:
    rig = Rig()
    rig.throttles.refusing = {1: "missing right", 3: "missing right"}
    tries = []
    for _ in range(60):
        rig.cycle()
        rig.loop.tick()
        tries.append(len([e for e in rig.journal.entries if e.kind == "intent"]))
        rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: STALLED})
        rig.now_s += 5.0
    assert tries[0] == 2
    assert tries[-1] <= 2 * 8, "five minutes of a missing right are a handful of tries, not sixty"


def test_stopped_ramp_leaves_only_its_last_rate_possible() -> None:
    """The tuner restarts during a ramp; then an operator sets the rate from before the ramp."""
    steps = (10 * MB, 20 * MB, 30 * MB, 50 * MB)
    rig = Rig(replace(RAISED, owned={SOURCE: owned(10 * MB, 50 * MB, *steps), TARGET: owned(10 * MB, 50 * MB, *steps)}))
    rig.throttles.rates.update({SOURCE: 20 * MB, TARGET: 20 * MB})
    rig.cycle()
    assert rig.loop.memory.owned[SOURCE].possible_rates == (20 * MB,)
    rig.throttles.rates[SOURCE] = 10 * MB
    assert isinstance(rig.loop.cycle()[0], Relinquish)
    assert rig.throttles.rates[SOURCE] == 10 * MB


# -- dry run -----------------------------------------------------------------------------------------------------------


def test_dry_run_decides_and_records_without_writing() -> None:
    rig = Rig(dry_run=True)
    assert rig.cycle() == [Reason.STALLED_THROTTLE_BOUND] * 2
    rig.run_ramps()
    assert rig.writes() == []
    assert rig.loop.memory.owned == {}
    assert [(e.kind, e.dry_run) for e in rig.journal.entries if e.action == "set"] == [("intent", True)] * 2


def test_dry_run_cleanup_writes_nothing() -> None:
    rig = Rig(replace(RAISED, owned={}), dry_run=True)
    rig.end_the_move()
    rig.cycle()
    assert rig.writes() == []
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


# -- what is wrong today -----------------------------------------------------------------------------------------------


def test_dry_run_keeps_memory_of_real_run() -> None:
    """The tuner is killed during a ramp; a dry run follows, the move ends, and the tuner returns."""
    rig = Rig(RAISED, dry_run=True)
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    rig.end_the_move()
    rig.cycle()
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}
    assert rig.journal.memories == [], "what the real run has on record stays as it is"


@pytest.mark.parametrize("ended", [False, True])
def test_dry_run_records_decision_once(ended: bool) -> None:
    rig = Rig(replace(RAISED, owned={}, stalls={3: STALLED}), dry_run=True)
    if ended:
        rig.end_the_move()
    rig.cycle()
    told = len(rig.journal.entries)
    rig.cycle()
    assert told > 0
    assert len(rig.journal.entries) == told


@pytest.mark.parametrize("lost", ["the journal goes between write and outcome", "written, but not read back"])
def test_own_restore_is_no_external_change(lost: str) -> None:
    rig = raised()
    rig.throttles.lists |= {"orders": throttle(leader=[(7, 1)])}  # A standing throttle: 10 is put back.
    rig.end_the_move()
    if lost.startswith("the journal"):
        rig.journal.refusing_kinds = frozenset({"outcome"})
    else:
        confirm = rig.throttles.confirm_rates
        rig.throttles.confirm_rates = lambda rates: dict.fromkeys(rates, "written, but not read back")  # type: ignore[method-assign,assignment,misc]
    rig.cycle()
    assert rig.throttles.rates[SOURCE] == 10 * MB
    rig.journal.refusing_kinds = frozenset()
    if not lost.startswith("the journal"):
        rig.throttles.confirm_rates = confirm  # type: ignore[method-assign]
    assert [d for d in rig.loop.cycle() if isinstance(d, Relinquish)] == []


@pytest.mark.parametrize("value", ["what stood before", "an earlier step"])
def test_external_stop_by_earlier_ramp_value_is_preserved(value: str) -> None:
    rig = Rig()
    rig.cycle()
    rig.loop.tick()
    first_step = rig.throttles.rates[SOURCE]
    for _ in range(3):
        rig.now_s += 0.5
        rig.loop.tick()
    theirs = 10 * MB if value == "what stood before" else first_step
    rig.throttles.rates[SOURCE] = theirs
    rig.now_s += 0.5
    rig.loop.tick()  # Here the ramp sees it, and stops.
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == theirs


def test_inherited_throttle_can_be_raised() -> None:
    rig = Rig()
    rig.throttles.rates.clear()
    rig.throttles.default_rates = {Side.LEADER: 10 * MB, Side.FOLLOWER: 10 * MB}
    rig.cycle()
    rig.run_ramps()
    assert [d for d in rig.loop.cycle() if isinstance(d, Relinquish)] == []
    assert rig.throttles.rates == {SOURCE: 50 * MB, TARGET: 50 * MB}


def test_each_cluster_outage_is_recorded() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    for not_seen in ("first outage", None, "second outage"):
        rig.live.not_seen = not_seen
        rig.cycle()
    told = [e.text for e in rig.journal.entries if e.reason == Reason.CLUSTER_NOT_SEEN.value]
    assert [text.split(": ")[-1] for text in told] == ["first outage", "second outage"]


def test_unrecorded_hold_is_recorded_later() -> None:
    rig = Rig(Memory(stalls={3: WELL}))
    rig.journal.refusing_kinds = frozenset({"decision"})
    rig.cycle()
    rig.journal.refusing_kinds = frozenset()
    rig.cycle()
    assert rig.kinds("hold") == ["decision"] * 2


def test_decision_kinds_of_tests_exist() -> None:
    """Guards the rig: a stalled move gives two raises, its end takes both back."""
    rig = Rig()
    assert [type(d) for d in rig.loop.cycle()] == [SetRate, SetRate]
    rig.run_ramps()
    rig.end_the_move()
    assert [type(d).__name__ for d in rig.loop.cycle()] == ["ClearLists", "RestoreRate", "RestoreRate"]
    assert not [d for d in rig.loop.cycle() if isinstance(d, RestoreRate | Hold)]


# -- an override of a move that has just begun ---------------------------------------------------------------------------


def just_begun(rate_bytes_per_s: int) -> Rig:
    """A move has just begun, and an operator orders another rate for its source."""
    rig = Rig(Memory())
    moves, rig.live.moves = rig.live.moves, ()
    rig.throttles.lists.clear()
    rig.loop.cycle()
    rig.live.moves, rig.now_s = moves, rig.now_s + 5.0
    order(rig, rate_bytes_per_s)
    rig.loop.cycle()
    return rig


def order(rig: Rig, rate_bytes_per_s: int) -> None:
    rig.orders.latest = Orders(
        at_ms=rig.now_ms, overrides={SOURCE: Override(rate_bytes_per_s, rig.now_ms + 600_000, "kim@desk")}
    )


def test_raise_of_young_move_waits_for_window_age() -> None:
    rig = just_begun(20 * MB)
    due_s = rig.loop.next_due_s()
    assert due_s is not None
    assert due_s - rig.now_s == pytest.approx(WINDOW_S + STARTING_S - 5.0)
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 20 * MB


def test_new_override_does_not_wait_for_pending_raise() -> None:
    rig = just_begun(20 * MB)
    order(rig, 4 * MB)
    rig.loop.cycle()
    assert outcomes(rig) == ["the order has changed or ended"]
    assert rig.observer.acts == [], "nothing has failed"
    rig.loop.cycle()
    assert rig.loop.next_due_s() == rig.now_s  # Down it goes at once.
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 4 * MB


def test_override_expired_before_first_step_does_not_begin() -> None:
    rig = just_begun(20 * MB)
    rig.orders.latest = Orders(at_ms=rig.now_ms)
    rig.loop.cycle()
    assert outcomes(rig) == ["the order has changed or ended"]
    assert rig.loop.next_due_s() is None
    assert rig.throttles.rates[SOURCE] == 10 * MB


def outcomes(rig: Rig) -> list[str | None]:
    return [entry.failure for entry in rig.journal.entries if entry.kind == "outcome"]


def run_until(rig: Rig, at_s: float) -> None:
    while (due_s := rig.loop.next_due_s()) is not None and due_s <= at_s:
        rig.now_s = due_s
        rig.loop.tick()
    rig.now_s = at_s


@pytest.mark.parametrize("by_order", [True, False])
def test_lower_override_does_not_wait_for_raise(by_order: bool) -> None:
    """A ramp, of a rescue or an order, is halfway from 10 MB/s to 50 when an operator orders 2."""
    rig = Rig(Memory(stalls={3: WELL}) if by_order else None)
    if by_order:
        order(rig, 50 * MB)
    rig.loop.cycle()
    run_until(rig, 5.5)
    stood = rig.throttles.rates[SOURCE]
    assert 25 * MB < stood < 35 * MB
    order(rig, 2 * MB)
    rig.loop.cycle()
    assert rig.loop.cycle()[0].reason is Reason.OVERRIDDEN
    most = stood
    while rig.loop.next_due_s() is not None:
        run_until(rig, rig.now_s + 0.25)
        most = max(most, rig.throttles.rates[SOURCE])
    assert (rig.throttles.rates[SOURCE], most) == (2 * MB, stood)


def test_isr_recovery_does_not_wait_for_lowering_ramp() -> None:
    """An order of 50 MB/s is over, and the throttle on its way back to 10."""
    rig = Rig(Memory(stalls={3: WELL}, moving_replicas=SEEN, throttled=True))
    (whole,) = rig.live.moves
    order(rig, 50 * MB)
    rig.loop.cycle()
    rig.run_ramps()
    rig.orders.latest = Orders(at_ms=rig.now_ms + 1)
    assert Reason.RESTORED in rig.cycle()
    run_until(rig, rig.now_s + 5.0)
    stood = rig.throttles.rates[SOURCE]
    assert 20 * MB < stood < 40 * MB
    rig.live.moves = (replace(whole, isr=(1,)),)
    rig.signals.brokers = {**rig.signals.brokers, 1: replace(rig.signals.brokers[1], under_min_isr_partitions=1.0)}
    rig.loop.cycle()
    assert Reason.ISR_RECOVERY in rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 50 * MB
    rig.live.moves = (whole,)
    rig.loop.cycle()
    rig.run_ramps()
    assert rig.throttles.rates[SOURCE] == 10 * MB, "what stood before both"


def test_stall_after_leader_change_does_not_wait() -> None:
    """The move is of an hour ago, and led by another broker since the last look."""
    rig = Rig()
    moves, rig.live.moves = rig.live.moves, ()
    rig.loop.cycle()
    rig.now_s, rig.live.moves = 1.0, moves
    rig.loop.recorder.memory = replace(rig.loop.memory, stalls={3: STALLED})
    assert Reason.STALLED_THROTTLE_BOUND in rig.cycle()
    assert rig.loop.next_due_s() == 1.0
