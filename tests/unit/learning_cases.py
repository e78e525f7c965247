"""Histories for the tests of learning: brokers with a daily load, from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from learning.models.learner import Learner
from learning.models.periods import HOUR_MS, PERIOD_MS, PeriodBook
from streaming.shared.contract.history import BrokerHistory, HistoryPeriod, TenantHistory

MONDAY_MS = 1_699_833_600_000  # 13 November 2023, 00:00 UTC.
PER_HOUR = HOUR_MS // PERIOD_MS
Change = Callable[[BrokerHistory, int], BrokerHistory]


def daily(hour: float) -> float:
    """A load in bytes/s: 8 MB/s at night, 28 MB/s by day."""
    return 18e6 - 10e6 * math.cos(2 * math.pi * (hour - 3) / 24)


def broker_period(broker: int, hour: float, noise: random.Random) -> BrokerHistory:
    load = daily(hour) * noise.gauss(1, 0.03)
    return BrokerHistory(
        broker=broker,
        signals=20,
        client_in_bytes_per_s=load,
        client_out_bytes_per_s=2 * load,
        replication_in_bytes_per_s=load,
        replication_out_bytes_per_s=load,
        reassignment_in_bytes_per_s=0.0,
        reassignment_out_bytes_per_s=0.0,
        in_bytes_per_s_max=2.4 * load,
        in_max_p99_ms=9.0,
        out_bytes_per_s_max=3.4 * load,
        out_max_p99_ms=9.0,
        produce_p99_ms=8.0 * noise.gauss(1, 0.05),
        moving_partitions_max=0.0,
        lag_sum_messages=5_000 * noise.gauss(1, 0.1),
    )


def history(
    hours: int,
    *,
    brokers: Iterable[int] = (1, 2),
    first_ms: int = MONDAY_MS,
    change: Change = lambda broker, _: broker,
    tenant_rate: Callable[[int], float] | None = None,
    cluster: str = "c",
) -> Iterator[HistoryPeriod]:
    """Yields the periods of some hours.

    Args:
        change: changes a broker's period; its second argument is the hour since the begin.
        tenant_rate: the mutation rate of tenant "app" by hour.
    """
    noise = random.Random(1)
    for period in range(hours * PER_HOUR):
        hour = period // PER_HOUR
        figures = tuple(change(broker_period(broker, period / PER_HOUR, noise), hour) for broker in brokers)
        rate = None if tenant_rate is None else tenant_rate(hour) * noise.gauss(1, 0.1)
        tenants = () if rate is None else (TenantHistory(user="app", mutation_rate_per_s=max(0.0, rate)),)
        yield HistoryPeriod(cluster=cluster, start_ms=first_ms + period * PERIOD_MS, brokers=figures, tenants=tenants)


def learn(book: PeriodBook, learner: Learner | None = None) -> Learner:
    """Learns all complete hours of a book."""
    first_hour, newest_ms = book.first_hour(), book.newest_ms
    assert first_hour is not None
    assert newest_ms is not None
    learner = learner or Learner("c", first_hour)
    while learner.next_hour < (newest_ms + PERIOD_MS) // HOUR_MS:
        learner.learn(book.periods(learner.next_hour), book.brokers)
    return learner


def book_of(periods: Iterable[HistoryPeriod]) -> PeriodBook:
    book = PeriodBook()
    for period in periods:
        book.add(period)
    return book


def moving(broker: BrokerHistory, p99_ms: float = 80.0) -> BrokerHistory:
    """Returns the period of a broker that copies replicas, and whose clients wait for that."""
    return replace(
        broker,
        reassignment_in_bytes_per_s=20e6,
        replication_in_bytes_per_s=(broker.replication_in_bytes_per_s or 0.0) + 20e6,
        moving_partitions_max=5.0,
        produce_p99_ms=p99_ms,
        in_max_p99_ms=p99_ms,
        out_max_p99_ms=p99_ms,
        in_bytes_per_s_max=200e6,
    )
