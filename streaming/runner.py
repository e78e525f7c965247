"""The pipeline as something to run: session and query up, progress out, both down in reverse order.

A query that dies takes ``run`` with it. Starting it again is the caller's decision: the checkpoint is whole, so a
restart goes on where it ended, and a cause that stays (a topic that is missing) must be seen and not be hidden in a
loop.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from streaming import pipeline
from streaming.contract import Topics
from streaming.errors import StreamError
from streaming.kafka import KafkaSettings
from streaming.session import spark_session
from streaming.settings import StreamSettings

POLL_S = 1
_SCANS = 2  # pipeline.build reads every record for the signals and for the rejects; Spark counts both.

Progress = dict[str, Any]


def run(
    kafka: KafkaSettings,
    topics: Topics,
    settings: StreamSettings,
    jars: Sequence[Path],
    stop: threading.Event,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Makes signals until ``stop`` is set.

    Args:
        on_progress: hears of every batch that had input: ``batch``, ``batch_ms``, ``input_rows``,
            ``input_rows_per_s``, ``state_rows``, ``late_rows_dropped`` (behind the watermark), ``at`` (ISO time).

    Raises:
        StreamError: the checkpoint is in use, or the query died; the message names the cause.
    """
    # Torn down last in, first out: query, lock, session, scratch folder.
    with ExitStack() as teardown:
        scratch = teardown.enter_context(tempfile.TemporaryDirectory(prefix="rheostat-spark-"))
        spark = spark_session(
            jars,
            app_name="rheostat",
            driver_memory_mb=settings.driver_memory_mb,
            local_dir=Path(scratch),
            cores=settings.cores,
            shuffle_partitions=settings.shuffle_partitions,
        )
        teardown.callback(spark.stop)
        try:
            query = teardown.enter_context(pipeline.start(spark, kafka, topics, settings))
            _watch(query, stop, on_progress)
        except PySparkException as error:
            raise StreamError(why(str(error), kafka, topics, settings)) from error


def _watch(query: StreamingQuery, stop: threading.Event, on_progress: Callable[[Progress], None] | None) -> None:
    reported = None
    while not stop.is_set():
        if query.awaitTermination(POLL_S):  # Raises what the query died of.
            raise StreamError("The query was stopped from outside.")
        last = query.lastProgress
        if on_progress is not None and last is not None and last["numInputRows"] and last["batchId"] != reported:
            reported = last["batchId"]
            on_progress(progress(last))


def progress(last: Any) -> Progress:
    """What matters of Spark's report of one batch."""
    state = last["stateOperators"]
    return {
        "batch": last["batchId"],
        "at": last["timestamp"],
        "batch_ms": last["durationMs"].get("triggerExecution"),
        "input_rows": last["numInputRows"] // _SCANS,
        "input_rows_per_s": last["inputRowsPerSecond"] / _SCANS,
        "state_rows": sum(operator["numRowsTotal"] for operator in state),
        "late_rows_dropped": sum(operator["numRowsDroppedByWatermark"] for operator in state),
    }


def why(report: str, kafka: KafkaSettings, topics: Topics, settings: StreamSettings) -> str:
    """The operator's words for what a query died of. Causes that hide others come last."""
    ours = f"{topics.metrics}, {topics.signals} or {topics.rejects}"
    causes = (
        (("SaslAuthenticationException", "SslAuthenticationException"), "Kafka refuses our credentials"),
        (("TopicAuthorizationException", "GroupAuthorizationException"), f"no right to read or write {ours}"),
        (("UnknownTopicOrPartitionException", "not present in metadata"), f"a topic is missing: {ours}"),
        (
            ("STATE_STORE", "STATEFUL_OPERATOR", "StateSchema", "STREAMING_CHECKPOINT", "CheckpointMetadata"),
            f"the checkpoint {settings.checkpoint_dir} does not fit this version or is damaged: remove that folder"
            " (signals of the last half minute are made anew)",
        ),
        (("OutOfMemoryError",), f"the heap of {settings.driver_memory_mb} MiB is full: raise stream.driver_memory_mb"),
        (
            ("node assignment", "TimeoutException", "No resolvable bootstrap urls", "DisconnectException"),
            f"no answer from {kafka.bootstrap_servers}",
        ),
    )
    first_line = report.strip().splitlines()[0] if report.strip() else "no message"
    for marks, cause in causes:
        if any(mark in report for mark in marks):
            return f"The stream processor died: {cause}. Spark says: {first_line}"
    return f"The stream processor died: {first_line}"
