"""Late, repeated and reordered records and wrong clocks do not change signals, on the streaming engine.

One query runs over twelve micro-batches of 5 s of Kafka's time. Each case is a node beside an undisturbed one; the counters of both rise
by 10/s, so both must have the same rates.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_cases import MB, T0, TOPICS, Logged, Record, Stream, at, changed, newest, scrape

from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    Metric,
    MoveSignal,
    ReplicationSignal,
    Scrape,
    Side,
    Signal,
    TenantSignal,
    age_label,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)

EVERY_S = 5
BATCHES = 12
RATE = 10.0
UNDISTURBED = 0

Timeline = list[list[Record]]  # The records of each batch.


def steady(at_s: float, node: int, *, cluster: str = "c", count: float | None = None) -> Scrape:
    """Every counter rises by RATE and the gauges show the time; the scrape yields every kind of signal."""
    orders = partition_labels("orders", 0)
    return scrape(
        at_s,
        {
            Metric.CLIENT_IN: 10_000 + RATE * at_s if count is None else count,
            Metric.LEADER_RATE: 1_000_000 + at_s,
            (Metric.LED_SIZE, orders): (1000 + at_s) * MB,
            (Metric.LED_COUNTED, orders): 2,
            (Metric.LED_REMAINING, orders): (500 - at_s) * MB,
            (Metric.FOLLOWED_SIZE, orders): (100 + 3 * at_s) * MB,
            (Metric.FOLLOWED_LEADER_SIZE, orders): (1000 + at_s) * MB,
            (Metric.FOLLOWED_COUNTED, orders): 1,
            (Metric.FOLLOWED_ADDING, orders): 1,
            (Metric.TOTAL_TIME_MEAN, "request=Produce"): 3,
            (Metric.TOTAL_TIME_COUNT, "request=Produce"): 10_000 + RATE * at_s,
            Metric.OPERATIONS_STARTED: 10_000 + RATE * at_s,
            Metric.EVENT_QUEUE_TIME_MEAN: 2,
            Metric.EVENT_QUEUE_TIME_COUNT: 10_000 + RATE * at_s,
            (Metric.MUTATION_TOKENS, "user=u"): at_s,
            Metric.LAG_SUM: 100 * at_s,
            (Metric.LAG_EARLIER_SUM, age_label(25)): 100 * (at_s - 25),
            Metric.LAG_MAX: 90 * at_s,
            (Metric.LAG_THREAD_SUM, thread_labels(2, 0)): 100 * at_s,
            (Metric.LAG_THREAD_BYTES, thread_labels(2, 0)): 10_000 + RATE * at_s,
            (Metric.LAG_PARTITION, thread_partition_labels(2, 0, "orders", 0)): 90 * at_s,
            (Metric.LAG_PARTITION_END_OFFSET, orders): 10_000 + RATE * at_s,
            (Metric.LAG_PARTITION_SIZE, orders): (1000 + at_s) * MB,
        },
        node=node,
        cluster=cluster,
    )


def only_counter(at_s: float, node: int, count: float) -> Scrape:
    return scrape(at_s, {Metric.CLIENT_IN: count}, node=node)


def by_clock(kafka_s: float, own_s: float, node: int) -> list[Logged]:
    """Returns a steady scrape at ``kafka_s`` of Kafka's time, dated by the sender's clock."""
    return at(kafka_s, changed(steady(kafka_s, node), ts=T0 + round(own_s * 1000)))


CASES: dict[str, Callable[[int], Timeline]] = {}


def case(make: Callable[[int], Timeline]) -> Callable[[int], Timeline]:
    CASES[make.__name__] = make
    return make


def node_of(name: str) -> int:
    return 1 + list(CASES).index(name)


def each_batch(make: Callable[[int, float], list[Any]]) -> Timeline:
    return [make(k, k * EVERY_S) for k in range(BATCHES)]


# -- duplicates and order --------------------------------------------------------------------------------------------


@case
def twice_at_once(node: int) -> Timeline:
    return each_batch(lambda _, t: [steady(t, node), steady(t, node)])


@case
def again_later(node: int) -> Timeline:
    return each_batch(lambda _, t: [steady(t, node), *at(t + 2, steady(t, node))])


@case
def again_in_the_next_batch(node: int) -> Timeline:
    return each_batch(lambda _, t: [steady(s, node) for s in (t - EVERY_S, t) if s >= 0])


@case
def pairs_resent(node: int) -> Timeline:
    """Each pair of scrapes is sent twice: A, B, A, B."""

    def pair(at_s: float, t: float) -> list[Logged]:
        return [*at(at_s, steady(t - EVERY_S, node)), *at(at_s + 0.1, steady(t, node))]

    return each_batch(lambda k, t: [*pair(t, t), *pair(t + 0.2, t)] if k % 2 else [])


@case
def backwards_within_a_batch(node: int) -> Timeline:
    return each_batch(lambda k, t: [steady(t - s, node) for s in (0, 5, 10)] if k % 3 == 2 else [])


@case
def two_batches_swapped(node: int) -> Timeline:
    return each_batch(lambda k, t: [steady(t - EVERY_S if k % 2 else t + EVERY_S, node)])


@case
def overtaken(node: int) -> Timeline:
    """The earlier scrape is logged after the later one."""
    return each_batch(lambda k, t: [*at(t, steady(t, node)), *at(t + 0.5, steady(t - EVERY_S, node))] if k % 2 else [])


@case
def burst(node: int) -> Timeline:
    """The collector could not write for 25 s."""
    return each_batch(
        lambda k, t: (
            [steady(t, node)]
            if k < 4 or k > 9
            else at(t, *[steady(s, node) for s in range(20, 50, 5)])
            if k == 9
            else []
        )
    )


@case
def long_burst(node: int) -> Timeline:
    """Two minutes of scrapes at one instant."""
    late = range(45 - 120, 50, 5)
    return each_batch(
        lambda k, t: at(t + 0.2, *[steady(s, node) for s in late]) if k == 9 else [steady(t, node)] if k > 9 else []
    )


# -- late ------------------------------------------------------------------------------------------------------------


@case
def late(node: int) -> Timeline:
    """The last batch has late records: the watermark is at 40 s, and earlier spans are closed.

    Neither is a point of the long trend, which would still be in time for later spans.
    """
    return each_batch(
        lambda k, t: [steady(t, node), *([steady(-45, node), steady(5, node)] if k == BATCHES - 1 else [])]
    )


LATE_ROWS = (2 + 1) * 5  # Both spans of one scrape and the first of the other, for each of the scrape's entities.


# -- clocks ----------------------------------------------------------------------------------------------------------


@case
def five_minutes_fast(node: int) -> Timeline:
    return each_batch(lambda _, t: by_clock(t, t + 300, node))


@case
def five_minutes_slow(node: int) -> Timeline:
    return each_batch(lambda _, t: by_clock(t, t - 300, node))


@case
def twenty_seconds_fast(node: int) -> Timeline:
    return each_batch(lambda _, t: by_clock(t, t + 20, node))


SET_AT = 6
CLOCKS_SET = {
    "set_300_s_forward": 300,
    "set_300_s_back": -300,
    "set_40_s_back": -40,
    "set_20_s_back": -20,
    "set_20_s_forward": 20,
}


def _clock_set(by_s: int) -> Callable[[int], Timeline]:
    return lambda node: each_batch(lambda k, t: by_clock(t, t + (by_s if k >= SET_AT else 0), node))


for _name, _by_s in CLOCKS_SET.items():
    CASES[_name] = _clock_set(_by_s)


# -- brokers that come and go ----------------------------------------------------------------------------------------


@case
def restarts_from_zero(node: int) -> Timeline:
    """After 25 s of 10/s it shows 20 at 30 s, and 10/s more from there."""
    return each_batch(lambda _, t: [only_counter(t, node, RATE * t if t < 30 else 20 + RATE * (t - 30))])


@case
def restarts_with_more(node: int) -> Timeline:
    """The counter is higher after the restart, so it looks as if it had continued."""
    return each_batch(lambda _, t: [only_counter(t, node, RATE * t if t < 30 else 300 + RATE * (t - 30))])


@case
def away_for_thirty_seconds(node: int) -> Timeline:
    return each_batch(lambda _, t: [] if 15 < t < 45 else [steady(t, node)])


@case
def two_scrapes_missing(node: int) -> Timeline:
    return each_batch(lambda _, t: [] if t in (15, 20) else [steady(t, node)])


@case
def joins(node: int) -> Timeline:
    return each_batch(lambda _, t: [steady(t, node)] if t >= 30 else [])


@case
def same_id_in_two_clusters(node: int) -> Timeline:
    return each_batch(
        lambda _, t: [steady(t, node), scrape(t, {Metric.CLIENT_IN: 7 * RATE * t}, node=node, cluster="d")]
    )


# -- malformed -------------------------------------------------------------------------------------------------------


@case
def unknown_fields(node: int) -> Timeline:
    return each_batch(lambda _, t: at(t, changed(steady(t, node), colour="blue", v2={"a": [{}]}, node_name="n")))


@case
def no_numbers(node: int) -> Timeline:
    """Every other scrape has an invalid number as counter, and another kind of gauge."""

    def of(k: int, t: float) -> list[Logged]:
        odd = (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"null", b'"NaN"')[k // 2 % 6]
        value = only_counter(t, node, 10_000 + RATE * t).value()
        return at(t, value.replace(b'"v":10', b'"v":' + odd + b',"w":10') if k % 2 else value)

    return each_batch(of)


@case
def a_megabyte(node: int) -> Timeline:
    many = {f"x{n}": 1.0 for n in range(36_000)}
    assert len(scrape(0, many).value()) > 1_000_000
    return each_batch(
        lambda k, t: [scrape(t, {**(many if k in (3, 4) else {}), Metric.CLIENT_IN: RATE * t}, node=node)]
    )


@case
def named_twice(node: int) -> Timeline:
    def of(_: int, t: float) -> list[Logged]:
        first = b'"samples":[{"n":"' + Metric.CLIENT_IN.encode() + b'","l":"","v":1},'
        return at(t, steady(t, node).value().replace(b'"samples":[', first))

    return each_batch(of)


REFUSED: dict[int, tuple[Callable[[Scrape], bytes | None], str]] = {
    1: (lambda one: one.value().replace(b'"c"', b'"\xff\xfe"'), "invalid UTF-8"),
    2: (lambda one: changed(one, v=2), "schema version 2, this program reads 1"),
    3: (lambda one: changed(one, node="one"), "no node, or not a whole number"),
    4: (lambda one: changed(one, ts=1.5), "no ts, or not a whole number"),
    5: (lambda one: changed(one, samples=5), "no samples, or not a list of objects"),
    6: (lambda one: one.value()[:-1], "not JSON: one object and nothing else is expected"),
    7: (lambda _: None, "empty record"),
    8: (lambda _: b"[" * 1_000_000, "not JSON: one object and nothing else is expected"),
}


@case
def malformed_in_between(node: int) -> Timeline:
    return each_batch(
        lambda k, t: [steady(t, node), *(at(t, REFUSED[k][0](only_counter(t, node, 1e9))) if k in REFUSED else [])]
    )


# -- the run ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    timelines = [make(node_of(name)) for name, make in CASES.items()]
    timelines.append(each_batch(lambda _, t: [steady(t, UNDISTURBED)]))
    stream = Stream(spark, tmp_path_factory.mktemp("disorder"))
    stream.run(*[[one for timeline in timelines for one in timeline[k]] for k in range(BATCHES)])
    return stream


@pytest.fixture(scope="module")
def signals(stream: Stream) -> list[Signal]:
    return stream.all_signals


def signals_of_node(signals: list[Signal], node: int, cluster: str = "c") -> dict[tuple[Any, ...], Signal]:
    """Returns signals by kind, side and window, with the node id replaced by 0."""
    found: dict[tuple[Any, ...], Signal] = {}
    for one in signals:
        if one.cluster != cluster:
            continue
        if isinstance(one, BrokerSignal | MoveSignal | ReplicationSignal) and one.broker == node:
            side = one.side if isinstance(one, MoveSignal) else None
            found[type(one).__name__, side, one.window_end_ms - T0] = replace(one, broker=0)
        elif isinstance(one, ControllerSignal | TenantSignal) and one.node == node:
            found[type(one).__name__, None, one.window_end_ms - T0] = replace(one, node=0)
    return found


def broker_signals(signals: list[Signal], name: str, cluster: str = "c") -> Iterator[tuple[int, BrokerSignal]]:
    """Yields (end of the window in s, signal) in ascending order."""
    node = node_of(name)
    fitting = [s for s in signals if isinstance(s, BrokerSignal) and (s.broker, s.cluster) == (node, cluster)]
    return iter(sorted(((s.window_end_ms - T0) // 1000, s) for s in fitting)) if fitting else iter(())


def client_in_rates(signals: list[Signal], name: str, cluster: str = "c") -> dict[int, float | None]:
    return {end: s.client_in_bytes_per_s for end, s in broker_signals(signals, name, cluster)}


STEADY = {5: None} | dict.fromkeys(range(10, 65, 5), RATE)
EVERYTHING = 6 * BATCHES  # Broker, two sides, lag, controller and tenant, in every window.


def test_undisturbed_node_has_expected_signals(signals: list[Signal]) -> None:
    assert len(signals_of_node(signals, UNDISTURBED)) == EVERYTHING
    broker = newest(signals, BrokerSignal, broker=UNDISTURBED)
    assert (broker.client_in_bytes_per_s, broker.samples, broker.completeness) == (RATE, 6, 1.0)
    assert (broker.sampled_at_ms, broker.leader_rate_bytes_per_s) == (T0 + 55_000, 1_000_055)
    assert broker.produce_mean_ms == 3.0
    move = newest(signals, MoveSignal, broker=UNDISTURBED, side=Side.FOLLOWER)
    assert (len(move.steps), move.write_bytes_per_s, move.remaining_slope_bytes_per_s) == (
        5,
        MB,
        pytest.approx(-2 * MB),
    )
    lag = newest(signals, ReplicationSignal, broker=UNDISTURBED)
    assert (lag.lag_sum_messages, lag.trend.slope_messages_per_s, lag.trend_5min.slope_messages_per_s) == (
        5500,
        100,
        100,
    )
    assert (lag.trend.points, lag.trend_5min.points, lag.threads[0].fetched_bytes_per_s) == (6, 2, RATE)
    assert (lag.worst[0].lag_s, lag.worst[0].write_bytes_per_s) == (90 * 55 / RATE, MB)
    controller = newest(signals, ControllerSignal, node=UNDISTURBED)
    assert (controller.operations_per_s, controller.queue_depth_mean) == (RATE, 0.02)
    assert newest(signals, TenantSignal, node=UNDISTURBED).tokens == 55


@pytest.mark.parametrize(
    "name",
    [
        "twice_at_once",
        "again_later",
        "again_in_the_next_batch",
        "backwards_within_a_batch",
        "two_batches_swapped",
        "late",
        "unknown_fields",
        "named_twice",
        "malformed_in_between",
        "same_id_in_two_clusters",
        "five_minutes_fast",
        "five_minutes_slow",
    ],
)
def test_duplicates_disorder_or_wrong_clock_change_no_signal(signals: list[Signal], name: str) -> None:
    found, expected = signals_of_node(signals, node_of(name)), signals_of_node(signals, UNDISTURBED)
    assert found.keys() == expected.keys()
    assert {key: one for key, one in found.items() if one != expected[key]} == {}


@pytest.mark.parametrize("name", ["pairs_resent", "overtaken", "burst", "long_burst"])
def test_late_logged_records_have_rates_of_their_scrape_time(signals: list[Signal], name: str) -> None:
    found = client_in_rates(signals, name)
    assert set(found.values()) <= {None, RATE}
    assert found[60] == RATE
    moves = [s for s in signals if isinstance(s, MoveSignal) and s.broker == node_of(name)]
    assert moves
    for move in moves:
        gained = 15 * MB if move.side is Side.FOLLOWER else 0.0
        assert {(step.dt_s, step.gained_bytes, step.written_bytes) for step in move.steps} <= {(5.0, gained, 5 * MB)}
        assert move.write_bytes_per_s in (None, MB)


@pytest.mark.parametrize("name", ["pairs_resent", "overtaken", "burst", "long_burst"])
def test_gauges_come_from_last_measured_not_last_logged_scrape(signals: list[Signal], name: str) -> None:
    """Holds for every window; the window that ends at 50 s shows the scrape of 45 s if it arrived."""
    for end, broker in broker_signals(signals, name):
        scraped_s = min(end - EVERY_S, 55)
        assert (broker.sampled_at_ms - T0) // 1000 == scraped_s
        assert broker.leader_rate_bytes_per_s == 1_000_000 + scraped_s
        move = newest(
            [s for s in signals if s.window_end_ms == broker.window_end_ms],
            MoveSignal,
            broker=broker.broker,
            side=Side.FOLLOWER,
        )
        assert move.remaining_bytes == (900 - 2 * scraped_s) * MB


def test_rows_behind_the_watermark_are_counted(stream: Stream) -> None:
    assert stream.late == LATE_ROWS


def test_sender_clock_20_s_fast_is_reported_unchanged(signals: list[Signal]) -> None:
    assert client_in_rates(signals, "twenty_seconds_fast") == STEADY
    assert {s.sampled_at_ms - s.window_end_ms for _, s in broker_signals(signals, "twenty_seconds_fast")} == {15_000}


@pytest.mark.parametrize("name", CLOCKS_SET)
def test_sender_clock_adjusted_midway_gives_no_wrong_rate(signals: list[Signal], name: str) -> None:
    found = client_in_rates(signals, name)
    assert found.keys() == STEADY.keys()
    assert set(found.values()) <= {None, RATE}
    for move in (s for s in signals if isinstance(s, MoveSignal) and s.broker == node_of(name)):
        assert move.write_bytes_per_s in (None, MB)
        assert {(step.dt_s, step.written_bytes) for step in move.steps} <= {(5.0, 5 * MB)}
    for _, broker in broker_signals(signals, name):
        assert abs(broker.sampled_at_ms - broker.window_end_ms) <= 35_000


def test_counter_restarted_from_zero_counts_from_zero(signals: list[Signal]) -> None:
    found = client_in_rates(signals, "restarts_from_zero")
    # At 35 s the window holds 5 … 30 s: 200 gained up to 25 s, then 20.
    assert found[30] == RATE
    assert found[35] == (200 + 20) / 25
    assert found[60] == RATE


def test_absent_broker_has_no_signal_and_rates_after_second_scrape(signals: list[Signal]) -> None:
    found = client_in_rates(signals, "away_for_thirty_seconds")
    assert found == {5: None, 10: RATE, 15: RATE, 20: RATE, 50: None, 55: RATE, 60: RATE}
    assert [s.samples for _, s in broker_signals(signals, "away_for_thirty_seconds")] == [1, 2, 3, 4, 1, 2, 3]


def test_missing_scrapes_lower_completeness_but_not_rates(signals: list[Signal]) -> None:
    found = dict(broker_signals(signals, "two_scrapes_missing"))
    assert {end: s.client_in_bytes_per_s for end, s in found.items()} == {
        e: r for e, r in STEADY.items() if e not in (20, 25)
    }
    assert {end: found[end].completeness for end in (15, 30, 45, 55)} == {15: 0.5, 30: 4 / 6, 45: 4 / 6, 55: 1.0}


@pytest.mark.parametrize(
    ("name", "cluster", "expected"),
    [
        ("set_300_s_forward", "c", STEADY),
        ("set_300_s_back", "c", STEADY),
        ("restarts_with_more", "c", STEADY),  # The counter shows 300 after 250: taken for 50 in 5 s.
        ("a_megabyte", "c", STEADY),
        ("joins", "c", {35: None} | dict.fromkeys(range(40, 65, 5), RATE)),
        ("no_numbers", "c", {5: None, 10: None} | dict.fromkeys(range(15, 65, 5), RATE)),
        ("same_id_in_two_clusters", "d", {5: None} | dict.fromkeys(range(10, 65, 5), 7 * RATE)),
    ],
)
def test_counter_rates_per_window_are_exact(
    signals: list[Signal], name: str, cluster: str, expected: dict[int, float | None]
) -> None:
    assert client_in_rates(signals, name, cluster) == expected


def test_malformed_record_is_refused_once_in_its_batch(stream: Stream) -> None:
    reasons = [[json.loads(v)["reason"] for v in batch[TOPICS.rejects].values()] for batch in stream.batches]
    assert reasons == [[REFUSED[k][1]] if k in REFUSED else [] for k in range(BATCHES)]


def test_topic_with_create_time_survives_a_fast_sender_clock(spark: SparkSession, tmp_path: Any) -> None:
    """With message.timestamp.type=CreateTime one of two senders dates its records five minutes ahead."""

    def sent(node: int, ahead_ms: int) -> Logged:
        """A counter that rises by 1,000/s."""
        at_ms = time.time_ns() // 1_000_000 + ahead_ms
        return Logged(changed(only_counter(0, node, float(at_ms)), ts=at_ms), at_ms)

    stream = Stream(spark, tmp_path)
    with stream.running() as query:
        for _ in range(3):
            stream.feed(sent(1, -3_000), sent(2, 300_000))
            query.processAllAvailable()
        report = query.lastProgress
        assert report is not None
    assert (stream.late, stream.rejects) == (0, [])
    for node in (1, 2):
        assert newest(stream.signals, BrokerSignal, broker=node).client_in_bytes_per_s == pytest.approx(1000)
    now, watermark = (datetime.fromisoformat(text) for text in (report["timestamp"], report["eventTime"]["watermark"]))
    assert (now - watermark).total_seconds() >= 4, "the others' records are late as soon as they wait a little"
