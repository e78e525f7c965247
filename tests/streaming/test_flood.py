"""A flood of refused records: the state is bounded, a normal amount is reported completely, and dropped rejects are counted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from stream_cases import OURS, T0, TOPICS, Logged, Stream, raw, records, scrape

from streaming.batch_values import batch_values
from streaming.pipeline import build
from streaming.shared.contract import Metric

PLACES = 100
FEW = replace(OURS, reject_slots=PLACES)


def flood(at_s: float, count: int, partition: int = 0) -> list[Logged]:
    return [Logged(b"nonsense", T0 + round(at_s * 1000), TOPICS.metrics, partition) for _ in range(count)]


def refused(query: StreamingQuery) -> tuple[int, int]:
    report = batch_values(query.lastProgress)
    return report["refused"], report["refused_not_written"]


def test_reject_flood_fills_slots_and_counts_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {TOPICS.metrics: FEW})
    with stream.running() as query:
        for second in (1, 2, 3):
            stream.feed(*flood(second, PLACES))
            query.processAllAvailable()
            assert refused(query) == (PLACES, 0)
            assert len(stream.final(TOPICS.rejects)) == second * PLACES, "whoever had the place before"
            assert batch_values(query.lastProgress)["state_rows"] == PLACES

        stream.feed(*flood(4, PLACES + 70))
        query.processAllAvailable()
        assert refused(query) == (PLACES + 70, 70)
        assert len(stream.rejects) == PLACES
        assert batch_values(query.lastProgress)["state_rows"] == PLACES

        stream.feed(*flood(5, 10, 0), *flood(5, 10, 1))
        query.processAllAvailable()
        assert refused(query) == (20, 0)
        assert len(stream.rejects) == 20
        assert batch_values(query.lastProgress)["state_rows"] == PLACES + 10, "each partition has places of its own"

        for second in (200, 201):  # Late is judged by the watermark of one batch ago.
            stream.feed(*flood(second, 1))
            query.processAllAvailable()
        stream.feed(*flood(1, 5), *flood(202, 2))
        query.processAllAvailable()
        assert refused(query) == (7, 5), "too late to be kept, and counted all the same"


def test_batch_as_large_as_slots_reports_every_reject(spark: SparkSession, tmp_path: Path) -> None:
    bad = set(random.Random(7).sample(range(4 * PLACES), 40))
    stream = Stream(spark, tmp_path, {TOPICS.metrics: FEW})
    with stream.running() as query:
        for batch in range(4):
            offsets = range(batch * PLACES, (batch + 1) * PLACES)
            good = scrape(batch, {Metric.CLIENT_IN: 1.0}).value()
            stream.feed(*[Logged(b"nonsense" if o in bad else good, T0 + 1000 * batch) for o in offsets])
            query.processAllAvailable()
            assert refused(query) == (len(bad & set(offsets)), 0)
    assert stream.final(TOPICS.rejects).keys() == {f"{TOPICS.metrics}-0-{offset}".encode() for offset in bad}


def test_backlog_chunk_reports_every_reject(spark: SparkSession) -> None:
    found = build([(raw(spark, flood(0, PLACES + 70)), FEW)], TOPICS, backlog=True)
    assert len(records(found, TOPICS.rejects)) == PLACES + 70
