"""What the operator says about mutation quotas (KIP-599): for whom, how much the controller may bear, and whose word holds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streaming.shared.unit_settings import Milliseconds, Seconds
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.core.controller import ControllerObjective

_DEFAULTS = {
    "user": QuotaEntity(user=DEFAULT),
    "client-id": QuotaEntity(client_id=DEFAULT),
    "user and client-id": QuotaEntity(DEFAULT, DEFAULT),
    "none": None,
}
# Our own clients create rheostat's topics, and a throttled one could not take a quota back.
_OWN = TenantRule(client_id="rheostat-*", exempt=True)
_RATE_MIN = 0.1  # Below it one partition is a debt of more than ten seconds.
_RATE_MAX = 1_000_000  # Far above what any controller does; no sum of such numbers is too large to be one.


class ControllerObjectiveSettings(BaseModel):
    """What the controller is kept within; of those that are measured the worst counts."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    idle_ratio_min: float | None = Field(
        default=0.3, gt=0, lt=1, description="share of the time in which it is to have nothing to do"
    )
    queue_ms_max: Milliseconds | None = Field(
        default=500.0, gt=0, description="how long an event may wait in its queue, on average"
    )
    create_ms_max: Milliseconds | None = Field(
        default=None, gt=0, description="how long a CreateTopics request may take, on average"
    )
    apply_lag_ms_max: Milliseconds | None = Field(
        default=None, gt=0, description="how far the slowest node may be behind the metadata log"
    )
    create_probe_p90_ms_max: Milliseconds | None = Field(
        default=None,
        gt=0,
        lt=5_000,
        description="how long 9 of 10 creations may wait for the controller; the tuner itself asks it up to ten times a second for "
        "something that changes nothing",
    )
    forwarding_busy_ratio_max: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="share of the time in which a broker may be handing a creation or deletion on to the controller, on average of "
        "the brokers; each hands on one at a time, and whoever comes meanwhile waits for it (KRaft)",
    )
    burst_ms_max: Milliseconds = Field(
        default=3_000.0,
        gt=0,
        description="how long it may be busy when as much is spent at once as the buckets (rate × samples) of all that is admitted "
        "hold; over_allocation times that where those come as well whose share was lent out",
    )

    @model_validator(mode="after")
    def _something_is_asked_for(self) -> ControllerObjectiveSettings:
        asked = {name: value for name, value in self if name != "burst_ms_max"}
        if all(value is None for value in asked.values()):
            raise ValueError(
                f"expected at least one of {', '.join(asked)}: without any nobody can say when it is too much"
            )
        return self

    def objective(self) -> ControllerObjective:
        return ControllerObjective(**dict(self))


class TenantSettings(BaseModel):
    """Tenants that are not like the others. The rule that names them most exactly wins, user before client-id; then the first."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    user: str | None = Field(default=None, min_length=1, description="name or pattern (`*`, `?`) of the user")
    client_id: str | None = Field(default=None, min_length=1, description="name or pattern of the client-id")
    weight: float = Field(
        default=1.0, gt=0, le=1_000_000, description="its part of what there is, against others' weights"
    )
    rate_per_s_min: float | None = Field(
        default=None, ge=_RATE_MIN, le=_RATE_MAX, description="what it has in any case, in partitions/s"
    )
    exempt: bool = Field(
        default=False,
        description="never held back by a quota of ours, also near partitions_max; for who has to delete topics then",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_ip(cls, value: Any) -> Any:
        if isinstance(value, dict) and "ip" in value:
            raise ValueError("ip: Kafka keeps no mutation quotas for ip entities: name a user, a client_id, or both")
        return value

    @model_validator(mode="after")
    def _names_somebody(self) -> TenantSettings:
        if self.user is None and self.client_id is None:
            raise ValueError("expected user, client_id, or both: name whom it is for")
        if self.exempt and self.rate_per_s_min is not None:
            raise ValueError(
                "exempt tenants have no quota of ours, so no rate_per_s_min either: leave one of the two out"
            )
        return self

    def rule(self) -> TenantRule:
        return TenantRule(self.user, self.client_id, self.weight, self.rate_per_s_min, self.exempt)


class MutationQuotaSettings(BaseModel):
    """Quotas for creating and deleting topics (KIP-599), turned as the controller bears it; absent: nobody touches them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    objective: ControllerObjectiveSettings = Field(
        default_factory=ControllerObjectiveSettings, description="what the controller is kept within"
    )
    tenants: tuple[TenantSettings, ...] = Field(default=(), description="tenants that are not like the others")
    rate_per_s_max: float = Field(
        default=5_000.0, ge=1, description="partitions/s that all tenants together never get more of"
    )
    over_allocation: float = Field(
        default=2.0, ge=1, le=100, description="quotas add up to so many times that, as not all tenants come at once"
    )
    default_entity: Literal["user", "client-id", "user and client-id", "none"] = Field(
        default="user",
        description="for whom a <default> quota is kept, which is also what makes Kafka count: users; client-ids, where clients "
        "do not log in; pairs of the two; none",
    )
    measure: bool = Field(
        default=False,
        description="with default_entity none: where no quota stands at all, put one that holds nobody back, as Kafka counts only "
        "for whom a quota stands",
    )
    existing_quotas: Literal["adopt", "preserve"] = Field(
        default="adopt",
        description="quotas that stood before: adopt turns them and puts them back on release, respect leaves them",
    )
    partitions_max: int | None = Field(
        default=None,
        ge=1,
        description="partitions of the cluster: as their number comes near, quotas shrink (KIP-578, from outside: no hard limit); "
        "where it is not given, limits.max_partitions is kept so, in replicas",
    )
    partitions_near_ratio: float = Field(
        default=0.9, gt=0, lt=1, description="from this share of partitions_max on quotas shrink"
    )
    quota_samples: int = Field(
        default=11,
        ge=2,
        description="controller.quota.window.num, as the controllers have it; where it is not given, what all brokers have alike",
    )
    quota_window_s: Seconds = Field(
        default=1.0,
        gt=0,
        description="controller.quota.window.size.seconds, as the controllers have it; or what all brokers have",
    )
    tenants_max: int = Field(
        default=2_000,
        ge=1,
        le=10_000,
        description="quotas are written for so many by name; the others have the default's",
    )
    cycle_s: Seconds = Field(default=5.0, ge=1, le=60, description="seconds between two looks")

    @model_validator(mode="after")
    def _measures_where_no_default_does(self) -> MutationQuotaSettings:
        if self.measure and self.default_entity != "none":
            raise ValueError(
                f"measure is for default_entity none: the <default> quota of {self.default_entity} makes Kafka count already"
            )
        return self

    @property
    def window_is_given(self) -> bool:
        """How large a bucket is; else what brokers have says it."""
        return not self.model_fields_set.isdisjoint(("quota_samples", "quota_window_s"))

    def policy(self, external_change_hold_s: float, replicas_max: int | None = None) -> MutationPolicy:
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
            objective=self.objective.objective(),
            rules=(*(tenant.rule() for tenant in self.tenants), _OWN),
            limits=limits,
            default_entity=_DEFAULTS[self.default_entity],
            enable_metering=self.measure,
            adopt_existing=self.existing_quotas == "adopt",
            partitions_max=self.partitions_max,
            partitions_near_ratio=self.partitions_near_ratio,
            replicas_max=replicas_max if self.partitions_max is None else None,
        )
