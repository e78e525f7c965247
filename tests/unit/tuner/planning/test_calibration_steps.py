"""Tests the planning of a calibration against a simulated controller: it finds the limit, and stays within its bounds."""

from __future__ import annotations

import random

import pytest

from tuner.planning.calibration_proposal import estimate_rates, propose_quota, round_down
from tuner.planning.calibration_steps import (
    CalibrationBounds,
    CalibrationRound,
    MutationKind,
    StepResult,
    next_rate_per_s,
    plan_round,
    safe_rate_per_s,
)

BOUNDS = CalibrationBounds(partitions_max=4_000, sizes=(1,))
CREATE, ADD, DELETE = MutationKind
ROUNDS_MAX = 90


def step(rate_per_s: float, pressure: float, kind: MutationKind = CREATE, **changes: float) -> StepResult:
    values = {"achieved_per_s": rate_per_s, "duration_s": 5.0} | changes
    return StepResult(kind, 1, rate_per_s, pressure=pressure, text="slow", **values)


def calibrate(
    limits_per_s: dict[MutationKind, float], bounds: CalibrationBounds = BOUNDS, noise: float = 0.0, seed: int = 0
) -> tuple[list[StepResult], list[CalibrationRound]]:
    """Runs rounds on a controller whose pressure is rate ÷ limit, with relative noise."""
    rng, steps, rounds = random.Random(seed), list[StepResult](), list[CalibrationRound]()
    while (planned := plan_round(steps, bounds)) is not None:
        rounds.append(planned)
        assert len(rounds) <= ROUNDS_MAX, "the search ends"
        for kind in planned.measured:
            rate = planned.rates_per_s[kind]
            pressure = rate / (planned.size**0.5 * limits_per_s[kind]) * rng.uniform(1 - noise, 1 + noise)
            steps.append(StepResult(kind, planned.size, rate, rate, 5.0, pressure, "slow"))
    return steps, rounds


def test_calibration_brackets_true_rate_of_each_kind() -> None:
    limits = {CREATE: 70.0, ADD: 150.0, DELETE: 33.0}
    steps, _ = calibrate(limits)
    for estimate in estimate_rates(steps):
        assert estimate.low_per_s is not None
        assert estimate.high_per_s is not None
        assert estimate.low_per_s <= limits[estimate.kind] < estimate.high_per_s <= 1.26 * estimate.low_per_s
        assert estimate.rate_per_s == pytest.approx(limits[estimate.kind], rel=0.02)
        assert estimate.limited_by == "slow"


@pytest.mark.parametrize("seed", range(8))
def test_noise_of_twenty_percent_leaves_estimate_near(seed: int) -> None:
    limits = {CREATE: 70.0, ADD: 150.0, DELETE: 33.0}
    steps, _ = calibrate(limits, noise=0.2, seed=seed)
    for estimate in estimate_rates(steps):
        assert estimate.rate_per_s is not None
        assert 0.6 * limits[estimate.kind] <= estimate.rate_per_s <= 1.3 * limits[estimate.kind]


def test_rate_that_was_kept_is_repeated_once() -> None:
    steps, _ = calibrate({CREATE: 70.0, ADD: 70.0, DELETE: 70.0})
    kept = [s.rate_per_s for s in steps if s.kind is CREATE and not s.failed]
    assert kept.count(max(kept)) == 2


def test_rate_that_failed_by_chance_is_tried_again() -> None:
    steps = [step(5, 2.0), step(2.5, 0.1), *(step(rate, 0.1) for rate in (3.5, 4.2, 4.2))]
    assert next_rate_per_s(steps, CREATE, 1, BOUNDS) == 5
    assert next_rate_per_s([*steps, step(5, 0.1)], CREATE, 1, BOUNDS) == 10, "the search goes on above"
    assert next_rate_per_s([*steps, step(5, 2.0)], CREATE, 1, BOUNDS) is None


def test_rate_that_is_not_kept_again_becomes_the_upper_bound() -> None:
    steps = [step(20, 0.1), step(25, 2.0), step(20, 1.5)]
    assert next_rate_per_s([step(10, 0.1), *steps], CREATE, 1, BOUNDS) == pytest.approx(200**0.5)


