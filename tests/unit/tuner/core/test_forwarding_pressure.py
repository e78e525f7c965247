"""The share of time in which brokers forward requests to the controller, and the law that limits it."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest
from mutation_rig import START_MS, Rig, controller, reasons, tenant
from tuner_cases import broker_signal

from benchmarks.controllers.line_model import waits
from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.apply_lag import TotalInputs
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.control.mutation_quota.state import TotalRate
from tuner.control.mutation_quota.total_rate import next_total
from tuner.core.controller import ClusterWideMeasures, ControllerObjective, cluster_wide_measures
from tuner.core.controller_pressure import Measure, Pressure, missing_measures, worst_pressure

LIMITS, FIRST = MutationLimits(), TotalInputs()
ASKED = ControllerObjective(
    idle_ratio_min=None, queue_ms_max=None, forwarding_busy_ratio_max=0.1, burst_ms_max=1_000_000.0
)
POLICY = MutationPolicy(objective=ASKED, default_entity=QuotaEntity(client_id=DEFAULT))


def ratio_of(
    in_progress: float | None, brokers: float | None, *, active: float = 1.0, at_ms: int = START_MS
) -> float | None:
    one = replace(controller(at_ms, active=active), topic_requests_in_progress_mean=in_progress, active_brokers=brokers)
    return cluster_wide_measures({1: one}, {}, START_MS, 15.0).forwarding_busy_ratio


def test_forwarding_ratio_is_requests_in_progress_per_broker() -> None:
    assert ratio_of(0.3, 3.0) == pytest.approx(0.1)
    # Whoever asks the controller itself stands in no line.
    assert ratio_of(4.0, 3.0) == 1.0
    for unknown in (ratio_of(None, 3.0), ratio_of(0.3, None), ratio_of(0.3, 0.0), ratio_of(0.3, 3.0, active=0.0)):
        assert unknown is None
    assert ratio_of(0.3, 3.0, at_ms=START_MS - 16_000) is None


def test_newer_of_two_active_controllers_counts() -> None:
    def one(node: int, in_progress: float, at_ms: int) -> ControllerSignal:
        found = controller(at_ms, node=node)
        return replace(found, topic_requests_in_progress_mean=in_progress, active_brokers=3.0)

    both = {1: one(1, 2.7, START_MS - 5_000), 2: one(2, 0.3, START_MS)}
    assert cluster_wide_measures(both, {}, START_MS, 15.0).forwarding_busy_ratio == pytest.approx(0.1)
    assert cluster_wide_measures(both, {2: broker_signal(2)}, START_MS, 15.0).forwarding_busy_ratio is None


def test_unknown_forwarding_ratio_leaves_no_headroom() -> None:
    found = worst_pressure(controller(START_MS), ClusterWideMeasures(forwarding_busy_ratio=0.12), ASKED)
    assert found is not None
    assert (found.measure, found.ratio) == (Measure.FORWARDING, pytest.approx(1.2))
    assert "12.0 % of the time" in str(found)
    assert "objective: at most 10.0 %" in str(found)
    assert missing_measures(controller(START_MS), ClusterWideMeasures(), ASKED) == (Measure.FORWARDING,)
    assert missing_measures(controller(START_MS), ClusterWideMeasures(forwarding_busy_ratio=0.0), ASKED) == ()
    unasked = replace(ASKED, forwarding_busy_ratio_max=None, queue_ms_max=500.0)
    other = worst_pressure(controller(START_MS), ClusterWideMeasures(forwarding_busy_ratio=0.9), unasked)
    assert other is not None
    assert other.measure is Measure.QUEUE


def lines(ratio: float) -> Pressure:
    return Pressure(ratio, Measure.FORWARDING, ratio / 10, 0.1)


def after(
    rate: float, ratio: float, course: TotalInputs = FIRST, worst: Pressure | None = None
) -> tuple[float, QuotaReason]:
    """A hundred seconds after the last change."""
    course = replace(course, forwarding=lines(ratio))
    made, why = next_total(
        TotalRate(rate), worst or lines(ratio), course, False, True, rate, 1_000.0, 100_000, LIMITS
    )  # fmt: skip
    return made.rate_per_s, why


@pytest.mark.parametrize(
    ("rate", "ratio", "promised", "left", "reason"),
    [
        (50.0, 1.5, 0.0, 50 / 1.5, QuotaReason.OVER_OBJECTIVE),
        # Below what any controller bears with ease as well: it moves with what is let through.
        (25.0, 1.25, 0.0, 20.0, QuotaReason.OVER_OBJECTIVE),
        (12.0, 1.25, 10.0, 10.0, QuotaReason.OVER_OBJECTIVE),
        # Commits that take twice as long are no reason to break a promise.
        (12.0, 2.5, 10.0, 10.0, QuotaReason.OVER_OBJECTIVE),
        (10.0, 2.5, 10.0, 10.0, QuotaReason.AT_MINIMUM),
        (5.0, 1.9, 0.0, 5.0, QuotaReason.AT_MINIMUM),
        # It was broken for something else, and is given back.
        (6.0, 1.5, 10.0, 10.0, QuotaReason.AT_MINIMUM),
        (6.0, 0.9, 10.0, 10.0, QuotaReason.AT_MINIMUM),
    ],
)
def test_forwarding_cut_stops_at_guarantees(
    rate: float, ratio: float, promised: float, left: float, reason: QuotaReason
) -> None:
    assert after(rate, ratio, TotalInputs(guaranteed_per_s=promised)) == (pytest.approx(left), reason)


def test_nonbinding_total_is_not_raised() -> None:
    """Near the limit of partitions, or where something asked for is not told, something else does."""
    course = TotalInputs(guaranteed_per_s=10.0, forwarding=lines(0.9))
    made, why = next_total(TotalRate(6.0), lines(0.9), course, False, False, 6.0, 1_000.0, 100_000, LIMITS)
    assert (made, why) == (TotalRate(6.0), QuotaReason.WITHIN_OBJECTIVE)


@pytest.mark.parametrize(
    ("ratio", "left", "reason"),
    [
        (0.94, 20.0, QuotaReason.WITHIN_OBJECTIVE),
        (0.96, 19.0, QuotaReason.NEAR_OBJECTIVE),
        (0.81, 20.0, QuotaReason.WITHIN_OBJECTIVE),
        (0.75, 20 * (1 + 0.05 / 0.75 / 2), QuotaReason.HEADROOM_AVAILABLE),
        (0.0, 20.0, QuotaReason.SETTLING),
    ],
)
def test_total_is_kept_near_forwarding_objective(ratio: float, left: float, reason: QuotaReason) -> None:
    assert after(20.0, ratio) == (pytest.approx(left), reason)


def test_forwarding_cut_applies_despite_higher_other_pressure() -> None:
    """What others feel takes nothing below 25/s, and so lines that were over their objective were left so."""
    felt, other = Pressure(1.2, Measure.CREATE_PROBE, 42.0, 35.0), Pressure(0.98, Measure.QUEUE, 490.0, 500.0)
    course = TotalInputs(probe_ratio=1.2, probe_likely_ratio=1.4)
    assert after(20.0, 1.15, course, felt) == (pytest.approx(20 / 1.15), QuotaReason.OVER_OBJECTIVE)
    assert after(20.0, 0.9, course, felt) == (20.0, QuotaReason.AT_MINIMUM)
    likely = TotalInputs(probe_ratio=0.9, probe_likely_ratio=1.1)
    assert after(20.0, 0.96, likely, Pressure(0.9, Measure.CREATE_PROBE, 31.5, 35.0)) == (
        19.0,
        QuotaReason.NEAR_OBJECTIVE,
    )
    assert after(20.0, 0.97, worst=other) == (19.0, QuotaReason.NEAR_OBJECTIVE)
    assert after(20.0, 0.81, worst=Pressure(0.84, Measure.QUEUE, 420.0, 500.0)) == (20.0, QuotaReason.WITHIN_OBJECTIVE)


def test_total_settles_after_an_early_step() -> None:
    eased = TotalInputs(near_cut_at_ms=95_000)
    assert after(19.0, 1.04, eased) == (19.0, QuotaReason.SETTLING)
    assert after(19.0, 1.07, eased)[1] is QuotaReason.OVER_OBJECTIVE
    # What was promised is not taken, however near.
    assert after(20.0, 0.99, TotalInputs(guaranteed_per_s=20.0)) == (20.0, QuotaReason.WITHIN_OBJECTIVE)


def test_single_low_forwarding_ratio_is_no_headroom() -> None:
    """Of what wavers one in five looks was below the aim, and each of them would have raised the total."""
    rig = Rig(POLICY)
    totals = []
    for look in range(60):
        found = [tenant(rig.now_ms, 10.0, -5.0, client_id="a")]
        made = rig.cycle(found, beside=ClusterWideMeasures(forwarding_busy_ratio=0.07 if look % 5 == 4 else 0.085))
        assert made.memory.total is not None
        totals.append(made.memory.total.rate_per_s)
    assert totals == [50.0] * 60


def test_failover_ignores_requests_queued_at_brokers() -> None:
    rig = Rig(replace(POLICY, objective=replace(ASKED, idle_ratio_min=0.3)))
    rig.cycle([tenant(rig.now_ms, 10.0, -5.0, client_id="a")], beside=ClusterWideMeasures(forwarding_busy_ratio=0.085))
    for _ in range(6):
        found = [tenant(rig.now_ms, 10.0, -5.0, client_id="a", node=2)]
        made = rig.cycle(found, [controller(rig.now_ms, node=2)], beside=ClusterWideMeasures(forwarding_busy_ratio=0.9))
        assert made.memory.total is not None
        assert made.memory.total.rate_per_s == 50.0
        assert QuotaReason.PRESSURE_NOT_MEASURED in reasons(made)
    rig.now_ms += 10_000
    found = [tenant(rig.now_ms, 10.0, -5.0, client_id="a", node=2)]
    made = rig.cycle(found, [controller(rig.now_ms, node=2)], beside=ClusterWideMeasures(forwarding_busy_ratio=0.9))
    assert QuotaReason.OVER_OBJECTIVE in reasons(made)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_storm_gets_the_free_forwarding_capacity(seed: int) -> None:
    """Two tenants who want 4/s and are promised 5 beside four that take what they get; half a minute's share of the lines moves with
    what was let through, and wavers by a fifteenth as counted requests do. Ten minutes in, ten minutes long."""
    rng = random.Random(seed)
    rules = (TenantRule(client_id="calm-*", rate_per_s_min=5.0),)
    rig = Rig(replace(POLICY, rules=rules))
    ratios, storms = list[float](), list[float]()
    # What storms did, and by how much each cycle was odd, in those that a signal looks back on.
    did, odd = [50.0] * 7, [0.0] * 6
    for cycle in range(240):
        total = rig.memory.total.rate_per_s if rig.memory.total is not None else 50.0
        did, odd = [*did[1:], max(0.0, total - 8.0)], [*odd[1:], rng.gauss(0.0, math.sqrt(6) / 15)]
        busy = (0.05 + 0.0037 * sum(did[:-1]) / 6) * (1 + sum(odd) / 6)
        found = [tenant(rig.now_ms, 4.0, 50.0, client_id=f"calm-{i}") for i in range(2)]
        found += [tenant(rig.now_ms, did[-1] / 4, -5.0, client_id=f"storm-{i}") for i in range(4)]
        rig.cycle(found, beside=ClusterWideMeasures(forwarding_busy_ratio=busy))
        if cycle >= 120:
            ratios.append(busy / 0.1)
            storms.append(did[-1])
    # At the objective it would be 13.5/s.
    assert 6.5 < sum(storms) / len(storms) < 12.0
    assert max(storms) - min(storms) < 5.0
    assert sum(one != other for one, other in itertools.pairwise(storms)) <= 10
    assert sum(ratio > 1 for ratio in ratios) <= 0.03 * len(ratios)


def test_wait_of_quiet_tenant_grows_with_forwarding_load() -> None:
    alone, little, much = waits(0.0, 1_500), waits(9.0, 1_500), waits(60.0, 1_500)
    assert alone.forwarding_busy_ratio < little.forwarding_busy_ratio < 0.1 < much.forwarding_busy_ratio
    assert little.calm_p99_ms < 1.5 * alone.calm_p99_ms < much.calm_p99_ms
    # Whoever is in the middle feels none of it.
    assert much.calm_p50_ms < 1.1 * alone.calm_p50_ms
    assert waits(9.0, 1_500) == little
