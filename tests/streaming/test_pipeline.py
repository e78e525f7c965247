"""The pipeline on the streaming engine: state across batches, late records, restart; and what guards a run."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from stream_cases import T0, TOPICS, newest, scrape, write_records

from streaming import checkpoint
from streaming.contract import BrokerSignal, Metric, Signal, decode_signal
from streaming.errors import StreamError
from streaming.kafka import KafkaSettings
from streaming.pipeline import build
from streaming.runner import progress, why
from streaming.settings import StreamSettings

KAFKA = KafkaSettings(bootstrap_servers="kafka:9092")


class Stream:
    """The pipeline over a folder of files, each a piece of the metrics topic; collects what every batch writes."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self._home = home
        self._files = 0
        (home / "topic").mkdir()
        self.signals: list[Signal] = []
        self.rejects: list[bytes] = []

    def feed(self, *values: bytes, logged_at_s: float) -> None:
        self._files += 1
        write_records(self._home / "topic", f"{self._files:03}.json", list(values), T0 + int(logged_at_s * 1000))

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        lines = self._spark.readStream.schema("text string, offset long, logged_ms long").json(
            str(self._home / "topic")
        )
        raw = lines.select(
            F.col("text").cast("binary").alias("value"),
            F.lit(TOPICS.metrics).alias("topic"),
            F.lit(0).alias("partition"),
            "offset",
            F.timestamp_millis("logged_ms").alias("timestamp"),
        )
        writer = build(raw, TOPICS).writeStream.outputMode("update").foreachBatch(self._collect)
        query = writer.option("checkpointLocation", str(self._home / "checkpoint")).start()
        try:
            yield query
        finally:
            query.stop()

    def _collect(self, batch: DataFrame, _: int) -> None:
        rows = batch.collect()
        self.signals = [decode_signal(bytes(row.value)) for row in rows if row.topic == TOPICS.signals]
        self.rejects = [bytes(row.value) for row in rows if row.topic == TOPICS.rejects]


def client_in(at_s: float, count: float, node: int = 1) -> bytes:
    return scrape(at_s, {Metric.CLIENT_IN: count}, node=node).value()


def test_windows_grow_over_batches_and_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    with stream.running() as query:
        stream.feed(client_in(0, 100), b"nonsense", logged_at_s=0)
        query.processAllAvailable()
        assert newest(stream.signals, BrokerSignal).client_in_bytes_per_s is None
        assert len(stream.rejects) == 1

        stream.feed(client_in(5, 150), logged_at_s=5)
        query.processAllAvailable()
        assert newest(stream.signals, BrokerSignal).client_in_bytes_per_s == 10.0
        assert stream.rejects == []
        assert len(stream.signals) == 1, "only the window that is due leaves"
        report = progress(query.lastProgress)
        # Windows that end at 5, 10, …, 35 s: the first scrape is in 5 to 30, the second in 10 to 35.
        assert report["state_rows"] == 7
        assert report["input_rows"] == 1
        assert report["batch_ms"] > 0

    stream.feed(client_in(10, 300), logged_at_s=10)
    with stream.running() as query:
        query.processAllAvailable()
        signal = newest(stream.signals, BrokerSignal)
        assert (signal.samples, signal.client_in_bytes_per_s) == (3, 20.0)

        # The clock of node 2 is five minutes fast: node 1 loses nothing by it.
        stream.feed(client_in(315, 1, node=2), client_in(15, 350), logged_at_s=15)
        query.processAllAvailable()
        stream.feed(client_in(20, 400), logged_at_s=20)
        query.processAllAvailable()
        assert newest(stream.signals, BrokerSignal, broker=1).samples == 5

        # Two minutes on, the state of then is gone, and what comes late counts only in the windows still open.
        stream.feed(client_in(145, 9_000), logged_at_s=145)
        query.processAllAvailable()
        stream.feed(client_in(150, 9_050), logged_at_s=150)
        query.processAllAvailable()
        stream.feed(client_in(120, 5_000), client_in(155, 9_100), logged_at_s=150)
        query.processAllAvailable()
        signal = newest(stream.signals, BrokerSignal, broker=1)
        assert (signal.sampled_at_ms, signal.client_in_bytes_per_s) == (T0 + 155_000, 10.0)
        report = progress(query.lastProgress)
        # Late is judged by the watermark of one batch ago, 135 s: the windows that end at 125, 130 and 135 s.
        assert report["late_rows_dropped"] == 3
        assert report["state_rows"] < 20


def _hold(folder: Path, ready: multiprocessing.synchronize.Event, leave: multiprocessing.synchronize.Event) -> None:
    with checkpoint.held(folder):
        ready.set()
        leave.wait(30)


def test_two_queries_never_share_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checkpoint"
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(folder, ready, leave))
    other.start()
    assert ready.wait(30)
    with pytest.raises(StreamError, match=r"checkpoint .* is in use by another rheostat"), checkpoint.held(folder):
        pass
    other.kill()  # A lock ends with its process, however that ends.
    other.join()
    with checkpoint.held(folder):
        pass
    with checkpoint.held(folder):
        pass


@pytest.mark.parametrize(
    ("report", "cause"),
    [
        ("x\n org.apache.kafka.common.errors.UnknownTopicOrPartitionException: y", "a topic is missing: rheostat.metr"),
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata after",
            "a topic is missing",
        ),
        (
            "TimeoutException: Timed out waiting for a node assignment. Call: describeTopics",
            "no answer from kafka:9092",
        ),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided", "/state/stream does not fit this version"),
        ("java.lang.OutOfMemoryError: Java heap space", "the heap of 1024 MiB is full"),
        (
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not",
            "no right to read or write rheostat.metrics",
        ),
        ("something new\nat java", "The stream processor died: something new"),
        ("", "no message"),
    ],
)
def test_the_operator_reads_why_a_query_died(report: str, cause: str) -> None:
    assert cause in why(report, KAFKA, TOPICS, StreamSettings(checkpoint_dir=Path("/state/stream")))
