"""Which plan steps fail and which wait, because no throttle holds them to their plan's rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tuner_cases import LIMITS, NOW_MS, SOURCE, TARGET, live, move, observation

from tuner.control.throttle.decision import Reason, SetRate, StartRate
from tuner.control.throttle.step_rates import find_steps_above_plan_rate
from tuner.core.cluster import BrokerSide, Observation
from tuner.core.operator_orders import Orders, Override
from tuner.core.reassignment_plan import PlanThrottle
from tuner.core.throttle_limits import MB

KEY = ("orders", 0)
ABOVE = "not begun: the broker 1 leader throttle is at 30.0 MB/s, but the plan may use only 10.0 MB/s"
LATE = (
    "not begun yet: the tuner first has to lower the broker 1 leader throttle, because its quota window is empty, and Kafka would "
    "let a whole window's bytes pass at once"
)
BOTH = {SOURCE: 10 * MB, TARGET: 10 * MB}


def seen(rates: Mapping[BrokerSide, float], *, throttle: PlanThrottle | None = None) -> Observation:
    """A plan of 10 MB/s, or another throttle, whose one step is announced."""
    plan_moves = {KEY: throttle or PlanThrottle(10 * MB)}
    return replace(observation(live(rates, moves=())), plan_moves=plan_moves)


def judged(
    found: Observation,
    *decisions: SetRate | StartRate,
    not_set: tuple[BrokerSide, ...] = (),
    lowered: tuple[BrokerSide, ...] = (),
    busy: tuple[BrokerSide, ...] = (),
    steers: bool = False,
) -> tuple[dict[tuple[str, int], str], dict[tuple[str, int], str]]:
    limits = replace(LIMITS, closed_loop=steers)
    return find_steps_above_plan_rate(
        (move(),), decisions, found, limits, not_set=not_set, warming_up=lowered, ramping=busy
    )


FILLS = SetRate(*SOURCE, 10 * MB, 10 * MB, Reason.WINDOW_WARMUP, "text")
STARTS = StartRate(*SOURCE, 5 * MB, Reason.PLAN_RATE, "text")


def test_step_begins_where_both_sides_are_at_its_rate() -> None:
    assert judged(seen(BOTH)) == ({}, {})
    assert judged(seen({}, throttle=PlanThrottle(unthrottled=True))) == ({}, {}), "nothing holds it, as was asked"


def test_step_fails_where_a_rate_is_above_its_plan() -> None:
    assert judged(seen(BOTH | {SOURCE: 30 * MB})) == ({KEY: ABOVE}, {})


def test_step_waits_where_that_rate_is_just_being_changed() -> None:
    assert judged(seen(BOTH | {SOURCE: 30 * MB}), busy=(SOURCE,)) == ({}, {KEY: ABOVE})
    # What is right from its first byte on need not be waited for.
    assert judged(seen(BOTH | {SOURCE: 30 * MB}), busy=(SOURCE,), lowered=(SOURCE,)) == ({}, {})


def test_step_fails_where_another_of_its_sides_only_waits() -> None:
    found = seen({SOURCE: 30 * MB, TARGET: 30 * MB})
    failed, waits = judged(found, busy=(SOURCE,))
    assert (failed.keys(), waits) == ({KEY}, {})


def test_rate_started_in_this_cycle_counts_unless_it_failed() -> None:
    found = seen({TARGET: 10 * MB})
    assert judged(found, STARTS) == ({}, {})
    none = {KEY: "not begun: no rate is set on the broker 1 leader throttle"}
    assert judged(found, STARTS, not_set=(SOURCE,)) == (none, {})
    assert judged(found, STARTS, FILLS) == ({}, {}), "it starts low, so it need not be lowered"


@pytest.mark.parametrize(("steers", "waits"), [(False, {KEY: LATE}), (True, {})])
def test_step_waits_for_its_window_without_an_objective(steers: bool, waits: dict[tuple[str, int], str]) -> None:
    assert judged(seen(BOTH), FILLS, steers=steers) == ({}, waits)
    assert judged(seen(BOTH), FILLS, lowered=(SOURCE,), steers=steers) == ({}, {})


def test_override_that_lasts_may_be_above_the_plan() -> None:
    order = Override(30 * MB, NOW_MS + 1, "kim")
    found = replace(seen(BOTH | {SOURCE: 30 * MB}), orders=Orders(overrides={SOURCE: order}))
    assert judged(found) == ({}, {})
    assert judged(replace(found, now_ms=NOW_MS + 2)) == ({KEY: ABOVE}, {})
