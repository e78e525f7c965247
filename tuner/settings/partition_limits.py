"""The section ``limits`` of the settings file: partition limits (KIP-578) for all that rheostat plans, creates and executes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.core.partition_limits import PRESETS, UNLIMITED, PartitionLimits

Broker = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0, le=UNLIMITED)]


class LimitsSettings(BaseModel):
    """Limits on the number of replicas (KIP-578), without the replicas of internal topics. By default no limit is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: (
        Literal["kafka", "msk.t3.small", "msk.large", "msk.xlarge", "msk.2xlarge", "msk.4xlarge", "msk.express"] | None
    ) = Field(
        default=None,
        description="a named set of limits; kafka: 4000 replicas on each broker and 200000 in the cluster. The keys below "
        "override the preset",
    )
    max_broker_partitions: int | None = Field(
        default=None,
        ge=0,
        le=UNLIMITED,
        description="highest number of replicas on a broker (max.broker.partitions of KIP-578)",
    )
    max_partitions: int | None = Field(
        default=None,
        ge=0,
        le=UNLIMITED,
        description="highest number of replicas in the whole cluster (max.partitions of KIP-578); applies in addition to "
        "max_broker_partitions",
    )
    by_broker: dict[Broker, Count] = Field(
        default_factory=dict, description="broker id → highest number of replicas on this broker, for example 3: 2000"
    )

    @property
    def are_set(self) -> bool:
        """Whether any limit is configured."""
        named = (self.preset, self.max_broker_partitions, self.max_partitions)
        return bool(self.by_broker) or any(value is not None for value in named)

    def limits(self) -> PartitionLimits:
        """Returns the limits; unlimited where none is configured."""
        preset = PartitionLimits() if self.preset is None else PRESETS[self.preset].limits
        return PartitionLimits(
            preset.broker_partitions_max if self.max_broker_partitions is None else self.max_broker_partitions,
            preset.partitions_max if self.max_partitions is None else self.max_partitions,
            self.by_broker,
        )
