"""The section ``learn`` of the settings file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from streaming.shared.metrics_settings import MetricsHttpSettings


class LearnHttpSettings(MetricsHttpSettings):
    """The metrics endpoint of `rheostat learn`."""


class LearnSettings(BaseModel):
    """Settings of `rheostat learn`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True,
        description="true: `rheostat run` also runs `rheostat learn`, which learns usual loads, latencies and capacities of "
        "the brokers from the history",
    )
    http: LearnHttpSettings = Field(default_factory=LearnHttpSettings, description="the metrics of `rheostat learn`")
