"""The OpenAPI models of requests and responses. Responses are not built from them; a test checks that they match."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.api.orders_api import OVERRIDE_S_MAX

BROKER_MAX = 2**31 - 1  # Kafka's ids are 32 bits.
_RATE_MAX = 2**53  # Up to this value, every integer is exact as a JSON number.


class OrderRequest(BaseModel):
    """The body of an order. Unknown keys are refused, as they are probably misspelt."""

    model_config = ConfigDict(extra="forbid", strict=True)


class EmptyRequest(OrderRequest):
    """A body without keys."""


class OverrideRequest(OrderRequest):
    broker: int = Field(ge=0, le=BROKER_MAX, description="the broker's id")
    side: Literal["leader", "follower"] | None = Field(default=None, description="absent: both sides")
    # The schema allows every integer that JSON holds exactly. The route checks the real bounds, as the maximum is a setting.
    rate_bytes_per_s: int = Field(
        description="the throttle to set, 1 to tuner.rate_bytes_per_s_max (or the highest ceiling of tuner.schedule), in bytes/s",
        json_schema_extra={"minimum": -_RATE_MAX, "maximum": _RATE_MAX},
    )
    for_s: float = Field(
        gt=0,
        le=OVERRIDE_S_MAX,
        description="duration in seconds; then the tuner controls the throttle again. There is no default",
    )


class ErrorBody(BaseModel):
    detail: str = Field(description="what is wrong, and what to do")


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


class PlanReceipt(BaseModel):
    """The plan is recorded. The active tuner begins the plan within a cycle, or at the plan's start time."""

    plan: str = Field(description="the id of the plan")
    by: str
    not_before_ms: int | None = Field(description="when the plan starts; null: at once")
    text: str


class SideNamed(BaseModel):
    broker: int
    side: str


class ObjectiveBody(BaseModel):
    latency_ms: float | None = Field(
        description="highest produce p99; null: the tuner computes it from each broker's baseline"
    )
    tolerance: float | None = Field(description="the share of the baseline by which latency may exceed the baseline")
    mode: str
    finish_at_ms: int | None
    share_max: float | None


class ScheduleBody(BaseModel):
    """The rules of ``tuner.schedule`` that apply now."""

    rules: list[str] = Field(description="the names of the rules; empty: no rule applies")
    policy: str = Field(description="the ceiling and the objective in force, as text")
    until_ms: int | None = Field(description="the next time at which a rule begins or ends; null: there is none")
    next_rules: list[str] = Field(description="the rules that apply from `until_ms` on")
    highest_ceiling_bytes_per_s: float = Field(
        description="the highest ceiling of all rules; no override may exceed it"
    )


class LatencyLimitBody(BaseModel):
    """The latency that the clients of one broker may have."""

    p99_ms_max: float = Field(description="highest produce p99")
    source: Literal["settings", "baseline", "history", "move"] = Field(
        description="settings: tuner.objective.latency_ms; baseline: the p99 without copies; history: the p99 without copies at "
        "this hour, learned by `rheostat learn`; move: a low p99 during this move"
    )
    baseline_ms: float | None = Field(description="the p99 from which the limit is computed; null: not known")


class LinkLimitBody(BaseModel):
    """The bytes/s that the control law permits in each direction of a broker, for clients and replication together."""

    in_bytes_per_s: float | None
    out_bytes_per_s: float | None
    source: Literal["settings", "link", "learned"] = Field(
        description="settings: tuner.capacity; link: the speed of the network link, from the metrics of the machine; learned: the "
        "tuner learned it from the latency of clients"
    )


class LogDirCopyBody(BaseModel):
    broker: int
    partitions: int
    remaining_bytes: int
    copied_bytes_per_s: float | None
    rate_bytes_per_s: int | None = Field(description="the limit in force; null: there is none")
    eta_s: float | None
    managed: bool
    reason: str | None
    text: str | None


