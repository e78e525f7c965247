"""Writes output records to Kafka: signals and rejects leave through one query, each record with its topic.

A separate query for rejects would parse the topics again, keep its own logs, and could fall behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streaming.checkpoint_files import CheckpointPath
from streaming.shared.kafka import KafkaSettings
from streaming.sources import kafka_options

# Fail a write to unreachable brokers after 20 s; Kafka's default is two minutes.
_TIMEOUTS = {"kafka.request.timeout.ms": "8000", "kafka.delivery.timeout.ms": "20000"}
# Send the signals of a batch in few requests; small requests would load the brokers.
_BATCHING = {"kafka.linger.ms": "20", "kafka.batch.size": str(1 << 18)}
_OPTIONS = _TIMEOUTS | _BATCHING


def to_kafka(
    records: DataFrame, kafka: KafkaSettings, *, checkpoint_dir: CheckpointPath, trigger_ms: int
) -> DataStreamWriter:
    """Returns a writer of key, value and topic to Kafka, at least once: after a crash the last batch may be written again."""
    writer = records.writeStream.format("kafka").outputMode("update")
    for name, value in (kafka_options(kafka) | _OPTIONS).items():
        writer = writer.option(name, value)
    # Without a scheme, Hadoop would look for the folder on its default file system, which HADOOP_CONF_DIR may set to HDFS.
    address = f"file://{checkpoint_dir.absolute()}" if isinstance(checkpoint_dir, Path) else str(checkpoint_dir)
    return writer.option("checkpointLocation", address).trigger(processingTime=f"{trigger_ms} milliseconds")


def write_once(records: DataFrame, kafka: KafkaSettings, options: Mapping[str, str] = MappingProxyType({})) -> None:
    """Writes a bounded DataFrame to Kafka and returns once Kafka has all of it.

    Args:
        options: further options of the writer; they have priority.
    """
    writer = records.write.format("kafka")
    for name, value in (kafka_options(kafka) | _OPTIONS | dict(options)).items():
        writer = writer.option(name, value)
    writer.save()
