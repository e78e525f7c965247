"""Reads the signals topic and writes the history topic, for the passes of the history."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streaming import sinks, sources
from streaming.backlog import KafkaTimeline
from streaming.history.progress import PROGRESS_KEY, HistoryProgress, decode_progress, encode_progress
from streaming.shared.contract import ContractError, Topics
from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.clients import RECORD_BYTES_MAX
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.history_topic import HistoryTopic
from streaming.shared.topics import ensure_topics

_CLIENT = "rheostat-history"
_PROGRESS_AGE_MS_MAX = 24 * 3600 * 1000  # Without a progress of the last day, a pass reads a day of signals anyway.
_SINK_OPTIONS = {"kafka.compression.type": "gzip", "kafka.max.request.size": str(RECORD_BYTES_MAX)}


class SignalLog(Protocol):
    """Access to both topics. All offsets are offsets of the signals topic, by partition."""

    def begin(self) -> Mapping[int, int]: ...

    def end(self) -> Mapping[int, int]: ...

    def at(self, time_ms: int) -> Mapping[int, int]:
        """Returns the first offset of each partition whose record is not older than ``time_ms``; the end offset if there is
        none."""

    def records(self, first: Mapping[int, int], end: Mapping[int, int]) -> DataFrame:
        """Returns the records of signals from ``first`` to before ``end``: key, value, partition, offset and timestamp."""

    def write(self, records: DataFrame) -> None:
        """Writes records (key, value, topic) of the history, and returns once Kafka has acknowledged them."""

    def progress(self) -> HistoryProgress | None:
        """Returns the newest progress that was written."""

    def write_progress(self, progress: HistoryProgress) -> None: ...


class KafkaSignalLog:
    """A ``SignalLog`` on a Kafka cluster."""

    def __init__(self, spark: SparkSession, kafka: KafkaSettings, topics: Topics, timeline: KafkaTimeline) -> None:
        self._spark = spark
        self._kafka = kafka
        self._topics = topics
        self._timeline = timeline

    def begin(self) -> Mapping[int, int]:
        return self._timeline.begin()[self._topics.signals]

    def end(self) -> Mapping[int, int]:
        return self._timeline.end()[self._topics.signals]

    def at(self, time_ms: int) -> Mapping[int, int]:
        return self._timeline.at(time_ms)[self._topics.signals]

    def records(self, first: Mapping[int, int], end: Mapping[int, int]) -> DataFrame:
        topic = self._topics.signals
        return sources.range_of(self._spark, self._kafka, {topic: first}, {topic: end})

    def write(self, records: DataFrame) -> None:
        sinks.write_once(records, self._kafka, _SINK_OPTIONS)

    def progress(self) -> HistoryProgress | None:
        since_ms = int(time.time() * 1000) - _PROGRESS_AGE_MS_MAX
        with closing(consumer(self._kafka, _CLIENT)) as reader:
            for value in HistoryTopic(reader, self._topics.history).newest_values(PROGRESS_KEY, since_ms):
                try:
                    return decode_progress(value)
                except ContractError:
                    continue  # An older record may be readable.
        return None

    def write_progress(self, progress: HistoryProgress) -> None:
        record = self._spark.range(0, 1, 1, 1).select(
            F.lit(PROGRESS_KEY).alias("key"),
            F.lit(encode_progress(progress)).alias("value"),
            F.lit(self._topics.history).alias("topic"),
        )
        self.write(record)


@contextmanager
def open_signal_log(spark: SparkSession, kafka: KafkaSettings, topics: Topics) -> Iterator[KafkaSignalLog]:
    """Creates the history topic if it does not exist, and yields the log.

    Raises:
        ClusterError, KafkaError: the cluster does not answer, or a right is missing.
    """
    with ClusterClient(kafka, _CLIENT) as client:
        ensure_topics(client, topics, [topics.history])
    with closing(KafkaTimeline(kafka, (topics.signals,), _CLIENT)) as timeline:
        yield KafkaSignalLog(spark, kafka, topics, timeline)
