"""What the tuner's metrics tell beyond what every cluster has."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

PARTITIONS_NAMED_MAX = 1_000


class MetricsSettings(BaseModel):
    """What the tuner's /metrics tells of single partitions; everything else there is by broker at most."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partitions_named_max: int = Field(
        default=0,
        ge=0,
        le=PARTITIONS_NAMED_MAX,
        description="of how many moving partitions, those that lack most, each has a series of its own; 0: of none",
    )
