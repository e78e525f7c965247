"""Operators and other tools change settings during a move."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from invariants import Configs, setting_differences
from lab_parts import rheostat
from stage import CYCLE_S, REPLICAS, SOURCE, TARGET, THROTTLE, WANTED, MakeStage, Stage
from tuner_process import Tuner
from watcher import Look
from writer import Writer

from rheostat.lab.tools import reassign_partitions
from streaming.shared.contract import Side
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from tuner.core.throttle_limits import MB

Tell = Callable[[str, object], None]

PREFERRED = 0
STANDING = 7 * MB
ORDERED, PERSONS = 400_000, 1_200_001
BYSTANDER = (3, Side.LEADER)  # Holds what moves, and leads none of it.
WATCHED_S = 0.5  # Between what stands and the look that sees it.

pytestmark = [pytest.mark.campaign]


def test_verify_during_a_move_keeps_throttles(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("verify", megabytes=40)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    target = {(stage.topic, p): WANTED for p in (0, 1)}
    said = reassign_partitions(stage.lab.artifacts, stage.lab.bootstrap_servers, target, "--verify")
    assert "still in progress" in said
    verified = len(tuner.changes())
    stage.until("the tuner changes rates again", lambda: len(tuner.changes()) > verified, 30)
    assert not tuner.decided("external_change")
    stage.end()
    record_property("told", "Kafka 4.2 keeps throttles while anything moves; the tuner goes on")


def test_rates_and_lists_cleared_by_a_tool_are_set_again(make_stage: MakeStage, record_property: Tell) -> None:
    """The tuner notices the removal at its next observation and sets both again within that cycle."""
    stage = make_stage("cleared", megabytes=1_000)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    cleared_s = stage.tool_clears_rates_and_lists()

    def set_again() -> Look | None:
        return next((look for look in stage.watcher.looks if look.at_s > cleared_s and throttled(look)), None)

    look = stage.until("rates and lists are set again", set_again, 30)
    assert look.moving, "the move ended while nothing throttled it: give it more data"
    took_s, cycles_s = look.at_s - cleared_s, longest_cycle_s(tuner, cleared_s)
    assert tuner.decided("cleared_by_tool")
    assert not tuner.decided("external_change"), "a sweep was taken for somebody's word"
    most_s = max(CYCLE_S, cycles_s) + cycles_s + WATCHED_S
    assert took_s <= most_s, f"it took {took_s:.1f} s, with cycles that take {cycles_s:.1f} s"
    stage.cancel()  # The rest would only take time.
    stage.end()
    record_property(
        "told", f"set again after {took_s:.1f} s (a cycle: {CYCLE_S:.0f} s, and {cycles_s:.1f} s for what it does)"
    )


@pytest.mark.parametrize("history", ["tool", "unthrottled", "killed", "changed"])
def test_release_during_a_move_restores_rates_and_lists(
    history: str, make_stage: MakeStage, record_property: Tell
) -> None:
    """The move continues meanwhile; every rate and list returns to the value from before the tuner."""
    stage = make_stage(f"release-{history}", megabytes=1_000)
    beside = f"{stage.topic}-beside"
    stage.create(beside, {0: REPLICAS}, **dict.fromkeys(LIST_KEYS.values(), "*"))
    if history != "unthrottled":
        stage.move()
    standing = {BYSTANDER[0]: {RATE_KEYS[BYSTANDER[1]]: str(STANDING)}}
    assert stage.client.alter_broker_configs(standing) == {BYSTANDER[0]: None}
    stood = stage.until("what people set is shown", lambda: shown(stage, history), 20)
    tuner = stage.start_tuner()
    if history == "unthrottled":
        stage.until("the tuner acts", tuner.acts, 45)
        stage.move(throttled=False)
    stage.until("the tuner manages the throttles", lambda: stage.snapshot() != stood and tuner.acts(), 60)
    if history == "changed":
        stage.wait_until_raised()
        stage.operator_sets_rate(TARGET, 5 * MB)
        stage.until("the tuner relinquishes the rate", lambda: tuner.decided("external_change"), 30)
        key = ("broker", str(TARGET[0]))
        stood = {**stood, key: {**stood[key], RATE_KEYS[TARGET[1]]: str(5 * MB)}}
    if history == "killed":
        stage.wait_until_raised()
        tuner.kill()
    assert stage.moving(), "the move has ended: give it more data"
    done = rheostat("release", "--yes", "--config", stage.config, timeout_s=180)
    assert done.returncode == 0, done.stdout + done.stderr
    if history != "unthrottled":  # Free again, it may be through by now.
        assert stage.moving(), "the move ended meanwhile: give it more data"
    assert setting_differences(stood, stage.snapshot()) == []
    if tuner.alive():
        cycles = cycles_of(tuner)
        stage.until("three more cycles have passed", lambda: cycles_of(tuner) >= cycles + 3, 40)
    assert setting_differences(stood, stage.snapshot()) == [], "it stays as it was"
    stage.cancel()
    record_property("told", "rates, lists, a `*` and a bystander's rate stood as before while the move went on")


def test_expired_override_returns_to_control(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("override", megabytes=1_000)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    order = ("--broker", str(SOURCE[0]), "--side", "leader", "--throttle", f"{ORDERED / MB}MB/s", "--for", "20s")
    done = rheostat("override", "--yes", "--config", stage.config, *order)
    assert done.returncode == 0, done.stderr
    stage.until("the overridden rate is set", lambda: stage.rate(SOURCE) == ORDERED, 18)
    stood_s = time.monotonic()
    stage.until("the tuner raises the rate after the override", lambda: stage.rate(SOURCE) > 1.5 * ORDERED, 45)
    lasted_s = time.monotonic() - stood_s
    assert not tuner.decided("external_change")
    stage.cancel()  # The rest would only take time.
    stage.end()
    record_property("told", f"stood for {lasted_s:.0f} s of 20, the way up after it included")


def test_externally_changed_rate_is_controlled_again_after_resume(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("resumed", megabytes=1_000)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stage.operator_sets_rate(SOURCE, PERSONS)
    stage.until("the tuner relinquishes the rate", lambda: tuner.decided("external_change"), 20)
    cycles = cycles_of(tuner)
    stage.until("three more cycles have passed", lambda: cycles_of(tuner) >= cycles + 3, 40)
    assert stage.rate(SOURCE) == PERSONS
    stage.operator_resumes(SOURCE)
    stage.until("the tuner changes the rate again", lambda: stage.rate(SOURCE) != PERSONS, 40)
    stage.cancel()
    stage.end()
    record_property("told", "left alone for three cycles, turned after the word, gone with the move")


def cycles_of(tuner: Tuner) -> int:
    return sum(step.get("step") == "cycle" for step in tuner.steps())


def shown(stage: Stage, history: str) -> Configs | None:
    """Returns the settings once every broker shows all rates that people set."""
    found = stage.snapshot()
    rates = sum(len(values) for (kind, _), values in found.items() if kind == "broker")
    wanted = 1 if history == "unthrottled" else 2 * len(stage.brokers)
    bystanders = found["broker", str(BYSTANDER[0])].get(RATE_KEYS[BYSTANDER[1]])
    return found if rates == wanted and bystanders == str(STANDING) else None


def throttled(look: Look) -> bool:
    return look.listed == frozenset(Side) and all(look.rates.get(side) is not None for side in (SOURCE, TARGET))


def longest_cycle_s(tuner: Tuner, since_s: float) -> float:
    """Returns the longest cycle after ``since_s``: the time of this machine for an observation and its writes."""
    began_s, longest_s = since_s, 0.0
    for line in tuner.steps():
        if since_s - CYCLE_S <= line["at_s"] <= since_s + 10 * CYCLE_S:
            if line.get("step") == "cycle":
                began_s = line["at_s"]
            elif line.get("done") == "cycle":
                longest_s = max(longest_s, line["at_s"] - began_s)
    return longest_s


def test_cancelled_reassignment_is_taken_for_ended(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("cancelled")
    stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stage.cancel()
    stage.end()
    record_property("told", "seen within three looks; all of the move's throttle went")


def test_second_reassignment_keeps_throttle_until_the_last_ends(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("second")
    second = f"{stage.topic}-too"
    stage.create(second, {0: REPLICAS, 1: REPLICAS})
    writer = Writer(stage.kafka, second, 4)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stage.move(second, throttled=False)
    stage.until("the second move ends", lambda: not any(m.topic == second for m in stage.client.reassignments()), 60)
    writer.stop()
    stage.end()
    assert not tuner.decided("external_change")
    assert writer.missing() == set()
    record_property("told", "both end, the throttle goes with the last")


def test_deletion_of_moving_topic_removes_its_throttle(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("deleted")
    stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stage.writer.stop()
    with stage.lab.admin() as admin:
        admin.delete_topics([stage.topic])
    stage.end()
    record_property("told", "the brokers' rates went though no list says any more whose they were")


def test_leader_election_during_a_move_moves_the_throttle(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("election", megabytes=40)
    stage.start_tuner()
    stage.move(wanted=(2, 3, 4))  # Its first replica is in sync, so it can be made leader at once.
    stage.wait_until_raised()
    with stage.lab.admin() as admin:
        admin.elect_leaders(PREFERRED, {stage.topic: [0, 1]})
    stage.until("broker 2 leads", lambda: {m.leader for m in stage.client.reassignments()} == {2}, 20)
    stage.until("the throttle of the new leader is raised", lambda: stage.rate((2, Side.LEADER)) > 1.5 * THROTTLE, 30)
    stage.end()
    record_property("told", "the new leader's throttle was turned at the next look")
