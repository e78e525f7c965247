"""The OpenAPI models of reassignment plans."""

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
    replicas: list[int] = Field(description="the replicas at the end of the step")
    adding: list[int]
    removing: list[int]


class PlanStatusBody(BaseModel):
    plan: str
    submitted_by: str
    ordered_by: str = Field(description="the author of the newest order about the plan")
    submitted_at_ms: int
    not_before_ms: int | None = Field(description="the time of the start while the plan waits for it; otherwise null")
    desired: Literal["running", "paused", "cancelling"]
    partitions: int = Field(description="number of all partitions of the plan; the next fields count them by state")
    arrived: int = Field(description="have their target replicas")
    moving: int
    waiting: int
    electing: int = Field(description="have their target replicas; the preferred leader is not elected yet")
    unconfirmed: int = Field(description="requested, and not confirmed by the controller yet")
    externally_owned: int = Field(description="reassigned by another tool, or another tool stopped their step")
    dropped: int = Field(description="no longer part of the plan, for example because the topic was recreated")
    total_bytes: float = Field(description="bytes to copy in all, by the partition sizes at submission")
    copied_bytes: float | None = Field(description="null while the plan is being cancelled")
    done_ratio: float | None
    eta_s: float | None = Field(
        description="seconds until the plan ends, estimated from its mean rate so far, and at least until its current moves end; "
        "null if nothing is copied yet, the plan does not progress, or a move has stalled"
    )
    batch: list[PlanStepBody] = Field(description="steps in progress; the first twenty")
    limits: PlanLimitsBody = Field(description="the plan's own limits; a limit that is null is not set")
    blockers: list[str] = Field(description="why the plan does not progress")
    concurrency: list[str] = Field(
        description="sentences: how many moves run concurrently on each broker side, and why"
    )


class Plans(Paged):
    limits: PlanLimitsBody | None = Field(
        description="the strictest limits over all plans; null: this tuner has no plan"
    )
    observed_at_ms: int | None
    unknown_reason: str | None = Field(
        description="why the state of the plans is unknown; null if it is known. While it is unknown, no new step begins and the "
        "other fields hold the last known values"
    )
    unknown_since_ms: int | None = Field(
        description="the time since which the state is unknown; null: the state is known, or has been unknown since the start"
    )
    order: str = Field(description="a sentence: the order in which the partitions of all plans move")
    plans: list[PlanStatusBody]
