"""Another policy for the mutation quotas, with keys of ``tuner.mutation_quota``: what it leaves out is as it was then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from tuner.control.mutation_quota.model import MutationPolicy
from tuner.settings.mutation_quota import MutationQuotaSettings
from tuner.settings.tuner import TunerSettings

# When it looks, and not what it decides.
NOT_DECIDED_BY = ("cycle_s",)


def settings_of(policy: MutationPolicy) -> dict[str, Any]:
    """What somebody would have to write to have this policy."""
    limits, own = policy.limits, MutationQuotaSettings().policy(1.0).rules
    names = get_args(MutationQuotaSettings.model_fields["default_entity"].annotation)
    defaults = {MutationQuotaSettings(default_entity=name).policy(1.0).default_entity: name for name in names}
    return {
        "objective": asdict(policy.objective),
        "tenants": [asdict(rule) for rule in policy.rules if rule not in own],
        "rate_per_s_max": limits.rate_per_s_max,
        "over_allocation": limits.over_allocation,
        "default_entity": defaults[policy.default_entity],
        "measure": policy.enable_metering,
        "existing_quotas": "adopt" if policy.adopt_existing else "preserve",
        "partitions_max": policy.partitions_max,
        "partitions_near_ratio": policy.partitions_near_ratio,
        "quota_samples": limits.samples,
        "quota_window_s": limits.window_s,
        "tenants_max": limits.tenants_max,
    }


def merged(asked: Any, then: MutationPolicy | None) -> Any:
    """The whole section, with what was asked for in the place of what was then; what is no section is left for its reader."""
    if not isinstance(asked, Mapping) or then is None:
        return asked
    was = settings_of(then)
    objective = asked.get("objective")
    if isinstance(objective, Mapping):
        return {**was, **asked, "objective": {**was["objective"], **objective}}
    return {**was, **asked}


def policy_of(wanted: TunerSettings, given: set[str], then: MutationPolicy | None) -> MutationPolicy | None:
    """
    Args:
        wanted: the policy file with what it leaves out.
        given: the keys of ``tuner:`` that stand in the file.
        then: in force.
    """
    policy = then
    if "mutation_quota" in given:
        policy = wanted.mutation_policy()
        if policy is not None and then is not None:
            replicas_max = then.replicas_max if policy.partitions_max is None else None
            limits = replace(policy.limits, external_change_hold_s=then.limits.external_change_hold_s)
            policy = replace(policy, replicas_max=replicas_max, limits=limits)
    if policy is not None and "external_change_hold_s" in given:
        policy = replace(policy, limits=replace(policy.limits, external_change_hold_s=wanted.external_change_hold_s))
    return policy
