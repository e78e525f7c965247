"""The apply lag, and limits learned from earlier overload, with literal numbers."""

from __future__ import annotations

import math
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutation_rig import Rig, controller, tenant

from tuner.control.mutation_quota.apply_lag import (
    TotalInputs,
    known_limit_per_s,
    lag_growth_ratio,
    sustained_per_s,
    with_known_limit,
)
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy
from tuner.control.mutation_quota.state import TotalRate
from tuner.control.mutation_quota.total_rate import next_total
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.controller_pressure import Measure, Pressure

LIMITS = MutationLimits()
NOW = 10_000_000
MINUTE = 60_000


def lag(ms: float) -> Pressure:
    return Pressure(ms / 1_000, Measure.APPLY_LAG, ms, 1_000)


def after(total: TotalRate, ms: float, course: TotalInputs, cap: float = 10_000.0) -> tuple[TotalRate, QuotaReason]:
    return next_total(total, lag(ms), course, False, True, 0.0, cap, NOW, LIMITS)


def test_lag_growth_of_quarter_means_three_quarters_applied() -> None:
    behind = lag_growth_ratio(lag(1_500), 500, 4_000)
    assert behind == 0.25
    assert sustained_per_s(160, TotalInputs(lag_growth_ratio=behind), LIMITS) == 120


def test_lag_growth_needs_two_apply_lags() -> None:
    assert lag_growth_ratio(Pressure(2.0, Measure.QUEUE, 1_000, 500), 500, 5_000) == 0.0
    assert lag_growth_ratio(lag(1_500), None, 5_000) == 0.0
    assert lag_growth_ratio(lag(1_500), 500, 0) == 0.0


def test_lag_growth_halves_the_applied_rate_at_most() -> None:
    assert sustained_per_s(160, TotalInputs(lag_growth_ratio=3.0), LIMITS) == 80


def test_growing_apply_lag_cuts_below_applied_rate() -> None:
    total, reason = after(TotalRate(160), 2_500, TotalInputs(1.2, 0.25))
    assert reason is QuotaReason.OVER_OBJECTIVE
    assert total == TotalRate(102, NOW, NOW, 120, NOW)


def test_growing_apply_lag_cuts_at_once_after_small_cut() -> None:
    assert after(TotalRate(160, NOW - 5_000, NOW - 5_000), 2_500, TotalInputs(1.2, 0.25))[0].known_limit_per_s == 120
    again = TotalRate(100, NOW - 5_000, NOW - 5_000, 120, NOW - 5_000)
    assert after(again, 2_500, TotalInputs(1.2, 0.25)) == (again, QuotaReason.SETTLING)


def test_single_apply_lag_above_objective_causes_small_cut() -> None:
    assert after(TotalRate(160), 2_500, TotalInputs(0.3, 0.45))[0] == TotalRate(152, NOW, NOW)
    assert after(TotalRate(160), 2_500, TotalInputs())[0] == TotalRate(152, NOW, NOW)


def test_slow_catch_up_is_cut_without_learning_a_limit() -> None:
    known = TotalRate(100, known_limit_per_s=120, known_limit_at_ms=1)
    total, reason = after(known, 4_000, TotalInputs(4.1, -0.02))
    assert reason is QuotaReason.OVER_OBJECTIVE
    assert total == TotalRate(50, NOW, NOW, 120, 1)


def test_apply_lag_nearing_objective_causes_early_small_cut() -> None:
    # 0.7 s, and 10 ms later with every second: over 1 s within the 35 that pass before a cut is seen.
    found, reason = after(TotalRate(160), 700, TotalInputs(0.65, 0.01, 650))
    assert reason is QuotaReason.FALLING_BEHIND
    assert found.rate_per_s == pytest.approx(145.6)
    assert found.known_limit_per_s == pytest.approx(158.4)
    assert found.cut_at_ms == found.changed_at_ms == found.known_limit_at_ms == NOW


