"""Applies the ``mutation_quota`` section of the `--tuner-settings` file to the recorded mutation quota policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from tuner.control.mutation_quota.model import MutationPolicy
from tuner.settings.mutation_quota import MutationQuotaSettings
from tuner.settings.tuner import TunerSettings

WITHOUT_EFFECT = ("cycle_s",)  # Settings that determine when a cycle runs, but not its decisions.


def settings_of(policy: MutationPolicy) -> dict[str, Any]:
    """Returns the settings section that yields this policy."""
    limits, default_rules = policy.limits, _policy(MutationQuotaSettings()).rules
    # The setting names the default entity in words, so the words are found through the entity that each yields.
    words = get_args(MutationQuotaSettings.model_fields["default_entity"].annotation)
    words_by_entity = {_policy(MutationQuotaSettings(default_entity=word)).default_entity: word for word in words}
    return {
        "objective": asdict(policy.objective),
        "tenants": [asdict(rule) for rule in policy.rules if rule not in default_rules],
        "rate_per_s_max": limits.rate_per_s_max,
        "over_allocation": limits.over_allocation,
        "default_entity": words_by_entity[policy.default_entity],
        "measure": policy.enable_metering,
        "existing_quotas": "adopt" if policy.adopt_existing else "preserve",
        "partitions_max": policy.partitions_max,
        "partitions_near_ratio": policy.partitions_near_ratio,
        "quota_samples": limits.samples,
        "quota_window_s": limits.window_s,
        "tenants_max": limits.tenants_max,
    }


def _policy(settings: MutationQuotaSettings) -> MutationPolicy:
    """Returns the policy of these settings. Its ``external_change_hold_s``, a setting of another section, is arbitrary."""
    return settings.policy(external_change_hold_s=1.0)


def merge_section(section: Any, recorded: MutationPolicy | None) -> Any:
    """Returns the recorded section with the keys of the `--tuner-settings` file replaced.

    A value that is not a section is returned unchanged; validation refuses it later.
    """
    if not isinstance(section, Mapping) or recorded is None:
        return section
    values = settings_of(recorded)
    objective = section.get("objective")
    if isinstance(objective, Mapping):
        return {**values, **section, "objective": {**values["objective"], **objective}}
    return {**values, **section}


def policy_of(settings: TunerSettings, keys: set[str], recorded: MutationPolicy | None) -> MutationPolicy | None:
    """Returns the policy to replay with; None if mutation quotas are not managed.

    Args:
        settings: the `--tuner-settings` file, completed with the recorded values.
        keys: the keys of ``tuner:`` that the file has.
        recorded: the recorded policy.
    """
    policy = recorded
    if "mutation_quota" in keys:
        policy = settings.mutation_policy()
        if policy is not None and recorded is not None:
            replicas_max = recorded.replicas_max if policy.partitions_max is None else None
            limits = replace(policy.limits, external_change_hold_s=recorded.limits.external_change_hold_s)
            policy = replace(policy, replicas_max=replicas_max, limits=limits)
    if policy is not None and "external_change_hold_s" in keys:
        policy = replace(policy, limits=replace(policy.limits, external_change_hold_s=settings.external_change_hold_s))
    return policy