class CordonedBrokerBody(BaseModel):
    broker: int
    whole_broker: bool = Field(description="all log directories are cordoned, so the broker takes no new replicas")
    directories: list[str]
    managed: list[str] = Field(description="entries of cordoned.log.dirs that rheostat has added")
    plan: str | None = Field(description="the plan that ordered the cordon; null: rheostat manages no cordon here")
    externally_owned: list[str] = Field(description="entries that another tool or server.properties has set")
    source: str | None
    text: str


class LeadershipBody(BaseModel):
    partitions_without_preferred_leader: int | None = Field(description="null: the partitions cannot be read")
    broker: int | None = Field(
        description="the broker that waits for leaders; null: the decision concerns no single broker"
    )
    action: str
    reason: str
    text: str


class LaggingBroker(BaseModel):
    broker: int = Field(description="the follower")
    reason: str = Field(description="the likely cause, one of the reasons of lag")
    text: str
    growing: bool
    lag_messages: float
    lag_s: float | None = Field(
        description="lag ÷ write rate of the partition that lacks the most messages, in seconds"
    )
    usual_messages: float | None = Field(description="the usual lag of the last hours; null: not known yet")
    since_ms: int
    sources: list[int] = Field(description="the leaders behind which the broker lags, the largest lag first")
    client_id: str | None = Field(description="the fetcher thread that is the cause")
    topic: str | None = Field(description="the partition that lacks the most messages")
    partition: int | None
    better_fetchers: int | None = Field(
        description="the value of num.replica.fetchers that separates the busy partitions"
    )


class ReplicationLag(BaseModel):
    observed_at_ms: int | None
    lagging_brokers: int | None
    lagging: list[LaggingBroker] | None = Field(
        description="the fifty brokers with the largest lag; null: not known yet"
    )


class OtherCluster(BaseModel):
    cluster: str
    page: str = Field(description="address of the status page of this cluster's tuner")


class Status(BaseModel):
    cluster: str
    other_clusters: list[OtherCluster] = Field(description="the other clusters of the same settings file")
    grafana_url: str | None = Field(description="tuner.http.grafana_url; null: not set")
    version: str
    ready: bool
    ready_text: str
    active: bool = Field(
        description="the tuner holds the lease, or is in a dry run; false on standby and during the start"
    )
    dry_run: bool
    dry_run_by_default: bool = Field(description="the tuner is in a dry run because tuner.dry_run is not set")
    role: str = Field(description="the role of the caller: read or operate")
    now_ms: int
    last_cycle_at_ms: int | None
    cycle_s: float = Field(description="duration of the last cycle")
    replication_lag: ReplicationLag = Field(description="brokers that lag without a move, and why")
    headline: str
    moving_partitions: int | None
    remaining_bytes: float | None
    done_ratio: float | None = Field(
        description="progress (0 to 1) of all moves since the cluster was last idle, relative to the peak of their remaining bytes"
    )
    eta_s: float | None = Field(description="seconds until all moves and plans have ended; null: unknown, or stalled")
    ends_at_ms: int | None = Field(description="the expected end")
    plans: int = Field(description="number of plans of `rheostat reassign` that have not ended")
    stalled_brokers: list[int]
    infeasible: list[SideNamed]
    brokers_alive: int | None
    throttles: int | None
    throttles_managed: int
    orphaned_throttle_settings: int | None
    produce_p99_ms_max: float | None
    produce_p99_ms_max_broker: int | None
    latency_limit: LatencyLimitBody | None = Field(
        description="the limit of the broker with the highest p99; null: no objective, or the broker's baseline is not known"
    )
    objective: ObjectiveBody | None
    schedule: ScheduleBody | None = Field(description="null: tuner.schedule has no rules")
    rate_bytes_per_s_max: float
    rate_bytes_per_s_min: float
    signals_age_s_min: float | None
    actuation_failures: int
    orders_at_ms: int
    orders_by: str
    orders_acknowledged_at_ms: int
    paused: PauseBody | None
    overrides: list[OverrideBody]
    next: list[str] = Field(description="the tuner's next steps, in sentences")
    log_dirs: list[LogDirCopyBody] = Field(description="brokers that copy partitions between their log directories")
    cordons: list[CordonedBrokerBody] = Field(description="brokers with cordoned log directories (KIP-1066)")
    leadership: LeadershipBody | None = Field(description="the newest decision about preferred leaders; null: none yet")


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
        description="seconds until the moves onto this broker have ended; null: unknown, or stalled"
    )
    lag_messages: float | None
    write_bytes_per_s: float | None
    progress_age_s: float | None
    stalled: bool | None
    stalled_since_ms: int | None
    progress_lost_s: float | None  # The stall score. A move whose score reaches the limit is stalled.
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
    throttled_by: str | None  # The kind of measurement behind ``throttled_bytes_per_s``, as in the signal contract.
    steady_state_bytes_per_s: float | None
    min_rate_bytes_per_s: float | None
    managed: bool
    externally_owned_until_ms: int | None
    overridden_until_ms: int | None
    infeasible: bool
    no_headroom: bool | None
    changing: bool  # The rate is being changed in steps.
    reason: str | None
    text: str | None


