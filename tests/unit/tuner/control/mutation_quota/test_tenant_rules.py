"""The rule that applies to a tenant, and the estimate of its demand."""

from __future__ import annotations

import math

import pytest
from mutation_rig import START_MS, tenant

from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import MutationLimits, TenantRule
from tuner.control.mutation_quota.state import TenantState
from tuner.control.mutation_quota.tenant_rules import demand_per_s, match_rule, update_tenant_state

LIMITS = MutationLimits()
# In Kafka's order of precedence, with patterns in the place of <default>.
RULES = [
    TenantRule("alice", "app"), TenantRule("alice", "a*"), TenantRule("alice"),
    TenantRule("a*", "app"), TenantRule("*", "*"), TenantRule("al?ce"),
    TenantRule(client_id="app"), TenantRule(client_id="a*"), TenantRule(),
]  # fmt: skip


@pytest.mark.parametrize("first", range(len(RULES)))
def test_rules_apply_in_kafka_precedence_not_list_order(first: int) -> None:
    rules = list(reversed(RULES[first:]))
    found = match_rule(Tenant("alice", "app"), rules)
    assert found is not None
    assert found.rule == RULES[first]
    assert found.index == len(rules) - 1
    assert found.also_matching == tuple(range(len(rules) - 1))


def test_first_of_equally_specific_rules_wins() -> None:
    found = match_rule(Tenant("alice"), [TenantRule("b*"), TenantRule("a*", weight=2), TenantRule("*e", weight=3)])
    assert found is not None
    assert (found.index, found.also_matching) == (1, (2,))


def test_rule_for_absent_entity_part_does_not_match() -> None:
    assert match_rule(Tenant("alice"), [TenantRule("alice", "*")]) is None
    assert match_rule(Tenant(client_id="app"), [TenantRule("*")]) is None
    assert match_rule(Tenant("alice"), []) is None


def test_only_star_and_question_mark_are_patterns() -> None:
    assert match_rule(Tenant("CN=a.b,O=[x]"), [TenantRule("CN=a.b,O=[x]")]) is not None
    assert match_rule(Tenant("CN=aXb,O=x"), [TenantRule("CN=a.b,O=[x]")]) is None
    assert match_rule(Tenant("a\nb"), [TenantRule("a*b")]) is not None
    assert match_rule(Tenant("ab"), [TenantRule("a")]) is None


def test_backlogged_tenant_has_unknown_demand() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, -1.0, user="a"), 5.0, LIMITS)
    assert state == TenantState(5.0, True, START_MS, START_MS)
    assert demand_per_s(state, LIMITS) == math.inf


def test_unthrottled_tenant_demands_its_rate_plus_quarter() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, 50.0, user="a"), 5.0, LIMITS)
    assert demand_per_s(state, LIMITS) == 3.75


def test_past_rate_decays_by_two_thirds_in_a_minute() -> None:
    state = TenantState(10.0, False, START_MS, START_MS)
    state = update_tenant_state(state, tenant(START_MS + 60_000, 0.0, 50.0, user="a"), 5.0, LIMITS)
    assert state.rate_per_s == pytest.approx(10 / math.e)
    assert state.active_at_ms == START_MS


def test_older_tenant_signal_is_ignored() -> None:
    state = TenantState(10.0, False, START_MS, START_MS)
    assert update_tenant_state(state, tenant(START_MS, 99.0, -5.0, user="a"), 5.0, LIMITS) == state


def test_tenant_without_quota_or_tokens_is_not_backlogged() -> None:
    assert not update_tenant_state(TenantState(), tenant(START_MS, 3.0, -1.0, user="a"), None, LIMITS).backlogged
    assert not update_tenant_state(TenantState(), tenant(START_MS, None, None, user="a"), 5.0, LIMITS).backlogged
    held = TenantState(5.0, True, START_MS, START_MS)
    assert update_tenant_state(held, tenant(START_MS + 5_000, 3.0, None, user="a"), 5.0, LIMITS).backlogged


def test_stale_tokens_of_loose_quota_are_no_backlog() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, -5.0, user="a"), 1e9, LIMITS)
    assert (state.rate_per_s, state.backlogged) == (3.0, False)


def test_quota_never_exceeds_controller_capacity() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, -5.0, user="a"), 1e6, LIMITS)
    assert (state.rate_per_s, state.backlogged) == (LIMITS.rate_per_s_max, True)


def test_tenant_repaying_token_debt_is_idle() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 0.0, -500.0, user="a"), 5.0, LIMITS)
    assert (state.rate_per_s, state.backlogged) == (0.0, True)


def test_idle_tenant_without_token_metric_stops_being_backlogged() -> None:
    held = TenantState(5.0, True, START_MS, START_MS)
    for idle in (0.0, None):
        assert not update_tenant_state(held, tenant(START_MS + 5_000, idle, None, user="a"), 5.0, LIMITS).backlogged


def test_idle_tenant_with_filling_bucket_is_not_backlogged() -> None:
    """A quota raised from 5 to 50 a moment ago: the bucket still holds the 55 of before."""

    def held_back(rate: float, tokens: float) -> bool:
        return update_tenant_state(TenantState(), tenant(START_MS, rate, tokens, user="a"), 50.0, LIMITS).backlogged

    assert not held_back(0.0, 55.0)
    assert held_back(2.0, 55.0)
    assert held_back(0.0, -0.5)
