"""What the tuner needs to know from its operator."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tuner.model.limits import MB, Limits


class HttpSettings(BaseModel):
    """Where the tuner answers over HTTP: /metrics, /healthz, /readyz, /status."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=9464, ge=0, le=65535, description="port to listen on; 0 takes any free one")


class TunerSettings(BaseModel):
    """The tuner: what it may do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate_bytes_per_s_max: float = Field(
        gt=0, description="the ceiling: no throttle is ever raised above it, in bytes/s (per broker and side); required"
    )
    rate_bytes_per_s_min: float = Field(
        default=5 * MB,
        gt=0,
        description="no stalled move is answered with less, in bytes/s; Kafka's quota is coarse below 1 MB/s",
    )
    dry_run: bool = Field(default=False, description="decide, log and journal, but write nothing to the cluster")
    cycle_s: float = Field(default=5.0, ge=1, le=60, description="seconds between two looks at the cluster")
    signal_age_s_max: float = Field(default=15.0, gt=0, description="signals older than this never raise a throttle")
    yield_s: float = Field(
        default=3600.0, ge=0, description="how long a throttle that somebody else changed is left alone, in seconds"
    )
    clear_finished: bool = Field(
        default=True,
        description="when a throttled move ends, remove the throttle that was put on for it, as kafka-reassign-partitions "
        "--verify does; a throttle that also serves other replicas is never removed, only put back",
    )
    config_writes_per_s_max: float = Field(
        default=50.0,
        ge=1,
        description="budget of throttle writes while rates change; larger clusters change in coarser steps",
    )
    http: HttpSettings = Field(default_factory=HttpSettings, description="the tuner's HTTP endpoint")

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> TunerSettings:
        if self.rate_bytes_per_s_min > self.rate_bytes_per_s_max:
            raise ValueError(
                f"rate_bytes_per_s_min ({self.rate_bytes_per_s_min:.0f}) is above rate_bytes_per_s_max "
                f"({self.rate_bytes_per_s_max:.0f})"
            )
        return self

    def limits(self) -> Limits:
        return Limits(
            rate_bytes_per_s_max=self.rate_bytes_per_s_max,
            rate_bytes_per_s_min=self.rate_bytes_per_s_min,
            signal_age_s_max=self.signal_age_s_max,
            yield_s=self.yield_s,
            clear_finished=self.clear_finished,
        )
