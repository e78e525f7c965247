"""A scrape brings the sums of the lags of the last five minutes, one per step."""

from __future__ import annotations

import random

import pytest

from streaming.collector.lag_history import SPAN_S, LagHistory
from streaming.shared.contract import Metric, Sample


def earlier_of(history: LagHistory, at_s: float, lag_sum: float, node: int = 1) -> dict[str, float]:
    samples = history.samples(node, [Sample(Metric.LAG_MAX, "", 9), Sample(Metric.LAG_SUM, "", lag_sum)], at_s)
    assert {sample.name for sample in samples} <= {Metric.LAG_EARLIER_SUM}
    return {sample.labels: sample.value for sample in samples}


def test_earlier_sums_come_once_per_step_with_their_age() -> None:
    history = LagHistory(window_s=30, interval_s=5)
    found = {at_s: earlier_of(history, at_s, at_s) for at_s in range(1000, 1060, 5)}
    assert found[1025] == {"age_s=25.000": 1000}
    assert found[1050] == {"age_s=50.000": 1000, "age_s=25.000": 1025}
    assert [at_s for at_s, sums in found.items() if sums] == [1025, 1050]


@pytest.mark.parametrize(("window_s", "interval_s"), [(2, 1), (10, 2), (30, 5), (30, 15), (40, 20), (600, 5)])
def test_each_window_has_a_scrape_with_earlier_sums(window_s: int, interval_s: int) -> None:
    chance = random.Random(7)
    history = LagHistory(window_s, interval_s)
    sums: dict[float, int] = {}
    for n in range(2 * 600 // interval_s):
        at_s = n * interval_s + chance.uniform(-0.2, 0.2)
        sums[at_s] = len(earlier_of(history, at_s, 1.0))
    missing = [
        end_s
        for end_s in range(2 * window_s, 1200)
        if not any(count for at_s, count in sums.items() if end_s - window_s <= at_s < end_s)
    ]
    assert missing == []
    assert max(sums.values()) <= 13  # Five minutes, one in 24 s: a record stays small with a short window too.


def test_sums_older_than_span_are_dropped() -> None:
    history = LagHistory(window_s=30, interval_s=5)
    ages = [earlier_of(history, at_s, 1.0) for at_s in range(0, 1000, 25)]
    assert max(len(sums) for sums in ages) == SPAN_S / 25
    assert "age_s=300.000" in ages[-1]
    assert earlier_of(history, 975 + SPAN_S + 1, 1.0) == {}


def test_unknown_sum_is_neither_sent_nor_kept() -> None:
    history = LagHistory(window_s=30, interval_s=5)
    assert earlier_of(history, 0, 4.0) == {}
    assert history.samples(1, [], 30.0) == []
    assert earlier_of(history, 60, 5.0) == {"age_s=60.000": 4.0}


def test_clock_that_was_set_back_drops_earlier_sums() -> None:
    history = LagHistory(window_s=30, interval_s=5)
    earlier_of(history, 1000, 4.0)
    assert earlier_of(history, 100, 5.0) == {}
    assert earlier_of(history, 125, 6.0) == {"age_s=25.000": 5.0}


def test_removed_node_is_forgotten() -> None:
    history = LagHistory(window_s=30, interval_s=5)
    for node in (1, 2):
        earlier_of(history, 0, 4.0, node)
    history.keep_only([2])
    assert earlier_of(history, 30, 5.0, 1) == {}
    assert earlier_of(history, 30, 5.0, 2) == {"age_s=30.000": 4.0}