@pytest.mark.parametrize(
    ("ms", "course"),
    [
        (950, TotalInputs(0.95, 0.0, 950)),  # The lag is steady,
        (950, TotalInputs(0.96, -0.01, 960)),  # falls,
        (950, TotalInputs(0.5, 0.09, 500)),  # may be a burst,
        (950, TotalInputs(None, 0.0, None)),  # its course is not known;
        (950, TotalInputs(0.9, 0.01, 900, is_new_window=False)),  # was judged before,
        (590, TotalInputs(0.5, 0.09, 140)),  # is near the idle level,
        (640, TotalInputs(0.63, 0.002, 630)),  # or takes three minutes to reach the objective.
    ],
)
def test_steady_apply_lag_below_objective_causes_no_cut(ms: float, course: TotalInputs) -> None:
    # Given too lately for a raise, and long enough ago for a cut.
    before = TotalRate(160, changed_at_ms=NOW)
    assert after(before, ms, course)[0] == before


def test_apply_lag_cut_waits_for_effect_of_last_cut() -> None:
    just_cut, creeping = TotalRate(160, cut_at_ms=NOW - 30_000), TotalInputs(0.9, 0.01, 900)
    assert after(just_cut, 950, creeping) == (just_cut, QuotaReason.WITHIN_OBJECTIVE)
    found = next_total(TotalRate(160), lag(950), creeping, False, False, 100.0, 1_000, NOW, LIMITS)
    assert found == (TotalRate(160), QuotaReason.WITHIN_OBJECTIVE)


def test_known_limit_never_rises_after_a_miss() -> None:
    known = TotalRate(110, known_limit_per_s=100, known_limit_at_ms=NOW)
    assert with_known_limit(known, 200, TotalInputs(lag_growth_ratio=0.1), NOW, LIMITS).known_limit_per_s == 100


def test_raise_covers_half_the_distance_to_known_limit() -> None:
    total, reason = after(TotalRate(60, known_limit_per_s=100, known_limit_at_ms=NOW), 100, TotalInputs())
    assert reason is QuotaReason.HEADROOM_AVAILABLE
    assert total.rate_per_s == pytest.approx(60 + 35 / 2)


def test_total_just_below_known_limit_is_not_raised() -> None:
    near = TotalRate(92, known_limit_per_s=100, known_limit_at_ms=NOW)
    assert after(near, 100, TotalInputs()) == (near, QuotaReason.NEAR_KNOWN_LIMIT)


@pytest.mark.parametrize(("minutes", "most"), [(0, 100), (10, 103.7), (15, 112.5), (30, 200), (60, 900)])
def test_known_limit_fades_slowly_then_quickly(minutes: int, most: float) -> None:
    known = TotalRate(90, known_limit_per_s=100, known_limit_at_ms=NOW - minutes * MINUTE)
    assert known_limit_per_s(known, NOW, LIMITS) == pytest.approx(most, abs=0.1)


@pytest.mark.parametrize(("minutes", "most"), [(0, 1), (15, 7.25), (30, 51), (60, 401)])
def test_known_limit_of_one_fades_within_an_hour(minutes: int, most: float) -> None:
    known = TotalRate(1, known_limit_per_s=1, known_limit_at_ms=NOW - minutes * MINUTE)
    assert known_limit_per_s(known, NOW, LIMITS) == pytest.approx(most)


def test_apply_lag_without_mutations_teaches_no_limit() -> None:
    found, reason = next_total(TotalRate(200), lag(2_500), TotalInputs(1.2, 0.5), False, False, 0.0, 1_000, NOW, LIMITS)
    assert reason is QuotaReason.OVER_OBJECTIVE
    assert found == TotalRate(LIMITS.rate_per_s_safe, NOW, NOW)


def test_no_known_limit_without_a_miss() -> None:
    assert known_limit_per_s(TotalRate(90), NOW, LIMITS) == math.inf


