"""`rheostat throttles` on a real cluster: leftover throttles are listed, and `clear` removes those that serve nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab_parts import MakeLab, rheostat, until, wait_for_metadata

from rheostat.config.settings import load_settings
from rheostat.errors import EXIT_DONE, EXIT_NOT_CONFIRMED, EXIT_NOT_WELL
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.orders.send import read_orders
from streaming.shared.contract import Side
from streaming.shared.kafka.default_config import DefaultConfigClient
from streaming.shared.kafka.values import TopicCreation
from streaming.shared.kafka_names import LOG_DIR_RATE
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from tuner.core.throttle_limits import MB

LAB = LabSpec(brokers=2)
LEADER, FOLLOWER = Side.LEADER, Side.FOLLOWER


@pytest.fixture
def leftovers(lab: Lab) -> Any:
    """A rate of one broker, a rate of all brokers, and the lists of a topic, all left behind."""
    with DefaultConfigClient(lab.kafka_settings(), "test") as client:
        client.create_topics([TopicCreation("logs", 2, 2, {})])
        until(lambda: len(client.partitions(["logs"])) == 2, 10, "the topic")
        assert client.alter_broker_configs({1: {RATE_KEYS[LEADER]: str(5 * MB)}}) == {1: None}
        assert client.alter_default_config(RATE_KEYS[FOLLOWER], str(6 * MB)) is None
        lists = {LIST_KEYS[LEADER]: "0:1,1:2", LIST_KEYS[FOLLOWER]: "*"}
        assert client.alter_topic_configs({"logs": lists}) == {"logs": None}
        wait_for_metadata(lab)
        yield client
        client.alter_broker_configs({1: {RATE_KEYS[LEADER]: None}})
        client.alter_default_config(RATE_KEYS[FOLLOWER], None)


def listed(config: Path) -> tuple[int, list[dict[str, Any]]]:
    result = rheostat("throttles", "--config", str(config), "--json")
    return result.returncode, json.loads(result.stdout)["throttles"]


def test_leftover_throttles_are_listed_and_cleared(lab_config_file: Path, leftovers: DefaultConfigClient) -> None:
    config = str(lab_config_file)
    code, before = listed(lab_config_file)
    assert code == EXIT_NOT_WELL
    assert [(row["kind"], row["broker"], row["topic"], row["side"], row["serves"]) for row in before] == [
        ("rate", 1, None, "leader", "nothing"),
        ("rate", None, None, "follower", "nothing"),
        ("list", None, "logs", "leader", "nothing"),
        ("list", None, "logs", "follower", "nothing"),
    ]
    assert before[0]["passing_bytes_per_s"] is not None, "the JMX agent is asked, as no stream runs"
    assert [row["replicas"] for row in before] == [None, None, 2, None]
    table = rheostat("throttles", "--config", config)
    assert "4 throttle settings; 4 of them serve neither a move" in table.stdout

    doctor = rheostat("doctor", "--config", config, "--json")
    (finding,) = [finding for finding in json.loads(doctor.stdout) if finding["check"] == "leftover throttles"]
    assert finding["verdict"] == "advice"
    assert finding["found"].endswith(
        "broker 1 leader throttle, all brokers follower throttle, topic logs leader list, topic logs follower list"
    )

    refused = rheostat("throttles", "clear", "--config", config)
    assert refused.returncode == EXIT_NOT_CONFIRMED
    assert len(listed(lab_config_file)[1]) == len(before)

    cleared = rheostat("throttles", "clear", "--config", config, "--yes")
    assert (cleared.returncode, cleared.stderr.count(": removed.")) == (EXIT_DONE, 4), cleared.stderr
    assert listed(lab_config_file) == (EXIT_DONE, [])
    until(lambda: leftovers.default_config(RATE_KEYS[FOLLOWER]) is None, 10, "the rate of all brokers is removed")
    record = read_orders(load_settings(lab_config_file)).orders.cleared
    assert record is not None
    assert record.settings[0] == "broker 1 leader throttle (5.00 MB/s)"

    again = rheostat("throttles", "clear", "--config", config, "--yes")
    assert again.returncode == EXIT_DONE
    assert "Nothing to remove" in again.stderr


def test_throttles_set_for_the_return_of_a_broker_stay(make_lab: MakeLab, tmp_path: Path) -> None:
    """KIP-73's recipe: the rate of the leader, and all replicas on the lists, while the other broker is down."""
    lab = make_lab(LabSpec(brokers=2))
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    with DefaultConfigClient(lab.kafka_settings(), "test") as client:
        client.create_topics([TopicCreation("logs", 2, 2, {})])
        client.create_topics([TopicCreation("idle", 1, 1, {})])
        until(lambda: len(client.partitions(["logs", "idle"])) == 3, 10, "the topics")
        lab.nodes[2].stop(grace_s=20)
        until(lambda: all(state.isr == (1,) for state in client.partitions(["logs"])), 60, "broker 2 is away")
        assert client.alter_broker_configs({1: {RATE_KEYS[LEADER]: str(5 * MB)}}) == {1: None}
        assert client.alter_default_config(RATE_KEYS[FOLLOWER], str(6 * MB)) is None
        every = dict.fromkeys(LIST_KEYS.values(), "*")
        assert client.alter_topic_configs({"logs": every, "idle": every}) == {"logs": None, "idle": None}
        wait_for_metadata(lab)

        def by_topic() -> list[tuple[str | None, str, bool]]:
            return [(row["topic"], row["serves"], row["can_be_cleared"]) for row in listed(config)[1]]

        waiting = [(None, "absent", False)] * 2, [("logs", "absent", False)] * 2
        assert by_topic() == waiting[0] + [("idle", "nothing", True)] * 2 + waiting[1]
        cleared = rheostat("throttles", "clear", "--config", str(config), "--yes")
        assert cleared.stderr.count(": removed.") == 2, cleared.stderr
        assert by_topic() == waiting[0] + waiting[1]

        lab.start_again(2)
        until(lambda: all(len(state.isr) == 2 for state in client.partitions(["logs"])), 60, "broker 2 is back")
        wait_for_metadata(lab)
        cleared = rheostat("throttles", "clear", "--config", str(config), "--yes")
        assert (cleared.returncode, cleared.stderr.count(": removed.")) == (EXIT_DONE, 4), cleared.stderr
        assert listed(config) == (EXIT_DONE, [])


