"""Profiles on a real broker: `rheostat plan estimate --start` reads them, and a plan with `--at` waits for its time."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until, wait_for_metadata

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.profiles import read_profiles
from rheostat.reassign import plan_store
from streaming.shared.contract import (
    STEP_S,
    STEPS_MAX,
    BrokerProfile,
    LearnedCapacity,
    LoadForecast,
    encode_profile,
    profile_key,
)
from streaming.shared.kafka import producer
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.lease import lease_group
from streaming.shared.topics import ensure_topics
from tuner.core.throttle_limits import MB

LAB = LabSpec(brokers=3)
TOPIC, LEADER, FOLLOWER, DESTINATION = "orders", 1, 2, 3
SIZE_BYTES = 20 * MB
CAPACITY_BYTES_PER_S = 1_010_000.0
BUSY_BYTES_PER_S, QUIET_BYTES_PER_S = 1_005_000.0, 10_000.0  # They leave 5 kB/s and 1 MB/s.
QUIET_FROM_H, QUIET_UNTIL_H = 6, 12


@pytest.fixture
def config(lab: Lab, tmp_path: Path) -> Path:
    """Settings with an objective, so that clients limit the throttle."""
    file = tmp_path / "rheostat.yaml"
    file.write_text(lab_config(lab, objective={}, rate_bytes_per_s_min=1_000))
    return file


@pytest.fixture
def tuner_config(lab: Lab, tmp_path: Path) -> Path:
    """Settings of a tuner that needs no signals: it has no objective."""
    file = tmp_path / "tuner.yaml"
    file.write_text(lab_config(lab, http={"port": free_ports(1)[0]}, cycle_s=1))
    return file


@pytest.fixture(scope="module")
def client(lab: Lab) -> Iterator[ReassignmentClient]:
    with lab.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, replica_assignments={0: [LEADER, FOLLOWER]})])
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=None, total_bytes=SIZE_BYTES
    ) as load:
        load.wait(60)
    with ReassignmentClient(lab.kafka_settings(), "test") as made:
        yield made


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    moved = [{"topic": TOPIC, "partition": 0, "replicas": [LEADER, DESTINATION]}]
    file.write_text(json.dumps({"version": 1, "partitions": moved}))
    return file


def profile_of(broker: int, cluster: str, made_at_ms: int) -> BrokerProfile:
    load = LoadForecast(
        bytes_per_s=tuple(
            QUIET_BYTES_PER_S if QUIET_FROM_H <= hour % 24 < QUIET_UNTIL_H else BUSY_BYTES_PER_S
            for hour in range(STEPS_MAX)
        ),
        error_bytes_per_s=(500.0,) * 5,
    )
    capacity = LearnedCapacity(bytes_per_s=CAPACITY_BYTES_PER_S, seen_at_ms=made_at_ms)
    return BrokerProfile(
        cluster=cluster,
        broker=broker,
        made_at_ms=made_at_ms,
        start_ms=made_at_ms - made_at_ms % (STEP_S * 1000),
        history_s=1e6,
        client_in=load,
        client_out=load,
        capacity_in=capacity,
        capacity_out=capacity,
    )


def test_best_start_comes_from_profiles_of_this_cluster(
    lab: Lab, client: ReassignmentClient, config: Path, plan_file: Path, tmp_path: Path
) -> None:
    settings = load_settings(config, {})
    topic = settings.topic_names().profiles
    estimate = ("plan", "estimate", plan_file, "-c", config, "--write-rate", "0", "--start", "best")
    without = rheostat(*estimate)
    assert without.returncode == 0, without.stderr
    assert (
        "Each of brokers 1, 3 has no profile: there, the forecast assumes that the present load stays."
        in without.stdout
    )

    ensure_topics(client, settings.topic_names(), [topic])
    now_ms = round(time.time() * 1000)
    hour_ms = now_ms - now_ms % (STEP_S * 1000)
    profiles = [profile_of(broker, "lab", now_ms) for broker in (LEADER, DESTINATION)]
    records: list[tuple[bytes, bytes | None]] = [(profile_key(p), encode_profile(p)) for p in profiles]
    foreign = profile_of(LEADER, "other", now_ms)
    forged = profile_key(profiles[0])
    records += [(profile_key(foreign), encode_profile(foreign)), (forged, b'{"v": 1, "kind": "broker"}')]
    sender = producer(lab.kafka_settings(), "test", linger_ms=0)
    for key, value in records:
        sender.send(topic, value, key).get(timeout=20)
    sender.close()
    assert read_profiles(client, settings) == {p.broker: p for p in profiles}

    plot = tmp_path / "start.svg"
    done = rheostat(*estimate, "--plot", plot, "--json")
    assert done.returncode == 0, done.stderr
    start = json.loads(done.stdout)["start"]
    assert start["is_best"]
    assert start["forecast_brokers"] == [LEADER, DESTINATION]
    begin_h = (start["start_ms"] - hour_ms) / (STEP_S * 1000)
    assert QUIET_FROM_H <= begin_h < QUIET_UNTIL_H
    assert start["duration_s"] == pytest.approx(SIZE_BYTES / (CAPACITY_BYTES_PER_S - QUIET_BYTES_PER_S), rel=0.2)
    assert start["as_now_duration_s"] > 50 * start["duration_s"]
    assert start["end_low_ms"] < start["end_ms"] < start["end_high_ms"]
    assert plot.read_text().startswith("<svg")


def test_plan_with_a_later_start_survives_a_restart_and_begins_in_time(
    lab: Lab, client: ReassignmentClient, tuner_config: Path, plan_file: Path, tmp_path: Path
) -> None:
    config = tuner_config
    settings = load_settings(config, {})
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "first.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        start = ("reassign", "start", plan_file, "-c", config, "--measure-for", "1s", "--yes")
        withdrawn = rheostat(*start, "--at", in_s(3600))
        assert withdrawn.returncode == 0, withdrawn.stderr
        assert "The active tuner starts the plan" in withdrawn.stderr
        listed = rheostat("reassign", "status", "-c", config)
        assert (listed.returncode, "waiting; it starts" in listed.stdout) == (0, True), listed.stdout
        assert rheostat("reassign", "cancel", "-c", config).returncode == 0
        until(lambda: not plan_store.read_plans(settings).active, 20, "the cancelled plan has ended")

        starts_s = time.time() + 25
        given = rheostat(*start, "--at", in_s(25))
        assert given.returncode == 0, given.stderr
        assert tune.end(signal.SIGKILL) == -signal.SIGKILL
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "second.log") as tune:
        until(lambda: '"active"' in tune.said(), 60, "the next tuner acts")

        def early_s() -> float | None:
            """Returns by how much the move has begun too early; 0 if it has not begun in time; None before."""
            if client.reassignments():
                return max(0.0, starts_s - time.time())
            return 0.0 if time.time() >= starts_s else None

        until(lambda: early_s() is not None, 40, "the time has come, or the move has begun")
        assert not early_s(), "begun early"
        until(lambda: not plan_store.read_plans(settings).active, 90, "the plan has ended", every_s=0.5)
        assert time.time() >= starts_s
    wait_for_metadata(lab)
    (state,) = client.partitions([TOPIC])
    assert list(state.replicas) == [LEADER, DESTINATION]


def in_s(seconds: float) -> str:
    """Returns a time with its offset."""
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()
