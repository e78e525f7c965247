"""Reads metrics topics as DataFrames of ``formats.common.RAW``, and lists the configured feeds."""

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
from streaming.shared.kafka.secrets import LoginError
from streaming.shared.kafka.settings import PemError

# Topic → partition → offset: the first unread offset, or the end (exclusive) of a range.
Offsets = Mapping[str, Mapping[int, int]]

_COLUMNS = ("value", "topic", "partition", "offset", "timestamp")
# Spark asks for the topics' end offsets twice, 8 s each, before it fails the query; a restarted broker is back by then. With the
# defaults (three times, a minute each) the stream would be silent for three minutes before it reports an unreachable cluster.
_TIMEOUTS = {
    "kafka.default.api.timeout.ms": "8000",
    "kafka.request.timeout.ms": "8000",
    "fetchOffset.numRetries": "2",
    # Wait for a record that the batch plans to read; two minutes by default.
    "kafkaConsumer.pollTimeoutMs": "20000",
}


@dataclass(frozen=True, slots=True)
class Feed:
    """Topics of one cluster in one format, read as one source."""

    kafka: KafkaSettings
    topics: tuple[str, ...]
    format: FormatName
    source: Source
    every_ms: int


def feeds(
    kafka: KafkaSettings, topics: Topics, settings: StreamSettings, *, cluster: str, own_interval_s: float
) -> list[Feed]:
    """Returns the feed of rheostat's own topic, then the feeds of the other sources.

    Sources that differ only in topic share a feed.
    """
    own_feed = Feed(
        kafka=kafka,
        topics=(topics.metrics,),
        format="rheostat_json",
        source=Source(cluster),
        every_ms=int(own_interval_s * 1000),
    )
    all_feeds = [own_feed]
    for source in settings.sources:
        feed = Feed(
            kafka=source.kafka or kafka,
            topics=(source.topic,),
            format=source.format,
            source=Source(source.cluster or cluster, dict(source.hosts)),
            every_ms=int(source.interval_s * 1000),
        )
        # The index of an earlier feed that differs only in its topics.
        index = next((i for i, other in enumerate(all_feeds) if replace(other, topics=feed.topics) == feed), None)
        if index is None:
            all_feeds.append(feed)
        else:
            all_feeds[index] = replace(feed, topics=(*all_feeds[index].topics, *feed.topics))
    return all_feeds


def kafka_options(kafka: KafkaSettings) -> dict[str, str]:
    """Returns the Java client's settings with the prefix that Spark's Kafka source and sink need.

    Raises:
        StreamError: a certificate or key file cannot be used.
        Unreachable: the file with the password cannot be read, or there is no token. A later attempt may succeed.
    """
    try:
        return {f"kafka.{name}": value for name, value in kafka.for_java().items()}
    except PemError as error:
        raise StreamError(str(error)) from error
    except LoginError as error:
        raise Unreachable(f"cannot log in at {kafka.bootstrap_servers}: {error}") from error


def live(spark: SparkSession, feed: Feed, *, start: str | int, max_records_per_trigger: int) -> DataFrame:
    """Returns the feed's topics as a streaming DataFrame.

    Args:
        start: where a query without checkpoint begins: latest, earliest, or a time in epoch ms.
    """
    reader = _options(spark.readStream.format("kafka"), feed.kafka)
    if isinstance(start, int):
        reader = reader.option("startingTimestamp", start).option("startingOffsetsByTimestampStrategy", "latest")
    else:
        reader = reader.option("startingOffsets", start)
    frame: DataFrame = (
        reader.option("subscribe", ",".join(feed.topics))
        .option("maxOffsetsPerTrigger", max_records_per_trigger)
        .load()
        .select(*_COLUMNS)
    )
    return frame


def between(spark: SparkSession, feed: Feed, start: Offsets, end: Offsets) -> DataFrame:
    """Returns the records of a feed from ``start`` to before ``end``, with the columns that formats read."""
    return range_of(spark, feed.kafka, start, end).select(*_COLUMNS)


def range_of(spark: SparkSession, kafka: KafkaSettings, start: Offsets, end: Offsets) -> DataFrame:
    """Returns the records from ``start`` to before ``end`` as a batch DataFrame; both name the same partitions."""
    reader = _options(spark.read.format("kafka"), kafka).option(
        "assign", json.dumps({topic: sorted(partitions) for topic, partitions in start.items()})
    )
    frame: DataFrame = (
        reader.option("startingOffsets", json.dumps(_for_json(start)))
        .option("endingOffsets", json.dumps(_for_json(end)))
        .load()
    )
    return frame


# Longest wait of a fetch for new data, half a second by default. The last fetch of a batch finds no data after the topic's end, and
# would delay the batch by this time.
_NO_WAIT = {"kafka.fetch.max.wait.ms": "20"}


def _options(reader: Any, kafka: KafkaSettings) -> Any:
    for name, value in (kafka_options(kafka) | _TIMEOUTS | _NO_WAIT).items():
        reader = reader.option(name, value)
    # Retention may delete records during an outage. The query must start anyway; the signals that it
    # computes show the gap in their age and completeness.
    return reader.option("failOnDataLoss", "false")


def _for_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    return {topic: {str(p): offset for p, offset in by_partition.items()} for topic, by_partition in offsets.items()}


def kafka_ids(feeds: Sequence[Feed], client_id: str) -> tuple[str, ...]:
    """Returns the Kafka cluster id of each feed, which does not depend on the bootstrap address; the address if there is no id.

    Raises:
        Unreachable: a cluster does not answer or refuses the login.
    """
    ids: dict[str, str] = {}
    for feed in feeds:
        address = feed.kafka.bootstrap_servers
        if address in ids:
            continue
        try:
            with closing(admin_client(feed.kafka, client_id)) as admin:
                ids[address] = admin.describe_cluster()["cluster_id"] or address
        except (kafka.errors.KafkaError, OSError, RuntimeError) as error:
            raise Unreachable(f"cannot describe the cluster at {address}: {type(error).__name__}: {error}") from error
    return tuple(ids[feed.kafka.bootstrap_servers] for feed in feeds)


def equal_share(records_max: int, feeds: Sized) -> int:
    """Returns one feed's equal share of ``records_max`` records per batch."""
    return max(1, records_max // len(feeds))


def feed_shares(records_max: int, waiting: Sequence[int]) -> list[int]:
    """Returns each feed's share of ``records_max`` records per batch.

    The shares stay for the whole life of a query. One half of a batch is divided in proportion to the unread records, as a measure
    of each feed's load. The other half is divided equally, so that a feed without unread records now has a share too.

    Args:
        waiting: unread records of each feed.
    """
    even, total = equal_share(records_max, waiting), sum(waiting)
    if not total:
        return [even] * len(waiting)
    return [max(1, (even + records_max * unread // total) // 2) for unread in waiting]
