"""`rheostat reassign` on real brokers: SIGKILL and resume, the exact target, rollback, and refused plans."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until, wait_for_metadata
from story_kit import make_topic

from rheostat.config.settings import load_settings
from rheostat.errors import CommandError
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.reassign import plan_store
from rheostat.reassign.command import ReassignRequest, run_reassign
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.lease import lease_group
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, TopicThrottle
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import ReassignmentSnapshot
from tuner.journal.plan_records import head_key
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator

LAB = LabSpec(brokers=4, settings={"auto.leader.rebalance.enable": "false"})
PARTITIONS = 24
BEFORE = {p: [1 + p % 2, 2 - p % 2] for p in range(PARTITIONS)}
TARGET = {p: [3 + p % 2, 4 - p % 2] for p in range(PARTITIONS)}


@pytest.fixture
def config(lab: Lab, tmp_path: Path) -> Path:
    file = tmp_path / "rheostat.yaml"
    file.write_text(lab_config(lab, http={"port": free_ports(1)[0]}, cycle_s=1))
    return file


@pytest.fixture
def client(lab: Lab) -> Iterator[ReassignmentClient]:
    with ReassignmentClient(lab.kafka_settings(), "test") as made:
        yield made


def plan_file(folder: Path, topic: str, target: dict[int, list[int]]) -> Path:
    file = folder / "plan.json"
    entries = [{"topic": topic, "partition": p, "replicas": replicas} for p, replicas in target.items()]
    file.write_text(json.dumps({"version": 1, "partitions": entries}))
    return file


def replicas_of(client: ClusterClient, topic: str) -> dict[int, list[int]]:
    return {s.partition: list(s.replicas) for s in client.partitions([topic])}


def rates_of(client: ClusterClient) -> dict[tuple[int, str], int]:
    told = client.broker_configs([1, 2, 3, 4], RATE_KEYS.values())
    return {(b, key): int(v.value) for b, found in told.items() if isinstance(found, dict) for key, v in found.items()}


def status(config: Path) -> dict[str, Any]:
    done = rheostat("reassign", "status", "-c", config, "--json")
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)["plans"]
    return dict(found)


def test_invalid_plan_is_explained_and_starts_nothing(
    lab: Lab, config: Path, client: ReassignmentClient, tmp_path: Path
) -> None:
    with lab.admin() as admin:
        admin.create_topics([NewTopic("still", replica_assignments={0: [1, 2], 1: [2, 3]})])
    until(lambda: len(replicas_of(client, "still")) == 2, 20, "the topic is there")
    wait_for_metadata(lab)

    def refused(target: dict[int, list[int]]) -> tuple[int, str]:
        asked = ReassignRequest(plan_file(tmp_path, "still", target), BatchLimits(), measure_s=0.0, yes=True)
        try:
            return run_reassign(config, asked), ""
        except CommandError as error:
            return error.exit_code, str(error)

    code, said = refused({7: [1, 2], 0: [1, 77]})
    assert code == 2
    assert "there is no partition still-7" in said
    assert "unknown broker 77, there are 1, 2, 3, 4" in said
    code, said = refused({0: [3, 4, 1]})
    assert code == 1
    assert "still-0: 2 replicas now and 3 in the plan; give --allow-replication-factor-change to allow that" in said
    code, said = refused({0: [3, 4]})
    assert code == 1
    assert said.startswith("No tuner runs for cluster lab, so the plan would not be executed; nothing was recorded.")
    assert refused({0: [1, 2]}) == (0, "")
    alone = rheostat("reassign", "start", plan_file(tmp_path, "still", {0: [3, 4]}), "-c", config, "--measure-for", "0")
    assert (alone.returncode, "there is no terminal to ask on: give --yes" in alone.stderr) == (5, True), alone.stderr
    dry = rheostat(
        "reassign", "start", plan_file(tmp_path, "still", {0: [3, 4]}), "-c", config, "--measure-for", "0", "--dry-run",
        "--replica-movements", "1",
    )  # fmt: skip
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout == "still-0: (1,2) → (3,1,2) → (3,2) → (3,4)\n"
    assert plan_store.read_plans(load_settings(config, {})).plans == ()
    assert replicas_of(client, "still") == {0: [1, 2], 1: [2, 3]}


def test_plan_survives_sigkill_and_reaches_its_target(
    lab: Lab, config: Path, client: ReassignmentClient, tmp_path: Path
) -> None:
    make_topic(lab, "moved", BEFORE, 24)
    settings = load_settings(config, {})
    file = plan_file(tmp_path, "moved", TARGET)
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "first.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        given = rheostat(
            "reassign", "start", file, "-c", config, "--measure-for", "0", "--yes", "--detach", "--partition-movements", "2",
            "--replica-movements", "1",
        )  # fmt: skip
        assert given.returncode == 0, given.stderr
        until(lambda: replicas_of(client, "moved") != BEFORE, 20, "it has begun")
        # Without an objective, and with a ceiling of 30 MB/s.
        until(lambda: {key for _, key in rates_of(client)} == {*RATE_KEYS.values()}, 20, "both sides have rates")
        assert all(0 < rate <= 30_000_000 for rate in rates_of(client).values()), rates_of(client)
        until(lambda: client.topic_configs(["moved"], LIST_KEYS.values()).get("moved"), 10, "its lists name it")
        assert tune.end(signal.SIGKILL) == -signal.SIGKILL
    seen = status(config)
    assert 0 < len(seen["Topics"][0]["Partitions"]) <= PARTITIONS
    assert (seen["desired"], seen["ending"]) == ("running", None)
    again = rheostat("reassign", "start", file, "-c", config, "--measure-for", "0", "--yes")
    assert again.returncode == 2
    assert "more: wait until it ends, or run `rheostat reassign cancel" in again.stderr
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "second.log"):
        # Limits can be changed while it runs, and the rest goes at once.
        changed = rheostat("reassign", "limits", "-c", config, "--none")
        assert changed.returncode == 0, changed.stderr
        until(lambda: not plan_store.read_plans(settings).active, 60, "the plan has ended", every_s=0.5)
        until(lambda: not rates_of(client), 20, "the rates of the tuner that was killed are removed")
        until(lambda: not client.topic_configs(["moved"], LIST_KEYS.values()), 10, "its lists are removed")
    until(lambda: replicas_of(client, "moved") == TARGET, 10, "every broker knows")
    first = {p: replicas[0] for p, replicas in TARGET.items()}
    until(lambda: {s.partition: s.leader for s in client.partitions(["moved"])} == first, 10, "the preferred ones lead")
    assert client.reassignments() == []
    ended = status(config)
    assert (ended["ending"], ended["dropped"], ended["CurrentBatch"]) == ("done", [], [])


@pytest.mark.campaign
def test_moves_of_unreadable_plan_keep_their_throttle_after_restart(
    lab: Lab, client: ReassignmentClient, tmp_path: Path
) -> None:
    before = {p: BEFORE[p] for p in range(8)}
    make_topic(lab, "kept", before, 64)
    config = tmp_path / "rheostat.yaml"
    config.write_text(
        lab_config(
            lab,
            http={"port": free_ports(1)[0]},
            cycle_s=1,
            rate_bytes_per_s_max=1_500_000,
            rate_bytes_per_s_min=500_000,
        )
    )
    settings = load_settings(config, {})
    file = plan_file(tmp_path, "kept", {p: TARGET[p] for p in before})

    def lists() -> object:
        return client.topic_configs(["kept"], LIST_KEYS.values()).get("kept")

    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "first.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        given = rheostat("reassign", "start", file, "-c", config, "--measure-for", "0", "--yes", "--detach")
        assert given.returncode == 0, given.stderr
        until(client.reassignments, 20, "it has begun")
        until(lists, 10, "its lists name it")
        assert tune.end(signal.SIGKILL) == -signal.SIGKILL
    (plan,) = plan_store.read_plans(settings).active
    rates = rates_of(client)
    key, orders = head_key("lab", plan.id), producer(lab.kafka_settings(), "newer", linger_ms=0)
    for value in (None, b'{"v": 99}'):  # As a compacted topic has it: no record of it that this version can read.
        orders.send(settings.topic_names().orders, value, key).get(timeout=10)
    orders.close()
    assert plan_store.read_plans(settings).plans == ()
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "second.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until_s = time.monotonic() + 8  # Some cycles.
        until(lambda: time.monotonic() > until_s or not lists() or rates_of(client) != rates, 10, "it is looked at")
        assert client.reassignments(), "it still moves"
        assert lists(), "its lists were taken off"
        assert rates_of(client) == rates
        # It was killed on the way up, and nothing raises these rates: only an operator takes them off before the end.
        released = rheostat("release", "-c", config, "--yes", timeout_s=120)
        assert (released.returncode, lists(), rates_of(client)) == (0, None, {}), released.stdout + released.stderr
        until(lambda: not client.reassignments(), 60, "what is under way ends")
        assert rheostat("resume", "-c", config).returncode == 0


@pytest.mark.campaign
def test_plan_step_is_listed_as_throttled_before_it_copies(
    lab: Lab, client: ReassignmentClient, tmp_path: Path
) -> None:
    """Otherwise small partitions would be copied unthrottled before the next observation."""
    make_topic(lab, "weighed", BEFORE, 48)
    config, rate = tmp_path / "rheostat.yaml", 1_500_000
    steers = {
        "objective": {"latency_ms": 500},
        "capacity": {"in_bytes_per_s": 100_000_000, "out_bytes_per_s": 100_000_000},
    }
    config.write_text(
        lab_config(lab, http={"port": free_ports(1)[0]}, rate_bytes_per_s_max=rate, rate_bytes_per_s_min=rate, **steers)
    )
    settings, bare, seen = load_settings(config, {}), set(), set()

    def unlisted() -> set[tuple[int, int]]:
        copying = {(s.partition, b) for s in client.reassignments() for b in s.adding if b not in s.isr}
        seen.update(copying)
        texts = client.topic_configs(["weighed"], LIST_KEYS.values()) if copying else {}
        lists = TopicThrottle.from_configs(texts.get("weighed", {}))
        return {(p, b) for p, b in copying if not lists.follower.includes(p, b)}

    def ended() -> bool:
        # A broker may tell of its settings a moment later than the controller of what moves.
        if first := unlisted():
            threading.Event().wait(0.1)
            bare.update(first & unlisted())
        return not plan_store.read_plans(settings).active

    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        given = rheostat(
            "reassign",
            "start",
            plan_file(tmp_path, "weighed", TARGET),
            "-c",
            config,
            "--measure-for",
            "0",
            "--yes",
            "--detach",
        )
        assert given.returncode == 0, given.stderr
        until(ended, 120, "the plan has ended", every_s=0.05)
        assert seen, "nothing was seen to move"
        assert not bare, "copied, and not on the throttled-replica list"
        until(lambda: not client.topic_configs(["weighed"], LIST_KEYS.values()), 40, "the lists are taken back")
    assert replicas_of(client, "weighed") == TARGET


@pytest.mark.campaign
def test_cancelled_plan_rolls_back_running_partitions(
    lab: Lab, config: Path, client: ReassignmentClient, tmp_path: Path
) -> None:
    before = {p: [1, 2] for p in range(8)}
    target = {p: [3, 4] for p in range(8)}
    make_topic(lab, "back", before, 8)
    file = plan_file(tmp_path, "back", target)
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        given = rheostat(
            "reassign", "start", file, "-c", config, "--measure-for", "0", "--yes", "--detach", "--partition-movements", "2",
            "--replica-movements", "1",
        )  # fmt: skip
        assert given.returncode == 0, given.stderr
        until(lambda: any(len(r) == 3 or 3 in r for r in replicas_of(client, "back").values()), 20, "it has begun")
        paused = rheostat("reassign", "pause", "-c", config)
        assert (paused.returncode, "paused: running steps finish" in paused.stdout) == (0, True), paused.stderr
        until(lambda: not client.reassignments(), 20, "what was under way has ended")
        halfway = replicas_of(client, "back")
        assert halfway != target
        cancelled = rheostat("reassign", "cancel", "-c", config)
        assert (cancelled.returncode, "being rolled back" in cancelled.stdout) == (0, True), cancelled.stderr
        settings = load_settings(config, {})
        until(lambda: not plan_store.read_plans(settings).active, 40, "the plan has ended", every_s=0.5)
        arrived = {p for p, replicas in halfway.items() if replicas == target[p]}
        expected = {p: target[p] if p in arrived else before[p] for p in before}
        until(lambda: replicas_of(client, "back") == expected, 10, "every broker knows")
    assert status(config)["ending"] == "cancelled"


def test_recreated_topic_is_distinguished_from_the_old_one(lab: Lab, client: ReassignmentClient) -> None:
    def make() -> str:
        with lab.admin() as admin:
            admin.create_topics([NewTopic("again", replica_assignments={0: [1, 2]})])
        wait_for_metadata(lab)
        return client.topic_ids(["again", "nowhere"])["again"]

    first = make()
    look = KafkaReassignmentActuator(client).read_snapshot({"again"})
    assert isinstance(look, ReassignmentSnapshot)
    assert look.topic_ids == {"again": first}
    with lab.admin() as admin:
        admin.delete_topics(["again"])
    wait_for_metadata(lab)
    assert not client.topic_ids(["again"])
    assert make() != first
