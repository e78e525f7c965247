"""The two most frequent faults: an operator changes a throttle (also in ``make test``), and the tuner dies."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from stage import SOURCE, TAKE_OVER_S_MAX, MakeStage

Tell = Callable[[str, object], None]


def test_throttle_changed_by_operator_is_left_alone(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("operator")
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stage.operator_sets_rate(SOURCE, 1_200_001)
    stage.until("the tuner notices the change", lambda: tuner.decided("external_change"), 30)
    stage.end()
    record_property("told", "noticed within a cycle, left alone, stands at the end")


@pytest.mark.campaign  # tests/integration/test_one_hand.py holds the lease's part of it in every `make test`.
def test_standby_takes_over_when_the_leader_is_killed(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("two")
    leader, other = stage.start_two()
    stage.move()
    stage.wait_until_raised()
    leader.kill()
    killed_s = time.monotonic()
    stage.until("the standby takes over", other.acts, TAKE_OVER_S_MAX)
    took_s = time.monotonic() - killed_s
    stage.until("the new leader changes the throttle", lambda: other.decided("follows_clients"), 20)
    stage.end()
    assert not other.decided("external_change")
    record_property("told", f"the other acted {took_s:.1f} s later, on what the first had on record")
