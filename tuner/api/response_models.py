"""What the API takes and gives, for its OpenAPI description. Answers are not built from these: a test holds them to it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.api.orders_api import FOR_S_MAX

BROKER_MAX = 2**31 - 1  # Kafka's ids are 32 bits.
_RATE_MAX = 2**53  # What every program reads exactly.


class OrderRequest(BaseModel):
    """What is sent: an unknown key is a misspelt one."""

    model_config = ConfigDict(extra="forbid", strict=True)


class EmptyRequest(OrderRequest):
    """No keys."""


class OverrideRequest(OrderRequest):
    broker: int = Field(ge=0, le=BROKER_MAX, description="the broker's id")
    side: Literal["leader", "follower"] | None = Field(default=None, description="both when absent")
    # Refused by the route, which knows the bounds and says them.
    rate_bytes_per_s: int = Field(
        description="the throttle to set, 1 to tuner.rate_bytes_per_s_max, in bytes/s",
        json_schema_extra={"minimum": -_RATE_MAX, "maximum": _RATE_MAX},
    )
    for_s: float = Field(
        gt=0, le=FOR_S_MAX, description="how long, in seconds; then the throttle is tuned again. There is no default"
    )


class ErrorBody(BaseModel):
    detail: str = Field(description="what was wrong, and what to do")


class PauseBody(BaseModel):
    since_ms: int
    by: str
    released: bool


class OverrideBody(BaseModel):
    broker: int
    side: str
    rate_bytes_per_s: int
    until_ms: int
    by: str


class OrderReceipt(BaseModel):
    """The order is recorded. A tuner has acknowledged it when the status says ``orders_acknowledged_at_ms >= orders_at_ms``."""

    orders_at_ms: int
    by: str
    paused: PauseBody | None
    overrides: list[OverrideBody]


class SideNamed(BaseModel):
    broker: int
    side: str


class ObjectiveBody(BaseModel):
    latency_ms: float
    mode: str
    finish_at_ms: int | None
    share_max: float | None


class Status(BaseModel):
    cluster: str
    version: str
    ready: bool
    ready_text: str
    acting: bool
    dry_run: bool
    dry_run_by_default: bool = Field(description="the tuner does not act because its settings do not say tuner.dry_run")
    role: str = Field(description="what whoever asks may do: read or operate")
    now_ms: int
    last_cycle_at_ms: int | None
    cycle_s: float = Field(description="how long the last cycle took")
    headline: str
    moving_partitions: int | None
    remaining_bytes: float | None
    done_ratio: float | None = Field(
        description="of the most that was lacking since something last began to move; destinations that have ended count as done"
    )
    eta_s: float | None = Field(
        description="until everything has ended that moves or that a plan has still to move; null: not known, or stalled"
    )
    ends_at_ms: int | None = Field(description="the moment of that end")
    plans: int = Field(description="plans of `rheostat reassign` that have not ended")
    stalled_brokers: list[int]
    infeasible: list[SideNamed]
    brokers_alive: int | None
    throttles: int | None
    throttles_managed: int
    orphaned_throttle_settings: int | None
    produce_p99_ms_max: float | None
    produce_p99_ms_max_broker: int | None
    objective: ObjectiveBody | None
    rate_bytes_per_s_max: float
    rate_bytes_per_s_min: float
    signals_age_s_min: float | None
    actuation_failures: int
    orders_at_ms: int
    orders_by: str
    orders_acknowledged_at_ms: int
    paused: PauseBody | None
    overrides: list[OverrideBody]
    next: list[str] = Field(description="what would be done next, as things are now, in sentences")


class LargestPartitionBody(BaseModel):
    topic: str
    partition: int
    remaining_bytes: float | None


class Move(BaseModel):
    broker: int
    moving_partitions: int
    remaining_bytes: float | None
    done_ratio: float | None
    since_ms: int | None
    remaining_slope_bytes_per_s: float | None
    eta_s: float | None = Field(
        description="until what moves onto this broker now has ended; null: not known, or stalled"
    )
    lag_messages: float | None
    write_bytes_per_s: float | None
    progress_age_s: float | None
    stalled: bool | None
    stalled_since_ms: int | None
    progress_lost_s: float | None
    reason: str | None
    text: str | None
    sampled_at_ms: int
    largest: list[LargestPartitionBody]


class Partition(BaseModel):
    topic: str
    partition: int
    leader: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    isr: list[int]


class Paged(BaseModel):
    total: int
    next_offset: int | None


class Moves(Paged):
    moves: list[Move]


class Partitions(Paged):
    partitions: list[Partition]


class SideOfBroker(BaseModel):
    side: str
    current_rate_bytes_per_s: int | None
    setpoint_bytes_per_s: int | None
    throttled_bytes_per_s: float | None
    throttled_by: str | None
    steady_state_bytes_per_s: float | None
    min_rate_bytes_per_s: float | None
    managed: bool
    externally_owned_until_ms: int | None
    overridden_until_ms: int | None
    infeasible: bool
    no_headroom: bool | None
    changing: bool
    reason: str | None
    text: str | None


class Broker(BaseModel):
    broker: int
    alive: bool
    sides: list[SideOfBroker]
    produce_p99_ms: float | None
    client_in_bytes_per_s: float | None
    client_out_bytes_per_s: float | None
    under_min_isr_partitions: float | None
    completeness: float | None
    age_s: float | None
    sampled_at_ms: int | None


class Brokers(Paged):
    brokers: list[Broker]


class RateHistoryBody(BaseModel):
    times_ms: list[int]
    rate_bytes_per_s_max: float = Field(description="the ceiling now, tuner.rate_bytes_per_s_max")
    max_rates_bytes_per_s: list[float] = Field(description="the ceiling as it was at each of these times")
    brokers: dict[str, dict[str, list[float | None]]] = Field(description="columns by broker; null is a gap")


class RateChange(BaseModel):
    broker: int
    side: str | None
    before_bytes_per_s: int | None
    after_bytes_per_s: int | None


class QuotaChange(BaseModel):
    entity: dict[str, str | None]
    before_per_s: float | None
    after_per_s: float | None
    reason: str


class DecisionBody(BaseModel):
    id: int
    at_ms: int
    kind: str
    action: str
    reason: str
    text: str = Field(description="one sentence for one event, which may be about many throttles")
    records: int = Field(description="how many records of the journal it is made of")
    broker: int | None = Field(description="null: several, or none")
    side: str | None = Field(description="null: both, or none")
    topics: list[str]
    before_bytes_per_s: int | None
    after_bytes_per_s: int | None
    rates: list[RateChange]
    quotas: list[QuotaChange]
    outcome: Literal["done", "failed", "in_progress", "started", "dry_run", "no_change", "waiting", "recorded"]
    failure: str | None
    outcome_at_ms: int | None
    dry_run: bool
    inputs: dict[str, Any] | None = Field(description="what it stood on; of several throttles by their names")


class DecisionPage(BaseModel):
    decisions: list[DecisionBody]
    next_before: int | None = Field(description="`before` of the next page; null: there are no more")


class TenantBody(BaseModel):
    user: str | None
    client_id: str | None
    demand_per_s: float
    quota_per_s: float | None
    quota_setpoint_per_s: float | None
    tokens: float | None
    throttled: bool
    managed: bool
    rule: int | None
    reason: str


class Tenants(BaseModel):
    enabled: bool = Field(description="whether tuner.mutation_quota is set, or quotas of ours stand")
    total_per_s: float | None
    pressure: float | None
    total_text: str | None
    holds: list[str]
    observed_at_ms: int | None
    tenants: list[TenantBody] | None = Field(description="null: nobody was judged, and the holds say why")
    total: int
    next_offset: int | None
