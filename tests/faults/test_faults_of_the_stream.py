"""Hostile records in the topics that the stream reads. The stream is restarted after each end, as `rheostat run` does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, Running, running, until
from table import ROWS, Row

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.tools import tool_command
from streaming.shared.contract import Metric, NodeRole, Sample, Scrape, Topics
from streaming.shared.kafka.clients import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics

LAB = LabSpec(brokers=1)
FOREIGN = "telegraf"
BOMB_BYTES = 400 * 1024 * 1024  # More than a heap of 512 MiB can hand out at once.
WELL_AGAIN_S_MAX = 240.0
pytestmark = pytest.mark.campaign


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    began_s, told = time.monotonic(), [""]
    yield told
    name = request.node.name.removeprefix("test_").replace("_", " ")
    ROWS.append(Row(name, told[0], time.monotonic() - began_s, getattr(request.node, "went_well", False)))


def gzip_bomb(lab: Lab, topic: str, _: Path) -> None:
    sender = KafkaProducer(
        bootstrap_servers=lab.bootstrap_servers, compression_type="gzip", max_request_size=1 << 30,
        request_timeout_ms=60_000, retries=0,
    )  # fmt: skip
    try:
        sender.send(topic, b"0" * BOMB_BYTES, partition=0).get(timeout=90)
    finally:
        sender.close(timeout=5)


def java_bomb(codec: str) -> Callable[[Lab, str, Path], None]:
    def send(lab: Lab, topic: str, folder: Path) -> None:
        payload = folder / "payload"
        payload.write_bytes(b"0" * BOMB_BYTES)
        properties = {
            "bootstrap.servers": lab.bootstrap_servers, "compression.type": codec, "max.request.size": 1 << 30,
            "buffer.memory": 1 << 30, "delivery.timeout.ms": 120_000, "request.timeout.ms": 60_000, "linger.ms": 0,
        }  # fmt: skip
        command = tool_command(
            lab.artifacts, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "1",
            "--throughput", "-1", "--payload-file", str(payload),
            "--producer-props", *(f"{name}={value}" for name, value in properties.items()),
        )  # fmt: skip
        command[1] = "-Xmx4g"
        with running(*command, log=folder / "bomb.log") as sent:
            until(lambda: not sent.alive(), 120, sent.said)
            assert sent.process.returncode == 0, sent.said()
            assert "\n1 records sent" in sent.said(), sent.said()

    return send


def scrape(node: int, ts_ms: int, count: float) -> Scrape:
    return Scrape("lab", node, NodeRole.BROKER, ts_ms, (Sample(Metric.CLIENT_IN, "", count),))


@pytest.mark.parametrize(
    ("codec", "bomb"), [("gzip", gzip_bomb), ("zstd", java_bomb("zstd")), ("lz4", java_bomb("lz4"))]
)
def test_record_that_unpacks_to_400_mb_is_left_out(
    lab: Lab, tmp_path: Path, row: list[str], codec: str, bomb: Callable[[Lab, str, Path], None]
) -> None:
    topics = Topics.with_prefix(codec)
    foreign = f"{FOREIGN}-{codec}"
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, topics)
    with lab.admin() as admin:
        # With lz4 the bomb has 1.6 MB, and is refused by a topic as Kafka makes it.
        admin.create_topics([NewTopic(foreign, 1, 1, topic_configs={"max.message.bytes": str(4 << 20)})])
    settings: dict[str, Any] = yaml.safe_load(lab_config(lab))
    settings["topics"] = {"prefix": codec}
    settings["stream"] |= {
        "checkpoint_dir": str(tmp_path / "checkpoint"), "driver_memory_mb": 512, "http": {"port": None},
        "sources": [{"topic": foreign, "format": "rheostat_json", "interval_s": 1}],
    }  # fmt: skip
    config = tmp_path / "rheostat.yaml"
    config.write_text(yaml.safe_dump(settings))

    with ExitStack() as stack:
        sender: KafkaProducer = producer(lab.kafka_settings(), "test")
        stack.callback(sender.close, timeout=5)
        signals = stack.enter_context(closing(consumer(lab.kafka_settings(), "test")))
        signals.assign([TopicPartition(topics.signals, 0), TopicPartition(topics.rejects, 0)])
        seen: set[int] = set()
        notes: list[dict[str, Any]] = []

        def write(node: int) -> None:
            one = scrape(node, round(time.time() * 1000), float(node))
            sender.send(foreign, key=one.key(), value=one.value(), partition=0).get(timeout=10)

        def has_signals_of(*nodes: int) -> bool:
            for records in signals.poll(timeout_ms=200).values():
                for record in records:
                    body = json.loads(record.value)
                    if record.topic == topics.rejects:
                        notes.append(body)
                    elif "broker" in body:
                        seen.add(body["broker"])
            return seen >= set(nodes)

        lives = 0
        life: Running | None = None

        def alive() -> None:
            nonlocal life, lives
            if life is None or not life.alive():
                lives += 1
                command = (*RHEOSTAT, "stream", "--config", str(config))
                life = stack.enter_context(running(*command, log=tmp_path / f"stream-{lives}.log"))

        def went_on(*nodes: int) -> bool:
            alive()
            write(nodes[-1])
            return has_signals_of(*nodes)

        until(lambda: went_on(1), 90, "the stream makes signals")
        write(2)
        bomb(lab, foreign, tmp_path)
        began_s = time.monotonic()
        until(lambda: went_on(1, 2, 3), WELL_AGAIN_S_MAX, "signals of what was written behind the bomb", every_s=0.5)
        until(lambda: has_signals_of(1, 2, 3) and notes, 10, "a note in the rejects topic")
        said = "".join(file.read_text() for file in tmp_path.glob("stream-*.log"))
        (note,) = notes
        assert note["topic"] == foreign
        assert "ended the stream whenever it was read" in note["reason"]
        assert "ran out of memory (512 MiB)" in said
        assert f"of topic {foreign}, partition 0, end the stream whenever it reads them" in said
        row[0] = f"well again after {time.monotonic() - began_s:.0f} s and {lives - 1} restarts of the stream"
