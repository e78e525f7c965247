"""Tests the decisions about limits of copies between log directories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from log_dir_cases import BROKER, POLICY, copying_signal, log_dir_copy, log_dir_view
from tuner_cases import NOW_MS

from tuner.control.log_dir.decision import (
    HoldLogDirRate,
    LogDirDecision,
    LogDirReason,
    RelinquishLogDirRate,
    RestoreLogDirRate,
    SetLogDirRate,
)
from tuner.control.log_dir.model import LogDirMemory, LogDirPolicy, LogDirView
from tuner.control.log_dir.policy import decide_log_dirs, note_log_dir_intent, note_log_dir_outcome
from tuner.control.log_dir.reason_texts import LOG_DIR_REASON_TEXTS
from tuner.control.throttle.state import OwnedRate
from tuner.core.cluster import ClusterUnreadable
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB

NOTHING = LogDirMemory()
PAUSED = Orders(at_ms=NOW_MS, pause=Pause(NOW_MS, "kim@desk"))
RELEASED = Orders(at_ms=NOW_MS, pause=Pause(NOW_MS, "kim@desk", released=True))


def owning(rate: float = 20 * MB, before: int | None = None) -> LogDirMemory:
    owned = OwnedRate(before_bytes_per_s=before, setpoint_bytes_per_s=round(rate), possible_rates=(round(rate),))
    return LogDirMemory(owned={BROKER: owned})


def decided(
    view: LogDirView, memory: LogDirMemory = NOTHING, policy: LogDirPolicy = POLICY
) -> tuple[LogDirMemory, LogDirDecision | None]:
    step = decide_log_dirs(view, memory, policy)
    assert len(step.decisions) <= 1
    return step.memory, step.decisions[0] if step.decisions else None


def test_copy_without_limit_gets_one_from_its_traffic() -> None:
    _, decision = decided(log_dir_view(None, copying_signal(80.0 * MB)))
    assert isinstance(decision, SetLogDirRate)
    assert (decision.current_bytes_per_s, decision.setpoint_bytes_per_s, decision.reason) == (
        None, 40 * MB, LogDirReason.COPY_FOUND,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "rate", "reason"),
    [
        (replace(POLICY, objective=None), 20 * MB, LogDirReason.NO_OBJECTIVE),
        (replace(POLICY, objective=None), None, LogDirReason.NO_OBJECTIVE),
        (replace(POLICY, adopts_existing=False), 20 * MB, LogDirReason.PRESERVED),
        (replace(POLICY, limits_all_copies=False), None, LogDirReason.NOT_THROTTLED),
    ],
)
def test_settings_that_leave_the_limit_alone_hold(
    policy: LogDirPolicy, rate: float | None, reason: LogDirReason
) -> None:
    _, decision = decided(log_dir_view(rate, copying_signal()), policy=policy)
    assert isinstance(decision, HoldLogDirRate)
    assert decision.reason is reason


def test_orders_pause_holds_and_release_restores() -> None:
    memory, decision = decided(log_dir_view(20 * MB, copying_signal(), orders=PAUSED), owning())
    assert isinstance(decision, HoldLogDirRate)
    assert memory.owned
    _, decision = decided(log_dir_view(20 * MB, copying_signal(), orders=RELEASED), owning(before=7 * MB))
    assert isinstance(decision, RestoreLogDirRate)
    assert (decision.value_bytes_per_s, decision.reason) == (7 * MB, LogDirReason.RELEASED)


def test_ended_copies_restore_after_the_second_read_without_copies() -> None:
    memory, decision = decided(log_dir_view(20 * MB, copying_signal()), owning(before=7 * MB))
    memory, decision = decided(log_dir_view(20 * MB, copies=()), memory)
    assert decision is None
    memory, decision = decided(log_dir_view(20 * MB, copies=()), memory)
    assert isinstance(decision, RestoreLogDirRate)
    assert (decision.found_bytes_per_s, decision.value_bytes_per_s) == (20 * MB, 7 * MB)
    assert decision.reason is LogDirReason.COPIES_ENDED
    assert not memory.histories
    assert not note_log_dir_outcome(note_log_dir_intent(memory, decision), decision).watched_brokers


def test_new_copy_after_one_read_without_copies_keeps_the_limit() -> None:
    memory, _ = decided(log_dir_view(20 * MB, copies=()), owning())
    memory, decision = decided(log_dir_view(20 * MB, copying_signal(10.0 * MB)), memory)
    assert isinstance(decision, HoldLogDirRate)
    memory, decision = decided(log_dir_view(20 * MB, copies=()), memory)
    assert decision is None


def test_external_change_is_left_alone_until_the_hold_ends_or_a_resume() -> None:
    memory, decision = decided(log_dir_view(33 * MB, copying_signal()), owning())
    assert isinstance(decision, RelinquishLogDirRate)
    assert not memory.owned
    held, decision = decided(log_dir_view(33 * MB, copying_signal()), memory)
    assert isinstance(decision, HoldLogDirRate)
    assert decision.reason is LogDirReason.EXTERNALLY_OWNED
    later = NOW_MS + round(POLICY.external_change_hold_s * 1000) + 1
    signal = replace(copying_signal(33.0 * MB), sampled_at_ms=later)
    assert isinstance(decided(log_dir_view(33 * MB, signal, now_ms=later), held)[1], SetLogDirRate)
    resumed = Orders(at_ms=NOW_MS + 1, resumed_at_ms=NOW_MS + 1)
    assert isinstance(decided(log_dir_view(33 * MB, copying_signal(33.0 * MB), orders=resumed), held)[1], SetLogDirRate)


def test_limit_removed_with_the_copies_is_forgotten() -> None:
    memory, decision = decided(log_dir_view(None, copies=()), owning())
    assert (decision, memory.owned, memory.externally_owned_until_ms) == (None, {}, {})


def test_settings_without_objective_restore_a_managed_limit() -> None:
    _, decision = decided(log_dir_view(20 * MB, copying_signal()), owning(), replace(POLICY, objective=None))
    assert isinstance(decision, RestoreLogDirRate)
    assert decision.reason is LogDirReason.NOT_CONFIGURED


@pytest.mark.parametrize(("age_s", "decays"), [(14.0, False), (20.0, False), (40.0, True)])
def test_old_signal_holds_and_then_decays_to_the_minimum(age_s: float, decays: bool) -> None:
    memory, view = owning(), log_dir_view(20 * MB, copying_signal(2.0 * MB, age_s=age_s))
    _, decision = decided(view, memory)
    if decays:
        assert isinstance(decision, SetLogDirRate)
        assert decision.reason is LogDirReason.STALE_DECAY
        assert 5 * MB <= decision.setpoint_bytes_per_s < 20 * MB
    else:
        assert isinstance(decision, HoldLogDirRate)
    assert isinstance(decided(log_dir_view(5 * MB, view.signals[BROKER]), owning(5 * MB))[1], HoldLogDirRate)


def test_old_signal_changes_no_limit_that_is_not_managed() -> None:
    for signal in (None, copying_signal(age_s=100.0)):
        for rate in (None, 50 * MB):
            assert isinstance(decided(log_dir_view(rate, signal))[1], HoldLogDirRate)


def test_one_signal_counts_once() -> None:
    view = log_dir_view(20 * MB, copying_signal())
    memory, decision = decided(view, owning())
    assert isinstance(decision, SetLogDirRate)
    memory = note_log_dir_outcome(note_log_dir_intent(memory, decision), decision)
    _, decision = decided(log_dir_view(decision.setpoint_bytes_per_s, copying_signal(), now_ms=NOW_MS + 5_000), memory)
    assert isinstance(decision, HoldLogDirRate)
    assert decision.reason is LogDirReason.SETTLING


def test_inherited_limit_is_changed_on_the_broker_and_removed_afterwards() -> None:
    _, decision = decided(log_dir_view(20 * MB, copying_signal(), is_set_on_broker=False))
    assert isinstance(decision, SetLogDirRate)
    assert (decision.current_bytes_per_s, decision.found_bytes_per_s) == (20 * MB, None)
    memory = note_log_dir_intent(LogDirMemory(), decision)
    assert memory.owned[BROKER].before_bytes_per_s is None
    assert memory.owned[BROKER].possible_rates == (None, decision.setpoint_bytes_per_s)


def test_writes_as_fast_as_the_ceiling_are_reported_as_infeasible() -> None:
    view = log_dir_view(100 * MB, copying_signal(100.0 * MB))
    memory, _ = decided(view)
    grown = (log_dir_copy(size=3000 * MB),)
    signal = replace(copying_signal(100.0 * MB), sampled_at_ms=NOW_MS + 5_000)
    _, decision = decided(log_dir_view(100 * MB, signal, grown, now_ms=NOW_MS + 5_000), memory)
    assert decision is not None
    assert decision.reason is LogDirReason.INFEASIBLE


def test_unreadable_broker_holds_and_keeps_what_is_managed() -> None:
    view = LogDirView(NOW_MS, {BROKER: ClusterUnreadable("no answer"), 4: ClusterUnreadable("no answer")}, {})
    memory, decision = decided(view, owning())
    assert memory.owned
    assert isinstance(decision, HoldLogDirRate)
    assert decision.broker == BROKER


def test_failed_write_keeps_old_and_new_limit_as_own() -> None:
    change = SetLogDirRate(BROKER, 20 * MB, 25 * MB, LogDirReason.CLIENTS_WELL, "text")
    memory = note_log_dir_intent(owning(), change)
    for rate in (20 * MB, 25 * MB):
        after, _ = decided(log_dir_view(rate, copying_signal()), memory)
        assert after.owned
    assert note_log_dir_outcome(memory, change).owned[BROKER].possible_rates == (25 * MB,)


def test_each_reason_has_a_text() -> None:
    assert set(LOG_DIR_REASON_TEXTS) == set(LogDirReason)