class Broker(BaseModel):
    broker: int
    alive: bool
    sides: list[SideOfBroker]
    produce_p99_ms: float | None
    latency_limit: LatencyLimitBody | None = Field(
        description="null: no objective, or the broker's baseline is not known"
    )
    link_limit: LinkLimitBody | None = Field(
        description="null: the control law steers no throttle of this broker, or knows no limit"
    )
    client_in_bytes_per_s: float | None
    client_out_bytes_per_s: float | None
    under_min_isr_partitions: float | None
    completeness: float | None  # Scrapes in the signal's window, relative to the expected number.
    age_s: float | None
    sampled_at_ms: int | None


class RemainingBytes(BaseModel):
    leader: float | None
    follower: float | None


class OneBroker(Broker):
    remaining_bytes: RemainingBytes = Field(description="bytes that each side still has to copy; null: not measured")


class Brokers(Paged):
    brokers: list[Broker]


class LagTrendBody(BaseModel):
    slope_messages_per_s: float
    span_s: float
    points: int
    r2: float | None


class FetcherThreadBody(BaseModel):
    source: int
    fetcher: int
    partitions: float | None
    lag_sum_messages: float | None
    lag_max_messages: float | None
    adding_partitions: float | None
    adding_lag_sum_messages: float | None
    fetched_bytes_per_s: float | None
    lag_max_s: float | None
    trend: LagTrendBody | None


class LaggingPartitionBody(BaseModel):
    topic: str
    partition: int
    lag_messages: float
    source: int | None
    fetcher: int | None
    write_messages_per_s: float | None
    write_bytes_per_s: float | None
    lag_s: float | None
    lag_bytes: float | None


class Follower(BaseModel):
    """The fields of ``ReplicationSignal`` in the signal contract."""

    broker: int
    partitions: float | None
    lag_sum_messages: float | None
    lag_max_messages: float | None
    lag_sum_bytes: float | None
    lag_max_s: float | None
    adding_partitions: float | None
    adding_lag_sum_messages: float | None
    trend: LagTrendBody | None
    trend_5min: LagTrendBody | None
    thread_count: float | None
    threads: list[FetcherThreadBody]
    worst: list[LaggingPartitionBody]
    completeness: float
    sampled_at_ms: int
    age_s: float


class Replication(Paged):
    followers: list[Follower]


