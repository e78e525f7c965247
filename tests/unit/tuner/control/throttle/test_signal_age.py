"""Readiness by the age of signals does not flap on a busy host, and late signals are explained."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tuner.control.throttle.signal_age import UNREADY_AGE_RATIO, SignalAges, explain_stale_signal, is_ready, record_age

LIMIT_S = 15.0
NOW_MS = 1_700_000_000_000


def watched(arrivals: Iterable[tuple[float, float]], until_s: float) -> tuple[SignalAges, list[bool]]:
    """The state after looks once a second, and the answer at each.

    Args:
        arrivals: of each signal the second of its arrival, and its age then.
    """
    ages, newest_ms, answers = SignalAges(), None, []
    coming = sorted(arrivals)
    for second in range(round(until_s)):
        while coming and coming[0][0] <= second:
            at_s, age_s = coming.pop(0)
            newest_ms = NOW_MS + round(1000 * (at_s - age_s))
        ages = record_age(ages, newest_ms, NOW_MS + 1000 * second, LIMIT_S)
        answers.append(ages.ready)
    return ages, answers


def changes(answers: list[bool]) -> int:
    return sum(one != other for one, other in pairwise(answers))


def test_ready_does_not_flap_with_late_signals() -> None:
    """A signal every 5 s, 12 s old on arrival: its age swings between 12 and 17 s around the limit of 15 s."""
    ages, answers = watched([(second, 12.0) for second in range(0, 65, 5)], 65)
    assert changes(answers) == 0
    assert answers[0]
    assert explain_stale_signal(ages, NOW_MS + 77_000, LIMIT_S) == (
        "the newest broker signal is 29 s old (signals are usually 12 s old here, limit 15 s)"
    )


def test_ready_ends_at_twice_the_limit_of_signal_age() -> None:
    _, answers = watched([(0, 6.0)], 60)
    assert answers == [True] * 25 + [False] * 35


def test_ready_begins_with_a_signal_within_the_limit() -> None:
    _, answers = watched([(0, 16.0), (5, 15.1), (10, 14.0)], 15)
    assert answers == [False] * 10 + [True] * 5


def test_no_signal_is_not_ready_and_has_no_age() -> None:
    ages = record_age(SignalAges(), None, NOW_MS, LIMIT_S)
    assert not ages.ready
    assert explain_stale_signal(ages, NOW_MS, LIMIT_S) is None


def test_signal_that_was_dropped_goes_on_to_age() -> None:
    ages = record_age(record_age(SignalAges(), NOW_MS, NOW_MS, LIMIT_S), None, NOW_MS + 60_000, LIMIT_S)
    assert explain_stale_signal(ages, NOW_MS + 60_000, LIMIT_S) == "the newest broker signal is 60 s old (limit 15 s)"


@given(ages_s=st.lists(st.floats(0, 60), min_size=1, max_size=30))
def test_ready_changes_only_at_its_two_thresholds(ages_s: list[float]) -> None:
    state = SignalAges()
    for number, age_s in enumerate(ages_s):
        now_ms = NOW_MS + 100_000 * number
        before, state = state, record_age(state, now_ms - round(1000 * age_s), now_ms, LIMIT_S)
        age_s = round(1000 * age_s) / 1000
        if state.ready and not before.ready:
            assert age_s <= LIMIT_S
        if before.ready and not state.ready:
            assert age_s > UNREADY_AGE_RATIO * LIMIT_S
        assert state.ready == is_ready(state, now_ms, LIMIT_S)
