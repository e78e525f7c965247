"""The age of the contents of a side's quota window, from successive snapshots."""

from __future__ import annotations

import math

import pytest
from tuner_cases import F, L

from tuner.control.throttle.quota_window.age import QuotaAges
from tuner.core.cluster import BrokerSide

SOURCE, TARGET = (1, L), (3, F)


def looked(*looks: tuple[float, tuple[BrokerSide, ...]]) -> QuotaAges:
    ages = QuotaAges()
    for at_s, carrying in looks:
        ages = ages.with_snapshot(carrying, at_s)
    return ages


def test_move_may_have_started_right_after_last_snapshot() -> None:
    ages = looked((100.0, ()), (104.0, (SOURCE,)))
    assert ages.age_s(SOURCE, 104.0) == 4.0
    ages = ages.with_snapshot((SOURCE, TARGET), 108.0)
    assert (ages.age_s(SOURCE, 109.0), ages.age_s(TARGET, 109.0)) == (9.0, 5.0)
    assert ages.age_s(SOURCE, 500.0) == 400.0


@pytest.mark.parametrize("side", [SOURCE, TARGET])
def test_move_of_first_snapshot_has_a_whole_window(side: BrokerSide) -> None:
    ages = looked((100.0, (SOURCE,)), (101.0, (SOURCE,)))
    assert ages.age_s(side, 101.0) == math.inf


def test_move_ended_within_window_still_counts() -> None:
    ages = looked((100.0, ()), (104.0, (SOURCE,)), (120.0, ()))
    assert ages.with_snapshot((SOURCE,), 126.0).age_s(SOURCE, 126.0) == math.inf
    assert ages.with_snapshot((), 128.0).with_snapshot((SOURCE,), 131.0).age_s(SOURCE, 131.0) == math.inf
    assert ages.with_snapshot((), 132.0).with_snapshot((SOURCE,), 134.0).age_s(SOURCE, 134.0) == 2.0


def test_stopped_clock_gives_age_zero() -> None:
    assert looked((100.0, ()), (100.0, (SOURCE,))).age_s(SOURCE, 99.0) == 0.0


def test_replica_listed_before_its_move_may_count() -> None:
    ages = QuotaAges().with_snapshot((), 100.0, lists_set=True).with_snapshot((SOURCE,), 104.0, lists_set=True)
    assert ages.age_s(SOURCE, 104.0) == math.inf
    assert ages.move_age_s(SOURCE, 104.0) == 4.0, "the move itself is young: Kafka's own tool writes the lists first"
    ages = ages.with_snapshot((SOURCE,), 108.0, lists_set=True)
    assert (ages.age_s(SOURCE, 109.0), ages.move_age_s(SOURCE, 109.0)) == (math.inf, 9.0)
    assert looked((100.0, ())).with_snapshot((SOURCE,), 104.0, lists_set=True).age_s(SOURCE, 104.0) == 4.0


def test_later_move_has_its_own_age() -> None:
    ages = looked((100.0, ()), (104.0, (SOURCE,)), (120.0, ()), (122.0, (SOURCE,)))
    assert (ages.age_s(SOURCE, 123.0), ages.move_age_s(SOURCE, 123.0)) == (math.inf, 3.0)


@pytest.mark.parametrize("side", [SOURCE, TARGET])
def test_move_of_first_snapshot_has_unknown_age(side: BrokerSide) -> None:
    assert looked((100.0, (SOURCE,)), (101.0, (SOURCE,))).move_age_s(side, 101.0) == math.inf


def test_window_is_empty_after_its_length_without_moves() -> None:
    ages = looked((100.0, ()), (104.0, (SOURCE,)), (114.0, (SOURCE,)), (120.0, ()))
    assert ages.empty_windows([SOURCE, TARGET], 122.0) == {TARGET}
    assert ages.empty_windows([SOURCE, TARGET], 132.0) == {SOURCE, TARGET}
    assert ages.with_snapshot((SOURCE,), 131.0).empty_windows([SOURCE, TARGET], 160.0) == {TARGET}


def test_unobserved_window_is_not_known_to_be_empty() -> None:
    assert QuotaAges().empty_windows([SOURCE], 100.0) == frozenset(), "no snapshot was taken"
    assert looked((100.0, ())).empty_windows([SOURCE], 101.0) == frozenset(), "a move may have ended just before"
    assert looked((100.0, ()), (108.0, ())).empty_windows([SOURCE], 112.0) == {SOURCE}
    listed = looked((100.0, ()), (108.0, ())).with_snapshot((), 112.0, lists_set=True)
    assert listed.empty_windows([SOURCE], 113.0) == frozenset(), "a listed replica may have used the quota"
    assert listed.with_snapshot((), 116.0).empty_windows([SOURCE], 120.0) == frozenset()
    assert listed.with_snapshot((), 116.0).with_snapshot((), 122.0).empty_windows([SOURCE], 125.0) == frozenset(), (
        "the list may have been set until the next snapshot"
    )
    assert listed.with_snapshot((), 116.0).with_snapshot((), 122.0).empty_windows([SOURCE], 128.0) == {SOURCE}
    assert looked((100.0, ()), (140.0, ())).empty_windows([SOURCE], 145.0) == frozenset(), (
        "half a minute was not observed"
    )


def test_move_that_never_started_fills_nothing() -> None:
    ages = looked((100.0, ()), (108.0, ()), (112.0, (SOURCE, TARGET)))
    assert ages.without({SOURCE}).with_snapshot((TARGET,), 113.0).empty_windows([SOURCE, TARGET], 114.0) == {SOURCE}
    assert ages.without(frozenset()) is ages


def test_longer_windows_stay_unempty_for_longer() -> None:
    ages = QuotaAges()
    for at_s in (0.0, 5.0, 10.0, 15.0):
        ages = ages.with_snapshot((), at_s, window_s=22.0)
    assert ages.empty_windows([SOURCE], 15.0) == frozenset()
    for at_s in (20.0, 25.0):
        ages = ages.with_snapshot((), at_s, window_s=22.0)
    assert ages.empty_windows([SOURCE], 25.0) == {SOURCE}
