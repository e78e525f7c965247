"""The plan of a round, and the backoff of nodes that time out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from streaming.collector.rounds import PAUSE_ROUNDS_MAX, ScrapeStart, TimeoutBackoff, offset_s, plan_round


def test_plan_offset_depends_on_node_id_only() -> None:
    alone = plan_round([7], 1, 2.0, TimeoutBackoff(), ())[0]
    among = next(s for s in plan_round(range(1000), 99, 2.0, TimeoutBackoff(), ()) if s.node == 7)
    assert alone == among == ScrapeStart(offset_s(7, 2.0), 7, slow=False)


@pytest.mark.parametrize("ids", [range(1000), range(1, 3001, 3), range(1000, 101_000, 100)], ids=str)
def test_plan_spreads_many_nodes_evenly(ids: range) -> None:
    starts = plan_round(ids, 1, 2.0, TimeoutBackoff(), ())
    assert [s.at_s for s in starts] == sorted(s.at_s for s in starts)
    tenths = [0] * 20
    for start in starts:
        assert 0 <= start.at_s < 2.0
        tenths[int(start.at_s * 10)] += 1
    assert max(tenths) <= 2 * len(ids) / 20, tenths


def test_plan_without_spread_starts_all_at_once() -> None:
    assert {s.at_s for s in plan_round(range(50), 1, 0.0, TimeoutBackoff(), ())} == {0.0}


def test_plan_missed_nodes_come_first() -> None:
    starts = plan_round(range(100), 5, 2.0, TimeoutBackoff(), {42, 17})
    assert [s.node for s in starts[:3]] == [0, 17, 42]  # Node 0's own moment is the beginning.


def test_backoff_of_hanging_node_grows_to_its_maximum() -> None:
    backoff, asked = TimeoutBackoff(), []
    for number in range(1, 61):
        if backoff.is_due(1, number):
            asked.append(number)
            backoff.add_timeout(1, number)
    steps = [b - a for a, b in pairwise(asked)]
    assert steps[:6] == [1, 1, 1, 2, 4, PAUSE_ROUNDS_MAX]
    assert set(steps[6:]) == {PAUSE_ROUNDS_MAX}


def test_plan_node_is_slow_after_timeout_until_reset() -> None:
    backoff = TimeoutBackoff()
    backoff.add_timeout(1, 1)
    assert {s.node: s.slow for s in plan_round([1, 2], 2, 0.0, backoff, ())} == {1: True, 2: False}
    backoff.reset(1)
    assert plan_round([1], 2, 0.0, backoff, ()) == [ScrapeStart(0.0, 1, slow=False)]


def test_plan_many_hanging_nodes_share_slots_fairly() -> None:
    """Twenty nodes hang, and a round has three slots for them."""
    backoff, asked = TimeoutBackoff(), dict.fromkeys(range(20), 0)
    for node in asked:
        backoff.add_timeout(node, 0)
    for number in range(1, 61):
        for start in plan_round(asked, number, 2.0, backoff, ())[:3]:
            asked[start.node] += 1
            backoff.add_timeout(start.node, number)
    assert 7 <= min(asked.values()) <= max(asked.values()) <= 11, asked


def test_backoff_forgets_removed_node() -> None:
    backoff = TimeoutBackoff()
    for number in range(1, 9):
        backoff.add_timeout(1, number)
    assert not backoff.is_due(1, 9)
    backoff.keep_only([2])
    assert backoff.is_due(1, 9)
    assert not backoff.is_slow(1)
