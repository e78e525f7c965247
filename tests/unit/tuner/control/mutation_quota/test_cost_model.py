"""The cost model with odd signals: storms that fade, changing background work, nothing to measure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutation_rig import Rig, controller, tenant

from tuner.control.mutation_quota.cost_model import initial_cost, update_cost
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy
from tuner.control.mutation_quota.state import LearnedCost
from tuner.control.mutation_quota.total_rate import burst_cap_per_s
from tuner.core.controller import ControllerObjective

LIMITS = MutationLimits()
A = QuotaEntity("a")


def test_cost_below_resolution_is_not_zero() -> None:
    cost = initial_cost()
    for _ in range(2_400):
        cost = update_cost(cost, 0.0, 1.25, 5.0, LIMITS)
    assert (cost.topic_ms, cost.partition_ms) == (0.001, 0.001)


def test_falling_other_load_does_not_lower_cost() -> None:
    cost = replace(initial_cost(), other_busy_ratio=0.1)
    for _ in range(400):
        cost = update_cost(cost, 0.05, 1.25, 5.0, LIMITS)
    assert cost.other_busy_ratio == pytest.approx(0.05)
    assert (cost.topic_ms, cost.partition_ms) == (0.9, 0.06)


def test_cost_never_exceeds_controller_busy_time() -> None:
    cost = LearnedCost(0.9, 170.0, other_busy_ratio=0.2, steps=1)
    for look in range(200):
        cost = update_cost(cost, 0.01 + 0.1 * 0.7**look, 1.5, 1.5, LIMITS)
    assert 1.5 * cost.partition_total_ms <= 10.1


def test_fading_load_may_raise_but_not_lower_cost() -> None:
    cost = initial_cost()
    assert update_cost(cost, 0.0, 10, 40, LIMITS).partition_ms < 0.06
    assert update_cost(cost, 0.0, 10, 40, LIMITS, burst_fades=True).partition_ms == 0.06
    assert update_cost(cost, 0.5, 10, 40, LIMITS, burst_fades=True).partition_ms > 0.06


@given(windows=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e4), st.floats(0, 1e4)), max_size=60))
def test_cost_and_cap_exist_for_any_windows(windows: list[tuple[float, float, float]]) -> None:
    cost = initial_cost()
    for busy, topics, partitions in windows:
        cost = update_cost(cost, busy, topics, partitions, LIMITS)
        assert cost.topic_ms >= 0.001
        assert cost.partition_ms >= 0.001
        assert 0 <= cost.other_busy_ratio <= 1
        assert 1 <= burst_cap_per_s(cost, ControllerObjective(), LIMITS) <= 5_000


def test_learned_cost_survives_fading_storm() -> None:
    """A partition takes 3 ms and everything else a fiftieth of the time; the books are means of forty seconds."""
    rig = Rig(MutationPolicy(default_entity=None))
    for _ in range(60):
        rate = rig.quotas.get(A, 100.0)
        rig.cycle([tenant(rig.now_ms, rate, -1.0, user="a")], [controller(rig.now_ms, idle=0.98 - 0.003 * rate)])
    assert rig.memory.cost is not None
    in_storm, rate, total = rig.memory.cost.partition_total_ms, rig.quotas[A], rig.memory.total
    assert in_storm == pytest.approx(3.0, rel=0.15)
    for look in range(120):
        books = rate * max(0.0, 1 - look / 8)
        rig.cycle([tenant(rig.now_ms, books, 1e9, user="a")], [controller(rig.now_ms, idle=0.98)])
    assert in_storm / 2 <= rig.memory.cost.partition_total_ms <= in_storm
    assert rig.memory.total == total


def test_cost_overestimated_under_other_load_recovers() -> None:
    """Quotas that are rounded, and are not written for a few percent, add up to a little less than the least of all totals."""
    rig = Rig(MutationPolicy(default_entity=None))
    for _ in range(40):
        rig.cycle([tenant(rig.now_ms, 0.5, 1e9, user=user) for user in "abc"], [controller(rig.now_ms, idle=0.4)])
    assert rig.memory.total is not None
    assert rig.memory.total.rate_per_s == 1.0
    for _ in range(120):
        books = [tenant(rig.now_ms, rig.quotas[QuotaEntity(user)], -1.0, user=user) for user in "abc"]
        rig.cycle(books, [controller(rig.now_ms, idle=0.98)])
    assert rig.memory.total.rate_per_s >= 50
