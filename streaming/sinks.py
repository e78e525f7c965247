"""Records out: signals and refused input leave through one query, each with the topic it goes to.

A query for the rejects would parse the topics again, write its own logs, and could fall behind on its own.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streaming.shared.kafka import KafkaSettings
from streaming.sources import kafka_options

# A batch whose brokers went away while it was written would otherwise hang for two minutes before anybody is told.
_PATIENCE = {"kafka.request.timeout.ms": "8000", "kafka.delivery.timeout.ms": "20000"}
# A batch's signals come all at once, and at its end nothing waits any more: without this they went out a handful at a time,
# which cost the brokers more than the rest of the pipeline cost us.
_TOGETHER = {"kafka.linger.ms": "20", "kafka.batch.size": str(1 << 18)}
_OPTIONS = _PATIENCE | _TOGETHER


def to_kafka(records: DataFrame, kafka: KafkaSettings, *, checkpoint_dir: Path, trigger_ms: int) -> DataStreamWriter:
    """Key, value and topic → Kafka, at least once: after a crash the last batch may be written again, key by key."""
    writer = records.writeStream.format("kafka").outputMode("update")
    for name, value in (kafka_options(kafka) | _OPTIONS).items():
        writer = writer.option(name, value)
    return writer.option("checkpointLocation", str(checkpoint_dir)).trigger(processingTime=f"{trigger_ms} milliseconds")


def write_once(records: DataFrame, kafka: KafkaSettings) -> None:
    """The same of a DataFrame that ends; returns when Kafka has it all."""
    writer = records.write.format("kafka")
    for name, value in (kafka_options(kafka) | _OPTIONS).items():
        writer = writer.option(name, value)
    writer.save()
