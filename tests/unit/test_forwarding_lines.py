"""The lines of brokers to the controller: how much of the time they are taken, and the law that keeps that within bounds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from mutation_rig import START_MS, Rig, controller, tenant

from benchmarks.controllers.line_model import waits
from tuner.decide.mutation_backlog import Course
from tuner.decide.mutation_pressure import Measure, Pressure, pressure, unmeasured
from tuner.decide.mutation_total import next_total
from tuner.model.mutation import Beside, ControllerObjective, MutationLimits, MutationPolicy, TenantRule, beside_of
from tuner.model.mutation_decision import QuotaReason
from tuner.model.mutation_memory import Total

LIMITS = MutationLimits()
ASKED = ControllerObjective(
    idle_ratio_min=None, queue_ms_max=None, forwarding_busy_ratio_max=0.1, burst_ms_max=1_000_000.0
)


def ratio_of(
    in_progress: float | None, brokers: float | None, *, active: float = 1.0, at_ms: int = START_MS
) -> float | None:
    one = replace(controller(at_ms, active=active), topic_requests_in_progress_mean=in_progress, active_brokers=brokers)
    return beside_of({1: one}, {}, START_MS, 15.0).forwarding_busy_ratio


def test_requests_in_progress_are_lines_taken() -> None:
    assert ratio_of(0.3, 3.0) == pytest.approx(0.1)
    # Whoever asks the controller itself stands in no line.
    assert ratio_of(4.0, 3.0) == 1.0
    for unknown in (ratio_of(None, 3.0), ratio_of(0.3, None), ratio_of(0.3, 0.0), ratio_of(0.3, 3.0, active=0.0)):
        assert unknown is None
    assert ratio_of(0.3, 3.0, at_ms=START_MS - 16_000) is None


def test_it_presses_as_far_as_it_may_be_and_what_is_not_told_leaves_no_room() -> None:
    found = pressure(controller(START_MS), Beside(forwarding_busy_ratio=0.12), ASKED)
    assert found is not None
    assert (found.by, found.ratio) == (Measure.FORWARDING, pytest.approx(1.2))
    assert "12.0 % of the time" in str(found)
    assert "10.0 % are allowed" in str(found)
    assert unmeasured(controller(START_MS), Beside(), ASKED) == (Measure.FORWARDING,)
    assert unmeasured(controller(START_MS), Beside(forwarding_busy_ratio=0.0), ASKED) == ()
    unasked = replace(ASKED, forwarding_busy_ratio_max=None, queue_ms_max=500.0)
    other = pressure(controller(START_MS), Beside(forwarding_busy_ratio=0.9), unasked)
    assert other is not None
    assert other.by is Measure.QUEUE


@pytest.mark.parametrize(
    ("rate", "ratio", "promised", "left", "reason"),
    [
        (50.0, 1.5, 0.0, 50 / 1.5, QuotaReason.OVER_OBJECTIVE),
        # Below what any controller bears with ease as well: it moves with what is let through.
        (25.0, 1.25, 0.0, 20.0, QuotaReason.OVER_OBJECTIVE),
        (12.0, 1.25, 10.0, 10.0, QuotaReason.OVER_OBJECTIVE),
        (10.0, 1.25, 10.0, 10.0, QuotaReason.AT_ITS_LEAST),
        (5.0, 1.9, 0.0, 5.0, QuotaReason.AT_ITS_LEAST),
        (12.0, 2.5, 10.0, 6.0, QuotaReason.OVER_OBJECTIVE),
    ],
)
def test_it_is_cut_to_what_was_promised_at_most(
    rate: float, ratio: float, promised: float, left: float, reason: QuotaReason
) -> None:
    found = Pressure(ratio, Measure.FORWARDING, ratio / 10, 0.1)
    course = Course(promised_per_s=promised)
    total, why = next_total(Total(rate), found, course, False, True, rate, 1_000.0, START_MS, LIMITS)
    assert (total.rate_per_s, why) == (pytest.approx(left), reason)


@pytest.mark.parametrize(
    ("ratio", "left", "reason"),
    [
        (0.94, 20.0, QuotaReason.WITHIN_OBJECTIVE),
        (0.96, 19.0, QuotaReason.NEAR_OBJECTIVE),
        (0.81, 20.0, QuotaReason.WITHIN_OBJECTIVE),
        (0.7, 20 * (1 + (0.85 / 0.7 - 1) / 2), QuotaReason.ROOM_IS_LEFT),
    ],
)
def test_it_is_left_alone_where_it_neither_wavers_over_the_objective_nor_has_room(
    ratio: float, left: float, reason: QuotaReason
) -> None:
    found = Pressure(ratio, Measure.FORWARDING, ratio / 10, 0.1)
    total, why = next_total(Total(20.0), found, Course(), False, True, 20.0, 1_000.0, 100_000, LIMITS)
    assert (total.rate_per_s, why) == (pytest.approx(left), reason)


def test_after_a_step_from_near_the_window_is_given_time() -> None:
    course = Course(felt_eased_at_ms=100_000)
    for ratio, why in ((1.04, QuotaReason.RESTING), (1.07, QuotaReason.OVER_OBJECTIVE)):
        found = Pressure(ratio, Measure.FORWARDING, ratio / 10, 0.1)
        assert next_total(Total(19.0), found, course, False, True, 19.0, 1_000.0, 105_000, LIMITS)[1] is why
    # What was promised is not taken, however near.
    promised = Course(promised_per_s=20.0)
    near = Pressure(0.99, Measure.FORWARDING, 0.099, 0.1)
    found_near = next_total(Total(20.0), near, promised, False, True, 20.0, 1_000.0, 100_000, LIMITS)
    assert found_near == (Total(20.0), QuotaReason.WITHIN_OBJECTIVE)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_storm_gets_what_the_lines_have_room_for(seed: int) -> None:
    """Two tenants who want 4/s and are promised 5 beside four that take what they get; half a minute's share of the lines moves with
    what was let through, and wavers by a fifteenth as counted requests do. Ten minutes in, ten minutes long."""
    rng = random.Random(seed)
    rules = (TenantRule(client_id="calm-*", rate_per_s_min=5.0),)
    rig = Rig(MutationPolicy(objective=ASKED, rules=rules))
    ratios, storms = list[float](), list[float]()
    last = [50.0] * 7  # What storms did in each of the cycles that a signal looks back on.
    for cycle in range(240):
        total = rig.memory.total.rate_per_s if rig.memory.total is not None else 50.0
        last = [*last[1:], max(0.0, total - 8.0)]
        busy = 0.05 + 0.0037 * sum(last[:-1]) / 6
        busy *= 1 + rng.gauss(0.0, 1 / 15)
        found = [tenant(rig.now_ms, 4.0, 50.0, client_id=f"calm-{i}") for i in range(2)]
        found += [tenant(rig.now_ms, last[-1] / 4, -5.0, client_id=f"storm-{i}") for i in range(4)]
        rig.cycle(found, beside=Beside(forwarding_busy_ratio=busy))
        if cycle >= 120:
            ratios.append(busy / 0.1)
            storms.append(last[-1])
    # At the objective it would be 13.5/s.
    assert 7.0 < sum(storms) / len(storms) < 13.5
    assert sum(ratio > 1 for ratio in ratios) < 0.1 * len(ratios)


def test_how_long_a_quiet_tenant_waits_goes_with_how_much_of_the_lines_is_taken() -> None:
    alone, little, much = waits(0.0, 1_500), waits(9.0, 1_500), waits(60.0, 1_500)
    assert alone.forwarding_busy_ratio < little.forwarding_busy_ratio < 0.1 < much.forwarding_busy_ratio
    assert little.calm_p99_ms < 1.5 * alone.calm_p99_ms < much.calm_p99_ms
    # Whoever is in the middle feels none of it.
    assert much.calm_p50_ms < 1.1 * alone.calm_p50_ms
    assert waits(9.0, 1_500) == little
