"""The catalogue of the reasons of the mutation quotas: of the whole cycle, of the total rate, and of one tenant's quota."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.mutation_quota.decision import QuotaReason
from tuner.core.reason_text import ReasonText

_CHECK_CONTROLLER_METRICS = (
    "check that the controllers report their metrics: `rheostat signals` and `rheostat doctor` name the missing metrics"
)
_KEEPS_TOTAL = "keeps the total rate"
_LOWERS_TOTAL_A_LITTLE = "lowers the total rate a little"
_RESTORES_QUOTA = "restores the quota from before rheostat managed the tenant"

# About the cycle as a whole.
CYCLE_REASONS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {
        QuotaReason.QUOTAS_UNREADABLE: ReasonText(
            cause="the tuner cannot read the quotas in Kafka",
            effect="changes no quota",
            advice="grant DescribeConfigs on the cluster; `rheostat doctor` names the missing right",
        ),
        QuotaReason.CONTROLLER_UNKNOWN: ReasonText(
            cause="the tuner does not know which controller is active",
            effect="changes no quota",
            advice=_CHECK_CONTROLLER_METRICS,
        ),
        QuotaReason.CONTROLLER_STALE: ReasonText(
            cause="the newest signal of the controller is too old",
            effect="raises no quota; after a minute it lowers the total rate step by step",
            advice=_CHECK_CONTROLLER_METRICS,
        ),
        QuotaReason.PRESSURE_NOT_MEASURED: ReasonText(
            cause=(
                "the controller does not report a measure that the objective limits, or does not report the number of "
                "partitions"
            ),
            effect="raises no quota; if the controller reports no measure of the objective, changes no quota",
            advice=(
                "make the collector report the measure that the decision names, or remove the measure from "
                "`tuner.mutation_quota.objective`"
            ),
        ),
        QuotaReason.PAUSED: ReasonText(
            cause="an operator ordered a pause",
            effect="changes no quota",
            advice="end the pause with `rheostat resume`",
        ),
        QuotaReason.PARTITIONS_NEAR_LIMIT: ReasonText(
            cause=(
                "the cluster is near its highest permitted number of partitions or replicas, which the section `limits` of the "
                "settings file sets"
            ),
            effect=(
                "lowers the total rate below what the controller could handle, but not below the sum of the guaranteed rates"
            ),
            advice=(
                "delete unused topics, or raise the number in `limits`; exempt the tenants that delete topics, because a mutation "
                "quota limits deletions too"
            ),
        ),
        QuotaReason.GUARANTEES_CUT: ReasonText(
            cause="the guaranteed rates of all tenants (`rate_per_s_min`) add up to more than the total rate",
            effect="reduces all guaranteed rates by the same factor",
            advice=(
                "lower `rate_per_s_min` of some tenants, or allow a higher load of the controller in "
                "`tuner.mutation_quota.objective`"
            ),
        ),
        QuotaReason.METERING_ENABLED: ReasonText(
            cause="no mutation quota exists, and Kafka measures mutations only for tenants that have a quota",
            effect="sets a quota that is too high to limit a client, so that Kafka measures the mutations",
        ),
    }
)

# Why the total rate of all tenants stays or changes.
TOTAL_REASONS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {
        QuotaReason.INITIAL: ReasonText(
            cause="the tuner has just begun to control mutation quotas",
            effect="sets the first total rate",
        ),
        QuotaReason.WITHIN_OBJECTIVE: ReasonText(
            cause="the controller meets its objective, but is too near the objective for a higher total rate",
            effect=_KEEPS_TOTAL,
        ),
        QuotaReason.NOT_BINDING: ReasonText(
            cause="no tenant uses up its quota, so a higher total rate would have no effect",
            effect=_KEEPS_TOTAL,
        ),
        QuotaReason.SETTLING: ReasonText(
            cause="the last change of the total rate has not taken full effect yet",
            effect=_KEEPS_TOTAL,
        ),
        QuotaReason.AT_CAP: ReasonText(
            cause=(
                "the total rate is at its cap: either at `tuner.mutation_quota.rate_per_s_max`, or so high that tenants that "
                "use up their token buckets at the same moment would keep the controller busy for as long as the setting "
                "`burst_ms_max` permits"
            ),
            effect=_KEEPS_TOTAL,
            advice=(
                "raise `rate_per_s_max` if the total rate has reached it; otherwise raise "
                "`tuner.mutation_quota.objective.burst_ms_max` if the controller may be busy for longer"
            ),
        ),
        QuotaReason.OVER_CAP: ReasonText(
            cause=(
                "the total rate is above its cap: above `tuner.mutation_quota.rate_per_s_max`, or so high that tenants that use "
                "up their token buckets at the same moment could keep the controller busy for longer than the setting "
                "`burst_ms_max` permits"
            ),
            effect="lowers the total rate to the cap",
        ),
        QuotaReason.NEAR_KNOWN_LIMIT: ReasonText(
            cause="at a slightly higher total rate the controller exceeded its objective before",
            effect="keeps the total rate, and tries a higher total rate within half an hour",
        ),
        QuotaReason.HEADROOM_AVAILABLE: ReasonText(
            cause="a tenant uses up its quota, and the controller is well below its objective",
            effect="raises the total rate",
        ),
        QuotaReason.FALLING_BEHIND: ReasonText(
            cause="brokers apply metadata later and later, and would soon exceed the objective for this delay",
            effect=_LOWERS_TOTAL_A_LITTLE,
        ),
        QuotaReason.NEAR_OBJECTIVE: ReasonText(
            cause="the controller is likely to exceed its objective soon",
            effect=_LOWERS_TOTAL_A_LITTLE,
        ),
        QuotaReason.OVER_OBJECTIVE: ReasonText(
            cause="the controller exceeds its objective",
            effect="lowers the total rate",
            advice="nothing at first; if the excess lasts, see ControllerUnderPressure in the runbook",
        ),
        QuotaReason.AT_MINIMUM: ReasonText(
            cause=(
                "the controller exceeds its objective or nearly exceeds it, but the total rate is already at its minimum"
            ),
            effect="keeps the total rate at its minimum, because a further reduction would not help",
            advice=(
                "look for a load of the controller that quotas do not limit; see ControllerUnderPressure in the runbook"
            ),
        ),
        QuotaReason.HEARTBEAT_TIMEOUTS: ReasonText(
            cause="heartbeats of brokers time out at the controller",
            effect="halves the total rate",
            advice="see ControllerUnderPressure in the runbook",
        ),
    }
)

# Why one tenant has its quota, or has none from rheostat.
TENANT_REASONS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {
        QuotaReason.FAIR_SHARE: ReasonText(
            cause="the tenant needs more than its share of the total rate; the share follows from the tenant's weight",
            effect="sets the tenant's quota to its share",
            advice="nothing, or raise the tenant's `weight`",
        ),
        QuotaReason.DEMAND_MET: ReasonText(
            cause="the tenant needs less than its share of the total rate",
            effect="sets the tenant's quota to its measured rate plus 25 %",
        ),
        QuotaReason.STANDING_SHARE: ReasonText(
            cause="the tenant creates and deletes almost no topics, or none",
            effect="sets a small quota (the standing share), so that the tenant can start without waiting",
        ),
        QuotaReason.AT_GUARANTEED_RATE: ReasonText(
            cause="the tenant's guaranteed rate is higher than the share that follows from its weight",
            effect="sets the tenant's quota to the guaranteed rate",
            advice="raise `rate_per_s_min` if this quota still holds the tenant's requests back",
        ),
        QuotaReason.DEFAULT_SHARE: ReasonText(
            cause="this quota is the `<default>` quota, which applies to tenants without a quota of their own",
            effect="sets the `<default>` quota to the standing share of a new tenant",
        ),
        QuotaReason.EXEMPT: ReasonText(
            cause="a rule of `tuner.mutation_quota.tenants` exempts the tenant",
            effect=(
                "sets no quota for the tenant; if a `<default>` quota would limit the tenant, sets a quota that is too high "
                "to limit it"
            ),
        ),
        QuotaReason.EXTERNALLY_OWNED: ReasonText(
            cause="an operator or another tool set this quota less than `tuner.external_change_hold_s` ago",
            effect="leaves the quota alone",
            advice="if rheostat should manage the tenant, remove the quota with the tool that set it",
        ),
        QuotaReason.PRESERVED: ReasonText(
            cause=(
                "the quota was set before rheostat managed quotas, and `tuner.mutation_quota.existing_quotas` is `preserve`"
            ),
            effect="leaves the quota alone",
            advice="set `tuner.mutation_quota.existing_quotas: adopt` if rheostat should manage the quota",
        ),
        QuotaReason.WOULD_SHADOW_EXISTING: ReasonText(
            cause=(
                "a quota of rheostat would have precedence over an existing quota that another tool has set, so the existing "
                "quota would have no effect"
            ),
            effect="sets no quota for the tenant, and removes a quota that it has set for the tenant before",
            advice=(
                "set `tuner.mutation_quota.default_entity` to the kind of the existing quota (user or client-id), or to "
                "`none`"
            ),
        ),
        QuotaReason.TOO_MANY_TENANTS: ReasonText(
            cause="more tenants are active than the setting `tuner.mutation_quota.tenants_max` permits",
            effect="sets no quota for the tenants above this number, so that the `<default>` quota limits them",
            advice="look for clients that use a new client-id for each connection",
        ),
        QuotaReason.TENANT_GONE: ReasonText(
            cause="the tenant has created and deleted no topics for an hour",
            effect=_RESTORES_QUOTA,
        ),
        QuotaReason.RELEASED: ReasonText(
            cause="an operator ordered a release",
            effect=_RESTORES_QUOTA,
            advice="end the release with `rheostat resume`",
        ),
        QuotaReason.EXTERNAL_CHANGE: ReasonText(
            cause="an operator or another tool changed a quota that rheostat managed",
            effect="leaves the quota alone for `tuner.external_change_hold_s`",
            advice="nothing if you changed the quota; otherwise find the other tool",
        ),
        QuotaReason.NOT_CONFIGURED: ReasonText(
            cause="after a change of the settings rheostat no longer manages this quota",
            effect=_RESTORES_QUOTA,
        ),
    }
)

QUOTA_REASON_TEXTS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {**CYCLE_REASONS, **TOTAL_REASONS, **TENANT_REASONS}
)