@pytest.mark.parametrize("partitions_max", [40, 500, 4_000])
def test_round_keeps_partitions_bound_and_runs_no_unproven_rate(partitions_max: int) -> None:
    bounds = CalibrationBounds(partitions_max=partitions_max, sizes=(1, 3, 10))
    steps, rounds = calibrate({CREATE: 20.0, ADD: 1e6, DELETE: 90.0}, bounds)
    for planned in rounds:
        grown = 2 if ADD in planned.rates_per_s else 1
        assert planned.topics * planned.size * grown <= partitions_max
        for kind in set(planned.rates_per_s) - planned.measured:
            assert planned.rates_per_s[kind] <= max(
                (s.rate_per_s for s in steps if (s.kind, s.size) == (kind, planned.size) and not s.failed),
                default=bounds.first_rate_per_s(planned.size),
            )
    endless = next(e for e in estimate_rates(steps) if e.kind is ADD)
    assert (endless.high_per_s, endless.limited_by) == (None, "")


def test_busy_controller_is_tried_at_lower_rates_and_gives_up() -> None:
    steps, _ = calibrate({CREATE: 0.01, ADD: 50.0, DELETE: 50.0})
    tried = [s.rate_per_s for s in steps if s.kind is CREATE]
    assert tried == [5.0, 2.5, 1.25, 1.25]
    estimates = estimate_rates(steps)
    assert (estimates[0].rate_per_s, estimates[0].low_per_s, estimates[0].high_per_s) == (None, None, 1.25)
    assert propose_quota(estimates, 10, 11, 1.0) is None


def test_requests_that_do_not_keep_up_end_the_search_at_what_was_achieved() -> None:
    steps = [step(40, 0.3), step(80, 0.4, achieved_per_s=44.0), step(40, 0.3)]
    (estimate,) = estimate_rates(steps)
    assert estimate.rate_per_s == 44.0
    assert estimate.limited_by == "the requests did not keep up with the rate"


def test_stopped_step_counts_as_failed_whatever_its_pressure() -> None:
    stopped = StepResult(CREATE, 1, 40, 40, 2.0, None, "", was_stopped=True)
    assert next_rate_per_s([step(20, 0.4), stopped], CREATE, 1, BOUNDS) == pytest.approx(800**0.5)


def test_step_without_measurement_is_never_kept() -> None:
    unmeasured = StepResult(CREATE, 1, 40, 40, 5.0, None)
    assert next_rate_per_s([step(20, 0.4), unmeasured], CREATE, 1, BOUNDS) == pytest.approx(800**0.5)
    assert next_rate_per_s([unmeasured], CREATE, 1, BOUNDS) == 20
    (estimate,) = estimate_rates([step(20, 0.4), unmeasured])
    assert (estimate.low_per_s, estimate.limited_by) == (20, "the load could not be measured")
    assert estimate.rate_per_s == pytest.approx(800**0.5)


def test_unmeasured_work_runs_at_half_of_a_rate_that_failed() -> None:
    assert safe_rate_per_s([], DELETE, 1, BOUNDS) == 5.0
    assert safe_rate_per_s([step(5, 3.0, DELETE)], DELETE, 1, BOUNDS) == 2.5
    assert safe_rate_per_s([step(20, 0.5, DELETE)], DELETE, 1, BOUNDS) == 20


def test_proposal_takes_worst_case_less_reserve_and_over_allocates() -> None:
    steps, _ = calibrate({CREATE: 70.0, ADD: 150.0, DELETE: 33.0})
    proposal = propose_quota(estimate_rates(steps), 4, 11, 1.0)
    assert proposal is not None
    assert proposal.worst.kind is DELETE
    assert proposal.worst.low_per_s is not None
    assert proposal.total_per_s == round_down(0.8 * proposal.worst.low_per_s)
    assert proposal.tenant_per_s == proposal.total_per_s / 2
    assert proposal.burst == 11 * proposal.tenant_per_s
    assert proposal.burst_s == pytest.approx(proposal.burst / proposal.worst.low_per_s)


def test_single_tenant_gets_no_more_than_total() -> None:
    steps, _ = calibrate({CREATE: 70.0, ADD: 150.0, DELETE: 33.0})
    proposal = propose_quota(estimate_rates(steps), 1, 11, 1.0)
    assert proposal is not None
    assert proposal.tenant_per_s == proposal.total_per_s


@pytest.mark.parametrize(("value", "expected"), [(36.9, 36), (5.0, 5.0), (0.0999, 0.099), (1234.0, 1200), (0.56, 0.56)])
def test_quota_is_rounded_down_to_two_digits(value: float, expected: float) -> None:
    assert round_down(value) == pytest.approx(expected)
