"""Settings of the stream processor (section ``stream``). This module does not import Spark."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from streaming.checkpoint_location import CheckpointDir
from streaming.shared.kafka import KafkaSettings
from streaming.shared.metrics_settings import MetricsHttpSettings
from streaming.shared.unit_settings import Mebibytes, Seconds, WholeMilliseconds, WholeSeconds
from streaming.spark_conf import check_spark_conf, hide_secrets

FormatName = Literal[
    "rheostat_json",
    "telegraf_json",
    "telegraf_influx",
    "prometheus_json",
    "otlp_json",
    "otlp_proto",
    "cruise_control",
]
INTERVAL_S_MAX = 45  # Below STEP_MS_MAX of kernel/Rates.java, with a margin for late scrapes.
# Formats of means instead of counters, for which one record per window is enough.
_FORMATS_OF_MEANS = ("cruise_control",)
_MASTER = re.compile(
    r"local(\[(?P<threads>[1-9]\d?)\])?"
    r"|spark://[^\s/:]+:\d{1,5}(,[^\s/:]+:\d{1,5})*"
    r"|yarn"
    r"|k8s://https?://[^\s/:]+(:\d{1,5})?"
)
_IMAGE = "spark.kubernetes.container.image"


class SourceSettings(BaseModel):
    """A topic to which another collector writes metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="name of the metrics topic")
    format: FormatName = Field(description="format of the records; its first part names the program that writes them")
    cluster: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="name of the cluster of records that contain no cluster; if absent, the value of the key `cluster`",
    )
    hosts: dict[str, int] = Field(
        default_factory=dict, description="host name in the records → node id; needed for records without broker_id"
    )
    interval_s: Seconds = Field(
        default=10,
        ge=0.1,
        le=3600,
        description="seconds between two scrapes of one node by the other collector. The stream uses the value of a "
        "gauge for 1.5 times this interval, and computes from the interval how complete a signal is. By default Telegraf writes "
        "every 10 s, and Cruise Control's reporter every 60 s",
    )
    kafka: KafkaSettings | None = Field(
        default=None, description="connection to the cluster with this topic, if it is not the watched cluster"
    )


class StreamHttpSettings(MetricsHttpSettings):
    """Address at which the stream serves its own metrics to Prometheus: batches, lag, unreadable records."""


Compiler = Literal["quick", "thorough"]


