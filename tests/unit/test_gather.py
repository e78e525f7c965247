"""What may begin waits for others that may, and never so long that a side stands empty or a producer waits."""

from __future__ import annotations

import math
from dataclasses import replace

from streaming.contract import Side
from tuner.plan.batches import BatchLimits
from tuner.plan.gather import GATHER_S_MAX
from tuner.plan.reassignment_steps import Step, Way, next_step
from tuner.plan.refill import refill
from tuner.plan.refill_terms import HeldBy, Refill, Running, Terms, Waiting

MB = 1_000_000.0
RATE = 10 * MB
ONLINE = frozenset(range(1, 10))
RATES = {(b, side): RATE for b in ONLINE for side in Side}
TERMS = Terms(ONLINE, BatchLimits(), dict.fromkeys(RATES, 5), 1_000, 50, RATES, asked_ago_s=1.0)


def waits(number: int, on: tuple[int, ...] = (1, 2), to: tuple[int, ...] = (1, 3), mb: float = 100.0) -> Waiting:
    return Waiting(Way("orders", number, on, to, on[0], frozenset(on)), mb * MB, 0.0)


def runs(number: int, left_s: float, on: tuple[int, ...] = (1, 2), to: tuple[int, ...] = (1, 3)) -> Running:
    """With so much left as its sides copy in that time."""
    way = Way("orders", number, on, to, on[0], frozenset(on))
    step = next_step(way, ONLINE)
    assert isinstance(step, Step)
    return Running(way, step, left_s * RATE * len(step.adding), 1_000 * MB, 0.0)


def begun(made: Refill) -> list[int]:
    return [start.way.partition for start in made.starts]


def test_with_enough_under_way_what_may_begin_waits_for_others() -> None:
    made = refill([waits(1)], [runs(9, 60.0)], TERMS)
    assert (begun(made), made.held) == ([], {HeldBy.REQUEST: 1})


def test_it_begins_when_the_last_request_is_long_enough_ago_or_there_was_none() -> None:
    for ago_s in (GATHER_S_MAX, math.inf):
        made = refill([waits(1)], [runs(9, 60.0)], replace(TERMS, asked_ago_s=ago_s))
        assert (begun(made), made.held) == ([1], {})


def test_it_begins_at_once_where_a_side_of_it_may_run_dry() -> None:
    """The destination of the second has nothing under way; with it goes whoever else may."""
    made = refill([waits(1), waits(2, to=(1, 4))], [runs(9, 60.0)], TERMS)
    assert sorted(begun(made)) == [1, 2]
    assert begun(refill([waits(1)], [runs(9, 2.0)], TERMS)) == [1]


def test_what_is_left_of_each_copy_counts_at_both_its_ends() -> None:
    """Two replicas are added: their leader sends both, each destination takes one."""
    both = runs(9, 3.0, (1, 2), (1, 3, 4))
    assert begun(refill([waits(1)], [both], TERMS)) == [1], "broker 3 has 3 s of it"
    assert begun(refill([waits(1)], [both, runs(8, 3.0, (5, 6), (5, 3))], TERMS)) == [], "and broker 1 has 6"


def test_a_full_request_has_nothing_to_wait_for() -> None:
    made = refill([waits(1), waits(2)], [runs(9, 60.0)], replace(TERMS, starts_max=1))
    assert begun(made) == [1]


def test_what_producers_wait_for_waits_for_nobody() -> None:
    refused = Waiting(Way("orders", 1, (1, 2), (1, 3), 1, frozenset({1}), min_in_sync=2), 100 * MB, 0.0)
    terms = replace(TERMS, online=ONLINE - {2})
    assert begun(refill([refused], [runs(9, 60.0, (1, 5))], terms)) == [1]


def test_of_a_side_that_nobody_throttles_it_is_not_known_how_long_anything_lasts() -> None:
    assert begun(refill([waits(1)], [runs(9, 60.0)], replace(TERMS, rates={}))) == [1]
