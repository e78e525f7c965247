"""Settings of the stream processor (section ``stream``). This module does not import Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streaming.shared.kafka import KafkaSettings
from streaming.shared.metrics_settings import MetricsHttpSettings
from streaming.shared.unit_settings import Mebibytes, Seconds, WholeMilliseconds, WholeSeconds

FormatName = Literal[
    "rheostat_json", "telegraf_json", "telegraf_influx", "prometheus_json", "otlp_json", "cruise_control"
]
INTERVAL_S_MAX = 45  # Below STEP_MS_MAX of kernel/Rates.java, with a margin for late scrapes.
# Formats of means instead of counters, for which one record per window is enough.
_FORMATS_OF_MEANS = ("cruise_control",)


class SourceSettings(BaseModel):
    """An additional metrics topic besides rheostat's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="name of the metrics topic")
    format: FormatName = Field(description="format of its records, named after the program that writes them")
    cluster: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="cluster of records that do not name one; without it, the settings' cluster",
    )
    hosts: dict[str, int] = Field(
        default_factory=dict, description="host as named in the records → node id; for records without broker_id"
    )
    interval_s: Seconds = Field(
        default=10,
        ge=0.1,
        le=3600,
        description="seconds between two scrapes of one node: a gauge is valid for 1.5 times that, and completeness is computed"
        " from it; Telegraf's default is 10, that of Cruise Control's reporter 60",
    )
    kafka: KafkaSettings | None = Field(
        default=None, description="connection to the cluster with this topic, if it is not the watched cluster"
    )


class StreamHttpSettings(MetricsHttpSettings):
    """Address at which the stream serves its own metrics to Prometheus: batches, lag, unreadable records."""


Compiler = Literal["quick", "thorough"]


class StreamSettings(BaseModel):
    """Computes signals from metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint_dir: Path = Field(
        description="folder with the query's offsets and state, from which a restarted query continues. On a local disk;"
        " with a master other than local, on storage that driver and executors share under this name"
    )
    start: Literal["latest", "earliest"] = Field(
        default="latest", description="position in the metrics topics at which a query without checkpoint begins"
    )
    sources: tuple[SourceSettings, ...] = Field(
        default=(), description="metrics topics of other collectors; rheostat's own topic is always read"
    )
    master: str = Field(
        default="local",
        pattern=r"^(local|spark://[^\s/:]+:\d{1,5}(,[^\s/:]+:\d{1,5})*)$",
        description="local: one JVM on this machine with `cores` threads; spark://host:port: a standalone Spark cluster",
    )
    driver_host: str | None = Field(
        default=None,
        pattern=r"^\S+$",
        description="address at which executors reach this process; needed unless the master is on this machine",
    )
    cores: int = Field(default=2, ge=1, le=64, description="threads of Spark, over all executors")
    driver_memory_mb: Mebibytes = Field(
        default=1024, ge=512, description="heap of the JVM, in MiB; takes effect when the JVM starts"
    )
    compiler: Compiler = Field(
        default="thorough",
        description="compiler of the JVM: thorough processes about twice the samples after a minute; quick needs less memory and"
        " CPU time at the start, and signals are as current: for a single core, or a machine shared with other processes",
    )
    executor_memory_mb: Mebibytes = Field(
        default=1024, ge=512, description="heap of each executor of a cluster, in MiB"
    )
    executor_cores: int = Field(default=1, ge=1, le=64, description="threads of each executor of a cluster")
    window_s: WholeSeconds = Field(
        default=30,
        ge=2,
        le=600,
        description="window of a signal, in seconds: more than twice the 11 s of Kafka's quota window, so that its rhythm"
        " averages out",
    )
    slide_s: WholeSeconds = Field(
        default=5,
        ge=1,
        le=300,
        description="seconds from one window to the next: the usual scrape interval, so that each scrape completes one window",
    )
    watermark_delay_s: WholeSeconds = Field(
        default=10,
        ge=0,
        le=600,
        description="seconds by which a record may be older than the newest one before it counts as late and is missing from"
        " closed windows; state is kept that much longer",
    )
    trigger_ms: WholeMilliseconds = Field(
        default=500,
        ge=0,
        description="shortest time from one batch to the next, in milliseconds: a batch takes at most half of the default on"
        " two cores; half the default would double the work and save a quarter of a second",
    )
    shuffle_partitions: int = Field(
        default=1,
        ge=1,
        le=64,
        description="partitions of the state; each adds some 40 ms to every batch, and one is enough for hundreds of brokers;"
        " fixed for the life of a checkpoint",
    )
    max_records_per_trigger: int = Field(
        default=5000,
        ge=1,
        description="most records in one batch, over all sources; limits memory while the stream catches up",
    )
    backfill_after_s: Seconds = Field(
        default=120,
        gt=0,
        description="if a start is further behind than this many seconds, it begins near the end of the topics and processes the"
        " skipped records in the background, newest first; otherwise it catches up in order, which is faster",
    )
    backlog_records_per_chunk: int = Field(
        default=2000,
        ge=1,
        description="approximate number of skipped records per background task; the live query may wait for a core as long as one"
        " task takes",
    )
    http: StreamHttpSettings = Field(default_factory=StreamHttpSettings, description="the stream's own metrics")

    @model_validator(mode="after")
    def _windows_fit(self) -> StreamSettings:
        if self.window_s % self.slide_s != 0:
            raise ValueError(
                f"window_s ({self.window_s}) is not a multiple of slide_s ({self.slide_s}): every window must end at a multiple of"
                " the slide"
            )
        if self.backfill_after_s < 2 * self.window_s + self.watermark_delay_s:
            raise ValueError(
                f"backfill_after_s ({self.backfill_after_s:g}) is below 2 × window_s + watermark_delay_s"
                f" ({2 * self.window_s + self.watermark_delay_s}), the distance from the end at which the live query begins"
            )
        for i, source in enumerate(self.sources):
            if source.format not in _FORMATS_OF_MEANS and 2 * source.interval_s > self.window_s:
                raise ValueError(
                    f"sources[{i}].interval_s ({source.interval_s:g}) is more than half of window_s ({self.window_s}): a rate"
                    " is measured between two scrapes inside one window"
                )
            if source.format not in _FORMATS_OF_MEANS and source.interval_s > INTERVAL_S_MAX:
                raise ValueError(
                    f"sources[{i}].interval_s ({source.interval_s:g}) is more than {INTERVAL_S_MAX}: counters more than a minute"
                    " apart count as a gap, and scrapes can be late"
                )
        return self

    @model_validator(mode="after")
    def _each_topic_once(self) -> StreamSettings:
        topics: set[tuple[str | None, str]] = set()
        for i, source in enumerate(self.sources):
            topic = (source.kafka.bootstrap_servers if source.kafka is not None else None, source.topic)
            if topic in topics:
                raise ValueError(f"sources[{i}].topic {source.topic} is listed twice: its records would count twice")
            topics.add(topic)
        return self

    @model_validator(mode="after")
    def _executors_reach_driver(self) -> StreamSettings:
        if not self.is_local and not self.is_master_on_this_host and self.driver_host is None:
            raise ValueError(
                f"master {self.master} needs driver_host, an address of this machine at which the executors reach it"
            )
        return self

    @property
    def is_local(self) -> bool:
        return self.master == "local"

    @property
    def is_master_on_this_host(self) -> bool:
        """Whether the master is on this machine, as in a test."""
        hosts = [part.rpartition(":")[0] for part in self.master.removeprefix("spark://").split(",")]
        return all(host in ("localhost", "127.0.0.1") for host in hosts)
