"""What the collector needs to know."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field


class CollectorSettings(BaseModel):
    """The collector: what it reads, how often."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: float = Field(default=5.0, ge=1, le=60, description="seconds between two scrapes of a node")
    timeout_s: float = Field(
        default=2.0, gt=0, le=30, description="longest wait for one node, in seconds; others do not wait for it"
    )
    jmx_port: int | None = Field(
        default=None, ge=1, le=65535, description="port of the JMX agent, when it is the same on every broker's host"
    )
    endpoints: dict[int, str] = Field(
        default_factory=dict,
        description="node id → URL of its JMX agent; wins over jmx_port, and the only way to name controllers",
    )

    def agent_urls(self, brokers: Mapping[int, str]) -> dict[int, str]:
        """Node id → URL of its agent. ``brokers``: broker id → host."""
        by_port = {b: f"http://{host}:{self.jmx_port}/metrics" for b, host in brokers.items()} if self.jmx_port else {}
        return by_port | self.endpoints
