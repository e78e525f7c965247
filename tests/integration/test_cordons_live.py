"""Cordons (KIP-1066) on real brokers with two log directories: a drain that cordons first, cordons of other tools, and older versions."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeLogDirsRequest
from lab_parts import RHEOSTAT, rheostat, running, until
from prometheus_client.parser import text_string_to_metric_families
from story_kit import make_topic

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.orders.send import read_orders
from rheostat.reassign import plan_store
from streaming.shared.kafka.cordons import read_known_cordons
from streaming.shared.kafka.placed_topics import PlacingClient
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.kafka.values import TopicCreation
from streaming.shared.kafka_names import CORDONED_LOG_DIRS
from streaming.shared.lease import lease_group

pytestmark = pytest.mark.campaign

PARTITIONS = 8
CORDONED_TARGETS = "rheostat_plan_cordoned_targets"


# Kafka 4.3 accepts replicas on a cordoned broker if a client names the brokers, so rheostat's own checks count. 4.4 refuses them.
@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(LabSpec(brokers=4, log_dir_count=2, kafka=request.param)) as started:
        yield started


@pytest.fixture
def config(lab: Lab, tmp_path: Path) -> Path:
    file = tmp_path / "rheostat.yaml"
    file.write_text(
        lab_config(
            lab,
            http={"port": free_ports(1)[0]},
            cycle_s=1,
            rate_bytes_per_s_max=2_000_000,
            rate_bytes_per_s_min=500_000,
        )
    )
    return file


@pytest.fixture
def client(lab: Lab) -> Iterator[ReassignmentClient]:
    with ReassignmentClient(lab.kafka_settings(), "test") as opened:
        yield opened
        opened.alter_broker_configs({node.node_id: {CORDONED_LOG_DIRS: None} for node in lab.brokers})


def dirs(lab: Lab, broker: int) -> list[str]:
    return [str(folder) for folder in lab.nodes[broker].log_dirs]


def entries(client: ReassignmentClient, broker: int) -> tuple[str, ...]:
    return read_known_cordons(client, [broker])[broker].entries


def cordon(client: ReassignmentClient, broker: int, folders: list[str]) -> None:
    """Cordons log directories as another tool does, and waits until the broker shows it."""
    value = ",".join(folders) or None
    assert client.alter_broker_configs({broker: {CORDONED_LOG_DIRS: value}}) == {broker: None}
    until(lambda: list(entries(client, broker)) == folders, 10, "the broker shows the cordon")


def holders(client: ReassignmentClient, topic: str | None = None) -> set[int]:
    return {b for s in client.partitions(None if topic is None else [topic]) for b in s.replicas}


def topics_by_dir(client: ReassignmentClient, broker: int) -> dict[str, set[str]]:
    answer = client._connection.send_each("dirs", {broker: DescribeLogDirsRequest(topics=None)})[broker]
    return {str(r.log_dir): {str(t.name) for t in r.topics} for r in answer.results}


def run(*arguments: str | Path, code: int = 0) -> str:
    done = rheostat(*arguments, timeout_s=150)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def status_texts(config: Path) -> list[str]:
    done = rheostat("status", "-c", config, "--json")
    return [row["text"] for row in json.loads(done.stdout)["cordons"]]


def metrics(config: Path, name: str) -> dict[tuple[str, ...], float]:
    """Returns the samples of one metric of the tuner, by the values of their labels except the cluster."""
    port = load_settings(config, {}).tuner.http.port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(v for k, v in sorted(s.labels.items()) if k != "cluster"): s.value for s in samples}


def start(config: Path, file: Path) -> None:
    run("reassign", "start", file, "-c", config, "--measure-for", "0", "--yes", "--detach")


def plan_of(config: Path) -> Any:
    (plan,) = [p for p in plan_store.read_plans(load_settings(config, {})).plans if p.is_active]
    return plan


def test_drain_cordons_first_and_release_lifts_only_its_own(
    lab: Lab, config: Path, client: ReassignmentClient, tmp_path: Path
) -> None:
    make_topic(lab, "drained", {p: [3, 1 + p % 2] for p in range(PARTITIONS)}, 8)
    cordon(client, 2, dirs(lab, 2)[:1])  # Another tool's: one of two directories.
    file = tmp_path / "plan.json"
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        printed = run(
            "plan", "generate", "-c", config, "--drain-broker", "3", "--cordon", "--out", file, "--write-rate", "0"
        )
        assert "cordons broker 3 before the first step" in printed
        assert json.loads(file.read_text())["cordon"] == [3]
        start(config, file)
        until(lambda: entries(client, 3) == tuple(dirs(lab, 3)), 20, "the broker is cordoned")
        # Kafka itself places nothing there any more.
        client.create_topics([TopicCreation("auto", 12, 2, {})])
        until(
            lambda: not plan_store.read_plans(load_settings(config, {})).active, 120, "the plan has ended", every_s=0.5
        )
        assert "done; no replica is left on broker 3." in run("reassign", "status", "-c", config)
        assert 3 not in holders(client)
        assert entries(client, 3) == tuple(dirs(lab, 3)), "it stays cordoned"
        directories = {("3", "rheostat"): 2, ("2", "external"): 1}
        until(lambda: metrics(config, "rheostat_cordoned_log_dirs") == directories, 30, "the metric counts directories")
        texts = status_texts(config)
        assert any("Broker 3 is cordoned" in text and "by rheostat for plan" in text for text in texts), texts
        assert any("Broker 2 has cordoned log directories" in text and "by another tool" in text for text in texts)
        doctor = rheostat("doctor", "-c", config, timeout_s=90).stdout
        assert "Broker 3 is cordoned" in doctor, doctor
        # No placement of rheostat uses it, and broker 2 stores its replicas in the other directory.
        refused = run(
            "limits", "create", "-c", config, "--topic", "four", "--partitions", "1", "--replication", "4", code=2
        )
        assert "3 are alive and not cordoned (cordoned by cordoned.log.dirs: 3)" in refused
        run("limits", "create", "-c", config, "--topic", "three", "--partitions", "6", "--replication", "3")
        assert holders(client, "three") == {1, 2, 4}
        cordoned, other = dirs(lab, 2)
        until(lambda: "three" in topics_by_dir(client, 2)[other], 10, "the replicas are stored")
        assert "three" not in topics_by_dir(client, 2)[cordoned]
        replaced = run("plan", "generate", "-c", config, "--replace", "1=3", "--write-rate", "0", code=2)
        assert "--replace: broker 3 is cordoned, so it takes no new replicas" in replaced
        released = run("release", "-c", config, "--yes")
        assert entries(client, 3) == (), released
        assert list(entries(client, 2)) == dirs(lab, 2)[:1], "the cordon of another tool stays"
        assert read_orders(load_settings(config, {})).cordons.brokers == []
        run("resume", "-c", config)


def test_cancelled_drain_lifts_its_cordon_and_rolls_back(
    lab: Lab, config: Path, client: ReassignmentClient, tmp_path: Path
) -> None:
    before = {p: [3, 1] for p in range(PARTITIONS)}
    make_topic(lab, "back", before, 64)
    file = tmp_path / "plan.json"
    targets = [{"topic": "back", "partition": p, "replicas": [4, 1]} for p in before]
    file.write_text(json.dumps({"version": 1, "partitions": targets, "cordon": [3]}))
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        start(config, file)
        until(lambda: any(4 in s.adding for s in client.reassignments()), 30, "it moves")
        assert entries(client, 3) == tuple(dirs(lab, 3)), "cordoned before the first step"
        run("reassign", "cancel", "-c", config)
        until(lambda: not plan_store.read_plans(load_settings(config, {})).active, 60, "it has ended", every_s=0.5)
        until(lambda: entries(client, 3) == (), 20, "the cordon is lifted")
        assert read_orders(load_settings(config, {})).cordons.brokers == []


def test_target_that_another_tool_cordons_stops_its_steps_by_name(
    lab: Lab, config: Path, client: ReassignmentClient, tmp_path: Path
) -> None:
    before = {p: [1, 2] for p in range(4)}
    make_topic(lab, "stopped", before, 40)
    file = tmp_path / "plan.json"
    targets = [{"topic": "stopped", "partition": p, "replicas": [1, 4]} for p in before]
    file.write_text(json.dumps({"version": 1, "partitions": targets}))
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        start(config, file)
        until(lambda: any(4 in s.adding for s in client.reassignments()), 30, "it moves")
        cordon(client, 4, dirs(lab, 4))
        until(lambda: not client.reassignments(), 20, "the steps are stopped")
        assert any("broker 4 is cordoned" in line and "stopped-" in line for line in plan_of(config).state.blockers)
        assert "broker 4 is cordoned" in run("reassign", "status", "-c", config, code=1)
        until(lambda: [*metrics(config, CORDONED_TARGETS).values()] == [1], 10, "the metric names the target")
        cordon(client, 4, [])
        until(lambda: any(4 in s.adding for s in client.reassignments()), 30, "it goes on")
        until(lambda: [*metrics(config, CORDONED_TARGETS).values()] == [0], 10, "no target is cordoned")
        assert plan_of(config).state.stopped_externally == {}
        run("reassign", "cancel", "-c", config, "--no-rollback")


def test_cordon_that_takes_effect_after_the_cancel_is_lifted(
    lab: Lab, config: Path, client: ReassignmentClient, tmp_path: Path
) -> None:
    if lab.spec.kafka != "4.4.0":
        pytest.skip("one version is enough: the controller takes late requests in each of them")
    make_topic(lab, "late", {p: [3, 1] for p in range(PARTITIONS)}, 8)
    file = tmp_path / "plan.json"
    targets = [{"topic": "late", "partition": p, "replicas": [4, 1]} for p in range(PARTITIONS)]
    file.write_text(json.dumps({"version": 1, "partitions": targets, "cordon": [3]}))
    controller = lab.nodes[100].process
    assert controller is not None
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        # The command needs the controller. So the plan begins paused, and the tuner sets its cordon after the resumption.
        run("pause", "-c", config)
        start(config, file)
        until(lambda: "broker 3: paused by" in tune.said(), 30, "the tuner knows the plan")
        controller.send_signal(signal.SIGSTOP)
        try:
            rheostat("resume", "-c", config, timeout_s=90)
            until(lambda: "not done: broker 3: cordons" in tune.said(), 90, "the request to cordon gets no answer")
            rheostat("reassign", "cancel", "-c", config, timeout_s=90)
        finally:
            controller.send_signal(signal.SIGCONT)
        until(lambda: '"action": "lift_cordon"' in tune.said(), 60, "the cordon has taken effect late, and is lifted")
        until(lambda: entries(client, 3) == (), 20, "the cordon is lifted")
        until(lambda: read_orders(load_settings(config, {})).cordons.brokers == [], 20, "nothing is on record")
        until(
            lambda: not plan_store.read_plans(load_settings(config, {})).active, 60, "the plan has ended", every_s=0.5
        )
        assert holders(client, "late") == {1, 3}


def test_older_kafka_is_named_in_one_sentence(tmp_path: Path) -> None:
    with Lab(LabSpec(brokers=3, kafka="4.2.2")) as lab:
        file = tmp_path / "rheostat.yaml"
        file.write_text(lab_config(lab, http={"port": free_ports(1)[0]}))
        with PlacingClient(lab.kafka_settings(), "test") as client:
            assert client.create_placed("old", [[3, 1]], {}) is None
        printed = run("plan", "generate", "-c", file, "--drain-broker", "3", "--cordon", "--write-rate", "0", code=1)
        assert "cordoned log directories need Kafka 4.3 or newer, and it runs Kafka 4.2" in printed
        plan = tmp_path / "plan.json"
        moves = [{"topic": "old", "partition": 0, "replicas": [2, 1]}]
        plan.write_text(json.dumps({"version": 1, "partitions": moves, "cordon": [3]}))
        refused = run("reassign", "start", plan, "-c", file, "--measure-for", "0", "--dry-run", code=1)
        assert '"cordon" in the plan: broker 3 cannot be cordoned' in refused
