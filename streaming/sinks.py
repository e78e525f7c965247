"""Records out: refused input as records of its own, and the Kafka sink for everything.

Signals and rejects leave through one query. A second one would parse the topic again as well, write its own logs, and
could fall behind on its own.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streaming.contract import SCHEMA_VERSION
from streaming.kafka import KafkaSettings
from streaming.sources import kafka_options

HEAD_BYTES = 256


def rejects(parsed: DataFrame, topic: str) -> DataFrame:
    """Refused records → records that name origin, reason and how the value began.

    key    "<topic>-<partition>-<offset>"
    value  {"v": 1, "topic": str, "partition": int, "offset": int, "reason": str, "head": base64 of the first 256 bytes}
    """
    # Spark breaks base64 into lines.
    head = F.translate(F.base64(F.coalesce(F.substring("value", 1, HEAD_BYTES), F.lit(b""))), "\r\n", "")
    body = F.struct(F.lit(SCHEMA_VERSION).alias("v"), "topic", "partition", "offset", "reason", head.alias("head"))
    return parsed.filter(F.col("reason").isNotNull()).select(
        F.concat_ws("-", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
        .cast("binary")
        .alias("key"),
        F.to_json(body).cast("binary").alias("value"),
        F.lit(topic).alias("topic"),
    )


def to_kafka(records: DataFrame, kafka: KafkaSettings, *, checkpoint_dir: Path, trigger_ms: int) -> DataStreamWriter:
    """Key, value and topic → Kafka, at least once: after a crash the last batch may be written again, key by key."""
    writer = records.writeStream.format("kafka").outputMode("update")
    for name, value in kafka_options(kafka).items():
        writer = writer.option(name, value)
    return writer.option("checkpointLocation", str(checkpoint_dir)).trigger(processingTime=f"{trigger_ms} milliseconds")
