"""What the collector needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streaming.collector.jmx import AccessFiles
from streaming.shared.metrics_settings import MetricsHttpSettings
from streaming.shared.unit_settings import Seconds


class CollectorHttpSettings(MetricsHttpSettings):
    """Where the collector tells of itself over HTTP, for Prometheus: scrapes, failures, rounds."""


_SPREAD_S_A_NODE = 0.1


class CollectorSettings(BaseModel):
    """The collector: what it reads, how often."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: Seconds = Field(default=5.0, ge=1, le=45, description="seconds between two scrapes of a node")
    timeout_s: Seconds = Field(
        default=2.0, gt=0, le=30, description="longest wait for one node, in seconds; others do not wait for it"
    )
    spread_s: Seconds = Field(
        default=2.0,
        ge=0,
        le=60,
        description="the scrapes of a round begin over so many seconds, each node always at the same moment; "
        "at most a tenth of a second for each node, and cut to interval_s - timeout_s",
    )
    scrapes_at_once: int = Field(
        default=32,
        ge=2,
        le=1000,
        description="most scrapes under way at a time; a quarter of them is kept for nodes that did not answer last time",
    )
    full_scan_interval_s: Seconds = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="seconds between two looks at every topic's throttle lists and every broker's rates; "
        "what moves is looked at each round",
    )
    jmx_port: int | None = Field(
        default=None, ge=1, le=65535, description="port of the JMX agent, when it is the same on every broker's host"
    )
    jmx_scheme: Literal["http", "https"] = Field(default="http", description="how the agents at jmx_port are spoken to")
    endpoints: dict[int, str] = Field(
        default_factory=dict,
        description="node id → URL of its JMX agent; wins over jmx_port, and the only way to name controllers",
    )
    tls_ca_file: str | None = Field(
        default=None,
        description="PEM file with the authorities that sign the agents' certificates; none: the system's own",
    )
    tls_cert_file: str | None = Field(default=None, description="PEM file with our certificate, for mutual TLS")
    tls_key_file: str | None = Field(default=None, description="PEM file with our key (no passphrase), for mutual TLS")
    tls_verify_host: bool = Field(
        default=True,
        description="false: an agent's certificate need not name the host that was asked, only be signed by the authorities; "
        "then whoever holds any such certificate can stand in for a node",
    )
    username: str | None = Field(
        default=None, description="user of the agents' basic authentication; use it over https"
    )
    password_file: str | None = Field(
        default=None, description="file whose first line is the password of it; read again when it changes"
    )
    http: CollectorHttpSettings = Field(
        default_factory=CollectorHttpSettings, description="the collector's own metrics"
    )

    @field_validator("endpoints")
    @classmethod
    def _urls(cls, endpoints: dict[int, str]) -> dict[int, str]:
        for node, url in endpoints.items():
            try:
                parts = urlsplit(url)
                whole = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
                secret = parts.username is not None or parts.password is not None
            except ValueError:
                whole = secret = False
            if secret:  # It would stand in every log line that names the URL.
                raise ValueError(f"the URL of node {node} carries a user or password: use username and password_file")
            if not whole:
                raise ValueError(f"the URL of node {node} is not http(s)://host:port/path")
        return endpoints

    @model_validator(mode="after")
    def _pairs(self) -> CollectorSettings:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.username is not None and ":" in self.username:
            raise ValueError("username holds a colon, which basic authentication cannot carry")
        return self

    def access_files(self) -> AccessFiles:
        return AccessFiles(
            ca=self.tls_ca_file,
            cert=self.tls_cert_file,
            key=self.tls_key_file,
            verify_host=self.tls_verify_host,
            username=self.username,
            password=self.password_file,
        )

    def spread_s_fitting(self, nodes: int) -> float:
        """Few nodes need no room, and whoever steers waits for it twice: at a move's begin, and after each step.
        The last scrape to begin still has its whole timeout before the next round."""
        return max(0.0, min(self.spread_s, nodes * _SPREAD_S_A_NODE, self.interval_s - self.timeout_s))

    def agent_urls(self, brokers: Mapping[int, str]) -> dict[int, str]:
        """Node id → URL of its agent. ``brokers``: broker id → host."""
        by_port = {
            broker: f"{self.jmx_scheme}://{f'[{host}]' if ':' in host else host}:{self.jmx_port}/metrics"
            for broker, host in brokers.items()
            if self.jmx_port
        }
        return by_port | self.endpoints
