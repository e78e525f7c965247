"""Settings of the collector (section ``collector``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streaming.collector.jmx import AccessFiles
from streaming.shared.metrics_settings import MetricsHttpSettings
from streaming.shared.unit_settings import Seconds


class CollectorHttpSettings(MetricsHttpSettings):
    """Address at which the collector serves its own metrics to Prometheus: scrapes, failures, rounds."""


_SPREAD_S_PER_NODE = 0.1


class CollectorSettings(BaseModel):
    """The collector: its sources and its timing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: Seconds = Field(default=5.0, ge=1, le=45, description="seconds between two scrapes of a node")
    timeout_s: Seconds = Field(
        default=2.0, gt=0, le=30, description="longest wait for one node, in seconds; other nodes do not wait for it"
    )
    spread_s: Seconds = Field(
        default=2.0,
        ge=0,
        le=60,
        description="seconds over which the scrapes of a round start, each node always at the same offset; "
        "limited to 0.1 s per node and to interval_s - timeout_s",
    )
    scrapes_at_once: int = Field(
        default=32,
        ge=2,
        le=1000,
        description="most concurrent scrapes; a quarter of them is reserved for nodes that did not answer last time",
    )
    full_scan_interval_s: Seconds = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="seconds between two full scans of every topic's throttle lists and every broker's rates; "
        "partitions that move are read in each round",
    )
    jmx_port: int | None = Field(
        default=None, ge=1, le=65535, description="port of the JMX agent, if it is the same on every broker's host"
    )
    jmx_scheme: Literal["http", "https"] = Field(default="http", description="protocol of the agents at jmx_port")
    endpoints: dict[int, str] = Field(
        default_factory=dict,
        description="node id → URL of its JMX agent; has priority over jmx_port, and is the only way to name controllers",
    )
    tls_ca_file: str | None = Field(
        default=None,
        description="PEM file with the authorities that sign the agents' certificates; without it, the system's authorities",
    )
    tls_cert_file: str | None = Field(
        default=None, description="PEM file with the collector's certificate, for mutual TLS"
    )
    tls_key_file: str | None = Field(
        default=None, description="PEM file with the collector's key (no passphrase), for mutual TLS"
    )
    tls_verify_host: bool = Field(
        default=True,
        description="false: an agent's certificate may be for another host, if one of the authorities has signed it; "
        "then the holder of any such certificate can impersonate a node",
    )
    username: str | None = Field(
        default=None, description="user for the agents' basic authentication; use it with https only"
    )
    password_file: str | None = Field(
        default=None, description="file whose first line is the password of that user; read again when it changes"
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
                valid = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
                secret = parts.username is not None or parts.password is not None
            except ValueError:
                valid = secret = False
            if secret:  # Every log line that names the URL would contain it.
                raise ValueError(f"the URL of node {node} contains a user or password: use username and password_file")
            if not valid:
                raise ValueError(f"the URL of node {node} is not http(s)://host:port/path")
        return endpoints

    @model_validator(mode="after")
    def _pairs(self) -> CollectorSettings:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.username is not None and ":" in self.username:
            raise ValueError("username contains a colon, which basic authentication does not allow")
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
        """Returns the seconds over which the scrapes of a round start.

        The spread delays the signals, so a few nodes are scraped almost at once. With many nodes, the spread ends early enough for
        the last scrape to have its whole timeout before the next round.
        """
        return max(0.0, min(self.spread_s, nodes * _SPREAD_S_PER_NODE, self.interval_s - self.timeout_s))

    def agent_urls(self, brokers: Mapping[int, str]) -> dict[int, str]:
        """Returns the URL of each node's agent by node id. ``brokers``: broker id → host."""
        by_port = {
            broker: f"{self.jmx_scheme}://{f'[{host}]' if ':' in host else host}:{self.jmx_port}/metrics"
            for broker, host in brokers.items()
            if self.jmx_port
        }
        return by_port | self.endpoints
