"""Which rule a tenant falls under, and what is known of its demand."""

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
def test_rules_win_in_kafkas_order_wherever_they_stand_in_the_list(first: int) -> None:
    rules = list(reversed(RULES[first:]))
    found = match_rule(Tenant("alice", "app"), rules)
    assert found is not None
    assert found.rule == RULES[first]
    assert found.index == len(rules) - 1
    assert found.also_matching == tuple(range(len(rules) - 1))


def test_among_equals_the_first_wins() -> None:
    found = match_rule(Tenant("alice"), [TenantRule("b*"), TenantRule("a*", weight=2), TenantRule("*e", weight=3)])
    assert found is not None
    assert (found.index, found.also_matching) == (1, (2,))


def test_a_rule_for_a_part_that_the_books_do_not_have_does_not_fit() -> None:
    assert match_rule(Tenant("alice"), [TenantRule("alice", "*")]) is None
    assert match_rule(Tenant(client_id="app"), [TenantRule("*")]) is None
    assert match_rule(Tenant("alice"), []) is None


def test_only_star_and_question_mark_are_patterns() -> None:
    assert match_rule(Tenant("CN=a.b,O=[x]"), [TenantRule("CN=a.b,O=[x]")]) is not None
    assert match_rule(Tenant("CN=aXb,O=x"), [TenantRule("CN=a.b,O=[x]")]) is None
    assert match_rule(Tenant("a\nb"), [TenantRule("a*b")]) is not None
    assert match_rule(Tenant("ab"), [TenantRule("a")]) is None


def test_who_is_held_back_wants_nobody_knows_how_much() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, -1.0, user="a"), 5.0, LIMITS)
    assert state == TenantState(5.0, True, START_MS, START_MS)
    assert demand_per_s(state, LIMITS) == math.inf


def test_who_is_not_wants_what_it_does_and_a_quarter() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, 50.0, user="a"), 5.0, LIMITS)
    assert demand_per_s(state, LIMITS) == 3.75


def test_what_it_did_is_forgotten_by_two_thirds_in_a_minute() -> None:
    state = TenantState(10.0, False, START_MS, START_MS)
    state = update_tenant_state(state, tenant(START_MS + 60_000, 0.0, 50.0, user="a"), 5.0, LIMITS)
    assert state.rate_per_s == pytest.approx(10 / math.e)
    assert state.active_at_ms == START_MS


def test_an_older_signal_changes_nothing() -> None:
    state = TenantState(10.0, False, START_MS, START_MS)
    assert update_tenant_state(state, tenant(START_MS, 99.0, -5.0, user="a"), 5.0, LIMITS) == state


def test_without_a_quota_or_tokens_nobody_is_called_held_back() -> None:
    assert not update_tenant_state(TenantState(), tenant(START_MS, 3.0, -1.0, user="a"), None, LIMITS).backlogged
    assert not update_tenant_state(TenantState(), tenant(START_MS, None, None, user="a"), 5.0, LIMITS).backlogged
    held = TenantState(5.0, True, START_MS, START_MS)
    assert update_tenant_state(held, tenant(START_MS + 5_000, 3.0, None, user="a"), 5.0, LIMITS).backlogged


def test_tokens_from_before_a_quota_that_holds_nobody_back_are_no_hunger() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, -5.0, user="a"), 1e9, LIMITS)
    assert (state.rate_per_s, state.backlogged) == (3.0, False)


def test_nobody_is_let_do_more_than_a_controller_does() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 3.0, -5.0, user="a"), 1e6, LIMITS)
    assert (state.rate_per_s, state.backlogged) == (LIMITS.rate_per_s_max, True)


def test_who_only_waits_for_a_debt_to_be_paid_does_nothing() -> None:
    state = update_tenant_state(TenantState(), tenant(START_MS, 0.0, -500.0, user="a"), 5.0, LIMITS)
    assert (state.rate_per_s, state.backlogged) == (0.0, True)


def test_who_does_nothing_is_not_held_back_for_ever_by_tokens_that_nobody_tells() -> None:
    held = TenantState(5.0, True, START_MS, START_MS)
    for idle in (0.0, None):
        assert not update_tenant_state(held, tenant(START_MS + 5_000, idle, None, user="a"), 5.0, LIMITS).backlogged


def test_a_bucket_that_is_not_full_yet_holds_back_nobody_who_does_nothing() -> None:
    """A quota raised from 5 to 50 a moment ago: the bucket still holds the 55 of before."""

    def held_back(rate: float, tokens: float) -> bool:
        return update_tenant_state(TenantState(), tenant(START_MS, rate, tokens, user="a"), 50.0, LIMITS).backlogged

    assert not held_back(0.0, 55.0)
    assert held_back(2.0, 55.0)
    assert held_back(0.0, -0.5)
