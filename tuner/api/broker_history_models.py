"""The OpenAPI models of a broker's history over hours to weeks."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class MeasuredBody(BaseModel):
    """The arrays have one value for each step, beginning at ``start_ms``; null: not measured."""

    start_ms: int
    step_ms: int = Field(description="at least ten minutes; at least an hour if the range begins before the last week")
    client_in_bytes_per_s: list[float | None]
    client_out_bytes_per_s: list[float | None]
    replication_in_bytes_per_s: list[float | None] = Field(description="copies included")
    replication_out_bytes_per_s: list[float | None] = Field(description="copies included")
    produce_p99_ms: list[float | None] = Field(description="the highest value of all ten-minute periods in the step")
    lag_messages: list[float | None] = Field(
        description="messages that followers lack; the highest value of all ten-minute periods in the step"
    )


class RateLineBody(BaseModel):
    """The throttle of one side: each rate applies until the time of the next rate."""

    times_ms: list[int]
    bytes_per_s: list[int | None] = Field(description="null: no throttle, or not known")


class RateLinesBody(BaseModel):
    leader: RateLineBody
    follower: RateLineBody


class InForceBody(BaseModel):
    since_ms: int
    rate_bytes_per_s_max: float = Field(description="the ceiling of throttles")
    latency_ms: float | None = Field(description="the highest produce p99; null: the objective has no fixed latency")
    text: str


class MarkBody(BaseModel):
    at_ms: int
    kind: Literal["fail_over", "restart", "settings", "order", "external_change", "decision"]
    id: int = Field(description="the id of the decision, for /decisions/{id}")
    text: str


class BrokerHistoryBody(BaseModel):
    broker: int
    now_ms: int
    from_ms: int
    to_ms: int
    measured: MeasuredBody
    throttles: RateLinesBody = Field(description="the rates of both throttles, from the journal")
    in_force: list[InForceBody] = Field(
        description="the ceiling and the objective, from the journal; the first entry may be from before the range"
    )
    marks: list[MarkBody] = Field(description="in order of time")
    marks_left_out: int = Field(description="number of marks that are left out; ask for a shorter range to get them")
    notes: list[str] = Field(description="sentences about data that the history lacks")
