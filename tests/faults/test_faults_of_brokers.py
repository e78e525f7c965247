"""Brokers and the only controller: killed and restarted, or suspended so that every call times out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaProducer
from meter import MIN_ISR
from stage import CEILING, SOURCE, THROTTLE, MakeStage, Stage

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS

Tell = Callable[[str, object], None]

NOTICED = ("broker_down", "signals_missing", "signals_stale")
NO_RECORD = "the journal accepts no record"

pytestmark = [pytest.mark.campaign]


def kill_broker(stage: Stage, broker: int) -> None:
    node = stage.lab.nodes[broker]
    node.kill()
    stage.until("the broker is unregistered", lambda: broker not in {e.node for e in stage.client.brokers()}, 40)


def reacted_to_loss(lines: list[dict[str, Any]]) -> bool:
    """Returns whether the tuner reacted to the lost broker, or logged that it cannot record decisions.

    It cannot while the journal's partition or the transaction coordinator has no broker.
    """
    return any(line.get("reason") in NOTICED or line["event"].startswith(NO_RECORD) for line in lines)


@pytest.mark.parametrize("broker", [1, 4, 2], ids=["source", "destination", "bystander"])
def test_killed_broker_is_restored_when_it_returns(broker: int, make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage(f"killed{broker}", megabytes=30)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    said = len(tuner.lines())
    kill_broker(stage, broker)
    if broker != 2:
        stage.until("the tuner reacts to the lost broker", lambda: reacted_to_loss(tuner.lines()[said:]), 30)
    stage.restart_nodes()
    stage.end(120)
    assert not tuner.decided("external_change")
    record_property("told", "its side held, the others went on; its settings were put right when it was back")


def test_replica_needed_for_min_isr_recovers_before_the_move(make_stage: MakeStage, record_property: Tell) -> None:
    """The tool's throttle lists every replica, so it also slows a replica that left the ISR: 40 MB at 0.3 MB/s.

    Then a second replica is lost and writes wait for the ISR. The tuner has no objective and the move makes progress, so only the
    ISR recovery can raise the throttle. The replica must lack 40 MB: one that lacks only recent writes returns at once (KIP-966).
    """
    stage = make_stage("lost", steers=False, stalled=False, megabytes=30, journal_on=1)
    tuner = stage.start_tuner()
    stage.move()
    stage.until("the tuner judges the move", lambda: tuner.decided("progressing") or tuner.decided("watching"), 45)
    kill_broker(stage, 2)
    stage.until("2 is out of sync", lambda: all(2 not in m.isr for m in stage.client.reassignments()), 60)
    with KafkaProducer(
        client_id="faults-bulk", acks="all", compression_type=None, **stage.kafka.kafka_python_arguments()
    ) as bulk:
        sent = [bulk.send(stage.topic, value=os.urandom(100_000), partition=number % 2) for number in range(400)]
        bulk.flush(timeout=60)
        assert all(one.get(timeout=1) for one in sent)
    stage.restart_nodes()
    assert stage.rate(SOURCE) == THROTTLE, "writes wait for nobody yet"
    kill_broker(stage, 3)
    lost_s = time.monotonic()
    stage.until("the throttle is raised to the ceiling", lambda: stage.rate(SOURCE) == CEILING, 60)
    opened_s = time.monotonic() - lost_s
    assert any(2 not in m.isr for m in stage.client.reassignments()), "it was back before: give it more data"
    stage.until("2 is in sync", lambda: all(2 in m.isr for m in stage.client.reassignments()), 120)
    in_sync_s = time.monotonic() - lost_s
    assert stage.moving(), "the move ended meanwhile: give it more data"
    stage.until("the throttle is as it was", lambda: stage.rate(SOURCE) == THROTTLE, 60)
    assert tuner.decided("isr_recovery")
    assert tuner.decided("restored")
    stage.restart_nodes()
    stage.cancel()
    stage.end()
    record_property(
        "told",
        f"opened within {opened_s:.0f} s, in sync after {in_sync_s:.0f} s, and then as it was: recovers, restored",
    )


def test_replicas_throttled_by_wildcard_recover_before_the_move(make_stage: MakeStage, record_property: Tell) -> None:
    """An operator has set "*" on the lists of another topic, so the throttle also slows a replica that no move concerns."""
    stage = make_stage("star", steers=False, stalled=False, megabytes=30, journal_on=1)
    beside, every = "star-beside", dict.fromkeys(LIST_KEYS.values(), "*")
    stage.create(beside, {0: (3, 2, 4)}, **{"min.insync.replicas": str(MIN_ISR)}, **every)
    stands = {key: str(THROTTLE) for key in RATE_KEYS.values()}
    assert set(stage.client.alter_broker_configs(dict.fromkeys(stage.brokers, stands)).values()) == {None}
    stage.until("the topic exists", lambda: stage.snapshot().get(("topic", beside)), 20)
    stage.until("the rates are shown", lambda: len(stage.rates()) == 2 * len(stage.brokers), 20)
    stage.before = stage.snapshot()
    sides = ((3, Side.LEADER), (2, Side.FOLLOWER))

    def replica() -> bool:
        return all(2 in state.isr for state in stage.client.partitions([beside]))

    def rates() -> list[int]:
        return [stage.rate(side) for side in sides]

    tuner = stage.start_tuner()
    stage.until("the tuner acts", tuner.acts, 45)
    stage.move()
    stage.until("the tuner judges the move", lambda: tuner.decided("progressing") or tuner.decided("watching"), 45)
    kill_broker(stage, 2)
    stage.until("2 is out of sync", lambda: not replica(), 60)
    with KafkaProducer(
        client_id="faults-bulk", acks="all", compression_type=None, **stage.kafka.kafka_python_arguments()
    ) as bulk:
        sent = [bulk.send(beside, value=os.urandom(100_000), partition=0) for _ in range(400)]
        bulk.flush(timeout=60)
        assert all(one.get(timeout=1) for one in sent)
    stage.restart_nodes()
    stage.until("the restarted broker reports its rate", lambda: all(rates()), 10)
    assert rates() == [THROTTLE, THROTTLE], "writes wait for nobody yet"
    kill_broker(stage, 4)
    lost_s = time.monotonic()
    stage.until("both throttles are raised to the ceiling", lambda: rates() == [CEILING, CEILING], 60)
    opened_s = time.monotonic() - lost_s
    assert not replica(), "it was back before: give it more data"
    assert stage.rate(SOURCE) == THROTTLE, "that of the move is in nobody's way"
    stage.until("2 is in sync", replica, 120)
    in_sync_s = time.monotonic() - lost_s
    assert stage.moving(), "the move ended meanwhile: give it more data"
    stage.until("the throttles are as they were", lambda: rates() == [THROTTLE, THROTTLE], 60)
    stage.restart_nodes()
    stage.cancel()
    # Where a "*" serves others nothing of the tool's is taken away: who moved takes the lists back.
    assert stage.client.alter_topic_configs({stage.topic: dict.fromkeys(LIST_KEYS.values())}) == {stage.topic: None}
    stage.end()
    # The other rows have the same brokers.
    stage.delete(beside)
    none = dict.fromkeys(stage.brokers, dict.fromkeys(RATE_KEYS.values()))
    # A client may not know yet that a broker is back.
    stage.until("the rates are removed", lambda: set(stage.client.alter_broker_configs(none).values()) == {None}, 30)
    stage.until("the operator's rates are removed", lambda: not stage.rates(), 20)
    record_property("told", f"opened within {opened_s:.0f} s, in sync after {in_sync_s:.0f} s, and then as they were")


def test_move_cancelled_while_destination_is_down_is_cleaned_up(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("away")
    stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    kill_broker(stage, 4)
    stage.cancel()
    stage.until("the living brokers are restored", lambda: not stage.rates(), 40)
    stage.restart_nodes()
    stage.end()
    record_property("told", "what it had set on the dead broker went when the broker was back")


@pytest.mark.parametrize("node", [4, 100], ids=["destination", "controller"])
def test_timed_out_admin_calls_are_repeated(node: int, make_stage: MakeStage, record_property: Tell) -> None:
    """The node is suspended for longer than the timeout of any call."""
    stage = make_stage(f"hangs{node}", megabytes=30)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    process = stage.lab.nodes[node].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    stage.until(
        "a call has timed out",
        lambda: any("TimedOut" in line or "Timeout" in line or "not alive" in line for line in tuner.said().splitlines()), 60,
    )  # fmt: skip
    process.send_signal(signal.SIGCONT)
    stage.restart_nodes()
    stage.end(120)
    assert not tuner.decided("external_change")
    record_property("told", "said, and tried again later each time; nothing of it was lost or taken for somebody's")


def test_journal_without_a_leader_stops_rate_writes(make_stage: MakeStage, record_property: Tell) -> None:
    """The journal has a single replica, which the tuner warns about at its start, and that broker dies."""
    stage = make_stage("journal", megabytes=40, journal_on=2)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    kill_broker(stage, 2)
    stage.until("the tuner reports the journal", lambda: "journal" in tuner.said().rpartition('"active"')[2], 40)
    stood = stage.rates()
    marked = len(tuner.steps())
    stage.until("the tuner has tried again", lambda: len(tuner.steps()) > marked + 2, 60)
    assert stage.rates() == stood, "a rate was written that nobody can trace"
    stage.restart_nodes()
    stage.end(120)
    record_property("told", "no rate was written until it was back")
