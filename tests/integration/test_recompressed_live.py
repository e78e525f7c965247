"""Brokers that compress everything with zstd, and old topics of rheostat without ``compression.type``."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.tools import tool_command
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics, unreadable_topic_complaints
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.throttle_limits import MB
from tuner.journal.kafka_journal import KafkaJournal
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.runtime.standby import journal_reader

LAB = LabSpec(brokers=1, broker_settings={"compression.type": "zstd"})
TOPICS = Topics.with_prefix("rheostat")
OLD = (TOPICS.journal, TOPICS.orders)
MEMORY = Memory(owned={(1, Side.LEADER): OwnedRate(5 * MB, 20 * MB, (20 * MB,))})
SAID_S_MAX = 40.0
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"

pytestmark = [pytest.mark.campaign]


def read(lab: Lab) -> Memory:
    reader = journal_reader(lab.kafka_settings())
    try:
        return KafkaJournal.read_only(TOPICS.journal, "lab").recover(reader)
    finally:
        reader.close(timeout_ms=2000)


def test_recompressed_journal_is_never_read_as_empty(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    with lab.admin() as admin, ClusterClient(lab.kafka_settings(), "test") as client:
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"cleanup.policy": "compact"}) for topic in OLD])
        until(lambda: len(client.partitions(OLD)) == 2, 20, "the old topics are there")
        journal = KafkaJournal(producer(lab.kafka_settings(), "test", linger_ms=0), TOPICS.journal, "lab")
        journal.write(memory=MEMORY)
        journal.close()
        with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
            complaints = ensure_topics(client, TOPICS)
            assert [text.split(",")[0] for text in complaints] == [
                f"topic {topic} has compression.type=zstd" for topic in OLD
            ]
            assert client.effective_topic_configs([TOPICS.signals], ["compression.type"]) == {
                TOPICS.signals: {"compression.type": "producer"}
            }
            with pytest.raises(UnreadableBatchError, match="compressed with zstd"):
                read(lab)

            def said() -> str:
                return f"{tune.said()}\n{lab.brokers[0].log.read_text()[-2000:]}"

            until(lambda: "could not be read back, so no tuner acts" in tune.said(), SAID_S_MAX, said)
            assert f"--entity-name {TOPICS.journal} --add-config compression.type=producer" in tune.said()
            as_sent = {topic: {"compression.type": "producer"} for topic in OLD}
            assert set(client.alter_topic_configs(as_sent).values()) == {None}
            until(lambda: f"of {TOPICS.journal}, partition 0, are not read" in tune.said(), SAID_S_MAX, said)
            assert not any(line["event"] == "active" for line in tune.lines())
            tune.end(signal.SIGTERM)
        status = rheostat("status", "--config", config)
        assert status.returncode != 0
        assert "Records that cannot be unpacked" in status.stderr

        copy_to_a_new_journal(lab, client, tmp_path / "records.txt")
        assert unreadable_topic_complaints(client, TOPICS) == []
        assert read(lab) == MEMORY


def copy_to_a_new_journal(lab: Lab, client: ClusterClient, records: Path) -> None:
    """Follows docs/how-to/repair-the-journal.md, "Records that cannot be unpacked"."""
    common = ("--bootstrap-server", lab.bootstrap_servers, "--topic", TOPICS.journal)
    with records.open("wb") as out:
        subprocess.run(
            tool_command(
                lab.artifacts, CONSUMER, *common, "--from-beginning", "--isolation-level", "read_committed",
                "--formatter-property", "print.key=true", "--formatter-property", "null.literal=NULL", "--timeout-ms", "3000",
            ),
            stdout=out, stderr=subprocess.DEVNULL, timeout=60, check=False,
        )  # fmt: skip
    with lab.admin() as admin:
        admin.delete_topics([TOPICS.journal])
    until(lambda: not client.partitions([TOPICS.journal]), 20, "the topic is gone")
    assert ensure_topics(client, TOPICS) == []  # As `rheostat doctor --create` does.
    until(lambda: client.partitions([TOPICS.journal]), 20, "the new topic is there")
    with records.open("rb") as stdin:
        subprocess.run(
            tool_command(
                lab.artifacts, PRODUCER, *common, "--reader-property", "parse.key=true", "--reader-property", "null.marker=NULL",
                "--compression-codec", "gzip", "--command-property", "max.request.size=16777216",
            ),
            stdin=stdin, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
