"""The metrics topic as a DataFrame: value, topic, partition, offset, timestamp."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from streaming.kafka import KafkaSettings


def kafka_options(kafka: KafkaSettings) -> dict[str, str]:
    """The Java client's settings as Spark's Kafka source and sink want them."""
    return {f"kafka.{name}": value for name, value in kafka.for_java().items()}


def metrics(
    spark: SparkSession,
    kafka: KafkaSettings,
    topic: str,
    *,
    start: Literal["latest", "earliest"],
    max_records_per_trigger: int,
) -> DataFrame:
    """The metrics topic, from ``start`` when the query has no checkpoint, otherwise from where it ended."""
    reader = spark.readStream.format("kafka")
    for name, value in kafka_options(kafka).items():
        reader = reader.option(name, value)
    return (
        reader.option("subscribe", topic)
        .option("startingOffsets", start)
        .option("maxOffsetsPerTrigger", max_records_per_trigger)
        # Retention may delete records while we are down. They are minutes old then and of no use for control, so a
        # gap is no reason to stay down; freshness and completeness of the signals show it.
        .option("failOnDataLoss", "false")
        .load()
        .select("value", "topic", "partition", "offset", "timestamp")
    )
