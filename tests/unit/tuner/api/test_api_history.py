"""The history of the charts: reused slots, gaps, removed brokers, and the progress of a move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import LIMITS, NOW_MS, SOURCE, TARGET, broker_signal, live, move, move_signal, observation

from streaming.shared.contract import Side
from tuner.api.history import COLUMNS, RateHistoryStore, RemainingPeak, RemainingPeaks
from tuner.core.cluster import ClusterUnreadable, Observation, Setpoint
from tuner.core.throttle_limits import MB

LEADER = "leader_throttled_bytes_per_s"


def cycle(history: RateHistoryStore, number: int, rate: float | None = None) -> None:
    """``rate``: what broker 1 sends; None: the broker is absent."""
    brokers = [] if rate is None else [broker_signal(1, leader=rate)]
    cluster = live({} if rate is None else {SOURCE: 10 * MB})
    seen = observation(cluster, [] if rate is None else [move_signal(*SOURCE)], brokers)
    history.record_cycle(replace(seen, now_ms=NOW_MS + 5000 * number), LIMITS)


def test_history_overwrites_oldest_slots() -> None:
    history = RateHistoryStore(slots=4)
    for number in range(7):
        cycle(history, number, rate=float(number))
    times, rows, _ = history.series([1])
    assert [(at - NOW_MS) // 5000 for at in times] == [3, 4, 5, 6]
    assert rows[1][LEADER] == [3.0, 4.0, 5.0, 6.0]
    assert rows[1].keys() == set(COLUMNS)


def test_missed_slot_is_a_gap_and_not_an_old_value() -> None:
    history = RateHistoryStore(slots=4)
    for number in range(4):
        cycle(history, number, rate=float(number))
    cycle(history, 4)
    cycle(history, 5, rate=5.0)
    assert history.series([1])[1][1][LEADER] == [2.0, 3.0, None, 5.0]


def test_broker_absent_from_all_slots_is_forgotten() -> None:
    history = RateHistoryStore(slots=3)
    cycle(history, 0, rate=1.0)
    cycle(history, 1)
    cycle(history, 2)
    assert list(history.series([1])[1]) == [1]
    cycle(history, 3)
    assert history.series([1, 2])[1] == {}


def test_series_since_time_has_newer_values_only() -> None:
    history = RateHistoryStore()
    for number in range(5):
        cycle(history, number, rate=float(number))
    times, rows, _ = history.series([1], NOW_MS + 5000 * 2)
    assert len(times) == 2
    assert rows[1][LEADER] == [3.0, 4.0]


def test_unreadable_cluster_is_a_gap_for_all_brokers() -> None:
    history = RateHistoryStore()
    cycle(history, 0, rate=1.0)
    history.record_cycle(Observation(NOW_MS + 5000, ClusterUnreadable("away")), LIMITS)
    assert history.series([1])[1][1][LEADER] == [1.0, None]


def test_minimum_rate_is_recorded_or_a_gap_without_steady_state() -> None:
    history = RateHistoryStore()
    meant = {SOURCE: Setpoint(5.5 * MB)}
    seen = observation(live(), [move_signal(*SOURCE, steady_state=6 * MB), move_signal(*TARGET, steady_state=None)], [])
    history.record_cycle(seen, LIMITS)
    history.record_cycle(replace(seen, setpoints=meant), LIMITS)
    history.record_cycle(seen, replace(LIMITS, rate_bytes_per_s_min=9 * MB))
    rows = history.series([1, 3])[1]
    assert rows[1]["leader_min_rate_bytes_per_s"] == [7.2 * MB, 5.5 * MB, 9 * MB]
    assert rows[3]["follower_min_rate_bytes_per_s"] == [None, None, None]


def test_done_ratio_counts_from_peak_of_remaining_bytes() -> None:
    history = RateHistoryStore()

    def remains(megabytes: float, at_ms: int) -> None:
        seen = observation(live(), [move_signal(*TARGET, remaining=megabytes * MB)], [])
        history.record_cycle(replace(seen, now_ms=at_ms), LIMITS)

    remains(400, 1)
    remains(800, 2)
    remains(200, 3)
    peaks = history.peaks()
    assert peaks == RemainingPeaks({3: RemainingPeak(800 * MB, since_ms=1)})
    assert peaks.all_done_ratio({3: 200 * MB}) == peaks.done_ratio(3, 200 * MB) == 0.75
    assert peaks.all_done_ratio({3: 900 * MB}) == peaks.done_ratio(3, 900 * MB) == 0.0
    assert peaks.done_ratio(3, None) is peaks.done_ratio(4, 1.0) is peaks.all_done_ratio({4: 1.0}) is None
    history.record_cycle(replace(observation(live(moves=())), now_ms=4), LIMITS)
    assert history.peaks() == RemainingPeaks()
    assert RemainingPeaks().all_done_ratio({}) is None


def test_total_done_ratio_does_not_fall_when_a_destination_ends() -> None:
    """The share of a finished destination stays until no move is left, so the ratio never falls."""
    history = RateHistoryStore()

    def cycle_of(*lacking: tuple[int, float]) -> float | None:
        lacks = {broker: left * MB for broker, left in lacking}
        moves = tuple(move(partition=broker, adding=(broker,)) for broker in lacks)
        signals = [move_signal(broker, Side.FOLLOWER, remaining=left) for broker, left in lacks.items()]
        history.record_cycle(observation(live(moves=moves), signals, []), LIMITS)
        return history.peaks().all_done_ratio(lacks)

    assert cycle_of((3, 1000), (4, 1000)) == 0.0
    assert cycle_of((3, 20), (4, 900)) == pytest.approx(0.54)
    assert cycle_of((4, 900)) == pytest.approx(0.55)
    assert history.peaks().done_ratio(4, 900 * MB) == pytest.approx(0.1), "each destination has its own ratio"
    # A new move onto the one that has ended begins for itself, and is more to do for the whole.
    assert cycle_of((3, 500), (4, 500)) == pytest.approx(0.6)
    assert history.peaks().done_ratio(3, 500 * MB) == 0.0
    assert cycle_of() is None
    assert cycle_of((4, 900)) == 0.0


def test_unmeasured_move_keeps_its_peak() -> None:
    history = RateHistoryStore()
    history.record_cycle(observation(live(), [move_signal(*TARGET, remaining=800 * MB)], []), LIMITS)
    for signals in ([move_signal(*TARGET, remaining=None)], []):
        history.record_cycle(observation(live(), signals, []), LIMITS)
        assert history.peaks() == RemainingPeaks({3: RemainingPeak(800 * MB, NOW_MS)})
        assert history.peaks().all_done_ratio({}) is None


def test_history_has_maximum_rate_of_each_time() -> None:
    history = RateHistoryStore(slots=4)
    for number, ceiling in enumerate((50, 50, 50, 40, 10, 10)):
        seen = observation(live({SOURCE: 10 * MB}), [move_signal(*SOURCE)], [broker_signal(1, leader=1.0)])
        limits = replace(LIMITS, rate_bytes_per_s_max=ceiling * MB)
        history.record_cycle(replace(seen, now_ms=NOW_MS + 5000 * number), limits)
    assert history.series([1]).max_rates_bytes_per_s == [50 * MB, 40 * MB, 10 * MB, 10 * MB]
    assert history.series([1], NOW_MS + 5000 * 3).max_rates_bytes_per_s == [10 * MB, 10 * MB]
    assert history.series([1], NOW_MS + 5000 * 9).max_rates_bytes_per_s == []
