"""The pipeline on the streaming engine: state across batches, late records, restart."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from stream_cases import T0, Stream, newest, scrape

from streaming.batch_values import batch_values
from streaming.shared.contract import BrokerSignal, Metric, Scrape


def client_in(at_s: float, count: float, node: int = 1) -> Scrape:
    return scrape(at_s, {Metric.CLIENT_IN: count}, node=node)


def test_pipeline_windows_continue_over_batches_and_restart(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    with stream.running() as query:
        stream.feed(client_in(0, 100), b"nonsense")
        query.processAllAvailable()
        assert newest(stream.signals, BrokerSignal).client_in_bytes_per_s is None
        assert len(stream.rejects) == 1

        stream.feed(client_in(5, 150))
        query.processAllAvailable()
        assert newest(stream.signals, BrokerSignal).client_in_bytes_per_s == 10.0
        assert stream.rejects == []
        assert len(stream.signals) == 1, "only the window that is due leaves"
        # A row is in two spans, a refused record in one.
        assert batch_values(query.lastProgress)["state_rows"] == 2 + 1

    stream.feed(client_in(10, 300))
    with stream.running() as query:
        query.processAllAvailable()
        signal = newest(stream.signals, BrokerSignal)
        assert (signal.samples, signal.client_in_bytes_per_s) == (3, 20.0)

        # Two minutes on, the state of then is gone, and what comes late counts only in the spans still open.
        for at_s, count in ((145, 9_000), (150, 9_050)):
            stream.feed(client_in(at_s, count))
            query.processAllAvailable()
        stream.feed(client_in(50, 5_000), client_in(95, 6_000), client_in(155, 9_100))
        query.processAllAvailable()
        signal = newest(stream.signals, BrokerSignal)
        assert (signal.sampled_at_ms, signal.client_in_bytes_per_s) == (T0 + 155_000, 10.0)
        # Late is judged by the watermark of one batch ago, 135 s: spans that begin at 0, 30 and 60 s are over.
        report = batch_values(query.lastProgress)
        assert report["late_rows_dropped"] == 3
        assert report["state_rows"] == 3
        assert {s.sampled_at_ms - T0 for s in stream.signals} == {155_000}
