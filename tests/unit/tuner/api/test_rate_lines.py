"""The line of a throttle: points, steps that show no less than the peaks, thinning, removed throttles, clocks that go back."""

from __future__ import annotations

import pytest

from streaming.shared.contract import Side
from tuner.api import rate_lines
from tuner.api.rate_lines import POINTS_MAX, RateLines, RatePoint

SIDE = (7, Side.LEADER)
T0_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def lines_of(*points: tuple[int, float | None]) -> RateLines:
    lines = RateLines()
    for at_ms, rate in points:
        lines.add(SIDE, at_ms, rate)
    return lines


def test_line_has_the_rate_at_its_beginning_and_each_change() -> None:
    lines = lines_of((T0_MS, 5e6), (T0_MS + MINUTE_MS, 9e6), (T0_MS + 2 * MINUTE_MS, None))
    begin_ms = T0_MS + 30_000
    assert lines.points(SIDE, begin_ms, T0_MS + 10 * MINUTE_MS, 100) == [
        RatePoint(begin_ms, 5_000_000),
        RatePoint(T0_MS + MINUTE_MS, 9_000_000),
        RatePoint(T0_MS + 2 * MINUTE_MS, None),
    ]
    assert lines.points((8, Side.LEADER), T0_MS, T0_MS + MINUTE_MS, 100) == []


def test_changes_within_ten_seconds_share_a_point_with_the_last_rate() -> None:
    lines = lines_of(*((T0_MS + second * 1000, 1e6 + second) for second in range(10)))
    assert lines.points(SIDE, T0_MS - 1, T0_MS + MINUTE_MS, 100) == [RatePoint(T0_MS, 1_000_009)]


def test_removed_throttle_is_never_hidden_by_a_later_rate_of_its_step() -> None:
    lines = lines_of((T0_MS, 5e6), (T0_MS + 1000, None))
    assert [point.bytes_per_s for point in lines.points(SIDE, T0_MS - 1, T0_MS + MINUTE_MS, 100)] == [5_000_000, None]


def test_full_line_covers_the_whole_time_with_longer_steps() -> None:
    changes = 10 * POINTS_MAX
    lines = lines_of(*((T0_MS + number * 10_000, float(number)) for number in range(changes)))
    points = lines.points(SIDE, T0_MS - 1, T0_MS + changes * 10_000, POINTS_MAX)
    assert POINTS_MAX // 4 < len(points) <= POINTS_MAX
    assert (points[0].at_ms, points[-1].bytes_per_s) == (T0_MS, changes - 1)


def test_long_range_keeps_lowest_highest_and_last_rate_of_each_step() -> None:
    rates = [5e6] * 50 + [90e6] + [5e6] * 30 + [1e6] + [6e6] * 18
    lines = lines_of(*((T0_MS + number * 20_000, rate) for number, rate in enumerate(rates)))
    points = lines.points(SIDE, T0_MS - 1, T0_MS + 100 * 20_000, 1)
    assert {90_000_000, 1_000_000} <= {point.bytes_per_s for point in points}
    assert points[-1].bytes_per_s == 6_000_000
    assert len(points) == 3


def test_clock_that_was_set_back_gives_a_line_in_order_of_time() -> None:
    lines = lines_of((T0_MS + 5 * MINUTE_MS, 5e6), (T0_MS, 9e6), (T0_MS + 6 * MINUTE_MS, 7e6))
    points = lines.points(SIDE, T0_MS - 1, T0_MS + 10 * MINUTE_MS, 100)
    assert [point.bytes_per_s for point in points] == [9_000_000, 5_000_000, 7_000_000]


def test_random_broker_ids_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_lines, "_SIDES_MAX", 2)
    lines = RateLines()
    for broker in range(5):
        lines.add((broker, Side.LEADER), T0_MS, 1e6)
    known = [broker for broker in range(5) if lines.points((broker, Side.LEADER), T0_MS, T0_MS + 1, 1)]
    assert known == [0, 1]
