"""Vetoes in the running controller: they hold and lower rates, are recorded as inputs, and a replay repeats them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_rig import Rig
from replay_rig import FilmedRig, differing
from test_steering_tick import OBJECTIVE, seconds, steered
from tuner_cases import SOURCE, STALLED, TARGET

from tuner.control.throttle.decision import Reason
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB
from tuner.core.vetoes import Veto

HOLDS = Veto("error-budget", "its value 0.8 is above 0.5")
LOWERS = Veto("backup", "it answers veto: true", 6 * MB)


def test_rescue_waits_for_the_end_of_a_veto() -> None:
    rig = Rig(Memory(stalls={3: STALLED}))
    rig.vetoes = (HOLDS,)
    assert set(rig.cycle()) == {Reason.VETOED}
    assert rig.writes() == []
    (entry, _) = (e for e in rig.journal.entries if e.reason == "vetoed")
    assert entry.kind == "decision"
    rig.vetoes = ()
    rig.cycle()
    rig.run_ramps()
    assert min(rig.throttles.rates.values()) > 10 * MB


def test_raise_in_progress_stops_and_is_no_failure() -> None:
    rig = Rig(Memory(stalls={3: STALLED}))
    rig.cycle()
    for _ in range(3):  # Some steps of the ramps.
        rig.now_s = rig.loop.next_due_s() or rig.now_s
        rig.loop.tick()
    before = dict(rig.throttles.rates)
    assert 10 * MB < before[SOURCE] < 50 * MB
    rig.vetoes = (HOLDS,)
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == before
    assert [failure for _, failure in rig.observer.acts if failure is not None] == []
    assert any(e.kind == "outcome" and "error-budget" in (e.failure or "") for e in rig.journal.entries)


def test_lowering_intent_has_the_veto_among_its_inputs() -> None:
    rig = Rig(Memory())
    rig.vetoes = (LOWERS,)
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 6 * MB, TARGET: 6 * MB}
    intents = [e for e in rig.journal.entries if e.kind == "intent" and e.reason == "vetoed"]
    assert intents[0].inputs["vetoes"] == [
        {"name": "backup", "cause": "it answers veto: true", "lower_to_bytes_per_s": 6 * MB}
    ]
    rig.vetoes = ()
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}


def test_law_raises_nothing_during_a_veto() -> None:
    free, held = steered(), steered()
    held.vetoes = (HOLDS,)
    for rig in (free, held):
        rig.loop.cycle()
        seconds(rig, 5)
    assert max(free.throttles.rates.values()) > 10 * MB
    assert max(held.throttles.rates.values()) <= 10 * MB


def test_law_lowers_both_sides_to_the_rate_of_a_veto() -> None:
    rig = steered()
    rig.vetoes = (LOWERS,)
    rig.loop.cycle()
    seconds(rig, 5)
    assert set(rig.throttles.rates.values()) == {6 * MB}
    rig.vetoes = (replace(LOWERS, lower_to_bytes_per_s=None),)
    rig.loop.cycle()
    seconds(rig, 5)
    assert max(rig.throttles.rates.values()) <= 6 * MB, "a check that only holds does not raise the rate again"


def test_veto_lowers_steered_sides_without_signals_and_the_law_goes_on_afterwards() -> None:
    rig = steered()
    rig.loop.cycle()
    seconds(rig, 5)
    signals, rig.signals.moves = rig.signals.moves, {}
    raised = dict(rig.throttles.rates)
    rig.vetoes = (LOWERS,)
    rig.loop.cycle()
    seconds(rig, 60)  # The steps of the ramps.
    assert min(raised.values()) > 6 * MB
    assert set(rig.throttles.rates.values()) == {6 * MB}
    assert not any(failure for _, failure in rig.observer.acts)
    rig.signals.moves = signals
    seconds(rig, 5)
    rig.loop.cycle()
    seconds(rig, 5)
    assert set(rig.throttles.rates.values()) == {6 * MB}, "the veto still holds"
    rig.vetoes = ()
    rig.loop.cycle()
    seconds(rig, 20)
    assert max(rig.throttles.rates.values()) > 10 * MB


@pytest.mark.parametrize("objective", [OBJECTIVE, None])
def test_replay_with_vetoes_has_same_decisions(objective: Objective | None) -> None:
    rig = FilmedRig(Memory(), objective=objective)
    for vetoes in ((), (HOLDS,), (LOWERS, HOLDS), ()):
        rig.vetoes = vetoes
        rig.goes_on(30, gained_bytes_per_s=4 * MB)
    played = rig.replayed()
    assert differing(played) == []
    texts = [text for one in played for text in one.texts]
    assert any("veto backup" in text or "veto error-budget" in text for text in texts)
