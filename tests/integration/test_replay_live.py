"""`rheostat replay` on the journal of a real tuner that controls a move and quotas, is killed and started again."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from lab_parts import RHEOSTAT, Running, rheostat, running, until
from story_kit import make_topic

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    MoveSignal,
    MoveStep,
    Side,
    Signal,
    TenantSignal,
    Topics,
    encode_signal,
    signal_key,
)
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.topics import ensure_topics
from tuner.core.throttle_limits import MB
from tuner.runtime.throttle.actuator import KafkaThrottles

LAB = LabSpec(brokers=2, settings={"controller.quota.window.num": "5"})
TOPICS = Topics.with_prefix("rheostat")
SOURCE, TARGET = (1, Side.LEADER), (2, Side.FOLLOWER)
RATE = 400_000  # Of the operator: the move takes longer than the test.
RUDE = QuotaEntity(client_id="rude")


class Stream:
    """Replaces the stream: writes signals of two brokers, the controller and one tenant every second."""

    def __init__(self, made: KafkaProducer) -> None:
        self._made = made
        self._steps: tuple[MoveStep, ...] = ()
        self._told_s = 0.0

    def goes_on(self) -> None:
        if time.monotonic() - self._told_s < 1.0:
            return
        self._told_s = time.monotonic()
        now_ms = round(time.time() * 1000)
        step = MoveStep(now_ms - 500, 1.0, 0.31 * MB, 0.0, 29 * MB + now_ms % 1000)
        self._steps = (*self._steps, step)[-5:]
        for broker in (1, 2):
            self._send(
                BrokerSignal(
                    "lab", broker, now_ms, now_ms - 500, 6, 1.0,
                    leader_throttled_bytes_per_s=0.38 * MB, follower_throttled_bytes_per_s=0.38 * MB,
                    throttled_by="quota", reassignment_in_bytes_per_s=0.3 * MB, reassignment_out_bytes_per_s=0.3 * MB,
                    network_in_bytes_per_s=10.1 * MB + now_ms % 997, network_out_bytes_per_s=10.3 * MB,
                    produce_p99_ms=4.1, fetch_p99_ms=3.7,
                )
            )  # fmt: skip
        for broker, side in (SOURCE, TARGET):
            self._send(
                MoveSignal(
                    "lab", broker, side, now_ms, now_ms - 500, 6, 1.0, moving_partitions=1, listed_partitions=1,
                    remaining_bytes=29.0 * MB, steady_state_bytes_per_s=0.1 * MB, write_bytes_per_s=0.1 * MB,
                    steps=self._steps,
                )
            )  # fmt: skip
        self._send(
            ControllerSignal(
                "lab", 9, now_ms, now_ms - 500, 6, 1.0, active=1.0, idle_ratio=0.5 + now_ms % 97 / 1000,
                event_queue_time_mean_ms=2.3, heartbeats_timed_out_per_s=0.0, topics=3.0, partitions=now_ms % 100 + 50.0,
            )
        )  # fmt: skip
        self._send(
            TenantSignal(
                "lab", 9, now_ms, now_ms - 500, 1, 1.0, client_id="rude", mutation_rate_per_s=31.7 + now_ms % 13,
                tokens=-0.7,
            )
        )  # fmt: skip
        self._made.flush(5)

    def _send(self, signal_: Signal) -> None:
        self._made.send(TOPICS.signals, key=signal_key(signal_), value=encode_signal(signal_))


@pytest.fixture(scope="module")
def config(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The settings of a tuner that controlled a move, was killed, and was started again."""
    folder = tmp_path_factory.mktemp("replay")
    file = folder / "rheostat.yaml"
    link = {"in_bytes_per_s": 40 * MB, "out_bytes_per_s": 40 * MB}
    file.write_text(
        lab_config(
            lab, http={"port": free_ports(1)[0]}, objective={"latency_ms": 50}, capacity=link,
            rate_bytes_per_s_max=3 * MB, rate_bytes_per_s_min=100_000,
            mutation_quota={"default_entity": "client-id", "cycle_s": 1},
        )
    )  # fmt: skip
    make_topic(lab, "orders", {0: [1]}, 30)
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, TOPICS)
        throttles = KafkaThrottles(client)
        with tuner(lab, file, folder / "1.log") as (run, stream):
            until(lambda: acts(run, stream), 30, "the first acts")
            target = {("orders", 0): (2,)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(RATE))
            wait_until_steered(throttles, stream)
            wait_until_shared(lab, stream)
            run.process.send_signal(signal.SIGKILL)
            run.process.wait(10)
        with tuner(lab, file, folder / "2.log") as (run, stream):
            until(lambda: acts(run, stream), 30, "the second acts")
            wait_until_steered(throttles, stream)
            assert run.end(signal.SIGTERM, 20) == 0
    return file


