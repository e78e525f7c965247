"""How the stream processor runs. ``rheostat/config/settings.py`` embeds this model; no Spark is imported here."""

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
INTERVAL_S_MAX = 45  # Below STEP_MS_MAX of kernel/Rates.java, with room for scrapes that are late.
_MEANS_ALREADY = ("cruise_control",)  # Formats without counters: one record a window says all it has to say.


class SourceSettings(BaseModel):
    """One more topic with metrics, beside rheostat's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="the topic that the metrics are on")
    format: FormatName = Field(description="what wrote its records, and how")
    cluster: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="the cluster that records without a name of their own are of; without it, the settings' cluster",
    )
    hosts: dict[str, int] = Field(
        default_factory=dict, description="host, as the records name it → node id; for records that carry no broker_id"
    )
    interval_s: Seconds = Field(
        default=10,
        ge=0.1,
        le=3600,
        description="seconds between two scrapes of one node: a gauge is good for 1.5 times that, and completeness counts"
        " with it; 10 is Telegraf's own, Cruise Control's reporter has 60",
    )
    kafka: KafkaSettings | None = Field(
        default=None, description="how to reach the cluster that has the topic, when it is not the one that is watched"
    )


class StreamHttpSettings(MetricsHttpSettings):
    """Where the stream tells of itself over HTTP, for Prometheus: batches, how far it is behind, what it could not read."""


Compiler = Literal["quick", "thorough"]


class StreamSettings(BaseModel):
    """How signals are made from metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint_dir: Path = Field(
        description="folder with the query's offsets and state; a query that finds it goes on where it ended. On a local"
        " disk; with a master other than local, on storage that driver and executors share under this name"
    )
    start: Literal["latest", "earliest"] = Field(
        default="latest", description="where in the metrics topics a query without checkpoint begins"
    )
    sources: tuple[SourceSettings, ...] = Field(
        default=(), description="topics with metrics of other collectors; rheostat's own topic is always read"
    )
    master: str = Field(
        default="local",
        pattern=r"^(local|spark://[^\s/:]+:\d{1,5}(,[^\s/:]+:\d{1,5})*)$",
        description="local: in this process's own JVM, with `cores` threads; spark://host:port: on a standalone cluster",
    )
    driver_host: str | None = Field(
        default=None,
        pattern=r"^\S+$",
        description="address at which executors reach this process; needed unless the master is on this machine",
    )
    cores: int = Field(default=2, ge=1, le=64, description="threads that Spark computes with, over all executors")
    driver_memory_mb: Mebibytes = Field(
        default=1024, ge=512, description="heap of the JVM, in MiB; counts only when the JVM is not running yet"
    )
    compiler: Compiler = Field(
        default="thorough",
        description="of the JVM: thorough carries about twice the samples once it has warmed up for a minute; quick takes less"
        " memory and CPU time for a start, and makes signals as young: for a single core, or one that others need as much",
    )
    executor_memory_mb: Mebibytes = Field(
        default=1024, ge=512, description="heap of each executor of a cluster, in MiB"
    )
    executor_cores: int = Field(default=1, ge=1, le=64, description="threads of each executor of a cluster")
    window_s: WholeSeconds = Field(
        default=30,
        ge=2,
        le=600,
        description="what a signal looks back on, in seconds: more than two of the 11 s over which Kafka's own quota is a"
        " mean, so that its rhythm averages out",
    )
    slide_s: WholeSeconds = Field(
        default=5,
        ge=1,
        le=300,
        description="seconds from one window to the next: the usual scrape interval, so that each scrape ends one window",
    )
    watermark_delay_s: WholeSeconds = Field(
        default=10,
        ge=0,
        le=600,
        description="how far the partitions of the topics may be read apart, in seconds, before a record counts as late and"
        " its older windows are closed without it; also how much longer state is kept",
    )
    trigger_ms: WholeMilliseconds = Field(
        default=500,
        ge=0,
        description="shortest time from one batch to the next, in milliseconds: a batch takes half of that or less on two"
        " cores, and twice as many batches would be twice the work for a quarter of a second",
    )
    shuffle_partitions: int = Field(
        default=1,
        ge=1,
        le=64,
        description="parts of the state; each costs every batch some 40 ms, and one is enough for hundreds of brokers;"
        " fixed for the life of a checkpoint",
    )
    max_records_per_trigger: int = Field(
        default=5000,
        ge=1,
        description="most records in one batch, over all sources; bounds memory while catching up",
    )
    backfill_after_s: Seconds = Field(
        default=120,
        gt=0,
        description="a start that is further behind, in seconds, begins near the end, and works off what it skipped beside"
        " that, newest first; less far behind, catching up in order is quicker",
    )
    backlog_records_per_chunk: int = Field(
        default=2000,
        ge=1,
        description="about how many skipped records are worked off at a time: one task, whose length is how long the live"
        " query may have to wait for a core",
    )
    http: StreamHttpSettings = Field(default_factory=StreamHttpSettings, description="the stream's own metrics")

    @model_validator(mode="after")
    def _windows_fit(self) -> StreamSettings:
        if self.window_s % self.slide_s != 0:
            raise ValueError(
                f"window_s ({self.window_s}) is not a multiple of slide_s ({self.slide_s}): windows end at multiples of the slide,"
                " and no two may overlap by part of one"
            )
        if self.backfill_after_s < 2 * self.window_s + self.watermark_delay_s:
            raise ValueError(
                f"backfill_after_s ({self.backfill_after_s:g}) is below 2 × window_s + watermark_delay_s"
                f" ({2 * self.window_s + self.watermark_delay_s}), which is how far back the live query begins"
            )
        for i, source in enumerate(self.sources):
            if source.format not in _MEANS_ALREADY and 2 * source.interval_s > self.window_s:
                raise ValueError(
                    f"sources[{i}].interval_s ({source.interval_s:g}) is more than half of window_s ({self.window_s}): a rate"
                    " is measured between two scrapes inside one window"
                )
            if source.format not in _MEANS_ALREADY and source.interval_s > INTERVAL_S_MAX:
                raise ValueError(
                    f"sources[{i}].interval_s ({source.interval_s:g}) is more than {INTERVAL_S_MAX}: counters further apart"
                    " than a minute are taken for a gap, and scrapes are never quite on time"
                )
        return self

    @model_validator(mode="after")
    def _each_topic_once(self) -> StreamSettings:
        seen: set[tuple[str | None, str]] = set()
        for i, source in enumerate(self.sources):
            at = (source.kafka.bootstrap_servers if source.kafka is not None else None, source.topic)
            if at in seen:
                raise ValueError(f"sources[{i}].topic {source.topic} is there already: its records would count twice")
            seen.add(at)
        return self

    @model_validator(mode="after")
    def _executors_find_us(self) -> StreamSettings:
        if not self.is_local and not self.driver_is_here and self.driver_host is None:
            raise ValueError(
                f"master {self.master} needs driver_host, an address of this machine at which the executors reach it"
            )
        return self

    @property
    def is_local(self) -> bool:
        return self.master == "local"

    @property
    def driver_is_here(self) -> bool:
        """Whether master and executors are on this machine, as in a test."""
        hosts = [part.rpartition(":")[0] for part in self.master.removeprefix("spark://").split(",")]
        return all(host in ("localhost", "127.0.0.1") for host in hosts)
