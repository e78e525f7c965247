"""`rheostat quotas calibrate` on real brokers: it proposes a quota, and leaves nothing behind, whatever ends it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_parts import RHEOSTAT, MakeLab, rheostat, running, until, wait_for_metadata

from rheostat.config.settings import load_settings
from rheostat.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED, EXIT_NOT_CONFIRMED, EXIT_NOT_WELL
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import NodeRole
from rheostat.orders.send import read_orders
from rheostat.quotas.calibrate.own_topics import MARKER, RunName, is_calibration_topic
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka import producer
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.topic_mutations import MutationRefused, TopicMutationClient
from tuner.core.operator_orders import QuotaTrialKind

LAB = LabSpec(brokers=2)
# Limits that a busy machine keeps as well.
LENIENT = {
    "RHEOSTAT_COLLECTOR__TIMEOUT_S": "10s",
    "RHEOSTAT_TUNER__MUTATION_QUOTA__OBJECTIVE__CREATE_PROBE_P90_MS_MAX": "3s",
    "RHEOSTAT_TUNER__MUTATION_QUOTA__OBJECTIVE__IDLE_RATIO_MIN": "0.05",
}
SHORT = ("--partitions-max", "120", "--partitions", "2", "--replication", "2", "--yes", "--json")
CALIBRATED_S_MAX = 400.0
DEFAULT = QuotaEntity(client_id=Default.DEFAULT)


@pytest.fixture
def client(lab: Lab) -> Iterator[TopicMutationClient]:
    with TopicMutationClient(lab.kafka_settings(), "test-calibrate") as client:
        yield client
        for topic in client_topics(client):
            client.delete_through(client.brokers()[0].node, topic)


def client_topics(client: TopicMutationClient) -> set[str]:
    return {state.topic for state in client.partitions() if is_calibration_topic("rheostat", state.topic)}


def assert_no_topic(client: TopicMutationClient) -> None:
    """A broker may list a deleted topic for a moment."""
    until(lambda: not client_topics(client), 10, lambda: f"no topic of a calibration: {client_topics(client)}")


def total_on_record(config: Path) -> float | None:
    trial = read_orders(load_settings(config)).orders.trials[QuotaTrialKind.CALIBRATE]
    assert trial.until_ms > trial.at_ms
    return trial.total_per_s


def test_calibration_measures_each_kind_and_proposes_quota(lab_config_file: Path, client: TopicMutationClient) -> None:
    done = rheostat(
        "quotas",
        "calibrate",
        "--config",
        lab_config_file,
        "--for",
        "2m",
        *SHORT,
        env=LENIENT,
        timeout_s=CALIBRATED_S_MAX,
    )
    assert done.returncode == EXIT_DONE, done.stderr
    report = json.loads(done.stdout)
    assert {step["kind"] for step in report["steps"]} == {"create", "add", "delete"}
    assert [(e["kind"], e["size"]) for e in report["estimates"]] == [("create", 2), ("add", 2), ("delete", 2)]
    assert report["measures_controller"], "the agent of the controller is read"
    assert report["rest_p90_ms"] < report["objective"]["create_probe_p90_ms_max"] == 3_000
    proposal = report["proposal"]
    kept = min(estimate["low_per_s"] for estimate in report["estimates"])
    assert 0.7 * kept <= proposal["total_per_s"] <= 0.8 * kept
    assert f"rate_per_s_max: {proposal['total_per_s']:g}" in report["settings"]
    assert f"controller_mutation_rate={proposal['tenant_per_s']:g}" in report["command"]
    assert report["leftover_topics"] == []
    assert_no_topic(client)
    assert total_on_record(lab_config_file) == proposal["total_per_s"]

    # The total on record is the one that `rheostat quotas` asks about.
    shown = rheostat("quotas", "--config", lab_config_file, "--json")
    what_if = json.loads(shown.stdout)["what_if"]
    assert (what_if["total_per_s"], what_if["total_source"]) == (proposal["total_per_s"], "calibration")
    asked = rheostat("quotas", "--config", lab_config_file, "--total", "3/s")
    assert "If the total were 3 partitions/s (as asked)" in asked.stdout


def test_calibration_is_not_started_without_confirmation(lab_config_file: Path, client: TopicMutationClient) -> None:
    refused = rheostat("quotas", "calibrate", "--config", lab_config_file)
    assert refused.returncode == EXIT_NOT_CONFIRMED
    assert_no_topic(client)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--partitions-max", "10"), "--partitions-max: expected at least 40"),
        (("--replication", "3"), "--replication: 3 replicas need 3 brokers"),
        (("--for", "2h"), "--for: expected at most"),
    ],
)
def test_option_out_of_range_is_bad_input(lab_config_file: Path, options: tuple[str, ...], text: str) -> None:
    refused = rheostat("quotas", "calibrate", "--config", lab_config_file, "--yes", *options)
    assert (refused.returncode, text in refused.stderr) == (EXIT_BAD_INPUT, True), refused.stderr


def test_partition_limit_leaves_no_room(lab_config_file: Path, client: TopicMutationClient) -> None:
    env = {"RHEOSTAT_LIMITS__MAX_BROKER_PARTITIONS": "30"}
    refused = rheostat("quotas", "calibrate", "--config", lab_config_file, "--yes", env=env)
    assert (refused.returncode, "partition limits" in refused.stderr) == (EXIT_NOT_WELL, True), refused.stderr
    assert_no_topic(client)


def test_quota_in_force_refuses_calibration_and_its_requests(
    lab: Lab, lab_config_file: Path, client: TopicMutationClient
) -> None:
    quotas = QuotaClient(lab.kafka_settings(), "test-quotas")
    try:
        quotas.alter_mutation_quotas({DEFAULT: 0.5})
        until(lambda: quotas.mutation_quotas() == {DEFAULT: 0.5}, 10, "the quota")
        refused = rheostat("quotas", "calibrate", "--config", lab_config_file, "--yes")
        assert refused.returncode == EXIT_NOT_WELL
        assert "The quota of client-id <default>, 0.5 partitions/s, would limit the calibration" in refused.stderr
        assert_no_topic(client)

        broker, name = client.brokers()[0].node, RunName.new("rheostat")
        errors = [client.create_through(broker, name.topic(n), 10, 1, MARKER) for n in range(2)]
        assert isinstance(errors[-1], MutationRefused)
    finally:
        quotas.alter_mutation_quotas({DEFAULT: None})
        until(lambda: not quotas.mutation_quotas(), 10, "the quota is removed")
        quotas.close()


@pytest.mark.campaign
def test_interrupted_calibration_deletes_its_topics(
    lab_config_file: Path, client: TopicMutationClient, tmp_path: Path
) -> None:
    command = (*RHEOSTAT, "quotas", "calibrate", "--config", lab_config_file, *SHORT)
    with running(*command, log=tmp_path / "log", env=LENIENT) as run:
        until(lambda: len(client_topics(client)) > 3, 60, lambda: f"topics are created: {run.said()}")
        assert run.end(signal.SIGINT, timeout_s=60) == EXIT_INTERRUPTED
    assert_no_topic(client)
    assert total_on_record(lab_config_file) is None


def test_killed_calibration_is_cleared_and_other_topics_stay(
    lab: Lab, lab_config_file: Path, client: TopicMutationClient, tmp_path: Path
) -> None:
    command = (*RHEOSTAT, "quotas", "calibrate", "--config", lab_config_file, *SHORT)
    with running(*command, log=tmp_path / "log", env=LENIENT) as run:
        until(lambda: len(client_topics(client)) > 3, 60, lambda: f"topics are created: {run.said()}")
        beside = rheostat("quotas", "calibrate", "--config", lab_config_file, "--yes", timeout_s=90)
        assert "Another calibration is running now" in beside.stderr

        def is_killed_with_topics() -> bool:
            """Ends the process while topics of it exist; it also deletes topics, and a suspended process deletes none."""
            run.process.send_signal(signal.SIGSTOP)
            wait_for_metadata(lab)
            if len(client_topics(client)) > 3:
                run.end(signal.SIGKILL)
            else:
                run.process.send_signal(signal.SIGCONT)
            return not run.alive()

        until(is_killed_with_topics, 60, "it is killed while it has topics")
    assert client_topics(client), "a killed process deletes nothing"
    broker, foreign = client.brokers()[0].node, RunName("rheostat", "00000000")
    assert client.create_through(broker, foreign.topic(1), 1, 1, {}) is None
    assert client.create_through(broker, foreign.topic(2), 1, 1, MARKER) is None
    until(lambda: all(s.leader >= 0 for s in client.partitions([foreign.topic(2)])), 10, "its leader")
    sender = producer(lab.kafka_settings(), "test")
    sender.send(foreign.topic(2), b"kept").get(timeout=20)
    sender.close(timeout=5)

    cleared = rheostat("quotas", "calibrate", "--config", lab_config_file, "--clear", "--yes", "--json", timeout_s=120)
    assert cleared.returncode == EXIT_DONE, cleared.stderr
    kept = {foreign.topic(1), foreign.topic(2)}
    until(lambda: client_topics(client) == kept, 10, lambda: f"{kept} stay: {client_topics(client)}")
    assert json.loads(cleared.stdout)["left"] == []


@pytest.mark.campaign
def test_calibration_without_deletion_of_topics_leaves_none(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(LabSpec(brokers=1, settings={"delete.topic.enable": "false"}))
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    refused = rheostat("quotas", "calibrate", "--config", config, "--replication", "1", "--yes")
    assert refused.returncode == EXIT_NOT_WELL
    assert "The calibration cannot delete its topics: Kafka refused" in refused.stderr
    with TopicMutationClient(lab.kafka_settings(), "test") as client:
        assert client_topics(client) == set()


def test_controller_that_hangs_ends_calibration_and_topics_are_deleted(make_lab: MakeLab, tmp_path: Path) -> None:
    """No agent answers, so rheostat's own requests are the only measure."""
    lab = make_lab(LabSpec(brokers=2))
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    (controller,) = [node for node in lab.nodes.values() if node.role is NodeRole.CONTROLLER]
    assert controller.process is not None
    command = (*RHEOSTAT, "quotas", "calibrate", "--config", config, *SHORT, "--latency-max", "1s")
    agents = {"RHEOSTAT_COLLECTOR__ENDPOINTS": json.dumps(dict.fromkeys(lab.nodes, "http://127.0.0.1:9/metrics"))}
    with (
        TopicMutationClient(lab.kafka_settings(), "test") as client,
        running(*command, log=tmp_path / "log", env=agents) as run,
    ):
        until(lambda: len(client_topics(client)) > 3, 60, lambda: f"topics are created: {run.said()}")
        controller.process.send_signal(signal.SIGSTOP)
        try:
            until(lambda: "Deleting the topics" in run.said(), 60, lambda: f"the load ends: {run.said()}")
        finally:
            controller.process.send_signal(signal.SIGCONT)
        until(lambda: not run.alive(), 120, lambda: f"it ends: {run.said()}")
        assert run.process.returncode == EXIT_NOT_WELL
        assert "has not answered rheostat's own requests for" in run.said()
        assert '"leftover_topics": []' in run.said()
        assert_no_topic(client)


@pytest.mark.campaign
def test_lost_broker_ends_calibration_and_topics_are_deleted(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(LabSpec(brokers=2))
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    command = (*RHEOSTAT, "quotas", "calibrate", "--config", config, "--partitions-max", "120", "--yes")
    with (
        TopicMutationClient(lab.kafka_settings(), "test") as client,
        running(*command, log=tmp_path / "log", env=LENIENT) as run,
    ):
        until(lambda: len(client_topics(client)) > 3, 60, lambda: f"topics are created: {run.said()}")
        lab.nodes[2].stop(grace_s=20)
        until(lambda: not run.alive(), 120, lambda: f"it ends: {run.said()}")
        assert run.process.returncode == EXIT_NOT_WELL
        assert "The calibration ended early" in run.said()
        assert_no_topic(client)
