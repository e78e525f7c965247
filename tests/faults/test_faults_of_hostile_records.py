"""Records that rheostat never writes appear in its topics during a move: the tuner continues, and the commands work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest
from lab_parts import rheostat, write_records_with_bad_headers
from stage import CYCLE_S, SOURCE, MakeStage, Stage
from tuner_process import Tuner

from streaming.shared.contract import BrokerSignal, ControllerSignal, MoveSignal, Side, encode_signal
from streaming.shared.kafka import producer
from tuner.journal.entries import entry_key, memory_key, owned_key
from tuner.journal.order_records import orders_key
from tuner.journal.plan_records import head_key

Tell = Callable[[str, object], None]

DEEP = b'{"v": 3, "later": ' + b"[" * 100_000
INFINITE = b'{"v": 3, "at_ms": 1, "pause": null, "resumed_at_ms": 0, "overrides": [[1, "leader", Infinity, 9e15, "x"]]}'
HUGE = b"1" + b"0" * 400
MENDED_S_MAX = 60.0  # A tuner that was killed counts as active for 20 s.

pytestmark = [pytest.mark.campaign]


def put(stage: Stage, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
    sender = producer(stage.kafka, "faults-hostile", linger_ms=0)
    try:
        for answer in [sender.send(topic, key=key, value=value) for key, value in records]:
            answer.get(timeout=20)
    finally:
        sender.close(timeout=5)


def signals(stage: Stage) -> list[tuple[None, bytes]]:
    """Hostile signals of moving brokers, of an unknown broker, and of a controller."""
    now_ms = round(time.time() * 1000)
    whole = [
        *(encode_signal(BrokerSignal(stage.cluster, b, now_ms, now_ms, 6, 1.0, client_in_bytes_per_s=4711.0)) for b in (1, 4, 99)),
        encode_signal(MoveSignal(stage.cluster, 1, Side.LEADER, now_ms, now_ms, 6, 1.0, 2, 2, remaining_bytes=4711.0)),
        encode_signal(ControllerSignal(stage.cluster, 100, now_ms, now_ms, 6, 1.0, active=1.0, queue_depth_mean=4711.0)),
    ]  # fmt: skip
    found = [DEEP, b"", b"null", b"\xff"]
    for value in whole:
        found += [
            value.replace(b'"sampled_at_ms": ', b'"sampled_at_ms": 1' + b"0" * 400),
            value.replace(b'"completeness": 1.0', b'"completeness": 0.0'),
            value.replace(b'"samples": 6', b'"samples": ' + HUGE),
            value.replace(b"4711.0", b"1e300"),
            value.replace(b"4711.0", b"NaN"),
            value[:-1] + b', "later": ' + b"[" * 100_000,
        ]
    return [(None, value) for value in found]


def told(tuner: Tuner, what: str) -> bool:
    return any(what in line["event"] or what in str(line.get("error", "")) for line in tuner.lines())


def test_hostile_signal_records_do_not_stop_the_tuner(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("hostile-signals", megabytes=40)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    sent = 0
    for _ in range(5):
        put(stage, stage.topics.signals, some := signals(stage))
        sent += len(some)
        time.sleep(2 * CYCLE_S)  # Spread over cycles; nothing is waited for.
    stage.until("the tuner reports the unreadable record", lambda: told(tuner, "a record cannot be read"), 20)
    assert tuner.alive()
    assert not told(tuner, "a cycle of the throttle controller failed")
    record_property("told", f"{sent} hostile signals; the tuner went on; {stage.end()}")


def test_records_with_non_utf8_header_keys_are_read(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("hostile-headers", megabytes=40)
    read_by_tuner = (stage.topics.signals, stage.topics.orders, stage.topics.journal)
    write_records_with_bad_headers(stage.kafka, read_by_tuner)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    write_records_with_bad_headers(stage.kafka, read_by_tuner)
    for command in ("pause", "resume"):
        done = rheostat(command, "--config", stage.config)
        assert done.returncode == 0, done.stderr + done.stdout
    assert rheostat("journal", "check", "--config", stage.config).returncode == 0
    assert not told(tuner, "a cycle of the throttle controller failed")
    record_property("told", f"a tuner started, and commands were acknowledged; {stage.end()}")


def test_hostile_journal_records_are_repaired_by_command(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("hostile-journal", megabytes=60)
    cluster = stage.cluster
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    own = [(memory_key(cluster), DEEP), (owned_key(cluster, SOURCE), b'{"v": 3, "owned": [1, "leader", null, -5, []]}')]
    entries = [(entry_key("entry", cluster, 7), DEEP), (f"tuner|{cluster}|x".encode(), DEEP), (b"\xff|\xff", DEEP)]
    orders = [(orders_key(cluster), INFINITE), (orders_key(cluster), DEEP), (head_key(cluster, "p"), b'{"v": 3}')]
    put(stage, stage.topics.journal, [*own, *entries, *orders])
    put(stage, stage.topics.orders, orders)
    for command in ("pause", "resume"):
        done = rheostat(command, "--config", stage.config)
        assert done.returncode == 0, done.stderr + done.stdout
    tuner.kill()
    stage.free_lease_of_killed_tuner()
    put(stage, stage.topics.journal, own)
    began_s = time.monotonic()
    following = stage.start_tuner()
    stage.until(
        "the new tuner reports unreadable records", lambda: told(following, "that this version cannot read"), 45
    )
    assert following.alive()
    listed = rheostat("journal", "check", "--config", stage.config)
    assert listed.returncode == 1, listed.stderr + listed.stdout
    assert "no tuner acts: the settings that rheostat manages in the cluster are not known" in listed.stdout
    assert rheostat("status", "--config", stage.config).returncode in (0, 1)

    def mended() -> bool:
        return rheostat("journal", "repair", "--yes", "--config", stage.config).returncode == 0

    stage.until("the journal is repaired", mended, MENDED_S_MAX)
    stage.until("the new tuner acts", following.acts, 45)
    took_s = time.monotonic() - began_s
    assert rheostat("journal", "check", "--config", stage.config).returncode == 0
    record_property("told", f"waited until `journal repair`, acted {took_s:.0f} s after its start; {stage.end(120.0)}")
