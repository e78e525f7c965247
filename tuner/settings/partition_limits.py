"""How many partitions there may be, as an operator says it once for all that rheostat plans, creates and executes (KIP-578)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.core.partition_limits import PRESETS, UNLIMITED, PartitionLimits

Broker = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0, le=UNLIMITED)]


class LimitsSettings(BaseModel):
    """How many partitions (replicas, those of internal topics left out) there may be (KIP-578); absent: as many as come."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: (
        Literal["kafka", "msk.t3.small", "msk.large", "msk.xlarge", "msk.2xlarge", "msk.4xlarge", "msk.express"] | None
    ) = Field(
        default=None,
        description="numbers that others recommend: kafka is 4000 a broker and 200000 in all; a number below stands in place "
        "of the preset's",
    )
    max_broker_partitions: int | None = Field(
        default=None, ge=0, le=UNLIMITED, description="the KIP's max.broker.partitions: replicas that a broker may host"
    )
    max_partitions: int | None = Field(
        default=None,
        ge=0,
        le=UNLIMITED,
        description="the KIP's max.partitions: replicas that the cluster may have; the stricter of the two limits wins",
    )
    by_broker: dict[Broker, Count] = Field(
        default_factory=dict, description="brokers that are larger or smaller than the others, by id: 3: 2000"
    )

    @property
    def are_set(self) -> bool:
        """Somebody said something; else there is nothing that could be broken."""
        named = (self.preset, self.max_broker_partitions, self.max_partitions)
        return bool(self.by_broker) or any(value is not None for value in named)

    def limits(self) -> PartitionLimits:
        """Unlimited where nothing is said."""
        below = PartitionLimits() if self.preset is None else PRESETS[self.preset].limits
        return PartitionLimits(
            below.broker_partitions_max if self.max_broker_partitions is None else self.max_broker_partitions,
            below.partitions_max if self.max_partitions is None else self.max_partitions,
            self.by_broker,
        )
