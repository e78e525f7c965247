"""From the rate that is meant to the setting: the leader's follows the window, the follower's does not come down before it."""

from __future__ import annotations

import pytest

from streaming.contract import Side
from tuner.decide.course import Course
from tuner.decide.pacing import bound
from tuner.decide.tracking import Wanted
from tuner.model.limits import MB
from tuner.model.objectives import LawLimits
from tuner.plan.window import steady

LIMITS = LawLimits()


def course(meant: float, stands: float, passed: float) -> Course:
    return Course(0, stands, Wanted(meant), steady(0, stands, passed))


def test_a_guard_is_not_lowered_under_what_its_window_holds() -> None:
    """1.3 times 30 MB/s are held, and 20 are meant."""
    assert bound(Side.FOLLOWER, course(20 * MB, 60 * MB, 30 * MB), LIMITS, play=0.1) == 39_000_000


def test_what_a_window_holds_is_no_reason_to_raise_a_guard() -> None:
    assert bound(Side.FOLLOWER, course(40 * MB, 50 * MB, 50 * MB), LIMITS, play=0.1) == 50_000_000
    assert bound(Side.FOLLOWER, course(55 * MB, 50 * MB, 50 * MB), LIMITS, play=0.1) == 55_000_000


def test_who_is_blind_stands_where_it_is_meant() -> None:
    assert bound(Side.FOLLOWER, course(20 * MB, 60 * MB, 30 * MB), LIMITS, play=0.0) == 20_000_000


def test_a_pace_lets_the_meant_second_through_what_the_window_holds() -> None:
    """Eleven seconds of 19 MB are held where 20 were planned: the twelfth of all that."""
    found = bound(Side.LEADER, course(20 * MB, 20 * MB, 19 * MB), LIMITS, play=0.1)
    assert found == pytest.approx((11 * 19 + 20) * MB / 12, abs=1.0)
