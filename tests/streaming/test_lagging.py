"""The lag of followers: its trends over the window and over five minutes, and the figures of fetcher threads and partitions."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import correlation, linear_regression
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_cases import OURS, T0, TOPICS, Logged, Record, Stream, at, newest, raw, records, scrape, signals_of

from streaming.collector.lag_history import LagHistory
from streaming.pipeline import build
from streaming.shared.contract import (
    BrokerSignal,
    Metric,
    ReplicationSignal,
    Sample,
    decode_signal,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)

ORDERS_3 = partition_labels("orders", 3)
FULL, IDLE = thread_labels(2, 0), thread_labels(2, 1)


def lag_samples_at(at_s: float) -> dict[Any, float]:
    """A follower of broker 2: orders-3 falls behind by 100 messages a second; thread 1 has nothing to do."""
    lag = 100 * at_s
    return {
        Metric.LAG_SUM: lag,
        Metric.LAG_MAX: lag,
        Metric.LAG_PARTITIONS: 5,
        Metric.LAG_ADDING_SUM: 7,
        Metric.LAG_ADDING_PARTITIONS: 1,
        Metric.LAG_THREADS: 2,
        (Metric.LAG_THREAD_PARTITIONS, FULL): 3,
        (Metric.LAG_THREAD_SUM, FULL): lag,
        (Metric.LAG_THREAD_MAX, FULL): lag,
        (Metric.LAG_THREAD_BYTES, FULL): 1000 * at_s,
        (Metric.LAG_THREAD_PARTITIONS, IDLE): 2,
        (Metric.LAG_THREAD_SUM, IDLE): 0,
        (Metric.LAG_THREAD_MAX, IDLE): 0,
        (Metric.LAG_THREAD_ADDING_PARTITIONS, IDLE): 1,
        (Metric.LAG_THREAD_ADDING_SUM, IDLE): 7,
        (Metric.LAG_PARTITION, thread_partition_labels(2, 0, "orders", 3)): lag,
        (Metric.LAG_PARTITION_END_OFFSET, ORDERS_3): 1_000 + 200 * at_s,
        (Metric.LAG_PARTITION_SIZE, ORDERS_3): 5_000 + 2_000 * at_s,
    }


def lag_of(spark: SparkSession, scrapes: list[Any]) -> ReplicationSignal:
    found: ReplicationSignal = newest(signals_of(spark, scrapes), ReplicationSignal)
    return found


def test_replication_signal_of_growing_lag_has_trend_threads_and_partitions(spark: SparkSession) -> None:
    found = lag_of(spark, [scrape(at_s, lag_samples_at(at_s)) for at_s in range(5, 35, 5)])
    assert (found.lag_sum_messages, found.lag_max_messages, found.partitions) == (3000, 3000, 5)
    assert (found.adding_lag_sum_messages, found.adding_partitions, found.thread_count) == (7, 1, 2)
    assert (found.lag_sum_bytes, found.lag_max_s) == (
        30_000,
        15,
    )  # 10 bytes a message; 200 messages a second are written.
    assert found.trend is not None
    assert (found.trend.slope_messages_per_s, found.trend.r2, found.trend.points, found.trend.span_s) == (100, 1, 6, 25)
    assert found.trend_5min is None  # No scrape brought earlier sums.
    full, idle = found.threads
    assert (full.source, full.fetcher, full.lag_sum_messages, full.fetched_bytes_per_s, full.lag_max_s) == (
        2, 0, 3000, 1000, 15,
    )  # fmt: skip
    assert full.trend is not None
    assert (full.trend.slope_messages_per_s, full.adding_partitions) == (100, 0)
    assert (idle.fetcher, idle.lag_sum_messages, idle.lag_max_s, idle.adding_lag_sum_messages) == (1, 0, 0, 7)
    assert idle.fetched_bytes_per_s is None
    (worst,) = found.worst
    assert (worst.topic, worst.partition, worst.source, worst.fetcher, worst.lag_messages) == ("orders", 3, 2, 0, 3000)
    assert (worst.write_messages_per_s, worst.write_bytes_per_s, worst.lag_s, worst.lag_bytes) == (
        200,
        2000,
        15,
        30_000,
    )


def test_replication_signal_without_lag_is_zero_not_unknown(spark: SparkSession) -> None:
    none = {Metric.LAG_SUM: 0, Metric.LAG_MAX: 0, Metric.LAG_PARTITIONS: 4}
    found = lag_of(spark, [scrape(at_s, none) for at_s in (0, 5, 10)])
    assert (found.lag_sum_messages, found.lag_max_messages, found.lag_sum_bytes, found.lag_max_s) == (0, 0, 0, 0)
    assert found.trend is not None
    assert (found.trend.slope_messages_per_s, found.trend.r2) == (0, 1)
    assert (found.threads, found.worst, found.thread_count) == ((), (), None)


def test_partition_without_known_thread_or_offset_has_no_seconds(spark: SparkSession) -> None:
    samples = {Metric.LAG_SUM: 50, (Metric.LAG_PARTITION, ORDERS_3): 50}
    found = lag_of(spark, [scrape(at_s, samples) for at_s in (0, 5, 10)])
    (worst,) = found.worst
    assert (worst.source, worst.fetcher, worst.lag_s, worst.lag_bytes, worst.write_messages_per_s) == (None,) * 5
    assert (found.lag_sum_bytes, found.lag_max_s) == (None, None)


def test_shrinking_log_gives_seconds_but_no_bytes(spark: SparkSession) -> None:
    """Retention removes a segment in each step, so the written bytes are unknown."""

    def samples_at(at_s: float) -> dict[Any, float]:
        return {**lag_samples_at(at_s), (Metric.LAG_PARTITION_SIZE, ORDERS_3): 9_000 - at_s}

    (worst,) = lag_of(spark, [scrape(at_s, samples_at(at_s)) for at_s in (5, 10, 15)]).worst
    assert (worst.lag_s, worst.write_messages_per_s) == (7.5, 200)
    assert (worst.lag_bytes, worst.write_bytes_per_s) == (None, None)


def test_formats_with_max_lag_only_have_it_in_broker_signal(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Telegraf and others send one metric per record and no lags by partition."""
    monkeypatch.setattr("streaming.entities.KERNEL_PARSED_FORMATS", {})
    monkeypatch.setattr("streaming.entities.WHOLE_SCRAPE_FORMATS", frozenset())
    parts = [{Metric.REPLICA_LAG_MAX: 3}, {Metric.UNDER_MIN_ISR: 0}, {Metric.CLIENT_IN: 9}]
    scrapes: list[Record] = [scrape(at_s, part) for at_s in (0, 5) for part in parts]
    found = signals_of(spark, [*scrapes, scrape(10, {Metric.REPLICA_LAG_MAX: 23})])
    assert newest(found, BrokerSignal).replica_lag_max_messages == 23
    assert not [s for s in found if isinstance(s, ReplicationSignal)]


