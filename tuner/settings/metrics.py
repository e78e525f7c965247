"""The section ``tuner.metrics`` of the settings file: optional metrics."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

PARTITIONS_NAMED_MAX = 1_000


class MetricsSettings(BaseModel):
    """Optional metrics of single partitions. All other metrics of the tuner are by broker or by cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partitions_named_max: int = Field(
        default=0,
        ge=0,
        le=PARTITIONS_NAMED_MAX,
        description="number of moving partitions with metric series of their own; the tuner chooses the partitions with the "
        "most bytes left to copy. 0: none",
    )
