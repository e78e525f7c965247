"""Pressure, cost and total rate of all tenants: each rule with literal numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.apply_lag import TotalInputs
from tuner.control.mutation_quota.cost_model import initial_cost, update_cost
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy
from tuner.control.mutation_quota.state import LearnedCost, TotalRate
from tuner.control.mutation_quota.total_rate import (
    burst_cap_per_s,
    decay_total,
    initial_total,
    next_total,
    size_brake_ratio,
)
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.controller_pressure import Measure, Pressure, worst_pressure

LIMITS = MutationLimits()
NOW = 1_000_000
SIGNAL = ControllerSignal("c", 1, NOW, NOW, 6, 1.0, active=1.0)
CAP = 1_000.0
FIRST = TotalInputs()


def pressed(ratio: float) -> Pressure:
    return Pressure(ratio, Measure.QUEUE, 500 * ratio, 500)


def after(
    total: TotalRate,
    ratio: float,
    *,
    course: TotalInputs = FIRST,
    late: bool = False,
    binds: bool = True,
    done: float = 0.0,
    cap: float = CAP,
) -> tuple[TotalRate, QuotaReason]:
    return next_total(total, pressed(ratio), course, late, binds, done, cap, NOW, LIMITS)


# -- pressure -------------------------------------------------------------------------------------------------------------


def test_pressure_is_worst_measured_ratio() -> None:
    objective = ControllerObjective(idle_ratio_min=0.2, queue_ms_max=500, create_ms_max=100, apply_lag_ms_max=1_000)
    signal = replace(SIGNAL, idle_ratio=0.6, event_queue_time_mean_ms=100.0)
    found = worst_pressure(signal, ClusterWideMeasures(create_ms=90.0, apply_lag_ms=700.0), objective)
    assert found is not None
    assert (found.measure, found.ratio) == (Measure.CREATE, 0.9)
    found = worst_pressure(replace(signal, idle_ratio=0.1), ClusterWideMeasures(create_ms=90.0), objective)
    assert found is not None
    assert (found.measure, found.ratio) == (Measure.IDLE, pytest.approx(1.125))
    assert "idle 10 % of the time (objective: at least 20 %)" in str(found)


def test_pressure_is_unknown_without_measures_or_objectives() -> None:
    assert worst_pressure(SIGNAL, ClusterWideMeasures(), ControllerObjective()) is None
    nothing = ControllerObjective(idle_ratio_min=None, queue_ms_max=None)
    assert worst_pressure(replace(SIGNAL, idle_ratio=0.0), ClusterWideMeasures(), nothing) is None


def test_idle_ratio_slightly_above_1_is_no_pressure() -> None:
    found = worst_pressure(replace(SIGNAL, idle_ratio=1.02), ClusterWideMeasures(), ControllerObjective())
    assert found is not None
    assert found.ratio == 0.0


# -- the total ------------------------------------------------------------------------------------------------------------


RAISED_34_S_AGO, CUT_30_S_AGO = TotalRate(100, NOW - 34_000), TotalRate(100, NOW - 30_000, NOW - 30_000)


@pytest.mark.parametrize(
    ("total", "ratio", "inputs", "expected", "reason"),
    [
        pytest.param(TotalRate(100), 0.1, {}, TotalRate(200, NOW), QuotaReason.HEADROOM_AVAILABLE, id="doubles with headroom"),
        pytest.param(TotalRate(100), 0.1, {"binds": False}, TotalRate(100), QuotaReason.NOT_BINDING, id="no backlog"),
        pytest.param(RAISED_34_S_AGO, 0.1, {}, RAISED_34_S_AGO, QuotaReason.SETTLING, id="last raise does not show yet"),
        pytest.param(TotalRate(100), 0.95, {}, TotalRate(100), QuotaReason.WITHIN_OBJECTIVE, id="between aim and objective"),
        pytest.param(TotalRate(100), 1.0, {}, TotalRate(100), QuotaReason.WITHIN_OBJECTIVE, id="at the objective"),
        pytest.param(TotalRate(100, NOW - 1), 1.01, {}, TotalRate(95, NOW, NOW), QuotaReason.OVER_OBJECTIVE, id="smallest cut"),
        pytest.param(TotalRate(100, NOW - 1), 1.25, {}, TotalRate(80, NOW, NOW), QuotaReason.OVER_OBJECTIVE, id="cut by excess"),
        pytest.param(TotalRate(100, NOW - 1), 2.0, {}, TotalRate(50, NOW, NOW), QuotaReason.OVER_OBJECTIVE, id="cut by half"),
        pytest.param(TotalRate(100, NOW - 1), 80.0, {}, TotalRate(50, NOW, NOW), QuotaReason.OVER_OBJECTIVE, id="largest cut"),
        pytest.param(CUT_30_S_AGO, 3.0, {}, CUT_30_S_AGO, QuotaReason.SETTLING, id="last cut does not show yet"),
        pytest.param(TotalRate(100), 0.1, {"late": True}, TotalRate(50, NOW, NOW), QuotaReason.HEARTBEAT_TIMEOUTS, id="heartbeats"),
        pytest.param(
            TotalRate(100), 20.0, {"course": TotalInputs(is_new_window=False)}, TotalRate(100), QuotaReason.SETTLING,
            id="measurement was judged before",
        ),
    ],
)  # fmt: skip
def test_total_follows_pressure_and_backlog(
    total: TotalRate, ratio: float, inputs: dict[str, Any], expected: TotalRate, reason: QuotaReason
) -> None:
    assert after(total, ratio, **inputs) == (expected, reason)


def test_total_grows_again_once_last_raise_shows() -> None:
    assert after(TotalRate(100, NOW - 35_000), 0.1)[1] is QuotaReason.HEADROOM_AVAILABLE


def test_total_grows_by_half_of_headroom_near_objective() -> None:
    total, reason = after(TotalRate(100), 0.8)
    assert reason is QuotaReason.HEADROOM_AVAILABLE
    assert total.rate_per_s == pytest.approx(100 + 100 * (0.85 / 0.8 - 1) / 2)


def test_nonbinding_total_falls_from_the_applied_rate() -> None:
    assert after(TotalRate(1_000), 2.0, binds=False, done=100)[0].rate_per_s == pytest.approx(62.5)


def test_total_stays_between_minimum_and_cap() -> None:
    assert after(TotalRate(900), 0.1)[0].rate_per_s == CAP
    assert after(TotalRate(CAP), 0.1) == (TotalRate(CAP), QuotaReason.AT_CAP)
    assert after(TotalRate(2_000), 0.1) == (TotalRate(CAP), QuotaReason.OVER_CAP)
    assert after(TotalRate(1.2), 9.0)[0].rate_per_s == LIMITS.rate_per_s_min


def test_initial_total_is_the_applied_rate() -> None:
    assert initial_total(pressed(0.5), 200, CAP, NOW, LIMITS).rate_per_s == 250
    assert initial_total(pressed(0.5), 0, CAP, NOW, LIMITS).rate_per_s == LIMITS.rate_per_s_start
    assert initial_total(pressed(4.0), 200, CAP, NOW, LIMITS).rate_per_s == 50
    assert initial_total(pressed(0.5), 200, 100, NOW, LIMITS).rate_per_s == 100


def test_total_without_signals_decays_a_tenth_per_15_s() -> None:
    assert decay_total(TotalRate(100), 15, LIMITS).rate_per_s == pytest.approx(90, abs=0.1)
    assert decay_total(TotalRate(100), 1e6, LIMITS).rate_per_s == LIMITS.rate_per_s_min


@settings(deadline=None)
@given(
    rate=st.floats(1, 5_000), ratio=st.floats(0, 1_000), late=st.booleans(), binds=st.booleans(),
    done=st.floats(0, 1e4), cap=st.floats(1, 5_000), raised=st.integers(0, NOW), cut=st.integers(0, NOW),
)  # fmt: skip
def test_total_is_raised_only_if_binding_and_below_target(
    rate: float, ratio: float, late: bool, binds: bool, done: float, cap: float, raised: int, cut: int
) -> None:
    total, reason = next_total(
        TotalRate(rate, raised, cut), pressed(ratio), TotalInputs(), late, binds, done, cap, NOW, LIMITS
    )
    assert LIMITS.rate_per_s_min <= total.rate_per_s <= max(rate, cap)
    if total.rate_per_s > rate:
        assert reason is QuotaReason.HEADROOM_AVAILABLE
        assert binds
        assert not (late and NOW - cut >= 35_000)
        assert ratio < LIMITS.target_ratio
        assert total.rate_per_s <= rate / LIMITS.largest_cut_factor + 1e-9


def test_total_is_not_cut_while_pressure_falls() -> None:
    assert after(TotalRate(100), 20.0, course=TotalInputs(24.0)) == (TotalRate(100), QuotaReason.SETTLING)
    assert after(TotalRate(100), 20.0, course=TotalInputs(21.0))[1] is QuotaReason.OVER_OBJECTIVE
    assert after(TotalRate(100), 20.0, course=TotalInputs(24.0), late=True)[1] is QuotaReason.HEARTBEAT_TIMEOUTS


# -- cap and brake --------------------------------------------------------------------------------------------------------


def test_bucket_capacity_at_cap_equals_allowed_busy_time() -> None:
    cap = burst_cap_per_s(LearnedCost(0.0, 6.0), ControllerObjective(burst_ms_max=5_000), LIMITS)
    assert 11 * cap * 1.04 * 6.0 == pytest.approx(5_000)


def test_burst_cap_stays_between_configured_bounds() -> None:
    assert burst_cap_per_s(LearnedCost(0.0, 1e-6), ControllerObjective(), LIMITS) == LIMITS.rate_per_s_max
    assert burst_cap_per_s(LearnedCost(0.0, 1e6), ControllerObjective(), LIMITS) == LIMITS.rate_per_s_min


@pytest.mark.parametrize(
    ("partitions", "left"), [(0, 1.0), (900, 1.0), (950, 0.5), (1_000, 0.0), (1_200, 0.0), (None, None)]
)
def test_size_brake_falls_near_the_partition_limit(partitions: float | None, left: float | None) -> None:
    assert size_brake_ratio(partitions, MutationPolicy(partitions_max=1_000)) == left


def test_size_brake_without_limit_is_off() -> None:
    assert size_brake_ratio(None, MutationPolicy()) == 1.0


# -- cost -----------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    topic=st.floats(0, 20), partition=st.floats(0.01, 10), per_topic=st.integers(1, 50), other=st.floats(0, 0.2),
    rates=st.lists(st.floats(2, 60), min_size=40, max_size=60),
)  # fmt: skip
def test_mutation_cost_is_learned(
    topic: float, partition: float, per_topic: int, other: float, rates: list[float]
) -> None:
    true_ms = partition + topic / per_topic
    cost = replace(initial_cost(), other_busy_ratio=other)
    for rate in rates:
        busy = other + rate * true_ms / 1000
        if busy <= 0.9:
            cost = update_cost(cost, busy, rate / per_topic, rate, LIMITS)
    if cost.steps >= 30:
        assert cost.partition_total_ms == pytest.approx(true_ms, rel=0.05)
        assert cost.partitions_per_topic == pytest.approx(per_topic)


def test_other_controller_load_is_learned_when_idle() -> None:
    cost = initial_cost()
    for _ in range(30):
        cost = update_cost(cost, 0.1, 0.0, 0.0, LIMITS)
    assert cost.other_busy_ratio == pytest.approx(0.1, abs=1e-4)
    assert (cost.topic_ms, cost.partition_ms) == (0.9, 0.06)


def test_draining_queue_teaches_no_other_load() -> None:
    assert update_cost(initial_cost(), 1.0, 0.0, 0.0, LIMITS) == initial_cost()


def test_saturated_controller_may_raise_but_not_lower_cost() -> None:
    dear = LearnedCost(0.0001, 6.0, steps=5)
    assert update_cost(dear, 1.0, 100, 400, LIMITS).partition_ms == 6.0
    assert update_cost(dear, 1.0, 10, 40, LIMITS).partition_ms > 6.0


def test_partitions_per_topic_fall_at_once_and_rise_slowly() -> None:
    cost = LearnedCost(0.9, 0.06, partitions_per_topic=10, steps=5)
    assert update_cost(cost, 0.1, 10, 20, LIMITS).partitions_per_topic == 2
    assert update_cost(cost, 0.1, 1, 20, LIMITS).partitions_per_topic == 13


def test_guarantees_hold_near_probe_objective() -> None:
    near = TotalInputs(probe_ratio=0.9, probe_likely_ratio=1.01, guaranteed_per_s=80.0)
    assert after(TotalRate(100), 0.5, course=near) == (TotalRate(90, NOW), QuotaReason.NEAR_OBJECTIVE)
    assert after(TotalRate(85), 0.5, course=near) == (TotalRate(80, NOW), QuotaReason.NEAR_OBJECTIVE)
    assert after(TotalRate(80), 0.5, course=near) == (TotalRate(80), QuotaReason.WITHIN_OBJECTIVE)
    assert after(TotalRate(100), 0.5, course=replace(near, probe_likely_ratio=1.0))[1] is QuotaReason.WITHIN_OBJECTIVE
    assert after(TotalRate(100), 0.5, course=near, binds=False)[1] is QuotaReason.WITHIN_OBJECTIVE
    assert after(TotalRate(100), 0.5, course=replace(near, probe_spread_known=False))[1] is QuotaReason.WITHIN_OBJECTIVE
    assert after(TotalRate(100, NOW - 34_000), 0.5, course=near) == (TotalRate(100, NOW - 34_000), QuotaReason.SETTLING)


def test_unmanaged_tenants_take_no_guarantees_near_probe_objective() -> None:
    near = TotalInputs(probe_ratio=0.9, probe_likely_ratio=1.01, guaranteed_per_s=20.0, unmanaged_per_s=30.0)
    assert after(TotalRate(60), 0.5, course=near)[0].rate_per_s == 30 + LIMITS.rate_per_s_safe
    assert after(TotalRate(55), 0.5, course=near)[1] is QuotaReason.WITHIN_OBJECTIVE


def felt(ratio: float) -> Pressure:
    return Pressure(ratio, Measure.CREATE_PROBE, 50 * ratio, 50.0)


def test_minimum_rate_holds_slightly_above_probe_objective() -> None:
    """A cut from 25.5 to 23/s would leave six tenants 3.8/s each, so tenants with a demand of 4/s would wait for 13 s."""
    ease, course = LIMITS.rate_per_s_safe, TotalInputs(probe_ratio=1.03)

    def over(rate: float, found: Pressure, course: TotalInputs = course) -> tuple[TotalRate, QuotaReason]:
        return next_total(TotalRate(rate), found, course, False, True, rate, CAP, NOW, LIMITS)

    lowered, reason = over(25.5, felt(1.03))
    assert (lowered.rate_per_s, lowered.known_limit_per_s, reason) == (ease, 25.5, QuotaReason.OVER_OBJECTIVE)
    # It is not learned as a limit either, which would hold for half an hour.
    assert over(ease, felt(1.03)) == (TotalRate(ease), QuotaReason.AT_MINIMUM)
    assert over(ease, felt(2.0)) == (TotalRate(ease), QuotaReason.AT_MINIMUM)
    assert over(ease, felt(2.1))[0].rate_per_s == pytest.approx(ease / 2)
    assert over(ease, pressed(1.03))[0].rate_per_s == pytest.approx(ease * LIMITS.smallest_cut_factor)
    # The cap on bursts still applies.
    dear = next_total(TotalRate(ease), felt(1.03), course, False, True, ease, 10.0, NOW, LIMITS)
    assert (dear[0].rate_per_s, dear[1]) == (10, QuotaReason.OVER_OBJECTIVE)
    promised = replace(course, guaranteed_per_s=40.0, unmanaged_per_s=5.0)
    assert over(46, felt(1.03), promised)[0].rate_per_s == 45
    assert over(46, felt(2.1), promised)[0].rate_per_s == 23


@pytest.mark.parametrize(
    ("ratio", "since_s", "rate", "reason"),
    [
        (1.05, 5, 90, QuotaReason.SETTLING),
        (1.05, 36, 81, QuotaReason.OVER_OBJECTIVE),
        (1.2, 5, 75, QuotaReason.OVER_OBJECTIVE),
    ],
)
def test_excess_within_early_step_predates_the_step(
    ratio: float, since_s: int, rate: float, reason: QuotaReason
) -> None:
    course = TotalInputs(probe_ratio=ratio, probe_likely_ratio=ratio, near_cut_at_ms=NOW - 1000 * since_s)
    found = next_total(TotalRate(90, NOW - 1000 * since_s), felt(ratio), course, False, True, 80.0, CAP, NOW, LIMITS)
    assert (found[0].rate_per_s, found[1]) == (pytest.approx(rate), reason)


def test_slow_start_keeps_minimum_total() -> None:
    """At the start a tenth of the probes took 41 ms (objective 38) with hardly any mutations: no reason for a total of 1/s."""
    ease = LIMITS.rate_per_s_safe
    assert initial_total(pressed(1.1), 0.35, 1_000, NOW, LIMITS) == TotalRate(ease, changed_at_ms=NOW)
    assert after(TotalRate(50), 1.1, done=0.35, binds=False) == (TotalRate(ease, NOW, NOW), QuotaReason.OVER_OBJECTIVE)
    assert after(TotalRate(10), 1.1, done=0.35, binds=False) == (TotalRate(10), QuotaReason.NOT_BINDING)


@pytest.mark.parametrize("found", [felt(1.1), Pressure(2.5, Measure.APPLY_LAG, 2_500.0, 1_000.0)])
def test_cut_to_safe_rate_learns_no_limit(found: Pressure) -> None:
    """A learned limit of 1.25/s would hold for twenty minutes."""
    course = TotalInputs(previous_pressure=1.2, lag_growth_ratio=0.5, probe_ratio=1.1)
    made, reason = next_total(TotalRate(200), found, course, False, False, 1.0, CAP, NOW, LIMITS)
    assert (made, reason) == (TotalRate(LIMITS.rate_per_s_safe, NOW, NOW), QuotaReason.OVER_OBJECTIVE)


@pytest.mark.parametrize("late", [False, True])
def test_minimum_total_is_not_reported_as_lowered(late: bool) -> None:
    least = TotalRate(LIMITS.rate_per_s_min)
    course = TotalInputs(previous_pressure=1.2, lag_growth_ratio=0.5)
    for found in (felt(4.0), Pressure(2.5, Measure.APPLY_LAG, 2_500.0, 1_000.0)):
        made, reason = next_total(least, found, course, late, True, 3.0, CAP, NOW, LIMITS)
        assert (made.rate_per_s, reason) == (least.rate_per_s, QuotaReason.AT_MINIMUM)


def test_slow_controller_is_cut_below_safe_rate() -> None:
    assert initial_total(pressed(1.5), 15.0, 1_000, NOW, LIMITS).rate_per_s == 10
    # The applied rate is too high, whether tenants are throttled or not, and by the total or another quota.
    assert after(TotalRate(25), 4 / 3, done=20, binds=False)[0].rate_per_s == pytest.approx(25 * 3 / 4)
    assert after(TotalRate(10), 2.0, done=3, binds=True)[0].rate_per_s == 5
    by_else = TotalInputs(a_tenant_is_limited=True)
    assert after(TotalRate(25), 2.0, done=15, binds=False, course=by_else)[0].rate_per_s == pytest.approx(1.25 * 15 / 2)
    assert after(TotalRate(25), 2.0, done=4, binds=False, course=by_else)[0].rate_per_s == pytest.approx(1.25 * 4 / 2)


def test_heartbeat_timeouts_halve_even_small_totals() -> None:
    assert after(TotalRate(50), 0.1, done=4, binds=False, late=True)[0].rate_per_s == 2.5
