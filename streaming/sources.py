"""Topics with metrics as DataFrames of ``formats.common.RAW``, and which of them there are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import kafka.errors
from pyspark.sql import DataFrame, SparkSession

from streaming.errors import StreamError
from streaming.formats.common import Source
from streaming.settings import FormatName, StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings, admin_client
from streaming.shared.kafka.cluster import Unreachable
from streaming.shared.kafka.settings import PemError

# Topic → partition → offset: the first that is not read yet, or the end of a range.
Offsets = Mapping[str, Mapping[int, int]]

_COLUMNS = ("value", "topic", "partition", "offset", "timestamp")
# How long Spark asks for the ends of the topics before the query ends: twice, 8 s each. A broker that is restarted is back
# by then. With Spark's and Kafka's own numbers, three times a minute, an unreachable cluster is three minutes of silence.
_PATIENCE = {
    "kafka.default.api.timeout.ms": "8000",
    "kafka.request.timeout.ms": "8000",
    "fetchOffset.numRetries": "2",
    # Two minutes by default for a record that was there when the batch was planned.
    "kafkaConsumer.pollTimeoutMs": "20000",
}


@dataclass(frozen=True, slots=True)
class Feed:
    """Topics that are read as one: from one cluster, in one format."""

    kafka: KafkaSettings
    topics: tuple[str, ...]
    format: FormatName
    source: Source
    every_ms: int


def feeds(
    kafka: KafkaSettings, topics: Topics, settings: StreamSettings, *, cluster: str, own_interval_s: float
) -> list[Feed]:
    """rheostat's own topic, then the others; those that differ in nothing but the topic are one."""
    found = [Feed(kafka, (topics.metrics,), "rheostat_json", Source(cluster), int(own_interval_s * 1000))]
    for one in settings.sources:
        feed = Feed(
            one.kafka or kafka,
            (one.topic,),
            one.format,
            Source(one.cluster or cluster, dict(one.hosts)),
            int(one.interval_s * 1000),
        )
        same = next((i for i, other in enumerate(found) if replace(other, topics=feed.topics) == feed), None)
        if same is None:
            found.append(feed)
        else:
            found[same] = replace(feed, topics=(*found[same].topics, *feed.topics))
    return found


def kafka_options(kafka: KafkaSettings) -> dict[str, str]:
    """The Java client's settings as Spark's Kafka source and sink want them.

    Raises:
        StreamError: a file of certificates or of a key cannot be used.
    """
    try:
        return {f"kafka.{name}": value for name, value in kafka.for_java().items()}
    except PemError as error:
        raise StreamError(str(error)) from error


def live(spark: SparkSession, feed: Feed, *, start: str | int, max_records_per_trigger: int) -> DataFrame:
    """The topics as a stream.

    Args:
        start: where a query without checkpoint begins: latest, earliest, or at a time, epoch ms.
    """
    reader = _options(spark.readStream.format("kafka"), feed)
    if isinstance(start, int):
        reader = reader.option("startingTimestamp", start).option("startingOffsetsByTimestampStrategy", "latest")
    else:
        reader = reader.option("startingOffsets", start)
    found: DataFrame = (
        reader.option("subscribe", ",".join(feed.topics))
        .option("maxOffsetsPerTrigger", max_records_per_trigger)
        .load()
        .select(*_COLUMNS)
    )
    return found


def between(spark: SparkSession, feed: Feed, start: Offsets, end: Offsets) -> DataFrame:
    """The records from ``start`` to before ``end``, for which partition by partition both are given."""
    reader = _options(spark.read.format("kafka"), feed).option(
        "assign", json.dumps({topic: sorted(partitions) for topic, partitions in start.items()})
    )
    found: DataFrame = (
        reader.option("startingOffsets", json.dumps(_plain(start)))
        .option("endingOffsets", json.dumps(_plain(end)))
        .load()
        .select(*_COLUMNS)
    )
    return found


# A batch ends where the topic ends. A consumer that has already asked for more would sit out this wait, half a second by
# default, before it hands over what it has.
_NO_WAIT = {"kafka.fetch.max.wait.ms": "20"}


def _options(reader: Any, feed: Feed) -> Any:
    for name, value in (kafka_options(feed.kafka) | _PATIENCE | _NO_WAIT).items():
        reader = reader.option(name, value)
    # Retention may delete records while we are down. That gap is no reason to stay down: freshness and completeness of
    # the signals show it.
    return reader.option("failOnDataLoss", "false")


def _plain(offsets: Offsets) -> dict[str, dict[str, int]]:
    return {topic: {str(p): offset for p, offset in of_topic.items()} for topic, of_topic in offsets.items()}


def kafka_ids(feeds: Sequence[Feed], client_id: str) -> tuple[str, ...]:
    """For every feed the id that its Kafka cluster has given itself: the same under whatever address it is reached, and of
    no two clusters the same. Of a cluster that has none, the address.

    Raises:
        Unreachable: a cluster does not answer, or refuses our login.
    """
    found: dict[str, str] = {}
    for feed in feeds:
        address = feed.kafka.bootstrap_servers
        if address in found:
            continue
        try:
            with closing(admin_client(feed.kafka, client_id)) as admin:
                found[address] = admin.describe_cluster()["cluster_id"] or address
        except (kafka.errors.KafkaError, OSError, RuntimeError) as error:
            raise Unreachable(f"cannot describe the cluster at {address}: {type(error).__name__}: {error}") from error
    return tuple(found[feed.kafka.bootstrap_servers] for feed in feeds)


def share(records_max: int, feeds: Sized) -> int:
    """How many of so many records one feed may bring to a batch."""
    return max(1, records_max // len(feeds))


def shares(records_max: int, waiting: Sequence[int]) -> list[int]:
    """How many of so many records each feed may bring to a batch, when so many of each wait for the first.

    A query cannot change them later. So half of the batch goes to those that have the most to catch up with, who are also
    those that bring the most in any other minute; and half evenly, for a feed that is silent now may not be so for long.
    """
    even, all_ = share(records_max, waiting), sum(waiting)
    if not all_:
        return [even] * len(waiting)
    return [max(1, (even + records_max * one // all_) // 2) for one in waiting]
