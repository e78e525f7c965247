"""Settings model of ``tuner.mutation_quota``: the controller objective, rules for tenants, and existing quotas (KIP-599)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streaming.shared.unit_settings import Milliseconds, Seconds
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.core.controller import ControllerObjective

# By setting ``default_entity``: the entity of the managed <default> quota.
_DEFAULT_ENTITIES = {
    "user": QuotaEntity(user=DEFAULT),
    "client-id": QuotaEntity(client_id=DEFAULT),
    "user and client-id": QuotaEntity(DEFAULT, DEFAULT),
    "none": None,
}
# If rheostat's own clients were throttled, they could not restore a quota.
_OWN_CLIENTS = TenantRule(client_id="rheostat-*", exempt=True)
_RATE_MIN = 0.1  # At a lower rate, one partition throttles its tenant for more than ten seconds.
_RATE_MAX = 1_000_000  # Far above what any controller can do.


class ControllerObjectiveSettings(BaseModel):
    """Limits for the controller. The measured value that is worst in relation to its limit determines the total rate."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    idle_ratio_min: float | None = Field(
        default=0.3, gt=0, lt=1, description="lowest share of time in which the controller is idle (AvgIdleRatio)"
    )
    queue_ms_max: Milliseconds | None = Field(
        default=500.0, gt=0, description="highest mean time for which events wait in the controller's queue, in ms"
    )
    create_ms_max: Milliseconds | None = Field(
        default=None, gt=0, description="highest mean time of CreateTopics requests, in ms"
    )
    apply_lag_ms_max: Milliseconds | None = Field(
        default=None,
        gt=0,
        description="highest delay with which the slowest node applies the records of the metadata log, in ms",
    )
    create_probe_p90_ms_max: Milliseconds | None = Field(
        default=None,
        gt=0,
        lt=5_000,
        description="highest p90 of the time that the creation of a topic takes, in ms; the tuner measures it with up to ten "
        "requests a second that change nothing",
    )
    forwarding_busy_ratio_max: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="highest share of time in which a broker is busy with forwarding topic creations or deletions to the "
        "controller, as a mean over the brokers. With KRaft a broker forwards one of these requests at a time, and the "
        "other requests wait",
    )
    burst_ms_max: Milliseconds = Field(
        default=3_000.0,
        gt=0,
        description="limits the size of bursts: if all active tenants spend their token buckets at the same time, the "
        "controller is busy for at most this time, in ms. If idle tenants spend their buckets too, the controller may be busy "
        "over_allocation times as long",
    )

    @model_validator(mode="after")
    def _require_an_objective(self) -> ControllerObjectiveSettings:
        # ``burst_ms_max`` limits the size of a burst. It is compared with no measured value, so it cannot be the only objective.
        objectives = {name: value for name, value in self if name != "burst_ms_max"}
        if all(value is None for value in objectives.values()):
            raise ValueError(
                f"expected at least one of {', '.join(objectives)}: without a limit the tuner would regard no load as too high"
            )
        return self

    def for_policy(self) -> ControllerObjective:
        """Returns the objective in the form that the quota policy uses."""
        return ControllerObjective(**dict(self))


