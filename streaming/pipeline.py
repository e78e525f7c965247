"""The pipeline, joined. Read this file first.

    metrics topic → sources.metrics → rheostat_json.parse ─ good ─→ signals.entities → signals.signals ─→ signals topic
                                                          └ refused ─→ sinks.rejects ───────────────────→ rejects topic

Everything between source and sink is a function from DataFrame to DataFrame, and runs on a batch as well as on a
stream: the tests use that. State is kept in one place, ``signals.signals``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from streaming import checkpoint, sinks, sources
from streaming.contract import Topics
from streaming.formats import rheostat_json
from streaming.kafka import KafkaSettings
from streaming.settings import StreamSettings
from streaming.signals import entities, signals

STOP_S_MAX = 1.5  # With batches longer than the trigger there is no such moment.


def build(raw: DataFrame, topics: Topics) -> DataFrame:
    """Raw records (value, topic, partition, offset, timestamp) → records with key, value and topic."""
    parsed = rheostat_json.parse(raw)
    good = parsed.filter(F.col("reason").isNull())
    # One task for the rejects, beside the one that keeps the state: a task costs more than its few records.
    return signals(entities(good), topics.signals).unionByName(sinks.rejects(parsed.coalesce(1), topics.rejects))


@contextmanager
def start(
    spark: SparkSession, kafka: KafkaSettings, topics: Topics, settings: StreamSettings
) -> Iterator[StreamingQuery]:
    """The running query, which holds its checkpoint; stopped when the block is left.

    Raises:
        StreamError: another query holds the checkpoint.
    """
    with checkpoint.held(settings.checkpoint_dir):
        raw = sources.metrics(
            spark,
            kafka,
            topics.metrics,
            start=settings.start,
            max_records_per_trigger=settings.max_records_per_trigger,
        )
        writer = sinks.to_kafka(
            build(raw, topics), kafka, checkpoint_dir=settings.checkpoint_dir, trigger_ms=settings.trigger_ms
        )
        query = writer.start()
        try:
            yield query
        finally:
            _stop(query)


def _stop(query: StreamingQuery) -> None:
    """Stops between two batches if it can: one that is cut short fills the log with errors, and is done again later."""
    deadline = time.monotonic() + STOP_S_MAX
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()
