"""The schema of a scenario file: its keys, with type, default and meaning of each."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from rheostat.simulate.disturbance_schema import Disturbance
from rheostat.simulate.schema_types import (
    BrokerIds,
    Moment,
    PositiveShare,
    Rate,
    RateOrNone,
    SchemaModel,
    Share,
    Size,
    Span,
    TimeRange,
)


def _expand_brokers(value: Any) -> Any:
    """Expands a number of brokers to a list: ``4`` means the ids 1 to 4."""
    if isinstance(value, bool) or not isinstance(value, int | list):
        raise ValueError(f"expected a number of brokers, or a list of them, found {value!r}")
    if isinstance(value, int):
        if not 1 <= value <= 10_000:
            raise ValueError(f"expected 1 to 10000 brokers, found {value}")
        return [{"id": i} for i in range(1, value + 1)]
    return [{"id": item} if isinstance(item, int) else item for item in value]


class BrokerSchema(SchemaModel):
    id: int = Field(ge=0, description="the broker's node id")
    link: Rate | None = Field(default=None, description="this broker's link, if it differs from `link`")
    disk: Rate | None = Field(default=None, description="this broker's disks, if they differ from `disk`")


class TopicSchema(SchemaModel):
    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="the topic's name")
    partitions: int | None = Field(default=None, ge=1, le=200_000, description="how many partitions; not with replicas")
    size: Size = Field(description="size of each partition, such as 20GB")
    write: RateOrNone = Field(default=0.0, description="write rate of each partition, such as 4MB/s")
    spread: Share = Field(
        default=0.0,
        description="random spread of sizes and write rates: standard deviation ÷ mean",
    )
    replication: int = Field(default=3, ge=1, description="replicas of each partition")
    brokers: BrokerIds | None = Field(
        default=None, description="the brokers that hold the topic; default: all except joining brokers"
    )
    leaders: BrokerIds | None = Field(default=None, description="the brokers that lead; default: all of `brokers`")
    replicas: tuple[BrokerIds, ...] | None = Field(
        default=None, description="the replicas of each partition one by one, the leader first: [[1, 2], [2, 3]]"
    )


class PlanEntrySchema(SchemaModel):
    topic: str = Field(description="a topic of the scenario")
    partition: int = Field(ge=0, description="the number of the partition")
    replicas: BrokerIds = Field(description="all target replicas")
    log_dirs: tuple[str, ...] = Field(default=(), description="as kafka-reassign-partitions writes it; not used")


class PlanSchema(SchemaModel):
    version: Literal[1] = Field(default=1, description="as kafka-reassign-partitions writes it")
    partitions: Annotated[tuple[PlanEntrySchema, ...], Field(min_length=1)] = Field(description="the plan's partitions")


class MoveSchema(SchemaModel):
    add: BrokerIds | None = Field(default=None, description="brokers that hold nothing yet take an even share")
    drain: BrokerIds | None = Field(default=None, description="everything leaves these brokers")
    replace: dict[int, int] | None = Field(
        default=None, min_length=1, description="for each old broker, the new broker that takes all its replicas"
    )
    plan: PlanSchema | None = Field(default=None, description="the JSON of kafka-reassign-partitions, pasted as it is")

    @model_validator(mode="after")
    def _check_single_kind(self) -> MoveSchema:
        kinds = [key for key in type(self).model_fields if getattr(self, key) is not None]
        if len(kinds) != 1:
            raise ValueError(
                f"expected exactly one of add, drain, replace and plan; found {' and '.join(kinds) or 'none'}"
            )
        return self


class LoadStepSchema(TimeRange):
    factor: float = Field(gt=0, description="the factor for the load of these brokers")
    brokers: BrokerIds | None = Field(default=None, description="the brokers whose load changes; default: all")


class LoadSchema(SchemaModel):
    writes: RateOrNone = Field(
        default=0.0,
        description="write rate into each broker in addition to the scenario's topics, in-sync replication included",
    )
    reads: RateOrNone = Field(default=0.0, description="read rate of each broker in addition to the scenario's topics")
    reads_per_write: float = Field(default=1.0, ge=0, description="how often consumers read the topics above")
    daily: Share = Field(default=0.0, description="amplitude of the daily sine ÷ mean")
    day: Span = Field(default=86_400.0, description="the length of a day")
    phase: Moment = Field(
        default=0.0,
        description="the time of day at the start; at 0 the load rises, at a quarter of the day it is highest",
    )
    noise: Share = Field(default=0.0, description="random noise of the load: standard deviation ÷ mean")
    noise_lasts: Span = Field(default=10.0, description="autocorrelation time of the noise")
    steps: tuple[LoadStepSchema, ...] = Field(
        default=(), description="periods in which the load is multiplied by a factor"
    )


class SignalSchema(SchemaModel):
    every: Span = Field(default=5.0, description="the time between two scrapes")
    window: Span = Field(default=30.0, description="the window of a signal")
    delay: Moment = Field(default=2.0, description="the shortest time from a scrape to the tuner")
    delay_max: Moment = Field(default=4.0, description="the longest time from a scrape to the tuner")
    loss: Share = Field(default=0.0, description="the share of a broker's scrapes that are lost")

    @model_validator(mode="after")
    def _check_delays(self) -> SignalSchema:
        if self.delay_max < self.delay:
            raise ValueError(f"expected delay_max of at least delay, found {self.delay_max:g} s and {self.delay:g} s")
        return self


class FetchSchema(SchemaModel):
    threads: int = Field(default=1, ge=1, le=64, description="num.replica.fetchers")
    thread_rate: Rate = Field(default=1e9, description="maximum rate of one fetcher thread")
    response: Size = Field(default=10 * 2.0**20, description="replica.fetch.response.max.bytes")
    partition: Size = Field(default=2.0**20, description="replica.fetch.max.bytes")
    quota_samples: int = Field(default=11, ge=1, le=100, description="replication.quota.window.num")


class LatencySchema(SchemaModel):
    base: Span = Field(default=0.005, description="clients' p99 on an idle broker; p99 = base ÷ (1 − utilisation)")
    objective: Span = Field(default=0.050, description="the p99 objective")

    @model_validator(mode="after")
    def _check_objective(self) -> LatencySchema:
        if not 1.02 * self.base < self.objective < 100 * self.base:
            raise ValueError(
                f"expected an objective above base ({1000 * self.base:g} ms) and below 100 × base, "
                f"found {1000 * self.objective:g} ms"
            )
        return self


class ScenarioSchema(SchemaModel):
    """The whole file."""

    about: str = Field(default="", description="one sentence: what is simulated")
    brokers: Annotated[tuple[BrokerSchema, ...], BeforeValidator(_expand_brokers), Field(min_length=1)] = Field(
        description="how many (ids from 1), or a list of ids, or of id with link and disk"
    )
    link: Rate = Field(description="network rate of a broker in each direction, such as 1.25GB/s or 10Gbit/s")
    disk: Rate = Field(description="rate at which a broker's disks write, and at which they read")
    topics: Annotated[tuple[TopicSchema, ...], Field(min_length=1)] = Field(description="the topics of the cluster")
    move: MoveSchema = Field(description="the move: one of add, drain, replace, plan")
    load: LoadSchema = Field(default_factory=LoadSchema, description="the load of clients")
    throttle: Rate | None = Field(
        default=None,
        description="the initial throttle, as kafka-reassign-partitions --throttle sets it; default: no throttle",
    )
    ceiling: Rate | None = Field(
        default=None,
        description="the highest rate that rheostat may set (tuner.rate_bytes_per_s_max); default: 80 % of the slowest link",
    )
    disturbances: tuple[Disturbance, ...] = Field(default=(), description="events during the run")
    begin: Moment = Field(default=0.0, description="the time at which the move begins")
    duration: Span = Field(default=3600.0, description="the longest simulated time")
    deadline: Span | None = Field(
        default=None,
        description="the time from the start of the move to its end; rheostat uses all of it; exit code 1: the deadline is missed",
    )
    share: PositiveShare | None = Field(
        default=None, description="the share of every link that rheostat may use, such as 25%"
    )
    seed: int = Field(default=1, ge=0, description="the seed of the random numbers for spread, noise and delays")
    signals: SignalSchema = Field(default_factory=SignalSchema, description="the delay and the loss of signals")
    fetch: FetchSchema = Field(default_factory=FetchSchema, description="the brokers' settings")
    latency: LatencySchema = Field(default_factory=LatencySchema, description="the model of client latency")
