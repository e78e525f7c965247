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
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import TopicCreation

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


def formats(settings: Settings) -> dict[str, Finding]:
    return {f.check: f for f in examine(settings) if f.check.startswith("format of ")}


def send(settings: Settings, topic: str, *values: bytes, compression: str | None = None) -> None:
    sender = producer(settings.kafka, "test", compression_type=compression)
    for value in values:
        sender.send(topic, value=value)
    sender.flush()
    sender.close()


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


def test_doctor_names_the_format_of_the_newest_records(lab: Lab, tmp_path: Path) -> None:
    body = json.loads(lab_config(lab))
    sources_ = [{"topic": "lines", "format": "telegraf_json"}, {"topic": "wrapped", "format": "otlp_json"}]
    body["stream"] = {"checkpoint_dir": str(tmp_path / "checkpoint"), "sources": sources_}
    settings = parse_settings(json.dumps(body), "test", {})
    with ClusterClient(lab.kafka_settings(), "test") as client:
        for topic in ("lines", "wrapped"):
            client.create_topics([TopicCreation(topic, 2, 1, {})])
    assert formats(settings) == {}  # Empty topics.

    send(settings, "lines", b"hello", b"topics,broker_id=1 Value=5i 1700000000000000000", compression="gzip")
    send(settings, "wrapped", b"\0\0\0\0\x2a\x06abc")
    lines, wrapped = (formats(settings)[f"format of {topic}"] for topic in ("lines", "wrapped"))
    assert (lines.verdict, wrapped.verdict) == (FindingVerdict.FAILED, FindingVerdict.FAILED)
    assert lines.found.startswith("the settings say telegraf_json, but the newest records are ")
    assert "text that begins with 'hello'" in lines.found
    assert "set format: telegraf_influx for this topic" in lines.do
    assert "Avro or Protobuf with a schema registry's prefix (magic byte 0, schema id 42)" in wrapped.found
    assert wrapped.do == "let the writer send JSON or OTLP without a schema registry"

    send(settings, "lines", b'{"name": "kafka_topics", "fields": {}, "tags": {}, "timestamp": 1}')
    assert formats(settings)["format of lines"].verdict is FindingVerdict.OK
