"""`rheostat signals` on a real topic: immediate output, messages about missing signals, following, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from lab_parts import RHEOSTAT, rheostat, running, until, within

from rheostat.broker_signals import read_broker_signals
from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    MoveSignal,
    Side,
    Signal,
    TenantSignal,
    Topics,
    decode_signal,
    encode_signal,
    signal_key,
)
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.runtime.observe.signals_reader import SignalReader

NOBODY = "nobody"
LAB = LabSpec(brokers=1, users={NOBODY: "pw"})
ANSWER_S_MAX = 10.0


class Writer:
    """Writes signals to a topic for this test."""

    def __init__(self, sender: KafkaProducer, topic: str) -> None:
        self.topic = topic
        self._sender = sender

    def write(self, *signals: Signal, at_ms: int | None = None) -> None:
        for one in signals:
            self._sender.send(self.topic, key=signal_key(one), value=encode_signal(one), timestamp_ms=at_ms)
        self._sender.flush(timeout=10)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return request.node.name.split("[")[0][:60]


@pytest.fixture
def config(lab: Lab, tmp_path: Path, prefix: str) -> Path:
    file = tmp_path / "rheostat.yaml"
    file.write_text(json.dumps({**json.loads(lab_config(lab)), "topics": {"prefix": prefix}}))
    return file


@pytest.fixture
def writer(lab: Lab, prefix: str) -> Iterator[Writer]:
    topics = Topics.with_prefix(prefix)
    with ClusterClient(lab.kafka_settings(), "test") as client:
        assert ensure_topics(client, topics) == []
    sender = producer(lab.kafka_settings(), "test")
    yield Writer(sender, topics.signals)
    sender.close(timeout=5)


def now_ms() -> int:
    return round(time.time() * 1000)


def every(at_ms: int, cluster: str = "lab") -> list[Signal]:
    return [
        BrokerSignal(cluster, 1, at_ms, at_ms, 6, 1.0, leader_rate_bytes_per_s=4.5e6, throttled_by="quota"),
        MoveSignal(cluster, 1, Side.LEADER, at_ms, at_ms, 6, 1.0, 2, 3, remaining_bytes=1.25e9),
        ControllerSignal(cluster, 100, at_ms, at_ms, 6, 1.0, active=1.0),
        TenantSignal(cluster, 100, at_ms, at_ms, 6, 1.0, user="alice", tokens=4.0),
    ]


def test_signals_prints_present_signals_at_once(config: Path, writer: Writer) -> None:

    def shown() -> subprocess.CompletedProcess[str]:
        old = [replace(s, sampled_at_ms=s.sampled_at_ms - 5_000) for s in every(now_ms())]
        writer.write(*old, *every(now_ms()))
        return rheostat("signals", "--config", config)

    done = within(ANSWER_S_MAX, shown)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for said in ("Brokers", "4.50 MB/s", "Moves", "1.25 GB", "Controllers", "yes", "Tenants", "alice"):
        assert said in done.stdout
    assert "\x1b" not in done.stdout
    assert "quota" in rheostat("signals", "--config", config, "--wide").stdout


def test_plan_without_watch_uses_signals_at_once(lab: Lab, config: Path, writer: Writer) -> None:
    none = rheostat("fetchers", "--config", config, "--measure-for", "0")
    assert none.returncode == 1
    assert "contains the write rate of clients on broker 1" in none.stderr

    at_ms = now_ms() - 90_000  # Too old for the tuner.
    writer.write(BrokerSignal("lab", 1, at_ms, at_ms, 6, 1.0, client_in_bytes_per_s=4.5e6))
    done = within(ANSWER_S_MAX, lambda: rheostat("fetchers", "--config", config, "--measure-for", "0"))
    assert done.returncode == 0, done.stderr
    assert "estimates from signals up to" in done.stderr


def test_signals_json_is_newest_of_every_entity(config: Path, writer: Writer) -> None:
    at_ms = now_ms()
    fresh = every(at_ms)
    history = [replace(s, backlog=True, sampled_at_ms=at_ms + 1) for s in fresh]
    writer.write(*every(at_ms - 5_000), *fresh, *history, *every(at_ms, cluster="other"))

    done = rheostat("signals", "--config", config, "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [decode_signal(json.dumps(one).encode()) for one in found] == fresh
    for one, its in zip(found, fresh, strict=True):
        assert set(one) == {"v", "kind"} | {f.name for f in fields(its)}

    both = json.loads(rheostat("signals", "--config", config, "--json", "--all-clusters").stdout)
    assert [one["cluster"] for one in both] == ["lab"] * 4 + ["other"] * 4
    moves = json.loads(rheostat("signals", "--config", config, "--json", "--kind", "move", "--broker", "1").stdout)
    assert [one["kind"] for one in moves] == ["move"]


def test_missing_or_stale_signals_exit_one_with_advice(config: Path, writer: Writer) -> None:
    none = rheostat("signals", "--config", config, "--json")
    assert (none.returncode, json.loads(none.stdout)) == (1, [])
    assert f"There are no signals in {writer.topic}" in none.stderr

    writer.write(*every(now_ms() - 60_000))
    stale = rheostat("signals", "--config", config)
    assert stale.returncode == 1
    assert "All signals are stale" in stale.stderr
    assert "rheostat collect" in stale.stderr
    assert ", stale" in stale.stdout

    other = rheostat("signals", "--config", config, "--node", "7")
    assert other.returncode == 1
    assert "No signal matches" in other.stderr


def test_missing_signals_topic_is_named(config: Path, prefix: str) -> None:
    done = rheostat("signals", "--config", config)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"The topic {prefix}.signals does not exist yet" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_unreachable_cluster_exits_with_3(config: Path) -> None:
    done = rheostat("signals", "--config", config, env={"RHEOSTAT_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9"})
    assert done.returncode == 3
    assert "No broker answers at 127.0.0.1:9" in done.stderr


def test_missing_right_is_named_not_taken_for_silence(lab: Lab, config: Path, writer: Writer) -> None:
    writer.write(*every(now_ms()))
    as_nobody = {
        "BOOTSTRAP_SERVERS": lab.sasl_bootstrap_servers, "SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "PLAIN",
        "SASL_USERNAME": NOBODY, "SASL_PASSWORD": "pw",
    }  # fmt: skip

    def refused() -> str:
        done = rheostat("signals", "--config", config, env={f"RHEOSTAT_KAFKA__{k}": v for k, v in as_nobody.items()})
        assert (done.returncode, done.stdout, len(done.stderr.strip().splitlines())) == (1, "", 1), done.stderr
        return done.stderr

    assert f"missing right: Describe on Topic {writer.topic}" in refused()
    allow = ACL(
        f"User:{NOBODY}", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW,
        ResourcePattern(ResourceType.TOPIC, writer.topic),
    )  # fmt: skip
    with lab.admin() as admin:
        admin.create_acls([allow])
    until(lambda: f"missing right: Read on Topic {writer.topic}" in refused(), 20, "the other right is asked for")


def test_signals_with_wait_shows_newer_signals(config: Path, writer: Writer, tmp_path: Path) -> None:
    command = (*RHEOSTAT, "signals", "--config", config, "--json", "--duration", "4")
    with running(*command, log=tmp_path / "wait.json") as run:

        def ended() -> bool:
            writer.write(*every(now_ms()))
            return not run.alive()

        until(ended, 30, "it prints and ends")
        assert run.process.returncode == 0
        assert len(json.loads(run.said())) == 4


def test_raw_prints_every_new_record_unchanged(config: Path, writer: Writer, tmp_path: Path) -> None:
    before = every(1_000)
    writer.write(*before)
    with running(
        *RHEOSTAT, "signals", "--config", config, "--raw", "--kind", "broker", log=tmp_path / "raw.log"
    ) as run:

        def heard() -> bool:
            writer.write(*every(now_ms()))
            return bool(run.lines())

        until(heard, 30, "it follows")
        count = len(run.lines())
        past = replace(every(now_ms())[0], backlog=True)
        writer.write(past)
        until(lambda: any(line["backlog"] for line in run.lines()), 10, "history is shown, too")
        assert run.end(signal.SIGINT) == 0

    lines = run.lines()
    assert len(lines) > count
    assert {line["kind"] for line in lines} == {"broker"}
    assert all(line["window_end_ms"] > 1_000 for line in lines)  # From the end of the topic on.
    assert run.said() == "".join(json.dumps(line) + "\n" for line in lines)


def test_signals_watch_continues_until_interrupted(config: Path, writer: Writer, tmp_path: Path) -> None:
    writer.write(*every(now_ms()))
    with running(*RHEOSTAT, "signals", "--config", config, "--watch", log=tmp_path / "watch.log") as run:
        until(lambda: "Ctrl-C ends" in run.said(), 30, "the first picture")
        writer.write(replace(every(now_ms())[0], leader_rate_bytes_per_s=77.7e6))  # type: ignore[type-var]  # a union of dataclasses is one to replace
        until(lambda: "77.7 MB/s" in run.said(), 10, "what came since")
        assert run.end(signal.SIGINT) == 0
    assert "Traceback" not in run.said()
    assert "interrupted" not in run.said()


def test_signals_watch_redraws_and_restores_the_terminal(config: Path, writer: Writer) -> None:
    writer.write(*every(now_ms()))
    ours, theirs = pty.openpty()
    said = b""

    def drawn(what: bytes) -> bool:
        nonlocal said
        with contextlib.suppress(BlockingIOError):
            said += os.read(ours, 65536)
        return what in said

    os.set_blocking(ours, False)
    watch = subprocess.Popen(
        [*RHEOSTAT, "signals", "--config", str(config), "--watch"],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "60"},
    )  # fmt: skip
    try:
        until(lambda: drawn(b"Ctrl-C ends"), 30, "the first picture")
        said = b""
        until(lambda: drawn(b"Ctrl-C ends"), 10, "the second one")
        assert b"\x1b[1A" in said  # Up again, over the one before.
        lines = re.sub(rb"\x1b\[[?\d;]*[A-Za-z]", b"", said).decode(errors="replace").replace("\r", "\n").splitlines()
        assert max(map(len, lines)) <= 80
        watch.send_signal(signal.SIGINT)
        until(lambda: drawn(b"\x1b[?25h"), 10, "the cursor is back")
        assert watch.wait(timeout=60) == 0
    finally:
        if watch.poll() is None:
            watch.kill()
            watch.wait(timeout=10)
        os.close(theirs)
        os.close(ours)


def test_each_poll_reads_only_new_records(lab: Lab, writer: Writer) -> None:
    """Between two polls Kafka has answered the waiting fetch with nothing; the next poll must send a new one."""
    with contextlib.closing(consumer(lab.kafka_settings(), "test")) as reading:
        reader = SignalReader(reading, writer.topic, "lab")
        until(lambda: (reader.poll(), reader._tail._partitions)[1], ANSWER_S_MAX, "the topic is followed")
        counts: list[int] = []
        for window in range(1, 6):
            threading.Event().wait(1.0)  # Twice what a fetch waits for records.
            at_ms = now_ms() + window
            writer.write(BrokerSignal("lab", 1, at_ms, at_ms, 6, 1.0))
            counts.append(reader.poll())
            if not counts[-1]:  # On a busy machine the answer to the new fetch may come after the wait of a poll.
                until(lambda: reader.poll() == 1, ANSWER_S_MAX, "the record is read")
        assert set(counts) <= {0, 1}
        assert counts.count(1) >= 2, counts


def test_command_reads_all_brokers_of_a_stream_that_stopped(lab: Lab, config: Path, writer: Writer) -> None:
    stopped_ms = now_ms() - 600_000
    writer.write(
        *(BrokerSignal("lab", broker, stopped_ms, stopped_ms, 6, 1.0) for broker in range(1_000)), at_ms=stopped_ms
    )
    with ClusterClient(lab.kafka_settings(), "test") as client:
        assert set(read_broker_signals(client, load_settings(config))) == set(range(1_000))
