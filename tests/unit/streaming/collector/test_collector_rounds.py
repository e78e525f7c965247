"""Which node is scraped when."""

from __future__ import annotations

from itertools import pairwise

import pytest

from streaming.collector.rounds import PAUSE_ROUNDS_MAX, Patience, ScrapeStart, offset_s, plan


def test_a_nodes_moment_is_its_own_and_does_not_depend_on_the_others() -> None:
    alone = plan([7], 1, 2.0, Patience(), ())[0]
    among = next(s for s in plan(range(1000), 99, 2.0, Patience(), ()) if s.node == 7)
    assert alone == among == ScrapeStart(offset_s(7, 2.0), 7, slow=False)


@pytest.mark.parametrize("ids", [range(1000), range(1, 3001, 3), range(1000, 101_000, 100)], ids=str)
def test_a_thousand_nodes_are_spread_evenly(ids: range) -> None:
    starts = plan(ids, 1, 2.0, Patience(), ())
    assert [s.at_s for s in starts] == sorted(s.at_s for s in starts)
    tenths = [0] * 20
    for start in starts:
        assert 0 <= start.at_s < 2.0
        tenths[int(start.at_s * 10)] += 1
    assert max(tenths) <= 2 * len(ids) / 20, tenths


def test_without_spread_all_begin_at_once() -> None:
    assert {s.at_s for s in plan(range(50), 1, 0.0, Patience(), ())} == {0.0}


def test_who_was_missed_comes_first() -> None:
    starts = plan(range(100), 5, 2.0, Patience(), {42, 17})
    assert [s.node for s in starts[:3]] == [0, 17, 42]  # Node 0's own moment is the beginning.


def test_a_node_that_hangs_is_asked_less_often_and_never_given_up() -> None:
    patience, asked = Patience(), []
    for number in range(1, 61):
        if patience.asks(1, number):
            asked.append(number)
            patience.hung(1, number)
    steps = [b - a for a, b in pairwise(asked)]
    assert steps[:6] == [1, 1, 1, 2, 4, PAUSE_ROUNDS_MAX]
    assert set(steps[6:]) == {PAUSE_ROUNDS_MAX}


def test_one_that_hung_waits_in_the_slow_lane_until_it_moves() -> None:
    patience = Patience()
    patience.hung(1, 1)
    assert {s.node: s.slow for s in plan([1, 2], 2, 0.0, patience, ())} == {1: True, 2: False}
    patience.moved(1)
    assert plan([1], 2, 0.0, patience, ()) == [ScrapeStart(0.0, 1, slow=False)]


def test_of_many_that_hang_each_has_its_turn() -> None:
    """Twenty hang, and three can be asked in a round."""
    patience, asked = Patience(), dict.fromkeys(range(20), 0)
    for node in asked:
        patience.hung(node, 0)
    for number in range(1, 61):
        for start in plan(asked, number, 2.0, patience, ())[:3]:
            asked[start.node] += 1
            patience.hung(start.node, number)
    assert 7 <= min(asked.values()) <= max(asked.values()) <= 11, asked


def test_a_node_that_is_gone_is_forgotten() -> None:
    patience = Patience()
    for number in range(1, 9):
        patience.hung(1, number)
    assert not patience.asks(1, 9)
    patience.forget_all_but([2])
    assert patience.asks(1, 9)
    assert not patience.hanging(1)
