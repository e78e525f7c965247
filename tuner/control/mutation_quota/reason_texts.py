"""The catalogue of the reasons of the mutation quotas: of the whole cycle, of the total rate, and of one tenant's quota."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.mutation_quota.decision import QuotaReason
from tuner.core.reason_text import ReasonText

NOTHING = "nothing"
_CHECK_CONTROLLER_METRICS = (
    "check that the controllers report their metrics: `rheostat signals` and `rheostat doctor` name what is missing"
)

# About the cycle as a whole.
CYCLE_REASONS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {
        QuotaReason.QUOTAS_UNREADABLE: ReasonText(
            "the quotas in Kafka cannot be read",
            "changes no quota",
            "grant DescribeConfigs on the cluster; `rheostat doctor` names what is missing",
        ),
        QuotaReason.CONTROLLER_UNKNOWN: ReasonText(
            "no active controller is known", "changes no quota", _CHECK_CONTROLLER_METRICS
        ),
        QuotaReason.CONTROLLER_STALE: ReasonText(
            "the newest signal of the controller is too old",
            "raises no quota; after a minute it lowers the total step by step",
            _CHECK_CONTROLLER_METRICS,
        ),
        QuotaReason.PRESSURE_NOT_MEASURED: ReasonText(
            "a measure of the objective is not reported",
            "raises no quota; without any measure it changes none",
            "make the collector report the measure that the decision names, or remove it from `tuner.mutation_quota.objective`",
        ),
        QuotaReason.PAUSED: ReasonText(
            "an operator ordered a pause", "changes no quota", "end the pause with `rheostat resume`"
        ),
        QuotaReason.PARTITIONS_NEAR_LIMIT: ReasonText(
            "the cluster is near its limit of partitions",
            "lowers the total below the controller's capacity, but not below guaranteed rates",
            "delete topics that are not needed, or raise the limit; exempt the tenants that delete",
        ),
        QuotaReason.GUARANTEES_CUT: ReasonText(
            "the guaranteed rates exceed the total",
            "cuts all guaranteed rates alike",
            "lower `rate_per_s_min` of some tenants, or accept a higher load of the controller",
        ),
        QuotaReason.METERING_ENABLED: ReasonText(
            "no quota applies to these tenants, so Kafka does not count their mutations",
            "sets a quota that limits no client, so that Kafka counts",
            NOTHING,
        ),
    }
)

# Why the total rate of all tenants stays or changes.
TOTAL_REASONS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {
        QuotaReason.INITIAL: ReasonText("there was no total before", "sets the first total", NOTHING),
        QuotaReason.WITHIN_OBJECTIVE: ReasonText("the controller is near its objective", "keeps the total", NOTHING),
        QuotaReason.NOT_BINDING: ReasonText("no tenant is limited", "keeps the total", NOTHING),
        QuotaReason.SETTLING: ReasonText("the last change has not taken effect yet", "keeps the total", NOTHING),
        QuotaReason.AT_CAP: ReasonText(
            "all buckets spent at once would overload the controller",
            "keeps the total",
            "raise `burst_ms_max` only if the controller may be busy for longer",
        ),
        QuotaReason.OVER_CAP: ReasonText(
            "all buckets spent at once would overload the controller", "lowers the total to that cap", NOTHING
        ),
        QuotaReason.NEAR_KNOWN_LIMIT: ReasonText(
            "a slightly higher rate was too much before",
            "keeps the total; the limit is forgotten within half an hour",
            NOTHING,
        ),
        QuotaReason.HEADROOM_AVAILABLE: ReasonText(
            "a tenant is limited, and the controller has headroom", "raises the total", NOTHING
        ),
        QuotaReason.FALLING_BEHIND: ReasonText(
            "brokers would soon apply metadata too late", "lowers the total a little", NOTHING
        ),
        QuotaReason.NEAR_OBJECTIVE: ReasonText(
            "the objective is likely to be exceeded soon", "lowers the total a little", NOTHING
        ),
        QuotaReason.OVER_OBJECTIVE: ReasonText(
            "the controller exceeds its objective",
            "lowers the total",
            "nothing at first; if it lasts, see ControllerUnderPressure in the runbook",
        ),
        QuotaReason.AT_MINIMUM: ReasonText(
            "the objective is exceeded or nearly so, but a further cut would not help",
            "keeps the total at its minimum",
            "look for a load that quotas do not limit; see ControllerUnderPressure in the runbook",
        ),
        QuotaReason.HEARTBEAT_TIMEOUTS: ReasonText(
            "heartbeats of brokers time out",
            "lowers the total by half",
            "see ControllerUnderPressure in the runbook",
        ),
    }
)

# Why one tenant has its quota, or has none from rheostat.
TENANT_REASONS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {
        QuotaReason.FAIR_SHARE: ReasonText(
            "the tenant could use more than its share by weight",
            "gives it its share",
            "nothing, or raise its `weight`",
        ),
        QuotaReason.DEMAND_MET: ReasonText(
            "the tenant needs less than its share", "gives it its demand plus a quarter", NOTHING
        ),
        QuotaReason.STANDING_SHARE: ReasonText(
            "the tenant is idle or nearly so", "keeps a share for it, so that it can start without waiting", NOTHING
        ),
        QuotaReason.AT_GUARANTEED_RATE: ReasonText(
            "the guaranteed rate of the tenant is higher than its fair share",
            "gives it the guaranteed rate",
            "raise `rate_per_s_min` if the tenant still waits",
        ),
        QuotaReason.DEFAULT_SHARE: ReasonText(
            "this is the `<default>` quota, which applies to tenants that are not known yet",
            "gives it the standing share of a new tenant",
            NOTHING,
        ),
        QuotaReason.EXEMPT: ReasonText(
            "a rule says that the tenant is exempt",
            "sets no quota; if a `<default>` quota would limit the tenant, it sets one that limits no client",
            NOTHING,
        ),
        QuotaReason.EXTERNALLY_OWNED: ReasonText(
            "another tool or an operator set this quota less than `tuner.external_change_hold_s` ago",
            "leaves the quota alone",
            "remove it there if rheostat should manage it",
        ),
        QuotaReason.PRESERVED: ReasonText(
            "the quota existed before, and `existing_quotas` is `preserve`",
            "leaves the quota alone",
            "set `existing_quotas: adopt` if rheostat should manage it",
        ),
        QuotaReason.WOULD_SHADOW_EXISTING: ReasonText(
            "a quota of rheostat would disable an existing quota",
            "sets no quota, and removes its own",
            "set `tuner.mutation_quota.default_entity` to the kind of the existing quota, or to `none`",
        ),
        QuotaReason.TOO_MANY_TENANTS: ReasonText(
            "more tenants are active than may have a quota by name",
            "leaves the surplus tenants to the `<default>` quota",
            "look for clients that generate a new client id each time",
        ),
        QuotaReason.TENANT_GONE: ReasonText(
            "the tenant was absent for an hour", "restores the quota that was there before", NOTHING
        ),
        QuotaReason.RELEASED: ReasonText(
            "an operator ordered a release",
            "restores the quota that was there before",
            "end the release with `rheostat resume`",
        ),
        QuotaReason.EXTERNAL_CHANGE: ReasonText(
            "another tool or an operator changed a quota that rheostat managed",
            "relinquishes it for `tuner.external_change_hold_s`",
            "nothing if you changed it; otherwise find the other tool",
        ),
        QuotaReason.NOT_CONFIGURED: ReasonText(
            "the settings no longer call for this quota", "restores the quota that was there before", NOTHING
        ),
    }
)

QUOTA_REASON_TEXTS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {**CYCLE_REASONS, **TOTAL_REASONS, **TENANT_REASONS}
)
