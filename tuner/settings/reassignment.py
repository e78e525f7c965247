"""The section ``tuner.reassign`` of the settings file: limits for executing plans."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tuner.control.reassignment.concurrency_model import ConcurrencyLimits
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_steps import UNLIMITED


class ReassignSettings(BaseModel):
    """Execution of reassignment plans. The three limits with the ending movements_max (KIP-435) apply to the sum of all plans."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="true: this tuner executes the plans of `rheostat reassign`")
    leader_movements_max: int | None = Field(
        default=None, ge=1, description="highest number of running steps that move a leader; if absent, no limit"
    )
    partition_movements_max: int | None = Field(
        default=None,
        ge=1,
        description="highest number of partitions that move at the same time; if absent, only slots_max limits this number",
    )
    replica_movements_max: int | None = Field(
        default=None,
        ge=1,
        description="highest number of replicas that one step adds to a partition; if absent, one step adds all new replicas "
        "of a partition",
    )

    slots_min: int = Field(
        default=ConcurrencyLimits().slots_min,
        ge=1,
        description="lower bound of the number of partitions that one broker sends, or receives, at the same time; the tuner "
        "chooses a number between slots_min and slots_max",
    )
    slots_max: int = Field(
        default=ConcurrencyLimits().slots_max,
        ge=1,
        description="upper bound of the number of partitions that one broker sends, or receives, at the same time",
    )
    cluster_max: int = Field(
        default=ConcurrencyLimits().cluster_max,
        ge=1,
        description="highest number of partitions that are copied at the same time in the whole cluster",
    )

    @model_validator(mode="after")
    def _min_below_max(self) -> ReassignSettings:
        if self.slots_min > self.slots_max:
            raise ValueError(f"slots_min ({self.slots_min}) is above slots_max ({self.slots_max})")
        return self

    def concurrency(self) -> ConcurrencyLimits:
        return ConcurrencyLimits(slots_min=self.slots_min, slots_max=self.slots_max, cluster_max=self.cluster_max)

    def limits(self) -> BatchLimits:
        return BatchLimits(
            self.leader_movements_max or UNLIMITED,
            self.partition_movements_max or UNLIMITED,
            self.replica_movements_max or UNLIMITED,
        )
