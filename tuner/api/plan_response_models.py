"""What the API gives of plans, for its OpenAPI description."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tuner.api.response_models import Paged


class PlanLimitsBody(BaseModel):
    leader_movements_max: int | None
    partition_movements_max: int | None
    replica_movements_max: int | None


class PlanStepBody(BaseModel):
    topic: str
    partition: int
    replicas: list[int] = Field(description="that it ends with")
    adding: list[int]
    removing: list[int]


class PlanStatusBody(BaseModel):
    plan: str
    submitted_by: str
    ordered_by: str = Field(description="who gave the newest order about it")
    submitted_at_ms: int
    desired: Literal["running", "paused", "cancelling"]
    partitions: int
    arrived: int
    moving: int
    waiting: int
    electing: int
    unclear: int = Field(description="not seen yet to have been taken")
    externally_owned: int
    dropped: int
    total_bytes: float = Field(description="that it copies in all, by the sizes it was given with")
    copied_bytes: float | None = Field(description="null while it is taken back")
    done_ratio: float | None
    eta_s: float | None = Field(
        description="until it has ended, at its mean pace so far and no sooner than the moves under way; null: nothing is copied "
        "yet, it does not go on, or a move has stalled"
    )
    batch: list[PlanStepBody] = Field(description="under way; the first twenty")
    limits: PlanLimitsBody = Field(description="its own; null: none")
    blockers: list[str] = Field(description="what holds it up")
    concurrency: list[str] = Field(description="how many at a time a side of a broker has, and why")


class Plans(Paged):
    limits: PlanLimitsBody | None = Field(
        description="over all plans, the strictest that holds; null: no plan is on record here"
    )
    observed_at_ms: int | None
    unknown_reason: str | None = Field(
        description="why it is not known how the plans are: nothing new of them begins, and all else is as it was seen last; "
        "null: it is known"
    )
    unknown_since_ms: int | None = Field(description="since when; null: it is known, or was not yet")
    plans: list[PlanStatusBody]
