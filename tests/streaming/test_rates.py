"""Rates of counters, through the whole pipeline, with literal numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from stream_cases import T0, Record, newest, scrape, signals_of

from streaming.shared.contract import BrokerSignal, Metric, Signal

Counts = dict[float, float | None]  # Second → count; None where the scrape lacks it.

CASES: dict[str, tuple[Counts, float | None]] = {
    "steady": ({0: 100, 5: 150, 10: 200}, 10.0),
    "arrives in any order": ({10: 200, 0: 100, 5: 150}, 10.0),
    "reset: 20 since it, then 50": ({0: 100, 5: 20, 10: 70}, 7.0),
    "two resets": ({0: 100, 5: 0, 10: 50, 15: 10}, 4.0),
    "one less is a reset": ({0: 1_000_000, 5: 999_999, 10: 1_000_099}, 100_009.9),
    "scrapes missing: by the time between samples": ({0: 100, 20: 300}, 10.0),
    "absent in between": ({0: 100, 5: None, 10: 200}, 10.0),
    "absent at first": ({0: None, 5: 100, 10: 200}, 20.0),
    "absent at last": ({0: 100, 5: 200, 10: None}, 20.0),
    "no traffic is a measured 0": ({0: 100, 5: 100}, 0.0),
    "one sample is no rate": ({0: 100}, None),
    "one sample of two": ({0: 100, 5: None}, None),
    "never there": ({0: None, 5: None}, None),
}


OTHERS: dict[int, list[Record]] = {}


def node(*scrapes: Record, number: int) -> int:
    """Adds a broker with these scrapes."""
    OTHERS[number] = list(scrapes)
    return number


@pytest.fixture(scope="module")
def measured(spark: SparkSession) -> list[Signal]:
    """The signals of all cases from one query, because planning takes seconds; each case has its own broker."""
    cases = [
        scrape(at_s, {} if count is None else {Metric.CLIENT_IN: count}, node=node)
        for node, (counts, _) in enumerate(CASES.values())
        for at_s, count in counts.items()
    ]
    return signals_of(spark, cases + [one for scrapes in OTHERS.values() for one in scrapes])


def signals_of_broker(measured: list[Signal], number: int) -> list[BrokerSignal]:
    return [s for s in measured if isinstance(s, BrokerSignal) and s.broker == number]


@pytest.mark.parametrize("name", CASES)
def test_counter_samples_give_the_expected_rate(measured: list[Signal], name: str) -> None:
    signal = newest(measured, BrokerSignal, broker=list(CASES).index(name))
    assert signal.client_in_bytes_per_s == CASES[name][1]


TWO_COUNTERS = node(
    scrape(0, {Metric.CLIENT_IN: 100, Metric.REPLICATION_IN: 500}, node=101),
    scrape(5, {Metric.CLIENT_IN: 20, Metric.REPLICATION_IN: 600, Metric.ISR_SHRINKS: 1}, node=101),
    scrape(10, {Metric.CLIENT_IN: 70, Metric.ISR_SHRINKS: 2}, node=101),
    number=101,
)


def test_counters_of_one_broker_are_independent(measured: list[Signal]) -> None:
    signal = newest(measured, BrokerSignal, broker=TWO_COUNTERS)
    assert signal.client_in_bytes_per_s == 7.0
    assert signal.replication_in_bytes_per_s == 20.0
    assert signal.isr_shrinks_per_s == 0.2
    assert signal.client_out_bytes_per_s is None


LONGER_THAN_A_WINDOW = node(
    *[scrape(5 * i, {Metric.CLIENT_IN: 1000.0 if i == -2 else i + 2}, node=102) for i in range(-2, 6)], number=102
)


def test_window_holds_exactly_thirty_seconds(measured: list[Signal]) -> None:
    signal = newest(measured, BrokerSignal, broker=LONGER_THAN_A_WINDOW)
    assert (signal.window_end_ms, signal.sampled_at_ms) == (T0 + 30_000, T0 + 25_000)
    assert (signal.samples, signal.completeness, signal.client_in_bytes_per_s) == (6, 1.0, 0.2)


UNEVEN = node(*[scrape(at_s, {}, node=103) for at_s in (0, 4.999, 8, 12)], number=103)


def test_window_due_yields_one_signal_per_interval(measured: list[Signal]) -> None:
    ends = sorted((s.window_end_ms - T0, s.samples) for s in signals_of_broker(measured, UNEVEN))
    assert ends == [(5_000, 2), (10_000, 3), (15_000, 4)]


FIRST = scrape(0, {Metric.HANDLER_IDLE: 0.1, Metric.LEADER_RATE: 5e6, Metric.UNDER_MIN_ISR: 3}, node=104)
SECOND = scrape(
    5,
    {
        Metric.HANDLER_IDLE: 0.7,
        Metric.LEADER_THROTTLED: 4e6,
        (Metric.HANDLER_IDLE, "listener=X"): 0.2,
        (Metric.TOTAL_TIME_P99, "request=Produce"): 12.5,
        (Metric.TOTAL_TIME_P99, "request=FetchConsumer"): 33.0,
        (Metric.TOTAL_TIME_P99, "request=FetchFollower"): 500.0,
        Metric.PARTITION_COUNT: 40,
        Metric.LEADER_COUNT: 13,
    },
    node=104,
)
GAUGED = node(scrape(10, {Metric.LEADER_COUNT: 14}, node=104), SECOND, FIRST, number=104)


def test_gauges_are_newest_values_and_expire_when_overdue(measured: list[Signal]) -> None:
    signal = newest([s for s in signals_of_broker(measured, GAUGED) if s.window_end_ms == T0 + 10_000], BrokerSignal)
    assert (signal.request_handler_idle_ratio, signal.leader_throttled_bytes_per_s) == (0.7, 4e6)
    assert (signal.produce_p99_ms, signal.fetch_p99_ms) == (12.5, 33.0)
    assert (signal.partitions, signal.leaders) == (40.0, 13.0)
    assert (signal.leader_rate_bytes_per_s, signal.under_min_isr_partitions) == (5e6, 3.0), "good for 7.5 s"
    assert signal.follower_rate_bytes_per_s is None
    last = newest(measured, BrokerSignal, broker=GAUGED)
    assert (last.leader_rate_bytes_per_s, last.under_min_isr_partitions) == (None, None)
    assert (last.leaders, last.partitions) == (14.0, 40.0)


EMPTY = node(scrape(0, {}, node=105), number=105)


def test_scrape_without_samples_yields_an_empty_broker_signal(measured: list[Signal]) -> None:
    assert signals_of_broker(measured, EMPTY) == [
        BrokerSignal("c", EMPTY, T0 + 5_000, T0, samples=1, completeness=1 / 6)
    ]


def _steady(number: int) -> list[Record]:
    return [scrape(at_s, {Metric.CLIENT_IN: 10 * at_s}, node=number) for at_s in (0, 5, 10)]


ONCE = node(*_steady(106), number=106)
TWICE = node(*_steady(107), *_steady(107)[::-1], number=107)


def test_scrapes_delivered_twice_change_nothing(measured: list[Signal]) -> None:
    once, twice = ({replace(s, broker=0) for s in signals_of_broker(measured, number)} for number in (ONCE, TWICE))
    assert once == twice != set()


_TWICE_NAMED = scrape(0, {Metric.HANDLER_IDLE: 0.5}, node=108)
NAMED_TWICE = node(
    _TWICE_NAMED.value().replace(
        b'"samples":[', b'"samples":[{"n":"' + Metric.HANDLER_IDLE.encode() + b'","l":"","v":1},'
    ),
    number=108,
)


def test_sample_named_twice_does_not_end_the_query(measured: list[Signal]) -> None:
    assert newest(measured, BrokerSignal, broker=NAMED_TWICE).request_handler_idle_ratio == 0.5