def test_node_without_any_lag_has_no_replication_signal(spark: SparkSession) -> None:
    unknown = scrape(0, {Metric.UNDER_MIN_ISR: 0, (Metric.LAG_PARTITION_END_OFFSET, ORDERS_3): 5})
    assert not [s for s in signals_of(spark, [unknown]) if isinstance(s, ReplicationSignal)]


def test_trend_begins_anew_when_sender_clock_was_set(spark: SparkSession) -> None:
    scrapes = [
        record
        for at_s in range(0, 30, 5)
        for record in at(
            at_s, replace(scrape(at_s, lag_samples_at(at_s)), ts_ms=T0 + (at_s + 300 * (at_s >= 15)) * 1000)
        )
    ]
    found = lag_of(spark, scrapes)
    assert found.trend is not None
    assert (found.trend.points, found.trend.span_s, found.trend.slope_messages_per_s) == (3, 10, 100)


# -- five minutes -----------------------------------------------------------------------------------------------------

LAST_S = 400


def uneven_lag(at_s: int) -> float:
    return 50 * at_s + 700 * (at_s % 35)


def long_history(seed: int) -> list[list[Record]]:
    """400 s of scrapes, as the collector makes them, in micro-batches of 25 s: shuffled, some twice, some one batch later."""
    chance = random.Random(seed)
    history = LagHistory(window_s=30, interval_s=5)
    batches: list[list[Record]] = [[] for _ in range(LAST_S // 25 + 2)]
    for at_s in range(0, LAST_S + 1, 5):
        lag = uneven_lag(at_s)
        samples: dict[Any, float] = {Metric.LAG_SUM: lag, Metric.LAG_MAX: lag, (Metric.LAG_THREAD_SUM, FULL): lag}
        earlier = history.samples(1, [Sample(Metric.LAG_SUM, "", lag)], at_s)
        samples |= {(sample.name, sample.labels): sample.value for sample in earlier}
        value = scrape(at_s, samples).value()
        at_ms = T0 + at_s * 1000 + chance.randrange(900)
        # A record within 10 s of the end of its batch is still in time in the next.
        is_late = at_s % 25 >= 20 and chance.random() < 0.5
        batches[at_s // 25 + is_late].append(Logged(value, at_ms))
        if chance.random() < 0.2:
            batches[at_s // 25 + is_late].append(Logged(value, at_ms + 2000))
    for batch in batches:
        chance.shuffle(batch)
    return [batch for batch in batches if batch]


@pytest.mark.parametrize("seed", [1, 2])
def test_five_minute_trend_survives_order_duplicates_and_restart(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    batches = long_history(seed)
    stream = Stream(spark, tmp_path)
    # Three queries over one checkpoint, as after two restarts.
    for part in (batches[:5], batches[5:11], batches[11:]):
        stream.run(*part)
    assert stream.late == 0
    everything = [record for batch in batches for record in batch]
    at_once = records(build([(raw(spark, everything), OURS)], TOPICS), TOPICS.signals)
    assert stream.final() == at_once

    signals = {s.window_end_ms: s for s in map(decode_signal, at_once.values()) if isinstance(s, ReplicationSignal)}
    assert len(signals) == LAST_S // 5 + 1
    for end_s in (90, 300, 330, LAST_S):
        trend = signals[T0 + end_s * 1000].trend_5min
        newest_s = (end_s - 1) // 25 * 25
        times = list(range(max(0, newest_s - 300), newest_s + 1, 25))
        values = [uneven_lag(at_s) for at_s in times]
        assert trend is not None
        assert (trend.points, trend.span_s) == (len(times), times[-1] - times[0])
        assert trend.slope_messages_per_s == pytest.approx(linear_regression(times, values).slope)
        assert trend.r2 == pytest.approx(correlation(times, values) ** 2)


def test_lags_need_no_state_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    for at_s in range(0, 40, 5):
        stream.feed(scrape(at_s, {**lag_samples_at(at_s), Metric.UNDER_MIN_ISR: 0}))
    with stream.running() as query:
        query.processAllAvailable()
        assert int(query.lastProgress["stateOperators"][0]["numRowsTotal"]) <= 3  # Spans of the broker.