def test_log_directory_throttle_is_shown_while_it_copies_and_cleared_after(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(LabSpec(brokers=1, log_dir_count=2))
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    with DefaultConfigClient(lab.kafka_settings(), "test") as client, lab.admin() as admin:
        client.create_topics([TopicCreation("logs", 1, 1, {})])
        with ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "logs", rate_bytes_per_s=None, total_bytes=40 * MB
        ) as load:
            load.wait(60)
        assert client.alter_broker_configs({1: {LOG_DIR_RATE: str(MB)}}) == {1: None}
        (place,) = [folder for folder in lab.nodes[1].log_dirs if not (folder / "logs-0").exists()]
        admin.alter_replica_log_dirs({("logs", 0, 1): str(place)})
        until(lambda: bool(client.log_dir_copies([1])[1]), 20, "the copy begins")

        (row,) = listed(config)[1]
        assert (row["kind"], row["broker"], row["serves"], row["can_be_cleared"]) == ("log_dir_rate", 1, "moves", False)
        kept = rheostat("throttles", "clear", "--config", config, "--yes")
        assert "Nothing to remove" in kept.stderr

        assert client.alter_broker_configs({1: {LOG_DIR_RATE: str(500 * MB)}}) == {1: None}
        until(lambda: not client.log_dir_copies([1])[1], 60, "the copy ends")
        assert listed(config)[1][0]["serves"] == "nothing"
        cleared = rheostat("throttles", "clear", "--config", config, "--yes")
        assert "broker 1 log directory throttle: removed." in cleared.stderr
        assert listed(config) == (EXIT_DONE, [])
