"""The table of rights on a cluster with an authorizer: each process runs with exactly the rights of its role.

docs/reference/permissions.md is made from the same table.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import kafka.errors
import pytest
import yaml
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType
from lab_parts import RHEOSTAT, Running, rheostat, running, until
from permission_tables import CLUSTER, PREFIX, ROLE_OF, USERS, acls

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import free_ports
from streaming.shared import kafka_names
from streaming.shared.contract import Topics, encode_history, history_key
from streaming.shared.kafka import KafkaSettings, producer
from streaming.shared.kafka.cluster import ClusterClient, MissingPermission
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.topics import ensure_topics

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from week_cases import history_week

TOPICS = Topics.with_prefix(PREFIX)
# One broker: a right is then effective everywhere as soon as it is anywhere.
LAB = LabSpec(brokers=1, users={name: f"pw-{name}" for name in (*USERS, "stranger")})
STARTED_S_MAX = 180.0


@pytest.fixture(scope="module", autouse=True)
def granted(lab: Lab) -> None:
    """Grants each table to a user of its own; then the user "creator" creates the topics."""
    every = [acl for user, role in ROLE_OF.items() for right in role.permissions for acl in acls(user, right)]
    with lab.admin() as admin:
        admin.create_acls(every)

    def made() -> bool:
        with ClusterClient(kafka_of(lab, "creator"), "test") as client:
            try:
                ensure_topics(client, TOPICS)
                return {state.topic for state in client.partitions(vars_of(TOPICS))} == set(vars_of(TOPICS))
            except MissingPermission:
                return False  # Not effective yet.

    until(made, 20, "the creator makes the topics")


def vars_of(topics: Topics) -> list[str]:
    return [getattr(topics, name) for name in Topics.__slots__]


def kafka_of(lab: Lab, user: str) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=lab.sasl_bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
        sasl_username=user, sasl_password=f"pw-{user}", request_timeout_s=5.0,
    )  # fmt: skip


def config_of(lab: Lab, user: str, folder: Path, **tuner: Any) -> Path:
    body = {
        "cluster": CLUSTER, "topics": {"prefix": PREFIX},
        "kafka": kafka_of(lab, user).model_dump(mode="json", exclude_none=True) | {"sasl_password": f"pw-{user}"},
        "collector": {"endpoints": lab.jmx_urls(), "timeout_s": 5, "interval_s": 1, "http": {"port": None}},
        "stream": {"checkpoint_dir": str(folder / "checkpoint"), "http": {"port": None}},
        "tuner": {"rate_bytes_per_s_max": 50_000_000, "dry_run": False, "http": {"port": 0}, **tuner},
    }  # fmt: skip
    file = folder / f"{user}.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


def started(run: Running, event: str) -> None:
    until(
        lambda: any(line["event"].startswith(event) for line in run.lines()), STARTED_S_MAX,
        lambda: f"{event}: {run.said()[-2000:]}",
    )  # fmt: skip


def write_history(lab: Lab) -> None:
    sender = producer(lab.kafka_settings(), "test-history")
    for period in history_week(CLUSTER, (1,), round(time.time() * 1000), days=0.5):
        sender.send(TOPICS.history, key=history_key(period), value=encode_history(period))
    sender.flush(timeout=20)
    sender.close(timeout=5)


def has_learned_week(port: int) -> bool:
    """Returns whether the tuner answers with the history and the profile of broker 1."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/brokers/1/week", timeout=5) as answer:
            week = json.loads(answer.read())
    except OSError:
        return False  # Not ready yet.
    return bool(week["client_in_bytes_per_s"]) and week["forecast"] is not None


