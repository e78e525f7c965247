"""Tests which tenants a total would hold back."""

from __future__ import annotations

import pytest

from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import MutationPolicy, TenantRule
from tuner.control.mutation_quota.what_if import WhatIfShare, share_total

BUSY, QUIET, OPS = Tenant(client_id="busy"), Tenant(client_id="quiet"), Tenant(client_id="ops")
RATES = {QUIET: 2.0, BUSY: 50.0, OPS: 8.0}


def shares(total_per_s: float, *rules: TenantRule) -> dict[Tenant, WhatIfShare]:
    return {share.tenant: share for share in share_total(RATES, total_per_s, MutationPolicy(rules=rules))}


def test_total_above_all_rates_holds_no_tenant_back() -> None:
    assert [share.is_held_back for share in shares(60.0).values()] == [False] * 3


def test_busy_tenant_is_held_back_at_the_rest_of_the_total() -> None:
    found = shares(30.0)
    assert list(found) == [BUSY, OPS, QUIET]
    assert [tenant for tenant, share in found.items() if share.is_held_back] == [BUSY]
    assert found[BUSY].share_per_s == pytest.approx(20.0)


def test_exempt_tenant_keeps_its_rate_at_the_cost_of_others() -> None:
    found = shares(10.0, TenantRule(client_id="ops", exempt=True))
    assert (found[OPS].share_per_s, found[OPS].is_held_back, found[OPS].rule) == (8.0, False, 0)
    assert found[BUSY].share_per_s + found[QUIET].share_per_s == pytest.approx(2.0)


def test_guaranteed_rate_and_weight_of_rules_apply() -> None:
    found = shares(20.0, TenantRule(client_id="ops", rate_per_s_min=8.0), TenantRule(client_id="quiet", weight=9.0))
    assert not found[OPS].is_held_back
    assert not found[QUIET].is_held_back
    assert found[BUSY].share_per_s == pytest.approx(10.0)


def test_total_below_exempt_rates_leaves_others_nothing() -> None:
    found = shares(5.0, TenantRule(client_id="ops", exempt=True))
    assert found[BUSY].share_per_s == pytest.approx(0.0)
