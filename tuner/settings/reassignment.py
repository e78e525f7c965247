"""What the executor of plans may do: `rheostat reassign`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tuner.control.reassignment.concurrency_model import ConcurrencyLimits
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_steps import UNLIMITED


class ReassignSettings(BaseModel):
    """Plans of reassignments, and KIP-435's three limits over all of them together; a plan's own may be stricter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True, description="this tuner executes the plans that `rheostat reassign` puts on record"
    )
    leader_movements_max: int | None = Field(
        default=None, ge=1, description="steps under way at once that move a leader; without it as many as there are"
    )
    partition_movements_max: int | None = Field(
        default=None, ge=1, description="partitions under way at once; without it as many as the brokers' slots allow"
    )
    replica_movements_max: int | None = Field(
        default=None, ge=1, description="replicas that one partition changes at a time; without it all of them"
    )

    slots_min: int = Field(
        default=ConcurrencyLimits().slots_min,
        ge=1,
        description="partitions at a time through each side of a broker, at least",
    )
    slots_max: int = Field(
        default=ConcurrencyLimits().slots_max,
        ge=1,
        description="the same at most; between the two the number follows what is measured",
    )
    cluster_max: int = Field(
        default=ConcurrencyLimits().cluster_max,
        ge=1,
        description="steps that copy something, at a time in the whole cluster",
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