@pytest.mark.campaign
def test_each_process_runs_with_the_rights_of_its_table(lab: Lab, tmp_path: Path) -> None:
    """The whole chain runs: metrics, signals, history, profiles, an active tuner, and an operator who pauses it."""
    write_history(lab)
    active_port, dry_port = free_ports(2)
    for name in ("collector", "stream", "tuner", "dry", "learner"):
        (tmp_path / name).mkdir()
    files = {
        "collector": config_of(lab, "collector", tmp_path / "collector"),
        "stream": config_of(lab, "stream", tmp_path / "stream"),
        "tuner": config_of(lab, "tuner", tmp_path / "tuner", http={"port": active_port}),
        "dry": config_of(lab, "dry", tmp_path / "dry", dry_run=True, http={"port": dry_port}),
        "learner": config_of(lab, "learner", tmp_path / "learner"),
        "reader": config_of(lab, "reader", tmp_path),
        "operator": config_of(lab, "operator", tmp_path),
    }
    with (
        running(*RHEOSTAT, "collect", "--config", files["collector"], log=tmp_path / "collect.log") as collect,
        running(*RHEOSTAT, "stream", "--config", files["stream"], log=tmp_path / "stream.log") as stream,
        running(*RHEOSTAT, "tune", "--config", files["tuner"], log=tmp_path / "tune.log") as tune,
        running(*RHEOSTAT, "tune", "--config", files["dry"], log=tmp_path / "dry.log") as dry,
        running(*RHEOSTAT, "learn", "--config", files["learner"], log=tmp_path / "learn.log") as learn,
    ):
        started(tune, "active")
        started(dry, "dry run: the tuner decides, but writes nothing")
        started(stream, "the first batch is processed")
        started(learn, "learn started")
        for port, run in ((active_port, tune), (dry_port, dry)):
            until(
                lambda port=port: has_learned_week(port), STARTED_S_MAX,
                lambda run=run: f"no week with a profile: {run.said()[-2000:]} {learn.said()[-2000:]}",
            )  # fmt: skip
        seen = rheostat("signals", "--config", files["reader"], "--duration", "20")
        assert seen.returncode == 0, seen.stdout + seen.stderr
        paused = rheostat("pause", "--config", files["operator"])
        assert paused.returncode == 0, paused.stdout + paused.stderr
        said = rheostat("status", "--config", files["reader"], "--json")
        assert "User:" not in said.stderr
        assert '"paused"' in said.stdout or "pause" in said.stdout, said.stdout + said.stderr
        active = {part: json.loads(said.stdout)[part]["state"] for part in ("collector", "stream")}
        assert active == {"collector": "active", "stream": "active"}
        resumed = rheostat("resume", "--config", files["operator"])
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        for run in (collect, stream, tune, dry, learn):
            assert run.alive()
            assert "missing right" not in run.said()
            assert "missing permission" not in run.said()
            assert "Authorization" not in run.said()
        assert "the collector acts" in collect.said()
        assert "the stream acts" in stream.said()
        for run in (tune, dry, collect, learn):
            assert run.end(signal.SIGTERM, 20) == 0


@pytest.mark.campaign
def test_quotas_are_measured_and_calibrated_with_the_rights_of_the_table(lab: Lab, tmp_path: Path) -> None:
    file = config_of(lab, "calibrator", tmp_path)
    measured = rheostat("quotas", "measure", "--config", file, "--for", "3s", "--yes", timeout_s=120)
    assert measured.returncode == 0, measured.stderr
    short = ("--for", "20s", "--partitions-max", "40", "--partitions", "2", "--latency-max", "3s", "--yes")
    calibrated = rheostat("quotas", "calibrate", "--config", file, *short, timeout_s=180)
    assert "creations" in calibrated.stdout, calibrated.stdout + calibrated.stderr
    assert "missing right" not in calibrated.stderr
    with ClusterClient(lab.kafka_settings(), "test") as client:
        assert not [state for state in client.partitions() if ".calibrate." in state.topic]