class StreamSettings(BaseModel):
    """Settings of the stream, which computes signals from metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint_dir: CheckpointDir = Field(
        description="folder with offsets and state, from which the stream continues after a restart. With `master: local`, use a "
        "path on a local disk. Otherwise use an address that the driver and all executors can reach, such as "
        "`hdfs://namenode:8020/rheostat/checkpoint` or `s3a://bucket/checkpoint`"
    )
    start: Literal["latest", "earliest"] = Field(
        default="latest",
        description="where the stream begins in the metrics topics if it has no checkpoint",
    )
    sources: tuple[SourceSettings, ...] = Field(
        default=(),
        description="metrics topics of other collectors; the stream reads them in addition to rheostat's own metrics topic",
    )
    master: str = Field(
        default="local",
        description="where Spark runs. `local`: one JVM on this machine with `cores` threads (`local[4]`: with 4 threads); "
        "`spark://host:port`: a standalone Spark cluster; `yarn`: the cluster of the environment variable HADOOP_CONF_DIR; "
        "`k8s://https://host:port`: a Kubernetes cluster",
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        description="further settings of Spark by name, for example `spark.authenticate.secret`, or `spark.hadoop.…` for a "
        "file system. rheostat refuses settings on which the signals depend (`spark.sql.…`)",
    )
    driver_host: str | None = Field(
        default=None,
        pattern=r"^\S+$",
        description="address of this machine at which the executors reach the driver; required if the master is on another machine",
    )
    cores: int = Field(default=2, ge=1, le=64, description="number of Spark's threads, in all executors together")
    driver_memory_mb: Mebibytes = Field(
        default=1024,
        ge=512,
        description="heap of the driver's JVM, in MiB; a change takes effect when the stream starts again",
    )
    compiler: Compiler = Field(
        default="thorough",
        description="JIT compiler of the JVM. thorough: about twice the throughput of `quick` after the first minute. quick: "
        "less memory and CPU time at the start; for a single core, or a machine with other processes",
    )
    executor_memory_mb: Mebibytes = Field(
        default=1024, ge=512, description="heap of each executor in MiB; only with a Spark cluster"
    )
    executor_cores: int = Field(
        default=1, ge=1, le=64, description="threads of each executor; only with a Spark cluster"
    )
    window_s: WholeSeconds = Field(
        default=30,
        ge=2,
        le=600,
        description="length of the time window of a signal, in seconds. The default is more than twice Kafka's quota window of "
        "11 s, so that the bursts of throttled copies average out",
    )
    slide_s: WholeSeconds = Field(
        default=5,
        ge=1,
        le=300,
        description="seconds between the beginnings of two windows. Set it to the scrape interval: then each scrape completes "
        "one window",
    )
    watermark_delay_s: WholeSeconds = Field(
        default=10,
        ge=0,
        le=600,
        description="seconds by which a record may be older than the newest record. If a record is later than this, the stream "
        "leaves it out of windows that are closed. A higher value needs more memory",
    )
    trigger_ms: WholeMilliseconds = Field(
        default=500,
        ge=0,
        description="shortest time between the beginnings of two batches, in ms. On two cores a batch takes at most 250 ms. "
        "With a trigger_ms of 250 the work would double, and the signals would be only 0.25 s newer",
    )
    shuffle_partitions: int = Field(
        default=1,
        ge=1,
        le=64,
        description="number of Spark partitions of the state. One is enough for hundreds of brokers; each partition adds about "
        "40 ms to every batch. A change needs a new checkpoint",
    )
    max_records_per_trigger: int = Field(
        default=5000,
        ge=1,
        description="highest number of records in one batch, from all sources together; it limits the memory while the stream "
        "catches up",
    )
    backfill_after_s: Seconds = Field(
        default=120,
        gt=0,
        description="if the stream is more than this many seconds behind at its start, it begins near the end of the topics, "
        "and processes the skipped records in the background, newest first. If it is less far behind, it processes all records "
        "in order, because for a short delay this is faster",
    )
    backlog_records_per_chunk: int = Field(
        default=2000,
        ge=1,
        description="approximate number of skipped records that one background task processes; the live query waits for the "
        "end of a running task",
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
                f" ({2 * self.window_s + self.watermark_delay_s}): after a long stop, the stream begins this "
                "far before the end of the topics, and two windows with their late records must fit into this time"
            )
        for i, source in enumerate(self.sources):
            if source.format not in _FORMATS_OF_MEANS and 2 * source.interval_s > self.window_s:
                raise ValueError(
                    f"sources[{i}].interval_s ({source.interval_s:g}) is more than half of window_s ({self.window_s}): each"
                    " window needs two scrapes, because a rate is measured between them"
                )
            if source.format not in _FORMATS_OF_MEANS and source.interval_s > INTERVAL_S_MAX:
                raise ValueError(
                    f"sources[{i}].interval_s ({source.interval_s:g}) is more than {INTERVAL_S_MAX}: the stream treats"
                    " counters more than a minute apart as a gap, and scrapes can be late"
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

    @field_validator("master")
    @classmethod
    def _known_master(cls, value: str) -> str:
        if not _MASTER.fullmatch(value):
            raise ValueError(
                f"expected local, local[4], spark://host:port, yarn or k8s://https://host:port, found {value!r}"
            )
        return value

    @field_validator("spark_conf")
    @classmethod
    def _only_free_names(cls, value: dict[str, str]) -> dict[str, str]:
        check_spark_conf(value)
        return value

    @field_serializer("spark_conf")
    def _hide_secrets(self, value: dict[str, str]) -> dict[str, str]:
        return hide_secrets(value)

    @model_validator(mode="after")
    def _threads_said_once(self) -> StreamSettings:
        if self._local_threads is not None and "cores" in self.model_fields_set and self.cores != self._local_threads:
            raise ValueError(
                f"master {self.master} and cores {self.cores} give different numbers of threads: write master: local and "
                f"cores: {self._local_threads}"
            )
        return self

    @model_validator(mode="after")
    def _pods_have_an_image(self) -> StreamSettings:
        if self.master.startswith("k8s://") and not self.spark_conf.get(_IMAGE):
            raise ValueError(f"master {self.master} needs spark_conf {_IMAGE}: the image of Spark for the executors")
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
        return self.master.startswith("local")

    @property
    def threads(self) -> int:
        """Number of Spark's threads, on all executors together."""
        return self._local_threads or self.cores

    @property
    def _local_threads(self) -> int | None:
        found = _MASTER.fullmatch(self.master)
        return int(found["threads"]) if found is not None and found["threads"] else None

    @property
    def is_master_on_this_host(self) -> bool:
        """Whether the master is on this machine, as in a test."""
        if not self.master.startswith("spark://"):
            return False
        hosts = [part.rpartition(":")[0] for part in self.master.removeprefix("spark://").split(",")]
        return all(host in ("localhost", "127.0.0.1") for host in hosts)
