from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from learning_cases import MONDAY_MS, book_of, history, moving

from learning.models.periods import BROKERS_MAX, HOUR_MS, KEPT_HOURS, PERIOD_MS, BrokerFigure, PeriodBook, PeriodRow
from streaming.shared.contract.history import BrokerHistory, HistoryPeriod

BROKER = BrokerHistory(
    broker=1,
    signals=1,
    client_in_bytes_per_s=1e6,
    reassignment_in_bytes_per_s=0.0,
    reassignment_out_bytes_per_s=0.0,
    produce_p99_ms=5.0,
)


def row_of(broker: BrokerHistory) -> PeriodRow:
    period = book_of([HistoryPeriod(cluster="c", start_ms=MONDAY_MS, brokers=(broker,))]).periods(MONDAY_MS // HOUR_MS)[
        1
    ]
    assert period is not None
    return period


def figure(broker: BrokerHistory, which: BrokerFigure) -> float:
    return float(row_of(broker).values[which, 0])


@pytest.mark.parametrize("value", [-1.0, 1e13, 1e24])
def test_impossible_rate_counts_as_unknown(value: float) -> None:
    assert np.isnan(figure(replace(BROKER, client_out_bytes_per_s=value), BrokerFigure.CLIENT_OUT))


def test_p99_of_a_hardly_written_broker_is_unknown() -> None:
    assert figure(BROKER, BrokerFigure.P99_MS) == 5.0
    assert np.isnan(figure(replace(BROKER, client_in_bytes_per_s=40_000.0), BrokerFigure.P99_MS))
    assert np.isnan(figure(replace(BROKER, reassignment_in_bytes_per_s=None), BrokerFigure.P99_MS))


def test_steady_replication_leaves_out_the_bytes_of_moves() -> None:
    moved = replace(
        BROKER, replication_in_bytes_per_s=30e6, reassignment_in_bytes_per_s=20e6, moving_partitions_max=3.0
    )
    assert figure(moved, BrokerFigure.STEADY_IN) == pytest.approx(10e6)
    recovering = replace(BROKER, replication_in_bytes_per_s=30e6, moving_partitions_max=3.0)
    assert np.isnan(figure(recovering, BrokerFigure.STEADY_IN)), "Kafka does not count the bytes of a recovery"


def test_lag_counts_only_without_moves() -> None:
    assert figure(replace(BROKER, lag_sum_messages=70.0), BrokerFigure.STEADY_LAG) == 70.0
    assert np.isnan(figure(replace(BROKER, lag_sum_messages=70.0, moving_partitions_max=1.0), BrokerFigure.STEADY_LAG))


def test_any_copying_broker_makes_the_period_copying() -> None:
    assert not row_of(BROKER).is_copying
    assert row_of(replace(BROKER, log_dir_copied_bytes_per_s=1.0)).is_copying
    assert row_of(moving(BROKER)).is_copying


def test_later_record_replaces_a_period_and_same_one_does_not() -> None:
    periods = list(history(30))
    book = book_of(periods)
    book.forget_changes(29 + MONDAY_MS // HOUR_MS)
    changes = book.changes
    book.take(periods[5])
    assert book.changes == changes
    other = replace(periods[5].brokers[0], client_in_bytes_per_s=1.0)
    book.take(replace(periods[5], brokers=(other, periods[5].brokers[1])))
    assert book.changes == changes + 1
    assert book.changed_from_hour == MONDAY_MS // HOUR_MS


def test_periods_older_than_five_weeks_are_left_out() -> None:
    book = PeriodBook()
    newest_ms = MONDAY_MS + 100 * 24 * HOUR_MS
    for start_ms in (MONDAY_MS, newest_ms - PERIOD_MS, newest_ms, MONDAY_MS + PERIOD_MS):
        book.take(HistoryPeriod(cluster="c", start_ms=start_ms, brokers=(BROKER,)))
    assert book.first_hour() == (newest_ms - PERIOD_MS) // HOUR_MS
    assert newest_ms - (book.first_hour() or 0) * HOUR_MS < KEPT_HOURS * HOUR_MS


def test_forged_brokers_do_not_fill_the_memory() -> None:
    book = PeriodBook()
    for i in range(3):
        brokers = tuple(replace(BROKER, broker=i * 10_000 + j) for j in range(9_000))
        book.take(HistoryPeriod(cluster="c", start_ms=MONDAY_MS + i * PERIOD_MS, brokers=brokers))
    assert len(book.brokers) == BROKERS_MAX


def test_memory_stays_flat_over_months() -> None:
    book = PeriodBook()
    sizes = []
    tracemalloc.start()
    for week in range(12):
        for period in range(7 * 24):  # One period an hour.
            book.take(
                HistoryPeriod(cluster="c", start_ms=MONDAY_MS + (week * 168 + period) * HOUR_MS, brokers=(BROKER,))
            )
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] < 1.3 * sizes[5]
