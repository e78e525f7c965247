"""The doctor on topics of other collectors, with Kafka's real answers; following its advice resolves the finding."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import NewTopic
from lab_parts import until

from rheostat.config.settings import Settings, parse_settings
from rheostat.doctor.examine import Finding, FindingVerdict, examine
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from streaming.shared.kafka.cluster import ClusterClient

LAB = LabSpec(brokers=1)
PLAIN, STAMPED, ABSENT = "telegraf", "otlp", "nobody.writes.this"


@pytest.fixture
def settings(lab: Lab, tmp_path: Path) -> Settings:
    body = json.loads(lab_config(lab))
    body["stream"] = {
        "checkpoint_dir": str(tmp_path / "checkpoint"),
        "sources": [
            {"topic": PLAIN, "format": "telegraf_json"},
            {"topic": STAMPED, "format": "otlp_json", "kafka": {"bootstrap_servers": lab.bootstrap_servers}},
            {"topic": ABSENT, "format": "telegraf_influx"},
        ],
    }
    return parse_settings(json.dumps(body), "test", {})


@pytest.fixture
def client(lab: Lab) -> Iterator[ClusterClient]:
    with lab.admin() as admin:
        admin.create_topics(
            [
                NewTopic(PLAIN, num_partitions=1, replication_factor=1),
                NewTopic(STAMPED, 1, 1, topic_configs={"message.timestamp.type": "LogAppendTime"}),
            ]
        )
    with ClusterClient(lab.kafka_settings(), "test") as made:
        until(
            lambda: {s.topic for s in made.partitions([PLAIN, STAMPED])} == {PLAIN, STAMPED}, 10, "the topics are there"
        )
        yield made


def sources(settings: Settings) -> dict[str, Finding]:
    return {f.check: f for f in examine(settings) if f.check.startswith("source ")}


def test_doctor_examines_foreign_topics_and_its_advice_helps(settings: Settings, client: ClusterClient) -> None:
    found = sources(settings)
    assert {check: f.verdict for check, f in found.items()} == {
        f"source {PLAIN}": FindingVerdict.FAILED,
        f"source {STAMPED}": FindingVerdict.OK,
        f"source {ABSENT}": FindingVerdict.FAILED,
    }
    assert f"there is no topic {ABSENT}" in found[f"source {ABSENT}"].found

    advice = re.search(r"--entity-name (\S+) --add-config (\S+)=(\S+)$", found[f"source {PLAIN}"].do)
    assert advice is not None
    topic, key, value = advice.groups()

    # As good as the advice: brokers whose own default it is.
    assert client.alter_broker_configs({1: {f"log.{key}": value}}) == {1: None}
    until(lambda: sources(settings)[f"source {PLAIN}"].verdict is FindingVerdict.OK, 15, "the brokers' default counts")
    assert client.alter_broker_configs({1: {f"log.{key}": None}}) == {1: None}
    until(lambda: sources(settings)[f"source {PLAIN}"].verdict is FindingVerdict.FAILED, 15, "and counts no more")

    assert client.alter_topic_configs({topic: {key: value}}) == {topic: None}
    until(lambda: sources(settings)[f"source {PLAIN}"].verdict is FindingVerdict.OK, 15, "the advice was followed")
