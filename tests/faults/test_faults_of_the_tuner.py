"""A tuner that is suspended and resumed; for killed tuners see test_faults_killed_anywhere.py."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from stage import TAKE_OVER_S_MAX, MakeStage
from tuner_process import Tuner

Tell = Callable[[str, object], None]

pytestmark = pytest.mark.campaign


def test_suspended_leader_writes_nothing_after_it_wakes(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("stopped", megabytes=40)
    leader, other = stage.start_two()
    stage.move()
    stage.wait_until_raised()
    leader.process.send_signal(signal.SIGSTOP)
    stage.until("the standby takes over", other.acts, TAKE_OVER_S_MAX)
    stage.until("the new leader changes the throttle", lambda: other.decided("follows_clients"), 20)
    leader.process.send_signal(signal.SIGCONT)
    stage.until("the old leader stands by", leader.stands_by, 30)
    stage.end()
    record_property("told", "the other took over; woken up, the first wrote nothing more")


def two_ramps_ended(tuner: Tuner) -> bool:
    """Returns whether two ramps have ended; equal ramp steps of both tuners could not be told apart."""
    ended = (line for line in tuner.lines() if str(line["event"]).startswith("done: broker"))
    return sum(len(line.get("throttles", ["one"])) for line in ended) >= 2


@pytest.mark.parametrize("steers", [True, False], ids=["law", "rescue"])
def test_late_request_of_old_leader_is_recognised_and_corrected(
    steers: bool, make_stage: MakeStage, record_property: Tell
) -> None:
    """The old leader is suspended between its lease check and its request, which Kafka still accepts."""
    stage = make_stage(f"late-{steers}", steers=steers, megabytes=400)
    leader, other = stage.start_two()
    leader.suspend_before_next_write()
    stage.move()
    stage.until("the leader is suspended", leader.is_suspended, 60)
    stage.until("the standby takes over", other.acts, TAKE_OVER_S_MAX)
    stage.until(
        "the new leader has written its rates", lambda: bool(other.changes()) if steers else two_ramps_ended(other), 60
    )
    leader.process.send_signal(signal.SIGCONT)
    stage.until("the old leader stands by", leader.stands_by, 30)
    assert len(leader.changes()) == 1, "it made that one request"
    stage.until("the new leader recognises the late request", lambda: other.decided("late_predecessor_write"), 30)
    changes = len(other.changes())
    stage.until("the new leader corrects the rate", lambda: len(other.changes()) > changes, 60)
    assert stage.moving(), "the move ended meanwhile: give it more data"
    stage.cancel()  # The rest would only take time.
    stage.end()
    assert not other.decided("external_change")
    record_property(
        "told", "that one request went out; the other knew whose it was, set it right, and took all back in the end"
    )