@given(
    rate=st.floats(1, 5_000),
    ms=st.floats(0, 1e5),
    behind=st.floats(-5, 5),
    missed=st.none() | st.floats(1, 5_000),
    since_ms=st.integers(0, NOW),
)
def test_raise_never_passes_known_limit(
    rate: float, ms: float, behind: float, missed: float | None, since_ms: int
) -> None:
    total = TotalRate(rate, known_limit_per_s=missed, known_limit_at_ms=NOW - since_ms)
    found, _ = after(total, ms, TotalInputs(None, behind))
    if found.rate_per_s > rate:
        assert found.rate_per_s <= 0.95 * known_limit_per_s(total, NOW, LIMITS) + 1e-6
    assert (found.known_limit_per_s or math.inf) <= known_limit_per_s(total, NOW, LIMITS)


class Sink:
    """A cluster that applies partitions in order at a fixed rate; its lag is the age of the next one."""

    def __init__(self, applies_per_s: float) -> None:
        self.applies_per_s = applies_per_s
        self.now_s = 0.0
        self.waiting: deque[tuple[float, float]] = deque()  # (when they came, how many are left of them)

    def flow(self, rate_per_s: float, lasts_s: float) -> None:
        for _ in range(round(10 * lasts_s)):
            self.now_s += 0.1
            self.waiting.append((self.now_s, 0.1 * rate_per_s))
            room = 0.1 * self.applies_per_s
            while self.waiting and room > 0:
                at_s, left = self.waiting.popleft()
                if left > room:
                    self.waiting.appendleft((at_s, left - room))
                room -= left

    @property
    def lag_s(self) -> float:
        return 0.2 + (self.now_s - self.waiting[0][0] if self.waiting else 0.0)


def settled(applies_per_s: float, bursts_every: int, slows_to: float = 1.0) -> tuple[list[float], list[float]]:
    """How late the sink is and what is given, in the second half of ten minutes; in which it slows down to so much of it."""
    objective = ControllerObjective(apply_lag_ms_max=1_000.0, burst_ms_max=1e6)
    rig, sink = Rig(MutationPolicy(objective, default_entity=None)), Sink(applies_per_s)
    lags, rates = [], []
    for look in range(120):
        sink.applies_per_s = applies_per_s * (1 - (1 - slows_to) * max(0, look - 60) / 60)
        given_per_s = sum(rig.quotas.values()) or 60.0
        books = [tenant(rig.now_ms, given_per_s / 2, -1.0, client_id=name) for name in ("a", "b")]
        burst_s = 0.9 if look % bursts_every == bursts_every - 1 else 0.0
        rig.cycle(
            books, [controller(rig.now_ms)], beside=ClusterWideMeasures(apply_lag_ms=1_000 * (sink.lag_s + burst_s))
        )
        sink.flow(sum(rig.quotas.values()), 5.0)
        lags.append(sink.lag_s)
        rates.append(sum(rig.quotas.values()))
    return lags[60:], rates[60:]


@pytest.mark.parametrize("applies_per_s", [37.0, 90.0, 130.0, 210.0])
def test_storm_settles_below_applied_rate(applies_per_s: float) -> None:
    lags, rates = settled(applies_per_s, 1_000)
    assert max(lags) <= 1.0
    assert min(rates) >= 0.85 * applies_per_s


@pytest.mark.parametrize("applies_per_s", [37.0, 90.0, 130.0, 210.0])
def test_short_lag_bursts_cost_at_most_a_fifth(applies_per_s: float) -> None:
    lags, rates = settled(applies_per_s, 12)
    assert max(lags) <= 1.0
    assert sum(rates) / len(rates) >= 0.8 * applies_per_s


@pytest.mark.parametrize("applies_per_s", [90.0, 130.0, 210.0])
def test_total_follows_a_slowing_broker_without_a_miss(applies_per_s: float) -> None:
    lags, rates = settled(applies_per_s, 1_000, slows_to=0.8)
    assert max(lags) <= 1.0
    assert min(rates) >= 0.9 * 0.8 * applies_per_s
