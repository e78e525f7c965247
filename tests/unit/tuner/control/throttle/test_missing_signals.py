"""A cycle that lacked signals is followed by another as soon as they arrive."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_rig import Rig
from tuner_cases import NOW_MS, SOURCE, TARGET, move, move_signal

from streaming.shared.contract import MoveSignal
from tuner.control.throttle.decision import Decision, Hold, Reason
from tuner.control.throttle.missing_signals import are_signals_complete, find_missing_signals
from tuner.control.throttle.objective import Objective
from tuner.core.operator_orders import Orders, Pause
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.throttle_limits import MB
from tuner.runtime.throttle.cycle_scheduler import EARLY_PER_REGULAR, FULL_SCAN_EVERY

AGE_S_MAX = 15.0
MISSING: list[Decision] = [
    Hold(*SOURCE, Reason.SIGNALS_MISSING, "sizes are not measured yet"),
    Hold(*TARGET, Reason.SIGNALS_MISSING, "sizes are not measured yet"),
]
ONCE = {SOURCE: move_signal(*SOURCE, steady_state=None), TARGET: move_signal(*TARGET, steady_state=None)}
TWICE = {SOURCE: move_signal(*SOURCE), TARGET: move_signal(*TARGET)}


def test_signals_are_complete_after_the_second_measurement() -> None:
    sides = find_missing_signals(MISSING, ONCE, NOW_MS, AGE_S_MAX)
    assert sides == {SOURCE, TARGET}
    assert not are_signals_complete(sides, ONCE, NOW_MS, AGE_S_MAX)
    assert are_signals_complete(sides, TWICE, NOW_MS, AGE_S_MAX)


def test_signals_of_one_side_of_two_are_incomplete() -> None:
    sides = find_missing_signals(MISSING, {}, NOW_MS, AGE_S_MAX)
    assert not are_signals_complete(sides, {**ONCE, SOURCE: move_signal(*SOURCE)}, NOW_MS, AGE_S_MAX)


def test_missing_signals_exclude_complete_contradictions() -> None:
    doubted: list[Decision] = [Hold(*SOURCE, Reason.SIGNALS_CONTRADICT, "more is sent than passes the network")]
    assert find_missing_signals(doubted, TWICE, NOW_MS, AGE_S_MAX) == frozenset()


@pytest.mark.parametrize(
    ("reason", "signal"),
    [(Reason.SIGNALS_CONTRADICT, move_signal(*SOURCE, moving=0)), (Reason.SIGNALS_STALE, move_signal(*SOURCE, age_s=20.0))],
    ids=["no move", "old"],
)  # fmt: skip
def test_missing_signals_include_old_ones_and_those_without_a_move(reason: Reason, signal: MoveSignal) -> None:
    sides = find_missing_signals([Hold(*SOURCE, reason, "")], {SOURCE: signal}, NOW_MS, AGE_S_MAX)
    assert sides == {SOURCE}
    assert not are_signals_complete(sides, {SOURCE: signal}, NOW_MS, AGE_S_MAX)


def test_missing_signals_exclude_holds_with_other_reasons() -> None:
    others: list[Decision] = [
        Hold(*SOURCE, Reason.BROKER_DOWN, "not alive"),
        Hold(None, None, Reason.NO_LEADER, "no leader"),
    ]
    assert find_missing_signals(others, {}, NOW_MS, AGE_S_MAX) == frozenset()
    assert not are_signals_complete(frozenset(), TWICE, NOW_MS, AGE_S_MAX)


def test_cycle_is_due_once_all_signals_are_complete() -> None:
    rig = Rig(objective=Objective(50.0))
    rig.signals.moves = ONCE
    rig.cycle()
    assert not rig.loop.cycle_is_due()
    rig.signals.moves = {SOURCE: move_signal(*SOURCE), TARGET: move_signal(*TARGET, steady_state=3 * MB)}
    assert rig.loop.cycle_is_due()
    assert Reason.FOLLOWS_CLIENTS in rig.cycle()
    assert not rig.loop.cycle_is_due()


def test_cycle_without_objective_does_not_start_early() -> None:
    rig = Rig()
    rig.signals.moves = ONCE
    rig.cycle()
    rig.signals.moves = {SOURCE: move_signal(*SOURCE), TARGET: move_signal(*TARGET, steady_state=3 * MB)}
    assert not rig.loop.cycle_is_due()


# -- a person's word --------------------------------------------------------------------------------------------------


def test_order_starts_a_cycle_within_seconds() -> None:
    rig = Rig()
    rig.cycle()
    given = Orders(NOW_MS, pause=Pause(NOW_MS, "me"))
    rig.orders.coming.append(given)
    rig.now_s += 0.5
    assert not rig.loop.cycle_is_due(), "the cycle before is rested for"
    rig.now_s += 1.0
    assert rig.loop.cycle_is_due()
    looks = len(rig.live.looks)
    rig.cycle()
    assert rig.observer.cycles[-1][0].orders == given
    assert not any(rig.live.looks[looks:]), "cycles that look at everything come in their own time"
    rig.now_s += 2.0
    assert not rig.loop.cycle_is_due(), "it has been acknowledged"


def test_order_does_not_hurry_the_check_of_missing_rates() -> None:
    """A tool that takes rates off one by one would else be taken for a person."""
    rig = Rig()
    rig.cycle()
    rig.loop.recorder.memory = replace(rig.loop.memory, missing_rates=frozenset({TARGET}))
    rig.orders.coming.append(Orders(NOW_MS, pause=Pause(NOW_MS, "me")))
    rig.now_s += 2.0
    assert not rig.loop.cycle_is_due()


def test_order_does_not_hurry_the_cleanup_between_batches() -> None:
    """Three looks in a row find none: it is their time that counts."""
    rig = Rig()
    rig.cycle()
    rig.live.moves = ()
    rig.now_s += 5.0
    rig.cycle()
    assert rig.loop.memory.idle_snapshots == 1
    rig.orders.coming.append(Orders(NOW_MS, pause=Pause(NOW_MS, "me")))
    rig.now_s += 2.0
    assert not rig.loop.cycle_is_due()


def test_early_cycles_keep_the_interval_of_full_scans() -> None:
    rig, announcing = Rig(), PrepareHandshake()
    rig.loop.connect_plans(dict, announcing)
    rig.cycle()
    looks = len(rig.live.looks)
    for _ in range(FULL_SCAN_EVERY * EARLY_PER_REGULAR):
        announcing.submit([replace(move(), partition=5)])
        rig.now_s += 1.0
        assert rig.loop.cycle_is_due()
        rig.cycle()
    assert sum(rig.live.looks[looks:]) == 1
