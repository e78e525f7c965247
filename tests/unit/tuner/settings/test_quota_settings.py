"""The section `mutation_quota`: the policy it gives, and refused settings by name."""

from __future__ import annotations

import pytest
from test_settings import GOOD, fault

from rheostat.config.settings import parse_settings
from streaming.shared.contract.quotas import Default, QuotaEntity
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import MutationPolicy, TenantRule
from tuner.control.mutation_quota.tenant_rules import RuleMatch, match_rule
from tuner.core.controller import ControllerObjective

OWN = TenantRule(client_id="rheostat-*", exempt=True)
ON = GOOD + "  mutation_quota:\n"


def policy(text: str, environ: dict[str, str] | None = None) -> MutationPolicy:
    found = parse_settings(text, "f.yaml", environ or {}).tuner.mutation_policy()
    assert found is not None
    return found


def test_missing_quota_section_disables_mutation_quotas() -> None:
    assert parse_settings(GOOD, "f.yaml", {}).tuner.mutation_policy() is None


def test_empty_quota_section_gives_default_policy() -> None:
    assert policy(ON[:-1] + " {}\n") == MutationPolicy(rules=(OWN,))


def test_rheostat_clients_are_exempt_unless_a_rule_names_them() -> None:
    client = Tenant(client_id="rheostat-tuner-quotas")
    assert match_rule(client, policy(ON + "    tenants: [{user: a}]\n").rules) == RuleMatch(OWN, 1, ())
    held = match_rule(client, policy(ON + "    tenants: [{client_id: 'rheostat-*', weight: 2}]\n").rules)
    assert held is not None
    assert held.rule.weight == 2


def test_tenant_rules_have_weights_and_guaranteed_rates() -> None:
    rules = policy(
        ON
        + "    tenants:\n    - {user: ops*, exempt: true}\n    - {user: etl, client_id: 'nightly-?', weight: 3, rate_per_s_min: 2}\n"
    ).rules
    assert rules == (TenantRule("ops*", exempt=True), TenantRule("etl", "nightly-?", 3.0, 2.0), OWN)


def test_external_change_hold_applies_to_quotas_too() -> None:
    assert policy(GOOD + "  external_change_hold_s: 60\n  mutation_quota: {}\n").limits.external_change_hold_s == 60


def test_start_rate_is_limited_to_small_maximum() -> None:
    limits = policy(ON + "    rate_per_s_max: 10\n").limits
    assert (limits.rate_per_s_start, limits.rate_per_s_max) == (10, 10)


@pytest.mark.parametrize(
    ("name", "entity"),
    [
        ("user", QuotaEntity(user=Default.DEFAULT)),
        ("client-id", QuotaEntity(client_id=Default.DEFAULT)),
        ("user and client-id", QuotaEntity(Default.DEFAULT, Default.DEFAULT)),
        ("none", None),
    ],
)
def test_default_entity_is_parsed(name: str, entity: QuotaEntity | None) -> None:
    assert policy(ON + f"    default_entity: {name}\n").default_entity == entity


def test_probe_objective_alone_is_a_valid_objective() -> None:
    text = (
        ON
        + "    objective: {idle_ratio_min: null, queue_ms_max: null, create_probe_p90_ms_max: 80, burst_ms_max: 1000}\n"
    )
    assert policy(text).objective == ControllerObjective(None, None, create_probe_p90_ms_max=80.0, burst_ms_max=1_000.0)


def test_forwarding_objective_alone_is_a_valid_objective() -> None:
    text = ON + "    objective: {idle_ratio_min: null, queue_ms_max: null, forwarding_busy_ratio_max: 0.1}\n"
    assert policy(text).objective == ControllerObjective(None, None, forwarding_busy_ratio_max=0.1)


def test_tenant_rules_can_come_from_environment() -> None:
    variable = {"RHEOSTAT_TUNER__MUTATION_QUOTA__TENANTS": '[{"user": "etl", "weight": 2}]'}
    assert policy(GOOD, variable).rules == (TenantRule("etl", weight=2.0), OWN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("    tenants: [{ip: 10.0.0.1}]\n", "f.yaml:9: tuner.mutation_quota.tenants[0]: ip: Kafka keeps no mutation quotas for ip entities"),
        ("    tenants: [{group: a}]\n", "tuner.mutation_quota.tenants[0].group: unknown key: known here: client_id, exempt, rate_per_s_min, user, weight"),
        ("    tenants: [{user: a, weight: 0}]\n", "f.yaml:9: tuner.mutation_quota.tenants[0].weight: input should be greater than 0, found 0"),
        ("    tenants: [{user: a, rate_per_s_min: 0}]\n", "f.yaml:9: tuner.mutation_quota.tenants[0].rate_per_s_min: input should be greater than or equal to 0.1"),
        ("    tenants: [{user: a, rate_per_s_min: .inf}]\n", "f.yaml:9: tuner.mutation_quota.tenants[0].rate_per_s_min: input should be"),
        ("    tenants: [{user: a, rate_per_s_min: 1.0e+300}]\n", "f.yaml:9: tuner.mutation_quota.tenants[0].rate_per_s_min: input should be less"),
        ("    tenants: [{user: a, weight: .nan}]\n", "f.yaml:9: tuner.mutation_quota.tenants[0].weight: input should be"),
        ("    rate_per_s_max: .inf\n", "f.yaml:9: tuner.mutation_quota.rate_per_s_max: input should be a finite number"),
        ("    over_allocation: .nan\n", "f.yaml:9: tuner.mutation_quota.over_allocation: input should be"),
        ("    quota_window_s: .inf\n", "f.yaml:9: tuner.mutation_quota.quota_window_s: input should be a finite number"),
        ("    objective: {burst_ms_max: .inf}\n", "objective.burst_ms_max: input should be a finite number"),
        ("    tenants: [{weight: 2}]\n", "expected user, client_id, or both"),
        ("    tenants: [{user: a, exempt: true, rate_per_s_min: 1}]\n", "rate_per_s_min has no effect on an exempt tenant"),
        ("    rate_per_s_max: 0\n", "f.yaml:9: tuner.mutation_quota.rate_per_s_max: input should be greater than or equal to 1"),
        ("    default_entity: ip\n", "f.yaml:9: tuner.mutation_quota.default_entity: input should be 'user', 'client-id', 'user and client-id' or 'none'"),
        ("    objective: {idle_ratio_min: null, queue_ms_max: null}\n", "expected at least one of idle_ratio_min, queue_ms_max"),
        ("    objective: {create_probe_p90_ms_max: 0}\n", "objective.create_probe_p90_ms_max: input should be greater than 0"),
        ("    objective: {create_probe_p90_ms_max: 5000}\n", "objective.create_probe_p90_ms_max: input should be less than 5000"),
        ("    objective: {forwarding_busy_ratio_max: 1}\n", "objective.forwarding_busy_ratio_max: input should be less than 1"),
        ("    measure: true\n", "measure: true needs default_entity: none"),
        ("    partitions_near_ratio: 1\n", "input should be less than 1"),
    ],
)  # fmt: skip
def test_invalid_quota_setting_is_refused_by_name(text: str, message: str) -> None:
    assert message in fault(ON + text)
