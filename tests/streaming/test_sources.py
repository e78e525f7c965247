"""Several sources in one query: a lagging one loses nothing, a silent one delays no other, two may have the same topic name."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from pyspark.sql import SparkSession
from stream_cases import T0, TOPICS, Logged, Stream, numbered, raw, records, scrape

from streaming.batch_values import batch_values
from streaming.formats.common import Source
from streaming.pipeline import Input, build
from streaming.shared.contract import Metric
from streaming.signals import WindowShape

LARGE, SMALL, SILENT = "rheostat.metrics", "small", "silent"
INPUTS = {topic: Input("rheostat_json", Source(topic)) for topic in (LARGE, SMALL, SILENT)}
NODES = (1, 2, 3)
EVERY_S = 5


def records_of_source(topic: str, begin_s: int, end_s: int) -> list[Logged]:
    """Returns records of all nodes of a source, and an invalid one, at their measured times."""
    nodes = NODES if topic == LARGE else (9,)
    found = [
        Logged(one.value(), one.ts_ms, topic)
        for at_s in range(begin_s, end_s, EVERY_S)
        for node in nodes
        for one in [scrape(at_s, {Metric.CLIENT_IN: at_s * 1000.0}, node=node, cluster=topic)]
    ]
    return [*found, Logged(b"nonsense", T0 + begin_s * 1000, topic)]


def test_sources_catching_up_unevenly_lose_no_window(spark: SparkSession, tmp_path: Path) -> None:
    live_s, behind_s, step_s = 30, 110, 20
    now_s = live_s + behind_s
    batches = [
        [*records_of_source(LARGE, 0, live_s), *records_of_source(SMALL, 0, live_s)],
        records_of_source(SMALL, live_s, now_s),
    ]
    batches += [records_of_source(LARGE, at_s, min(now_s, at_s + step_s)) for at_s in range(live_s, now_s, step_s)]
    batches += [
        [*records_of_source(LARGE, at_s, at_s + 60), *records_of_source(SMALL, at_s, at_s + 60)]
        for at_s in range(now_s, now_s + 240, 60)
    ]

    stream = Stream(spark, tmp_path, INPUTS)
    for batch in batches:
        stream.feed(*batch)
    with stream.running() as query:
        query.processAllAvailable()
        state_rows = batch_values(query.lastProgress)["state_rows"]

    all_ = [one for batch in batches for one in batch]
    at_once = [(raw(spark, [one for one in all_ if one.topic == topic]), input_) for topic, input_ in INPUTS.items()]
    whole = build(at_once, TOPICS).cache()
    expected = records(whole, TOPICS.signals)
    assert len(expected) == (now_s + 240) // EVERY_S * (len(NODES) + 1)
    assert stream.final().keys() == expected.keys()
    assert {k: json.loads(v) for k, v in stream.final().items()} == {k: json.loads(v) for k, v in expected.items()}
    assert stream.final(TOPICS.rejects).keys() == records(whole, TOPICS.rejects).keys()
    assert stream.late == 0
    # Six minutes have passed and one source never spoke: what is kept is that of three, of spans that begin every 30 s.
    assert state_rows <= 8 * (len(NODES) + 1) + 8


def test_reject_state_expires_before_slowest_source_timeout(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, INPUTS, WindowShape(window_s=4, slide_s=2, watermark_delay_s=1))

    def good(now_ms: int) -> Logged:
        one = scrape((now_ms - T0) / 1000, {Metric.CLIENT_IN: 1.0}, cluster=SMALL)
        return Logged(one.value(), now_ms, SMALL)

    begun_ms = int(time.time() * 1000)
    with stream.running() as query:
        # The second batch is judged by the watermark of the first: who lags by a minute is refused all the same.
        stream.feed(good(begun_ms), *[Logged(b"nonsense", begun_ms, LARGE)] * 50)
        query.processAllAvailable()
        stream.feed(good(begun_ms), *[Logged(b"nonsense", begun_ms - 60_000, LARGE)] * 50)
        query.processAllAvailable()
        assert len(stream.final(TOPICS.rejects)) == 100
        assert batch_values(query.lastProgress)["state_rows"] == 2 + 100
        # Two windows, the lateness, and a batch for the watermark; not the two minutes for which a row of a scrape stays.
        deadline = time.monotonic() + 30
        while batch_values(query.lastProgress)["state_rows"] >= 50 and time.monotonic() < deadline:
            time.sleep(1)
            stream.feed(good(int(time.time() * 1000)))
            query.processAllAvailable()
        assert batch_values(query.lastProgress)["state_rows"] < 50


def test_rejects_of_equal_topics_are_distinguished_by_cluster(spark: SparkSession) -> None:
    inputs = [
        (raw(spark, numbered([value])), Input("rheostat_json", Source("c"), kafka=kafka))
        for kafka, value in (("A", b"one"), ("B", b"two"), ("", b"three"))
    ]
    found = {key: json.loads(value) for key, value in records(build(inputs, TOPICS), TOPICS.rejects).items()}
    assert {key: base64.b64decode(body["head"]) for key, body in found.items()} == {
        b"A|rheostat.metrics-0-0": b"one",
        b"B|rheostat.metrics-0-0": b"two",
        b"rheostat.metrics-0-0": b"three",
    }
    assert {key: body.get("kafka") for key, body in found.items()} == {
        b"A|rheostat.metrics-0-0": "A",
        b"B|rheostat.metrics-0-0": "B",
        b"rheostat.metrics-0-0": None,
    }
