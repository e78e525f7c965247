"""The OpenAPI models of running and finished plans from the journal."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tuner.api.response_models import Paged


class PastPlanBody(BaseModel):
    """One plan of the history: a plan that has ended, or a plan that still runs."""

    plan: str
    state: Literal["running", "paused", "cancelling", "done", "cancelled", "unknown"] = Field(
        description="unknown: the journal still has steps of the plan, but not its orders and its result"
    )
    submitted_by: str | None
    submitted_at_ms: int | None
    started_at_ms: int = Field(description="the planned start; if it is not known, the time of the first step")
    ended_at_ms: int | None = Field(description="null: the plan runs, or its end is not known")
    duration_s: float | None = Field(description="from the start to the end, or until now, without pauses")
    expected_s: float | None = Field(description="the duration that was estimated at the submission; null: not known")
    partitions: int | None
    arrived: int | None
    total_bytes: float | None
    copied_bytes: float | None


class PastPlans(Paged):
    notes: list[str] = Field(description="sentences about data that the history lacks")
    plans: list[PastPlanBody] = Field(description="running plans first, then finished plans, the newest first")


class PlanEventBody(BaseModel):
    at_ms: int
    id: int = Field(description="the id of the decision, for /decisions/{id}")
    started: int = Field(description="number of steps that the tuner requested")
    ended: int = Field(description="number of partitions whose step had ended")
    arrived: int | None = Field(
        description="number of partitions that have reached their target; null: the journal entry does not have the number"
    )
    text: str


class PastPlan(PastPlanBody):
    notes: list[str]
    events_total: int
    events: list[PlanEventBody] = Field(description="the newest events first")


class PlanPartitionBody(BaseModel):
    topic: str
    partition: int
    state: Literal["moving", "waiting", "given_up", "rolled_back", "arrived"]
    target: list[int] = Field(description="the replicas after the newest step, or after the plan; empty: not known")
    size_bytes: float | None
    remaining_bytes: float | None = Field(
        description="the last measured value of a moving partition; null: not measured"
    )
    started_at_ms: int | None
    ended_at_ms: int | None


class PlanPartitions(Paged):
    notes: list[str]
    partitions: list[PlanPartitionBody]
