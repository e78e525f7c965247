from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from learning_cases import MONDAY_MS, book_of, history, moving

from learning.models.periods import (
    BROKERS_MAX,
    HOUR_MS,
    KEPT_HOURS,
    PERIOD_MS,
    TENANTS_MAX,
    BrokerFigure,
    PeriodBook,
    PeriodRow,
)
from streaming.shared.contract.history import BrokerHistory, HistoryPeriod, TenantHistory

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
    book.add(periods[5])
    assert book.changes == changes
    other = replace(periods[5].brokers[0], client_in_bytes_per_s=1.0)
    book.add(replace(periods[5], brokers=(other, periods[5].brokers[1])))
    assert book.changes == changes + 1
    assert book.changed_from_hour == MONDAY_MS // HOUR_MS


def test_periods_older_than_five_weeks_are_left_out() -> None:
    book = PeriodBook()
    newest_ms = MONDAY_MS + 100 * 24 * HOUR_MS
    for start_ms in (MONDAY_MS, newest_ms - PERIOD_MS, newest_ms, MONDAY_MS + PERIOD_MS):
        book.add(HistoryPeriod(cluster="c", start_ms=start_ms, brokers=(BROKER,)))
    assert book.first_hour() == (newest_ms - PERIOD_MS) // HOUR_MS
    assert newest_ms - (book.first_hour() or 0) * HOUR_MS < KEPT_HOURS * HOUR_MS


def test_forged_brokers_do_not_fill_the_memory() -> None:
    book = PeriodBook()
    for i in range(3):
        brokers = tuple(replace(BROKER, broker=i * 10_000 + j) for j in range(9_000))
        book.add(HistoryPeriod(cluster="c", start_ms=MONDAY_MS + i * PERIOD_MS, brokers=brokers))
    assert len(book.brokers) == BROKERS_MAX


def test_memory_stays_flat_over_months() -> None:
    book = PeriodBook()
    sizes = []
    tracemalloc.start()
    for week in range(12):
        for period in range(7 * 24):  # One period an hour.
            book.add(
                HistoryPeriod(cluster="c", start_ms=MONDAY_MS + (week * 168 + period) * HOUR_MS, brokers=(BROKER,))
            )
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] < 1.3 * sizes[5]


@pytest.mark.parametrize("value", [0.0, 1e-46, 9e-4, float("nan"), float("inf")])
def test_latency_below_kafkas_resolution_counts_as_unknown(value: float) -> None:
    assert np.isnan(figure(replace(BROKER, produce_p99_ms=value), BrokerFigure.P99_MS))
    assert np.isnan(figure(replace(BROKER, in_max_p99_ms=value), BrokerFigure.IN_MAX_P99_MS))
    assert np.isnan(figure(replace(BROKER, out_max_p99_ms=value), BrokerFigure.OUT_MAX_P99_MS))


def forged(start_ms: int, first_id: int = 100_000) -> HistoryPeriod:
    """Returns a period with as many brokers and tenants as there are places."""
    brokers = tuple(replace(BROKER, broker=first_id + i) for i in range(BROKERS_MAX))
    return HistoryPeriod(cluster="c", start_ms=start_ms, brokers=brokers, tenants=pods(first_id))


def pods(first_id: int) -> tuple[TenantHistory, ...]:
    return tuple(TenantHistory(client_id=f"pod-{first_id + i}", mutation_rate_per_s=1.0) for i in range(TENANTS_MAX))


def test_brokers_and_tenants_that_come_after_a_forged_period_get_places() -> None:
    real = list(history(30, tenant_rate=lambda _: 2.0))
    book = book_of([forged(MONDAY_MS), *real[1:]])
    hour = MONDAY_MS // HOUR_MS + 29
    assert (book.left_out(), book.periods(hour)[1].tenant_rates) == ((2, 1), {})
    book.assign_places()
    assert book.left_out() == (0, 0)
    assert book.brokers[:2] == [1, 2]
    assert list(book.periods(hour)[1].tenant_rates) == [("app", None)]


def test_newest_period_alone_takes_no_place_from_others() -> None:
    periods = list(history(30, tenant_rate=lambda _: 2.0))
    newest_ms = periods[-1].start_ms + PERIOD_MS
    book = book_of([*periods, forged(newest_ms)])
    book.assign_places()
    assert book.brokers[:2] == [1, 2]
    assert book.left_out() == (2, 1), "two forged brokers and one forged tenant"


def test_places_of_brokers_and_tenants_unseen_for_a_week_are_free() -> None:
    after = history(7 * 24 + 1, first_ms=MONDAY_MS + PERIOD_MS, tenant_rate=lambda _: 2.0)
    book = book_of([forged(MONDAY_MS), *after])
    book.assign_places()
    assert book.brokers == [1, 2]


def test_forged_period_makes_later_ones_no_larger() -> None:
    def size_of(first: HistoryPeriod) -> int:
        book = PeriodBook()
        book.add(first)
        tracemalloc.start()
        for period in history(48, first_ms=MONDAY_MS + PERIOD_MS):
            book.add(period)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    assert size_of(forged(MONDAY_MS)) < 1.2 * size_of(next(history(1)))


def test_names_of_pods_do_not_fill_the_memory() -> None:
    book, sizes = PeriodBook(), []
    tracemalloc.start()
    for i in range(40):
        book.add(HistoryPeriod(cluster="c", start_ms=MONDAY_MS + i * PERIOD_MS, tenants=pods(i * TENANTS_MAX)))
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[39] - sizes[19] < 0.2 * (sizes[9] - sizes[0]), "only numbers are added"
