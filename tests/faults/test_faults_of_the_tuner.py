"""What becomes of a tuner that is stopped and woken up; of one that is killed, see test_faults_killed_anywhere.py."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from stage import TAKE_OVER_S_MAX, MakeStage

Tell = Callable[[str, object], None]

pytestmark = pytest.mark.campaign


@pytest.mark.timeout(240)
def test_the_one_that_acts_is_stopped_and_woken_up(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("stopped", megabytes=40)
    leader, other = stage.start_two()
    stage.move()
    stage.until_turned()
    leader.process.send_signal(signal.SIGSTOP)
    stage.until("the stand-by takes over", other.acts, TAKE_OVER_S_MAX)
    stage.until("it turns the throttle", lambda: other.decided("follows_clients"), 20)
    leader.process.send_signal(signal.SIGCONT)
    stage.until("the old one stands by", leader.stands_by, 30)
    stage.end()
    record_property("told", "the other took over; woken up, the first wrote nothing more")
