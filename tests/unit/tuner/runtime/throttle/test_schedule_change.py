"""The controller follows a rule of the schedule without an end of its term, and the journal replays without the schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_rig import RAISED, Rig, raised
from replay_rig import FilmedRig, differing
from tuner_cases import LIMITS, SOURCE, TARGET

from tuner.control.throttle.decision import Reason
from tuner.control.throttle.objective import ControlLimits, Mode, Objective
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders, Override
from tuner.core.throttle_limits import MB

OBJECTIVE = Objective(latency_ms=50.0)
OFFICE_TEXT = "ceiling 20.0 MB/s, mode gentle, latency 50 ms"


def follow(rig: Rig, ceiling: int, rules: str, objective: Objective | None = None) -> None:
    """Changes the policy as the begin or the end of a rule does."""
    limits = replace(
        LIMITS,
        rate_bytes_per_s_max=ceiling,
        closed_loop=objective is not None,
        schedule_rules=rules,
        schedule_text=OFFICE_TEXT if rules else "ceiling 50.0 MB/s",
        order_rate_bytes_per_s_max=50 * MB,
    )
    law = ControlLimits(rate_bytes_per_s_max=ceiling, takeover_ramp_s=0.1)
    inputs = getattr(rig.journal, "inputs", None)
    if inputs is not None:
        inputs.change_settings(
            replace(inputs._settings, limits=limits, objective=objective, law=law if objective is not None else None)
        )
    rig.loop.change_policy(limits, objective, law)


def test_rates_above_a_rules_ceiling_come_down_at_next_cycle() -> None:
    rig = raised()
    assert rig.cycle().count(Reason.PROGRESSING) == 2
    follow(rig, 20 * MB, "office")
    assert rig.cycle() == [Reason.SCHEDULE_BEGAN, Reason.AT_CEILING, Reason.AT_CEILING]
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 20 * MB, TARGET: 20 * MB}
    follow(rig, 50 * MB, "")
    assert rig.cycle()[0] is Reason.SCHEDULE_ENDED
    assert Reason.SCHEDULE_ENDED not in rig.cycle()


def test_rule_is_in_the_journal_with_its_reason_and_inputs() -> None:
    rig = raised()
    rig.cycle()
    follow(rig, 20 * MB, "office")
    rig.cycle()
    (entry,) = (e for e in rig.journal.entries if e.action == "follow_schedule")
    assert (entry.kind, entry.reason) == ("decision", "schedule_began")
    assert entry.text == f"rule office of the schedule applies: {OFFICE_TEXT}"
    (lowered, _) = (e for e in rig.journal.entries if e.reason == "at_ceiling" and e.kind == "intent")
    assert lowered.inputs["limits"]["schedule_rules"] == "office"
    assert lowered.inputs["limits"]["rate_bytes_per_s_max"] == 20 * MB


def test_override_stays_above_a_rules_ceiling() -> None:
    rig = raised()
    rig.orders.latest = Orders(rig.now_ms, overrides={SOURCE: Override(40 * MB, rig.now_ms + 600_000, "me")})
    rig.cycle()
    rig.run_ramps()
    follow(rig, 20 * MB, "office")
    rig.cycle()
    rig.run_ramps()
    assert rig.throttles.rates == {SOURCE: 40 * MB, TARGET: 20 * MB}


def test_dry_run_reports_a_rule_and_writes_nothing() -> None:
    rig = Rig(RAISED, dry_run=True)
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    follow(rig, 20 * MB, "office")
    assert rig.cycle()[0] is Reason.SCHEDULE_BEGAN
    assert rig.kinds("follow_schedule") == ["decision"]
    assert rig.writes() == []


def test_steered_rates_follow_ceiling_and_mode_of_a_rule() -> None:
    rig = FilmedRig(Memory(), objective=OBJECTIVE)
    rig.goes_on(42, gained_bytes_per_s=4 * MB)
    before = dict(rig.throttles.rates)
    assert min(before.values()) > 20 * MB
    estimates = rig.loop._steering._state.broker_estimates  # type: ignore[union-attr]
    follow(rig, 20 * MB, "office", replace(OBJECTIVE, mode=Mode.GENTLE))
    rig.goes_on(8, gained_bytes_per_s=4 * MB)
    assert max(rig.throttles.rates.values()) <= 20 * MB
    assert rig.loop._steering._state.broker_estimates.keys() == estimates.keys(), "what was learned stays"  # type: ignore[union-attr]
    follow(rig, 50 * MB, "", OBJECTIVE)
    rig.goes_on(60, gained_bytes_per_s=4 * MB)
    assert min(rig.throttles.rates.values()) > 20 * MB


@pytest.mark.parametrize("objective", [OBJECTIVE, None])
def test_replay_with_a_rule_has_same_decisions(objective: Objective | None) -> None:
    rig = FilmedRig(Memory(), objective=objective)
    rig.goes_on(42, gained_bytes_per_s=4 * MB)
    follow(rig, 20 * MB, "office", None if objective is None else replace(objective, mode=Mode.GENTLE))
    rig.goes_on(30, gained_bytes_per_s=4 * MB)
    follow(rig, 50 * MB, "", objective)
    rig.goes_on(30, gained_bytes_per_s=4 * MB)
    played = rig.replayed()
    rules = [one.step.settings.limits.schedule_rules for one in played]
    assert {"", "office"} == set(rules)
    texts = [text for one in played for text in one.texts]
    assert sum("rule office of the schedule" in text for text in texts) == 2
    assert differing(played) == []
