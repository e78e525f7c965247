"""Vetoes of external checks hold raises and lower throttles, and never raise one or delay a repair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import (
    LIMITS,
    NOW_MS,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    WELL,
    broker_signal,
    live,
    move,
    observation,
    owned,
)

from tuner.control.throttle.decision import AllowSteering, Decision, Hold, Reason, SetRate
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.control.throttle.superseded import find_vetoed_changes
from tuner.core.operator_orders import Orders, Override
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.core.vetoes import Veto, lowest_rate_bytes_per_s, vetoes_text

HOLDS = Veto("error-budget", "its value 0.8 is above 0.5")
LOWERS = Veto("backup", "it answers veto: true", 4 * MB)
STALLED_MOVE = Memory(stalls={3: STALLED})
STEERS = replace(LIMITS, closed_loop=True)


def decided(
    memory: Memory = STALLED_MOVE, limits: ThrottleLimits = LIMITS, cluster: Any = None, **more: Any
) -> list[Decision]:
    seen = replace(observation(cluster or live()), **more)
    return [d for d in decide(seen, memory, limits, STALL)[1] if getattr(d, "broker", None) is not None]


def reasons(decisions: list[Decision]) -> set[Reason]:
    return {decision.reason for decision in decisions}


def test_held_raise_names_the_check_and_its_answer() -> None:
    assert all(isinstance(d, SetRate) for d in decided())
    held = decided(vetoes=(HOLDS,))
    assert reasons(held) == {Reason.VETOED}
    assert all(isinstance(d, Hold) for d in held)
    assert "not raised: veto error-budget: its value 0.8 is above 0.5" in held[0].text


def test_veto_changes_nothing_while_the_move_progresses() -> None:
    assert reasons(decided(Memory(stalls={3: WELL}), vetoes=(HOLDS,))) == {Reason.PROGRESSING}


def test_control_law_may_not_raise_under_a_veto() -> None:
    assert all(isinstance(d, AllowSteering) for d in decided(limits=STEERS))
    assert reasons(decided(limits=STEERS, vetoes=(HOLDS,))) == {Reason.VETOED}


def test_lowering_veto_sets_its_rate_on_both_sides() -> None:
    lowered = decided(Memory(stalls={3: WELL}), vetoes=(HOLDS, LOWERS))
    assert [(d.reason, d.setpoint_bytes_per_s) for d in lowered if isinstance(d, SetRate)] == [
        (Reason.VETOED, 4 * MB)
    ] * 2
    assert "broker 1 leader throttle 10.0 MB/s → 4.00 MB/s: veto backup" in lowered[0].text


def test_lowering_veto_needs_no_measurement() -> None:
    """The law judges no side without signals, and a service that needs the bandwidth cannot wait for them."""
    assert reasons(decided(limits=STEERS, move_signals={})) == {Reason.SIGNALS_MISSING}
    lowered = decided(limits=STEERS, move_signals={}, vetoes=(LOWERS,))
    assert [(d.reason, d.setpoint_bytes_per_s) for d in lowered if isinstance(d, SetRate)] == [
        (Reason.VETOED, 4 * MB)
    ] * 2
    assert reasons(decided(limits=STEERS, move_signals={}, vetoes=(HOLDS,))) == {Reason.SIGNALS_MISSING}
    low = live({SOURCE: 3 * MB, TARGET: 4 * MB})
    assert reasons(decided(limits=STEERS, cluster=low, move_signals={}, vetoes=(LOWERS,))) == {Reason.SIGNALS_MISSING}


def test_lowering_veto_leaves_lower_rates_alone() -> None:
    low = live({SOURCE: 3 * MB, TARGET: 4 * MB})
    assert not [d for d in decided(cluster=low, vetoes=(LOWERS,)) if isinstance(d, SetRate)]


def test_override_of_an_operator_precedes_a_veto() -> None:
    orders = Orders(overrides={SOURCE: Override(20 * MB, NOW_MS + 60_000, "kim")})
    about = {(d.broker, d.side): d for d in decided(orders=orders, vetoes=(LOWERS,)) if isinstance(d, SetRate)}  # type: ignore[union-attr]
    assert (about[SOURCE].reason, about[SOURCE].setpoint_bytes_per_s) == (Reason.OVERRIDDEN, 20 * MB)
    assert about[TARGET].reason is Reason.VETOED


def test_veto_never_delays_replicas_that_block_writes() -> None:
    behind = replace(broker_signal(1), under_min_isr_partitions=1)
    cluster = live(moves=(replace(move(), isr=(1,)),))
    seen = replace(observation(cluster, brokers=(behind, broker_signal(3))), vetoes=(HOLDS, LOWERS))
    decisions = decide(seen, Memory(), LIMITS, STALL)[1]
    opened = [d for d in decisions if isinstance(d, SetRate) and (d.broker, d.side) == SOURCE]
    assert [(d.reason, d.setpoint_bytes_per_s) for d in opened] == [(Reason.ISR_RECOVERY, 50 * MB)]


def test_raise_in_progress_stops_at_a_veto() -> None:
    raising = replace(STALLED_MOVE, owned={SOURCE: owned(10 * MB, 40 * MB, 10 * MB, 20 * MB, 40 * MB)})
    decisions = decided(raising, ramping=frozenset({SOURCE}), vetoes=(HOLDS,))
    assert find_vetoed_changes(decisions, {SOURCE}).keys() == {SOURCE}
    assert not find_vetoed_changes(decided(raising, ramping=frozenset({SOURCE})), {SOURCE})
    assert not find_vetoed_changes(decisions, ())


def test_lower_rate_is_restored_after_the_veto() -> None:
    lowered = replace(owned(10 * MB, 4 * MB), restore_to_bytes_per_s=10 * MB)
    memory = Memory(stalls={3: WELL}, owned={SOURCE: lowered, TARGET: lowered})
    cluster = live({SOURCE: 4 * MB, TARGET: 4 * MB})
    assert reasons(decided(memory, cluster=cluster, vetoes=(LOWERS,))) == {Reason.VETOED}
    restored = decided(memory, cluster=cluster)
    assert [(d.reason, d.setpoint_bytes_per_s) for d in restored if isinstance(d, SetRate)] == [
        (Reason.RESTORED, 10 * MB)
    ] * 2


def test_warm_up_does_not_exceed_the_rate_of_a_lowering_veto() -> None:
    """Steps that a veto holds leave the quota windows empty. The next move must not warm up to the rate before the veto."""
    lowered = replace(owned(10 * MB, 4 * MB), restore_to_bytes_per_s=100 * MB)
    memory = Memory(stalls={3: WELL}, owned={SOURCE: lowered, TARGET: lowered})
    empty = {"cluster": live({SOURCE: 4 * MB, TARGET: 4 * MB}), "empty_windows": frozenset({SOURCE, TARGET})}
    warmed = [d for d in decided(memory, STEERS, **empty) if isinstance(d, SetRate)]
    assert {(d.reason, d.setpoint_bytes_per_s) for d in warmed} == {(Reason.WINDOW_WARMUP, STEERS.rate_bytes_per_s_max)}
    vetoed = decided(memory, STEERS, vetoes=(LOWERS,), **empty)
    assert not [d for d in vetoed if isinstance(d, SetRate) and d.setpoint_bytes_per_s > 4 * MB]


@pytest.mark.parametrize("limits", [LIMITS, STEERS, replace(LIMITS, adopts_existing=False)])
@given(
    rates=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    to=st.none() | st.integers(1, 60),
    stalled=st.booleans(),
    has_owner=st.booleans(),
)
def test_veto_never_raises_any_rate(
    limits: ThrottleLimits, rates: tuple[int, int], to: int | None, stalled: bool, has_owner: bool
) -> None:
    cluster = live({SOURCE: rates[0] * MB, TARGET: rates[1] * MB})
    owner = {SOURCE: replace(owned(5 * MB, rates[0] * MB), restore_to_bytes_per_s=9 * MB)} if has_owner else {}
    memory = Memory(stalls={3: STALLED if stalled else WELL}, owned=owner)
    veto = Veto("v", "c", None if to is None else to * MB)
    for decision in decided(memory, limits, cluster, vetoes=(veto,)):
        assert not isinstance(decision, AllowSteering)
        if isinstance(decision, SetRate):
            assert decision.setpoint_bytes_per_s < decision.current_bytes_per_s


def test_lowest_rate_of_several_vetoes_applies() -> None:
    assert lowest_rate_bytes_per_s([HOLDS]) is None
    assert lowest_rate_bytes_per_s([HOLDS, LOWERS, replace(LOWERS, lower_to_bytes_per_s=2 * MB)]) == 2 * MB
    assert vetoes_text([HOLDS] * 5).endswith("; and 2 more")