class RateHistoryBody(BaseModel):
    times_ms: list[int]
    rate_bytes_per_s_max: float = Field(description="the current tuner.rate_bytes_per_s_max")
    max_rates_bytes_per_s: list[float] = Field(description="tuner.rate_bytes_per_s_max at each of these times")
    brokers: dict[str, dict[str, list[float | None]]] = Field(
        description="values by broker and column, one per time; null is a gap"
    )


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
    text: str = Field(description="one sentence about the decision, which may concern many throttles")
    records: int = Field(description="number of journal entries of this decision")
    broker: int | None = Field(description="null: the decision concerns several brokers, or no broker")
    side: str | None = Field(description="null: the decision concerns both sides, or no side")
    topics: list[str]
    before_bytes_per_s: int | None
    after_bytes_per_s: int | None
    rates: list[RateChange]
    quotas: list[QuotaChange]
    outcome: Literal["done", "failed", "in_progress", "started", "dry_run", "no_change", "waiting", "recorded"]
    failure: str | None
    outcome_at_ms: int | None
    dry_run: bool
    inputs: dict[str, Any] | None = Field(
        description="the inputs of the decision; if it concerns several throttles, the inputs of each throttle. In a list of "
        "decisions, each decision has the inputs of at most three throttles"
    )


class DecisionPage(BaseModel):
    decisions: list[DecisionBody]
    next_before: int | None = Field(description="`before` for the next page; null: this is the last page")


class TenantBody(BaseModel):
    user: str | None
    client_id: str | None
    demand_per_s: float
    quota_per_s: float | None
    quota_setpoint_per_s: float | None
    tokens: float | None  # Left in Kafka's token bucket; negative while the quota is exhausted.
    throttled: bool
    managed: bool
    rule: int | None  # The position of the matching rule in the settings.
    reason: str


class Tenants(BaseModel):
    enabled: bool = Field(description="whether tuner.mutation_quota is set, or managed quotas are still set")
    total_per_s: float | None
    pressure: float | None
    total_text: str | None
    holds: list[str]
    observed_at_ms: int | None
    tenants: list[TenantBody] | None = Field(description="null: no tenant was evaluated; `holds` gives the reason")
    total: int
    next_offset: int | None


class MutationRateBody(BaseModel):
    per_s: float
    source: Literal["partition_count", "topic_count", "request_count", "quota_accounts"]
    bound: Literal["exact", "at_least", "at_most"]


class MutationRequestBody(MutationRateBody):
    request: Literal["CreateTopics", "DeleteTopics", "CreatePartitions"]
    mean_ms: float | None
    old_ratio: float | None = Field(
        description="share of requests in old versions, which a quota delays instead of refusing"
    )
    refused_from_version: int


class MutationTenantBody(BaseModel):
    user: str | None
    client_id: str | None
    per_s: float  # Partitions created and deleted.
    tokens: float | None


class StormBody(BaseModel):
    since_ms: int
    text: str
    mutations_per_s: float
    pressure: float = Field(
        description="load of the controller relative to its limit; 1 means that the limit is reached"
    )
    measure: str
    tenants: list[MutationTenantBody] = Field(description="the tenants that cause at least half of the mutations")
    tenant_unknown_reason: str | None
    quota_per_s: float
    commands: list[str] = Field(description="commands that limit each of these tenants, or every client-id")


class Mutations(BaseModel):
    unknown_reason: str | None
    observed_at_ms: int | None
    controller: int | None = Field(description="node id of the active controller")
    mutations: MutationRateBody | None = Field(description="partitions created and deleted")
    partitions_created: MutationRateBody | None
    partitions_deleted: MutationRateBody | None
    topics_created: MutationRateBody | None
    topics_deleted: MutationRateBody | None
    requests: list[MutationRequestBody]
    refused_requests_per_s: float | None
    idle_ratio: float | None
    event_queue_ms: float | None
    requests_in_progress: float | None
    apply_lag_ms: float | None
    forwarding_busy_ratio: float | None
    accounted_per_s: float | None = Field(
        description="partitions/s of all tenants that Kafka counts; null: Kafka counts no tenant"
    )
    tenants_total: int | None
    tenants: list[MutationTenantBody] = Field(description="the 50 tenants with the most mutations")
    tenants_unknown_reason: str | None
    storm: StormBody | None