class TenantSettings(BaseModel):
    """Rules for tenants. The most specific rule applies: user before client-id, and the first of equally specific rules."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    user: str | None = Field(default=None, min_length=1, description="name of the user, or a pattern with `*` and `?`")
    client_id: str | None = Field(default=None, min_length=1, description="name of the client-id, or a pattern")
    weight: float = Field(
        default=1.0,
        gt=0,
        le=1_000_000,
        description="share of the total rate, in relation to the weights of the other tenants",
    )
    rate_per_s_min: float | None = Field(
        default=None,
        ge=_RATE_MIN,
        le=_RATE_MAX,
        description="guaranteed rate, in partitions/s: rheostat sets no lower quota for this tenant",
    )
    exempt: bool = Field(
        default=False,
        description="true: rheostat never sets a quota for this tenant, not even near partitions_max; for administrators, who "
        "must always be able to delete topics",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_ip(cls, value: Any) -> Any:
        if isinstance(value, dict) and "ip" in value:
            raise ValueError("ip: Kafka keeps no mutation quotas for ip entities: name a user, a client_id, or both")
        return value

    @model_validator(mode="after")
    def _require_a_name(self) -> TenantSettings:
        if self.user is None and self.client_id is None:
            raise ValueError("expected user, client_id, or both: name the tenants of the rule")
        if self.exempt and self.rate_per_s_min is not None:
            raise ValueError(
                "rate_per_s_min has no effect on an exempt tenant, because rheostat sets no quota for it: remove rate_per_s_min or "
                "exempt"
            )
        return self

    def rule(self) -> TenantRule:
        return TenantRule(self.user, self.client_id, self.weight, self.rate_per_s_min, self.exempt)


class MutationQuotaSettings(BaseModel):
    """Quotas for topic creations and deletions (KIP-599), adapted to the controller's load. Without the section: no quotas."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    objective: ControllerObjectiveSettings = Field(
        default_factory=ControllerObjectiveSettings, description="objectives for the controller"
    )
    tenants: tuple[TenantSettings, ...] = Field(default=(), description="rules for tenants")
    rate_per_s_max: float = Field(
        default=5_000.0, ge=1, description="highest total rate of all tenants, in partitions/s"
    )
    over_allocation: float = Field(
        default=2.0,
        ge=1,
        le=100,
        description="the sum of all quotas may be this many times the total rate, because the tenants are rarely all active at "
        "the same time",
    )
    default_entity: Literal["user", "client-id", "user and client-id", "none"] = Field(
        default="user",
        description="entity of the `<default>` quota that rheostat sets, so that Kafka limits and measures tenants without "
        "their own quota. user: for each user; client-id: for each client-id, if clients do not authenticate; user and "
        "client-id: for each pair; none: rheostat sets no `<default>` quota",
    )
    measure: bool = Field(
        default=False,
        description="only with `default_entity: none`. true: while no mutation quota exists, rheostat sets a quota that is too "
        "high to limit a tenant, because Kafka measures only tenants that have a quota",
    )
    existing_quotas: Literal["adopt", "preserve"] = Field(
        default="adopt",
        description="what rheostat does with quotas that it has not set; adopt: it changes them, and restores them on "
        "`rheostat release`; preserve: it leaves them alone",
    )
    partitions_max: int | None = Field(
        default=None,
        ge=1,
        description="soft limit of the number of partitions in the cluster; near this limit rheostat lowers the quotas. If "
        "absent, limits.max_partitions applies, which counts replicas",
    )
    partitions_near_ratio: float = Field(
        default=0.9,
        gt=0,
        lt=1,
        description="rheostat lowers the quotas when the cluster has more than this share of partitions_max",
    )
    quota_samples: int = Field(
        default=11,
        ge=2,
        description="controller.quota.window.num of the controllers; if absent, rheostat uses the value of the brokers if it "
        "is the same on all brokers, else the default",
    )
    quota_window_s: Seconds = Field(
        default=1.0,
        gt=0,
        description="controller.quota.window.size.seconds of the controllers; if absent, rheostat uses the value of the "
        "brokers if it is the same on all brokers, else the default",
    )
    tenants_max: int = Field(
        default=2_000,
        ge=1,
        le=10_000,
        description="highest number of tenants with their own quota; the `<default>` quota limits all other tenants",
    )
    cycle_s: Seconds = Field(default=5.0, ge=1, le=60, description="seconds between two cycles")

    @model_validator(mode="after")
    def _refuse_needless_metering(self) -> MutationQuotaSettings:
        if self.measure and self.default_entity != "none":
            raise ValueError(
                f"measure: true needs default_entity: none. With the <default> quota of {self.default_entity} Kafka measures "
                "tenants anyway; remove measure, or set default_entity to none"
            )
        return self

    @property
    def window_is_given(self) -> bool:
        """Whether the settings file sets the quota window; if not, the brokers' settings apply."""
        return not self.model_fields_set.isdisjoint(("quota_samples", "quota_window_s"))

    def policy(self, external_change_hold_s: float, replicas_max: int | None = None) -> MutationPolicy:
        """Returns the policy of the controller.

        Args:
            replicas_max: the cluster's ``limits.max_partitions``, which counts replicas; used if ``partitions_max`` is not set.
        """
        limits = MutationLimits(
            samples=self.quota_samples,
            window_s=self.quota_window_s,
            rate_per_s_max=self.rate_per_s_max,
            rate_per_s_start=min(MutationLimits().rate_per_s_start, self.rate_per_s_max),
            rate_per_s_safe=min(MutationLimits().rate_per_s_safe, self.rate_per_s_max),
            over_allocation=self.over_allocation,
            tenants_max=self.tenants_max,
            external_change_hold_s=external_change_hold_s,
        )
        return MutationPolicy(
            objective=self.objective.for_policy(),
            rules=(*(tenant.rule() for tenant in self.tenants), _OWN_CLIENTS),
            limits=limits,
            default_entity=_DEFAULT_ENTITIES[self.default_entity],
            enable_metering=self.measure,
            adopt_existing=self.existing_quotas == "adopt",
            partitions_max=self.partitions_max,
            partitions_near_ratio=self.partitions_near_ratio,
            replicas_max=replicas_max if self.partitions_max is None else None,
        )