@contextmanager
def tuner(lab: Lab, file: Path, log: Path) -> Iterator[tuple[Running, Stream]]:
    sender = producer(lab.kafka_settings(), "test-signals", linger_ms=0)
    try:
        with running(*RHEOSTAT, "tune", "--config", file, log=log) as run:
            yield run, Stream(sender)
    finally:
        sender.close(timeout=5)


def acts(run: Running, stream: Stream) -> bool:
    stream.goes_on()
    return any(line["event"] == "active" for line in run.lines())


def wait_until_steered(throttles: KafkaThrottles, stream: Stream) -> None:
    """Waits until closed-loop control has changed the throttle, and six seconds more."""
    before = throttles.read_rates([SOURCE])

    def turned() -> bool:
        stream.goes_on()
        return throttles.read_rates([SOURCE]) != before

    until(turned, 40, "the law turns it")
    until_s = time.monotonic() + 6.0
    while time.monotonic() < until_s:
        stream.goes_on()
        time.sleep(0.1)  # The pace of the signals, not a wait for anything.


def wait_until_shared(lab: Lab, stream: Stream) -> None:
    """Waits until the brokers have the quota of the demanding tenant."""
    client = QuotaClient(lab.kafka_settings(), "test-quotas")

    def stands() -> bool:
        stream.goes_on()
        return RUDE in client.mutation_quotas()

    try:
        until(stands, 30, "a quota of the rude one")
    finally:
        client.close()


def replayed(*arguments: str | Path, code: int) -> dict[str, Any]:
    done = rheostat("replay", *arguments, "--json")
    assert done.returncode == code, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_recording_with_restart_replays_to_the_same_decisions(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "case.jsonl"
    found = replayed("--config", config, "--from", "-15m", "--export", file, code=0)
    assert found["same"]
    assert found["runs"] == 2
    assert found["cycles"]["different"] == found["steering_ticks"]["different"] == found["memory"]["different"] == 0
    assert found["cycles"]["same"] >= 4
    assert found["steering_ticks"]["same"] >= 12
    assert found["quotas"]["different"] == found["quota_decisions"]["different"] == 0
    assert found["quotas"]["same"] >= 8
    assert found["quota_decisions"]["same"] > found["quotas"]["same"]
    assert found["missed"] == {"before_a_frame": 0, "unfinished": 0, "unreadable": 0, "older": 0}
    # Nobody said it to the tuner: it was read from the brokers.
    frames = [
        h["settings"]["quotas"] for r in file.read_text().splitlines() for h in json.loads(r)["headers"] if "frame" in h
    ]
    assert {frame["limits"].get("samples") for frame in frames if frame is not None} == {5}
    # The same from a file, without a cluster.
    again = replayed("--journal", file, "--from", "-15m", code=0)
    assert again == found


def test_replay_with_other_policy_shows_both_decisions(config: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rate_bytes_per_s_max: 500000\n")
    found = replayed("--config", config, "--from", "-15m", "--tuner-settings", policy, code=1)
    assert found["steering_ticks"]["different"] > 0
    told = rheostat("replay", "--config", config, "--from", "-15m", "--tuner-settings", policy)
    assert told.returncode == 1
    assert "broker 1 leader throttle" in told.stdout
    assert "  replayed: " in told.stdout


def test_replay_with_other_weights_shows_both_decisions(config: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("mutation_quota:\n  rate_per_s_max: 5\n")
    found = replayed("--config", config, "--from", "-15m", "--tuner-settings", policy, code=1)
    assert found["quotas"]["different"] > 0
    assert found["cycles"]["different"] == found["steering_ticks"]["different"] == 0
    assert any(d["kind"] == "quotas" and "client-id 'rude'" in d["now"] for d in found["differences"])


def test_empty_replay_range_reports_the_recorded_range(config: Path) -> None:
    done = rheostat("replay", "--config", config, "--from", "2020-01-01T00:00", "--to", "2020-01-01T01:00")
    assert done.returncode == 2
    assert "Nothing can be replayed between 2020-01-01 00:00:00 UTC and 2020-01-01 01:00:00 UTC" in done.stderr
    assert "there are records from " in done.stderr


def test_status_shows_the_last_steering_ticks(config: Path) -> None:
    done = rheostat("status", "--config", config)
    assert done.returncode == 0, done.stderr
    assert "Last steering ticks:" in done.stdout
    assert "broker 1 leader throttle" in done.stdout.split("Last steering ticks:")[1]


def test_replay_without_cluster_exits_with_3(config: Path, tmp_path: Path) -> None:
    away = tmp_path / "away.yaml"
    body = json.loads(config.read_text())
    body["kafka"]["bootstrap_servers"] = f"127.0.0.1:{free_ports(1)[0]}"
    away.write_text(json.dumps(body))
    assert rheostat("replay", "--config", away).returncode == 3
