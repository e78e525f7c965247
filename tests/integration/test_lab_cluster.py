"""Properties of a running lab."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError
from lab_parts import MakeLab, java_processes_of, until, wait_for_metadata

from rheostat.errors import SetupError
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.lab import cluster
from rheostat.lab.cluster import Lab, LabError, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import HOST, free_ports
from streaming.collector.jmx import read_samples
from streaming.shared.contract import Metric, NodeRole
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.values import TopicCreation

START_S_MAX = 80.0  # About 10 on two idle cores; the rest is for a machine that does other things too.

LAB = LabSpec(
    brokers=2,
    settings={"log.retention.hours": "7"},
    broker_settings={"num.replica.fetchers": "2", "log.segment.bytes": "2000000"},
    settings_by_node={2: {"num.replica.fetchers": "3"}},
)


def test_lab_starts_within_seconds_with_every_broker_registered(lab: Lab) -> None:
    with ClusterClient(lab.kafka_settings(), "test") as client:
        until(lambda: sorted(e.node for e in client.brokers()) == [1, 2], 10, "a broker knows both", is_bound=True)
        # Registered is not enough: a broker that is still fenced takes no replica.
        client.create_topics([TopicCreation("at-once", 4, 2, {})])
        until(lambda: len(client.partitions(["at-once"])) == 4, 30, "a broker knows the topic")
        wait_for_metadata(lab)
        assert [sorted(state.isr) for state in client.partitions(["at-once"])] == [[1, 2]] * 4

    assert lab.start_s < START_S_MAX
    assert {n.node_id: n.role for n in lab.nodes.values()} == {
        100: NodeRole.CONTROLLER,
        1: NodeRole.BROKER,
        2: NodeRole.BROKER,
    }
    assert sorted(java_processes_of(lab.home)) == sorted(n.process.pid for n in lab.nodes.values() if n.process)


def test_every_lab_node_runs_the_jmx_agent(lab: Lab) -> None:
    for node in lab.nodes.values():
        names = {sample.name for sample in read_samples(node.jmx_url, 60)}

        if node.role is NodeRole.BROKER:
            # The throttles' own rates are not there before a throttled byte; test_collector_live.py sees them.
            assert {Metric.CLIENT_IN, Metric.REPLICATION_IN, Metric.HANDLER_IDLE, Metric.PARTITION_COUNT} <= names
        else:
            assert any(name.startswith("kafka_controller_") for name in names)
        # Ours are tailored: the catch-all of the agent gives thousands.
        assert 10 < len(names) < 150


def test_settings_apply_to_all_nodes_brokers_or_one_node(lab: Lab) -> None:
    keys = ["log.retention.hours", "num.replica.fetchers", "log.segment.bytes"]
    with ClusterClient(lab.kafka_settings(), "test") as client:
        answers = client.broker_configs([1, 2], keys)
    found = {b: {k: v.value for k, v in a.items()} for b, a in answers.items() if not isinstance(a, ClusterError)}

    assert found == {
        1: {"log.retention.hours": "7", "num.replica.fetchers": "2", "log.segment.bytes": "2000000"},
        2: {"log.retention.hours": "7", "num.replica.fetchers": "3", "log.segment.bytes": "2000000"},
    }


def test_record_written_to_lab_is_replicated(lab: Lab) -> None:
    with lab.admin() as admin:
        admin.create_topics([NewTopic("written", num_partitions=1, replication_factor=2)])
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, "written", rate_bytes_per_s=None, total_bytes=1_000_000
    ) as load:  # fmt: skip
        assert load.wait(60) > 0

    with ClusterClient(lab.kafka_settings(), "test") as client:

        def both_have_it() -> bool:
            sizes = client.log_sizes([1, 2], [("written", 0)])
            return all(not isinstance(s, ClusterError) and s.get(("written", 0), 0) > 1_000_000 for s in sizes.values())

        until(both_have_it, 20, "both replicas hold the megabyte")


def test_producer_load_keeps_its_rate(lab: Lab) -> None:
    with lab.admin() as admin:
        admin.create_topics([NewTopic("paced", num_partitions=1, replication_factor=1)])
    began = time.monotonic()
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, "paced", rate_bytes_per_s=500_000, total_bytes=1_000_000
    ) as load:  # fmt: skip
        load.wait(60)

    assert time.monotonic() - began >= 1.8


def test_two_labs_run_side_by_side(lab: Lab, make_lab: MakeLab) -> None:
    other = make_lab(LabSpec(brokers=1))

    ports = [p for a in (lab, other) for n in a.nodes.values() for p in (n.port, n.jmx_port)]
    assert len(set(ports)) == len(ports)
    for standing in (lab, other):
        with standing.admin() as admin:
            assert admin.describe_cluster()["cluster_id"] == standing.cluster_id
    with (
        ClusterClient(lab.kafka_settings(), "test") as one,
        ClusterClient(other.kafka_settings(), "test") as two,
    ):
        assert len(one.brokers()) == 2
        assert len(two.brokers()) == 1


def test_three_controllers_survive_loss_of_the_active_one(make_lab: MakeLab) -> None:
    lab = make_lab(LabSpec(brokers=1, controllers=3))
    controllers = [n for n in lab.nodes.values() if n.role is NodeRole.CONTROLLER]
    assert [n.node_id for n in controllers] == [100, 101, 102]

    def quorum() -> tuple[int, int]:
        """Returns the leader and the number of voters."""
        try:
            with lab.admin() as admin:
                partition = admin.describe_metadata_quorum()["topics"][0]["partitions"][0]
        except KafkaError:  # Between two leaders no controller answers the broker.
            return -1, 0
        return int(partition["leader_id"]), len(partition["current_voters"])

    leader, voters = until(lambda: (found := quorum())[0] != -1 and found, 30, "a controller leads")
    assert voters == 3
    lab.nodes[leader].kill()

    until(lambda: quorum()[0] not in (leader, -1), 30, "another controller leads")

    def is_created() -> bool:
        try:
            with lab.admin() as admin:
                admin.create_topics([NewTopic("after", num_partitions=1, replication_factor=1)])
        except TopicAlreadyExistsError:
            return True
        except KafkaError:  # The broker still asks the controller that was killed.
            return False
        return True

    until(is_created, 60, "the new controller creates a topic")


def test_node_that_cannot_start_is_named_with_its_log() -> None:
    lab = Lab(LabSpec(brokers=1, settings_by_node={1: {"log.segment.bytes": "many"}}))

    with pytest.raises(LabError) as raised, lab:
        pytest.fail("it came up")

    log = lab.nodes[1].log
    assert "broker-1" in str(raised.value)
    assert "log.segment.bytes" in str(raised.value)
    assert str(log) in str(raised.value)
    assert "log.segment.bytes" in log.read_text()
    assert java_processes_of(lab.home) == []
    assert [entry.name for entry in lab.home.iterdir()] == ["logs"]
    for kept in log.parent.iterdir():
        kept.unlink()
    log.parent.rmdir()
    lab.home.rmdir()


def test_lab_with_taken_port_retries_other_ports(monkeypatch: pytest.MonkeyPatch, make_lab: MakeLab) -> None:
    """Another process takes the port of the broker's JMX agent after it was found free, on the first try only.

    The test uses the agent's port because a broker without it ends at once; without its listener it takes half a minute.
    """
    tries: list[int] = []

    with socket.socket() as thief:
        thief.bind((HOST, 0))
        thief.listen()

        def unlucky(count: int) -> list[int]:
            tries.append(count)
            ports = free_ports(count)
            if len(tries) == 1:
                ports[3] = thief.getsockname()[1]  # Two are the controller's; then Kafka's and the agent's of broker 1.
            return ports

        monkeypatch.setattr(cluster, "free_ports", unlucky)
        lab = make_lab(LabSpec(brokers=1))

    assert len(tries) == 2
    with ClusterClient(lab.kafka_settings(), "test") as client:
        assert len(client.brokers()) == 1


def test_failure_inside_a_lab_leaves_no_process_or_data() -> None:
    """The broker is suspended and ignores every request to end."""

    lab = Lab(LabSpec(brokers=1))

    def fail() -> NoReturn:
        frozen = lab.nodes[1].process
        assert frozen is not None
        os.kill(frozen.pid, signal.SIGSTOP)
        raise RuntimeError("a test failed")

    with pytest.raises(RuntimeError, match="a test failed"), lab:
        fail()

    assert java_processes_of(lab.home) == []
    assert not lab.home.exists()


def test_lab_without_broker_or_odd_quorum_is_refused() -> None:
    for spec in ({"brokers": 0}, {"controllers": 2}, {"controllers": 0}):
        with pytest.raises(ValueError, match="at least one broker"):
            LabSpec(**spec)


def test_missing_java_is_reported_before_any_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(SetupError, match="No Java on PATH"), Lab(LabSpec(brokers=1)):
        pytest.fail("it came up")

    assert list(tmp_path.iterdir()) == []


def test_first_lab_records_class_archive_that_later_labs_use(tmp_path: Path) -> None:
    artifacts = replace(resolve_artifacts(), home=tmp_path)
    with Lab(LabSpec(brokers=1), artifacts=artifacts):
        assert not list(tmp_path.iterdir())
    (archive,) = tmp_path.iterdir()
    assert archive.suffix == ".jsa"
    with Lab(LabSpec(brokers=1), artifacts=artifacts) as lab:
        for node in lab.nodes.values():
            assert node.process is not None
            assert str(archive) in Path(f"/proc/{node.process.pid}/maps").read_text(), node.name
    assert list(tmp_path.iterdir()) == [archive]


def test_failure_inside_first_lab_records_no_class_archive(tmp_path: Path) -> None:
    artifacts = replace(resolve_artifacts(), home=tmp_path)
    with pytest.raises(ZeroDivisionError), Lab(LabSpec(brokers=1), artifacts=artifacts):
        _ = 1 / 0
    assert not list(tmp_path.iterdir())
