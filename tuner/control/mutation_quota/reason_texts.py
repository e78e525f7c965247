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
            "raises no quota; after a minute without a signal it lowers the total step by step",
            _CHECK_CONTROLLER_METRICS,
        ),
        QuotaReason.PRESSURE_NOT_MEASURED: ReasonText(
            "a value that `tuner.mutation_quota.objective` limits is not measured",
            "raises no quota; if no value is measured, it changes no quota",
            "make the collector report the value that the decision names, or remove its limit from the objective",
        ),
        QuotaReason.PAUSED: ReasonText(
            "an operator ordered a pause", "changes no quota", "end the pause with `rheostat resume`"
        ),
        QuotaReason.PARTITIONS_NEAR_LIMIT: ReasonText(
            "the cluster is near its limit of partitions",
            "lowers the total, but not below the guaranteed rates",
            "delete unused topics, or raise the limit; exempt the tenants that delete topics, so that they need not wait",
        ),
        QuotaReason.GUARANTEES_CUT: ReasonText(
            "the guaranteed rates together exceed the total",
            "reduces all guaranteed rates by the same ratio",
            "lower `rate_per_s_min` of some tenants, or accept a higher load of the controller",
        ),
        QuotaReason.METERING_ENABLED: ReasonText(
            "no quota applies to these tenants, so Kafka does not count their mutations",
            "sets a quota too high to limit a client, so that Kafka counts",
            NOTHING,
        ),
    }
)

# Why the total rate of all tenants stays or changes.
TOTAL_REASONS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {
        QuotaReason.INITIAL: ReasonText(
            "this is the first total",
            "sets it from the recent rate of mutations and the load of the controller",
            NOTHING,
        ),
        QuotaReason.WITHIN_OBJECTIVE: ReasonText(
            "the controller's load is near its objective, but not above it", "keeps the total", NOTHING
        ),
        QuotaReason.NOT_BINDING: ReasonText("no tenant is limited by its quota", "keeps the total", NOTHING),
        QuotaReason.SETTLING: ReasonText("the last change has not taken effect yet", "keeps the total", NOTHING),
        QuotaReason.AT_CAP: ReasonText(
            "with a higher total, all buckets spent at once would overload the controller",
            "keeps the total",
            "raise `burst_ms_max` only if the controller may be busy for longer",
        ),
        QuotaReason.OVER_CAP: ReasonText(
            "all buckets spent at once would overload the controller", "lowers the total until it would not", NOTHING
        ),
        QuotaReason.NEAR_KNOWN_LIMIT: ReasonText(
            "a slightly higher total overloaded the controller before",
            "keeps the total; within half an hour it tries a higher one again",
            NOTHING,
        ),
        QuotaReason.HEADROOM_AVAILABLE: ReasonText(
            "a tenant is limited, and the controller has headroom", "raises the total", NOTHING
        ),
        QuotaReason.FALLING_BEHIND: ReasonText(
            "brokers apply metadata later and later, and would soon miss the objective",
            "lowers the total a little",
            NOTHING,
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
            "the objective is exceeded or nearly exceeded, but a further cut would not help",
            "keeps the total at its minimum",
            "look for a load that quotas do not limit; see ControllerUnderPressure in the runbook",
        ),
        QuotaReason.HEARTBEAT_TIMEOUTS: ReasonText(
            "heartbeats of brokers to the controller time out",
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
            "the tenant needs less than its share", "gives it a quarter more than it needs", NOTHING
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
            "this is the `<default>` quota, for tenants that are not known yet",
            "sets it to the share that an idle tenant keeps",
            NOTHING,
        ),
        QuotaReason.EXEMPT: ReasonText(
            "a rule says that the tenant is exempt",
            "sets no quota; if a `<default>` quota would limit the tenant, sets one too high to limit a client",
            NOTHING,
        ),
        QuotaReason.EXTERNALLY_OWNED: ReasonText(
            "another tool or an operator set this quota less than `tuner.external_change_hold_s` ago",
            "leaves the quota alone",
            "remove the quota with the tool that set it, if rheostat should manage it",
        ),
        QuotaReason.PRESERVED: ReasonText(
            "the quota existed before, and `existing_quotas` is `preserve`",
            "leaves the quota alone",
            "set `existing_quotas: adopt` if rheostat should manage it",
        ),
        QuotaReason.WOULD_SHADOW_EXISTING: ReasonText(
            "a quota of rheostat would take precedence over an existing quota",
            "sets no quota, and removes its own",
            "set `tuner.mutation_quota.default_entity` to the kind of the existing quota, or to `none`",
        ),
        QuotaReason.TOO_MANY_TENANTS: ReasonText(
            "more tenants are active than rheostat sets quotas for",
            "leaves the surplus tenants to the `<default>` quota",
            "look for clients that generate a new client id each time",
        ),
        QuotaReason.TENANT_GONE: ReasonText("the tenant was absent for an hour", "restores the earlier quota", NOTHING),
        QuotaReason.RELEASED: ReasonText(
            "an operator ordered a release",
            "restores the earlier quota",
            "end the release with `rheostat resume`",
        ),
        QuotaReason.EXTERNAL_CHANGE: ReasonText(
            "another tool or an operator changed a quota that rheostat managed",
            "leaves it alone for `tuner.external_change_hold_s`",
            "nothing if you changed it; otherwise find the other tool",
        ),
        QuotaReason.NOT_CONFIGURED: ReasonText(
            "the settings no longer ask for this quota", "restores the earlier quota", NOTHING
        ),
    }
)

QUOTA_REASON_TEXTS: Mapping[QuotaReason, ReasonText] = MappingProxyType(
    {**CYCLE_REASONS, **TOTAL_REASONS, **TENANT_REASONS}
)
