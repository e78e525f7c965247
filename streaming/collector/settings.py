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
    """Settings of the collector, which reads metrics from the JMX agents and the state of the cluster from the brokers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: Seconds = Field(default=5.0, ge=1, le=45, description="seconds between two scrapes of a node")
    timeout_s: Seconds = Field(
        default=2.0,
        gt=0,
        le=30,
        description="longest time to wait for the agent of one node, in seconds; the scrapes of other nodes go on in the meantime",
    )
    spread_s: Seconds = Field(
        default=2.0,
        ge=0,
        le=60,
        description="the scrapes of one round begin within this time, in seconds, each node always at the same offset. "
        "rheostat uses a shorter time if there are few nodes (0.1 s per node), or if interval_s - timeout_s is shorter",
    )
    scrapes_at_once: int = Field(
        default=32,
        ge=2,
        le=1000,
        description="highest number of concurrent scrapes; a quarter of them is reserved for nodes that did not answer the "
        "last scrape",
    )
    full_scan_interval_s: Seconds = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="seconds between two full scans, which read the throttled-replica lists of all topics and the throttles of all "
        "brokers; the collector reads moving partitions in each round",
    )
    jmx_port: int | None = Field(
        default=None, ge=1, le=65535, description="port of the JMX agents, if all brokers have the same port"
    )
    jmx_scheme: Literal["http", "https"] = Field(default="http", description="scheme of the agents' URLs at jmx_port")
    endpoints: dict[int, str] = Field(
        default_factory=dict,
        description="node id → URL of the JMX agent of this broker or controller; replaces jmx_port for this node. Controllers "
        "need an entry",
    )
    tls_ca_file: str | None = Field(
        default=None,
        description="PEM file with the certificate authorities (CAs) of the agents; without it, the CAs of the operating system",
    )
    tls_cert_file: str | None = Field(
        default=None, description="PEM file with the collector's certificate, for mutual TLS"
    )
    tls_key_file: str | None = Field(
        default=None, description="PEM file with the key of tls_cert_file, without passphrase"
    )
    tls_verify_host: bool = Field(
        default=True,
        description="true: an agent's certificate must contain the host name of the agent; false: the collector accepts any "
        "certificate of "
        "the CAs, so that the holder of any of these certificates can impersonate a node",
    )
    username: str | None = Field(
        default=None, description="user name for the agents (HTTP Basic); use it only with https"
    )
    password_file: str | None = Field(
        default=None,
        description="file whose first line is the password of `username`; the collector reads the file again when it changes",
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
            raise ValueError("tls_cert_file and tls_key_file: set both, or neither")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file: set both, or neither")
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
