"""The OpenAPI models of the week of a broker."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tuner.api.response_models import LatencyLimitBody, LinkLimitBody


class CopyBody(BaseModel):
    start_ms: int
    end_ms: int


class LoadForecastBody(BaseModel):
    bytes_per_s: list[int | None] = Field(description="the mean of each step; null: not known")
    error_bytes_per_s: list[int | None] = Field(
        description="for each step, the mean error of earlier forecasts with the same lead time; null: not measured yet"
    )
    model: str = Field(description="the model with the most weight")


class ForecastBody(BaseModel):
    made_at_ms: int
    history_s: float = Field(description="length of the broker's history from which the forecast was made")
    step_s: int
    start_ms: int = Field(description="start of the first step")
    client_in: LoadForecastBody
    client_out: LoadForecastBody
    steady_in: LoadForecastBody = Field(description="replication without reassignments, as follower")
    steady_out: LoadForecastBody = Field(description="replication without reassignments, as leader")


class BaselineBody(BaseModel):
    step_s: int
    start_ms: int = Field(
        description="start of the first step; a step in the past has the present value for the same hour of the week"
    )
    p99_ms: list[float | None] = Field(
        description="produce p99 of the broker's clients while no broker copies replicas"
    )
    p99_ms_max: list[float | None] = Field(
        description="the objective that the tuner computes from this baseline; null: no objective"
    )


class WeekCapacityBody(BaseModel):
    bytes_per_s: float
    source: Literal["settings", "learned", "link"] = Field(
        description="settings: tuner.capacity; learned: the highest traffic of clients and replication with usual latency; link: "
        "the speed of the network link, from the metrics of the machine"
    )
    seen_at_ms: int | None = Field(description="when this traffic was measured; null: the capacity was not learned")


class ChangeEventBody(BaseModel):
    measure: Literal["replication_lag", "client_latency", "mutation_rate"]
    is_unusual: bool = Field(description="true: one value that is unusual for its hour; false: a change that lasts")
    before: float
    after: float
    since_ms: int
    found_at_ms: int
    text: str


class BrokerWeekBody(BaseModel):
    """The arrays have one value for each period, beginning at ``start_ms``; null: not measured."""

    broker: int
    now_ms: int
    waits_for: str | None = Field(description="why there is no history of this broker; null: the broker has a history")
    period_s: int
    start_ms: int | None = Field(description="start of the first period; null: there is no history")
    client_in_bytes_per_s: list[float | None]
    client_out_bytes_per_s: list[float | None]
    replication_in_bytes_per_s: list[float | None] = Field(description="copies included")
    replication_out_bytes_per_s: list[float | None] = Field(description="copies included")
    produce_p99_ms: list[float | None] = Field(description="the median of the p99 of each half minute")
    copies: list[CopyBody] = Field(description="the times in which the broker copied replicas")
    forecast: ForecastBody | None
    forecast_text: str
    baseline: BaselineBody | None = Field(description="null: not learned from the history yet")
    latency_limit: LatencyLimitBody | None = Field(description="the objective in force now, as in the route `brokers`")
    capacity_in: WeekCapacityBody | None
    capacity_out: WeekCapacityBody | None
    capacity_text: str
    link_limit: LinkLimitBody | None = Field(
        description="the traffic that the control law permits now, as in the route `brokers`"
    )
    rate_bytes_per_s_max: float = Field(
        description="the ceiling in force now (`tuner.rate_bytes_per_s_max`, or a rule of `tuner.schedule`)"
    )
    events: list[ChangeEventBody] = Field(description="the newest first")
