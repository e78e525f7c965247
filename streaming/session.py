"""The Spark session. Every setting here was measured; the numbers are those of one batch on two cores.

A session's JVM lives until its Python process ends: heap and JVM options count only in the first session of a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

_STREAMING = "org.apache.spark.sql.execution.streaming"


def spark_session(
    jars: Sequence[Path],
    *,
    app_name: str,
    driver_memory_mb: int = 1024,
    local_dir: Path,
    cores: int,
    shuffle_partitions: int = 1,
    ui: bool = False,
) -> SparkSession:
    """A local session.

    Args:
        jars: the Kafka connector and what it needs; none for work without Kafka.
        local_dir: scratch space; worthless after the session.
        shuffle_partitions: a query with a checkpoint keeps the number it was first started with.
    """
    settings = {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.memory": f"{driver_memory_mb}m",
        # Stopping a query serialises its plan recursively: with the default stack it overflows.
        "spark.driver.extraJavaOptions": "-Xss8m -XX:+UseSerialGC -Duser.timezone=UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(local_dir),
        "spark.sql.warehouse.dir": str(local_dir / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        # The default manager costs 23 ms more per log entry. It also tells two queries on one checkpoint apart, which
        # this one does not: streaming/checkpoint.py does.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.HDFSBackedStateStoreProvider",
        # In update mode the empty batch that moves the watermark brings nothing.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # A scrape that names a sample twice must not end the query.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session
