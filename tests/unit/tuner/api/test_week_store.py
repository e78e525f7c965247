"""The ring of periods: replaced periods, gaps, other clusters and weeks, removed brokers, bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import CLUSTER, NOW_MS
from week_cases import PERIOD_MS, broker_history, history_week

from streaming.shared.contract import BrokerHistory, HistoryPeriod
from tuner.api import week_store
from tuner.api.week_store import HOUR_MS, HOURS, SLOTS, WeekStore

DAY_MS = 24 * HOUR_MS
LAST_MS = NOW_MS // PERIOD_MS * PERIOD_MS - PERIOD_MS


def period(start_ms: int, *brokers: BrokerHistory, cluster: str = CLUSTER) -> HistoryPeriod:
    return HistoryPeriod(cluster=cluster, start_ms=start_ms, brokers=brokers)


def rate(broker: int, bytes_per_s: float | None, **more: float) -> BrokerHistory:
    return BrokerHistory(broker=broker, signals=20, client_in_bytes_per_s=bytes_per_s, **more)


def store_of(*periods: HistoryPeriod, now_ms: int = NOW_MS) -> WeekStore:
    store = WeekStore(CLUSTER)
    for each in periods:
        store.add(each, now_ms)
    return store


def loads(store: WeekStore, broker: int = 1, now_ms: int = NOW_MS) -> list[float | None]:
    week = store.week(broker, now_ms)
    return list(week.columns["client_in_bytes_per_s"]) if week is not None else []


def test_whole_week_has_a_value_for_each_period() -> None:
    week = store_of(*history_week(CLUSTER, (1, 2), NOW_MS)).week(1, NOW_MS)
    assert week is not None
    # The present period has not ended, so the oldest one would be the 1008th.
    assert (week.start_ms, len(week.copied)) == (LAST_MS - (SLOTS - 2) * PERIOD_MS, SLOTS - 1)
    assert all(len(values) == SLOTS - 1 and None not in values for values in week.columns.values())
    expected = broker_history(1, LAST_MS)
    assert week.columns["produce_p99_ms"][-1] == pytest.approx(expected.produce_p99_ms, abs=0.01)


def test_later_record_of_a_period_replaces_the_earlier() -> None:
    store = store_of(period(LAST_MS, rate(1, 5e6), rate(2, 1e6)), period(LAST_MS, rate(1, 7e6)))
    assert (loads(store), loads(store, 2)) == ([7e6], [])


def test_missing_period_and_missing_value_are_gaps() -> None:
    periods = (
        period(LAST_MS - 3 * PERIOD_MS, rate(1, 5e6)),
        period(LAST_MS - PERIOD_MS, rate(1, None, produce_p99_ms=3.0)),
    )
    store = store_of(*periods, period(LAST_MS, rate(2, 1e6)))
    assert loads(store) == [5e6, None, None, None]
    week = store.week(1, NOW_MS)
    assert week is not None
    assert week.columns["produce_p99_ms"] == [None, None, 3.0, None]


@pytest.mark.parametrize(
    "left_out",
    [
        period(LAST_MS, rate(1, 5e6), cluster="other"),
        period(LAST_MS + 1, rate(1, 5e6)),
        period(LAST_MS + 2 * PERIOD_MS, rate(1, 5e6)),
        period(LAST_MS - SLOTS * PERIOD_MS, rate(1, 5e6)),
        period(LAST_MS, rate(1, -5e6)),
    ],
    ids=["another cluster", "no begin of a period", "the future", "last week", "a negative rate"],
)
def test_period_that_cannot_be_shown_is_left_out(left_out: HistoryPeriod) -> None:
    assert loads(store_of(left_out)) == []


def test_period_of_last_week_shows_as_gap_a_week_later() -> None:
    store = store_of(period(LAST_MS, rate(1, 5e6)))
    later_ms = NOW_MS + SLOTS * PERIOD_MS
    assert loads(store, now_ms=later_ms) == []
    store.add(period(LAST_MS + (SLOTS - 1) * PERIOD_MS, rate(1, 6e6)), later_ms)
    assert loads(store, now_ms=later_ms) == [6e6]


def test_late_record_of_last_week_replaces_no_present_period() -> None:
    present, old = (period(at_ms, rate(1, 5e6)) for at_ms in (LAST_MS, LAST_MS - SLOTS * PERIOD_MS))
    assert loads(store_of(present, old)) == [5e6]


def test_broker_without_a_period_in_a_week_frees_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(week_store, "BROKERS_MAX", 1)
    store = store_of(period(LAST_MS, rate(1, 5e6), rate(2, 5e6)))
    assert (loads(store), loads(store, 2)) == ([5e6], [])  # The second broker is beyond the bound.
    later_ms = NOW_MS + (SLOTS + 1) * PERIOD_MS
    for number in (1, 2):
        store.add(period(LAST_MS + (SLOTS + number - 1) * PERIOD_MS, rate(2, 6e6)), later_ms)
    assert loads(store, 2, later_ms) == [6e6]


@pytest.mark.parametrize(
    ("measures", "copied"),
    [
        ({"moving_partitions_max": 2.0}, True),
        ({"moving_partitions_max": 0.0, "log_dir_copied_bytes_per_s": 1e6}, True),
        ({"reassignment_out_bytes_per_s": 1e6}, True),
        ({"moving_partitions_max": 0.0, "reassignment_in_bytes_per_s": 0.0}, False),
        ({}, None),
    ],
)
def test_period_tells_whether_the_broker_copied(measures: dict[str, float], copied: bool | None) -> None:
    week = store_of(period(LAST_MS, rate(1, 5e6, **measures))).week(1, NOW_MS)
    assert week is not None
    assert week.copied == [copied]


def test_memory_of_a_thousand_brokers_is_bounded() -> None:
    starts = (LAST_MS - 20 * 86_400_000, LAST_MS)
    brokers = [replace(broker_history(0, LAST_MS), broker=broker) for broker in range(1000)]
    store = store_of(*(period(start_ms, *brokers) for start_ms in starts))
    rows = (*store._rows.values(), *store._hours._rows.values())
    assert sum(row.itemsize * len(row) for row in rows) == 1000 * (SLOTS + HOURS) * 7 * 4 < 55e6


def test_older_weeks_have_means_of_an_hour_and_the_highest_latency() -> None:
    store = store_of(*history_week(CLUSTER, (1,), NOW_MS, 30))
    from_ms = LAST_MS - 20 * DAY_MS
    series = store.series(1, from_ms, from_ms + DAY_MS, NOW_MS, 336)
    assert (series.step_ms, series.start_ms) == (HOUR_MS, from_ms // HOUR_MS * HOUR_MS)
    assert len(series.columns["client_in_bytes_per_s"]) == 25
    hour = [broker_history(1, series.start_ms + number * PERIOD_MS) for number in range(6)]
    mean = sum(each.client_in_bytes_per_s or 0 for each in hour) / 6
    assert series.columns["client_in_bytes_per_s"][0] == pytest.approx(mean, rel=1e-4)
    assert None not in series.columns["lag_messages"]


def test_range_over_all_weeks_joins_old_hours_and_the_last_week() -> None:
    store = store_of(*history_week(CLUSTER, (1,), NOW_MS, 34))
    series = store.series(1, NOW_MS - 35 * DAY_MS, NOW_MS, NOW_MS, 336)
    values = series.columns["produce_p99_ms"]
    assert (series.step_ms, len(values) <= 337) == (3 * HOUR_MS, True)
    assert [value is not None for value in values[12:]] == [True] * (len(values) - 12)
    week = store.series(1, NOW_MS - 6 * DAY_MS, NOW_MS, NOW_MS, 336)
    assert week.step_ms == 3 * PERIOD_MS
    assert max(v for v in week.columns["lag_messages"] if v is not None) == 1_000


def test_second_reading_of_the_same_weeks_changes_hardly_a_value() -> None:
    periods = history_week(CLUSTER, (1,), NOW_MS, 30)
    once, twice = store_of(*periods), store_of(*periods, *periods)
    shown = (1, NOW_MS - 29 * DAY_MS, NOW_MS, NOW_MS, 336)
    for name, values in once.series(*shown).columns.items():
        assert twice.series(*shown).columns[name] == pytest.approx(values, rel=1e-2)


def test_unknown_broker_and_hours_without_history_are_gaps() -> None:
    store = store_of(period(LAST_MS, rate(1, 5e6)))
    assert set(store.series(9, NOW_MS - DAY_MS, NOW_MS, NOW_MS, 336).columns["client_in_bytes_per_s"]) == {None}
    old = store.series(1, NOW_MS - 30 * DAY_MS, NOW_MS, NOW_MS, 1000).columns["client_in_bytes_per_s"]
    assert [value for value in old if value is not None] == [5e6]


def test_older_weeks_are_read_once_a_request_asks_for_them() -> None:
    store, asked = WeekStore(CLUSTER), []
    store.on_request = lambda: asked.append(store.wants_older)
    assert "weeks before the last one" in (store.older_unread_reason() or "")
    assert asked == [True]
    store.mark_older_read()
    assert store.older_unread_reason() is None


def test_unread_history_says_why_and_asks_the_follower() -> None:
    store, requests = WeekStore(CLUSTER), []
    store.on_request = lambda: requests.append(1)
    assert "still reading" in (store.unread_reason(0.0) or "")
    store.mark_unreadable("the topic cannot be read: no answer")
    assert store.unread_reason(60.0) == "the topic cannot be read: no answer"  # At once.
    store.mark_read()
    assert store.unread_reason(0.0) is None
    assert len(requests) == 3