@pytest.mark.campaign
def test_calibration_without_right_to_delete_ends_at_its_first_topic(lab: Lab, tmp_path: Path) -> None:
    topics = ResourcePattern(ResourceType.TOPIC, f"{PREFIX}.calibrate.", ACLResourcePatternType.PREFIXED)
    denied = ACL("User:calibrator", "*", ACLOperation.DELETE, ACLPermissionType.DENY, topics)
    file = config_of(lab, "calibrator", tmp_path)
    with lab.admin() as admin, TopicMutationClient(lab.kafka_settings(), "test") as client:

        def left() -> list[str]:
            return [state.topic for state in client.partitions() if ".calibrate." in state.topic]

        admin.create_acls([denied])
        try:
            refused = rheostat("quotas", "calibrate", "--config", file, "--yes", timeout_s=90)
        finally:
            admin.delete_acls([denied])
        assert refused.returncode != 0
        assert "The calibration cannot delete its topics: missing right: Delete on Topic" in refused.stderr
        assert "1 topic could not be deleted: missing right" in refused.stderr
        (topic,) = left()
        until(lambda: client.delete_through(1, topic) is None and not left(), 20, "the topic is deleted")


def test_operator_writes_orders_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    for topic in (TOPICS.journal, TOPICS.signals, TOPICS.metrics, TOPICS.inputs):
        sender = producer(kafka_of(lab, "operator"), "test")
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            sender.send(topic, key=b"memory|lab", value=b"{}").get(timeout=10)
        sender.close(timeout=5)
    stranger = rheostat("pause", "--config", config_of(lab, "stranger", tmp_path))
    assert stranger.returncode != 0
    assert f"Topic {TOPICS.orders}" in stranger.stderr


@pytest.mark.parametrize("user", ["collector", "stream", "reader", "dry", "operator"])
def test_only_the_tuner_may_change_settings(lab: Lab, user: str) -> None:
    with ClusterClient(kafka_of(lab, user), "test") as client:
        for answers in (
            client.alter_broker_configs({1: {kafka_names.LEADER_RATE: "1"}}, validate_only=True),
            client.alter_topic_configs({TOPICS.metrics: {kafka_names.LEADER_REPLICAS: None}}, validate_only=True),
        ):
            assert all(isinstance(answer, MissingPermission) for answer in answers.values())


@pytest.mark.campaign
def test_tuner_waits_while_the_journal_topic_deletes_records(lab: Lab, tmp_path: Path) -> None:
    with ClusterClient(lab.kafka_settings(), "test") as client:

        def set_policy(policy: str) -> None:
            (failed,) = client.alter_topic_configs({TOPICS.journal: {"cleanup.policy": policy}}).values()
            assert failed is None

        set_policy("delete")
        try:
            with running(
                *RHEOSTAT, "tune", "--config", config_of(lab, "tuner", tmp_path), log=tmp_path / "t.log"
            ) as tune:
                until(lambda: "could not be read back, so no tuner acts" in tune.said(), STARTED_S_MAX, tune.said)
                assert f"--entity-name {TOPICS.journal} --add-config cleanup.policy=compact" in tune.said()
                set_policy("compact")
                started(tune, "active")
        finally:
            set_policy("compact")


def test_doctor_names_other_principals_with_write_rights(lab: Lab, tmp_path: Path) -> None:
    done = rheostat("doctor", "--config", config_of(lab, "tuner", tmp_path))
    lines = {
        topic: line
        for line in done.stdout.splitlines()
        for topic in (TOPICS.orders, TOPICS.journal, TOPICS.history, TOPICS.profiles)
        if f"writers of {topic}" in line
    }
    assert "User:operator: each may pause" in lines[TOPICS.orders]
    assert "User:stream: each may give `rheostat learn` a false history" in lines[TOPICS.history]
    assert "User:learner: each may give a tuner false usual latencies" in lines[TOPICS.profiles]
    assert "User:dry: each may change which settings a tuner regards as rheostat's own" in lines[TOPICS.journal]
    assert "User:reader" not in "".join(lines.values())
