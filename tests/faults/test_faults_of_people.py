"""What people do in the middle of a move, with their own tools."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage import REPLICAS, THROTTLE, WANTED, MakeStage
from writer import Writer

from rheostat.lab.tools import reassign_partitions
from streaming.contract import Side

Tell = Callable[[str, object], None]

PREFERRED = 0

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(240)]


def test_verify_while_it_moves(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("verify", megabytes=40)
    tuner = stage.start_tuner()
    stage.move()
    stage.until_turned()
    target = {(stage.topic, p): WANTED for p in (0, 1)}
    said = reassign_partitions(stage.lab.artifacts, stage.lab.bootstrap_servers, target, "--verify")
    assert "still in progress" in said
    verified = len(tuner.changes())
    stage.until("the tuner goes on", lambda: len(tuner.changes()) > verified, 30)
    assert not tuner.decided("changed_by_somebody")
    stage.end()
    record_property("told", "Kafka 4.2 keeps throttles while anything moves; the tuner goes on")


def test_a_tool_clears_rates_and_lists_while_it_moves(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("cleared", megabytes=60)
    stage.start_tuner()
    stage.move()
    stage.until_turned()
    stage.person_clears_everything()
    stage.end()
    record_property("told", "nothing was left at the end")


def test_reassignment_cancelled(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("cancelled")
    stage.start_tuner()
    stage.move()
    stage.until_turned()
    stage.cancel()
    stage.end()
    record_property("told", "seen within three looks; all of the move's throttle went")


def test_second_reassignment_added(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("second")
    second = f"{stage.topic}-too"
    stage.create(second, {0: REPLICAS, 1: REPLICAS})
    writer = Writer(stage.kafka, second, 4)
    tuner = stage.start_tuner()
    stage.move()
    stage.until_turned()
    stage.move(second, throttled=False)
    stage.until("the second is done", lambda: not any(m.topic == second for m in stage.client.reassignments()), 60)
    writer.stop()
    stage.end()
    assert not tuner.decided("changed_by_somebody")
    assert writer.missing() == set()
    record_property("told", "both end, the throttle goes with the last")


def test_topic_deleted(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("deleted")
    stage.start_tuner()
    stage.move()
    stage.until_turned()
    stage.writer.stop()
    with stage.lab.admin() as admin:
        admin.delete_topics([stage.topic])
    stage.end()
    record_property("told", "the brokers' rates went though no list says any more whose they were")


def test_leaders_elected_while_it_moves(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("election", megabytes=40)
    stage.start_tuner()
    stage.move(wanted=(2, 3, 4))  # Its first replica is in sync, so it can be made leader at once.
    stage.until_turned()
    with stage.lab.admin() as admin:
        admin.elect_leaders(PREFERRED, {stage.topic: [0, 1]})
    stage.until("2 leads", lambda: {m.leader for m in stage.client.reassignments()} == {2}, 20)
    stage.until("its throttle is taken up", lambda: stage.rate((2, Side.LEADER)) > 1.5 * THROTTLE, 30)
    stage.end()
    record_property("told", "the new leader's throttle was turned at the next look")
