"""The backlog worker and its failures, on a real broker and with a Spark that has the Kafka connector.

Spark runs in its own process, because a JVM keeps the class path of its first session.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import MessageSizeTooLargeError
from lab_parts import until

from rheostat.jvm.kernel import stream_jars
from rheostat.lab.cluster import Lab, LabSpec
from streaming import checkpoint, pipeline
from streaming.backlog import BacklogProgress
from streaming.formats.common import Source
from streaming.history.worker import HistoryListener
from streaming.quarantine import RejectListener
from streaming.session import SparkOptions, spark_session
from streaming.settings import StreamSettings
from streaming.shared.contract import Metric, NodeRole, Sample, Scrape, Topics
from streaming.shared.kafka import KafkaSettings, admin_client, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from streaming.sources import Feed, kafka_ids

LAB = LabSpec(brokers=1)
TOPICS = Topics.with_prefix("rheostat")
HISTORY_S, EVERY_S, NODES = 600, 5, (1, 2, 3)
TIME_S_MAX = 200.0
PROBE_BYTES = 200


def feed(bootstrap_servers: str) -> Feed:
    return Feed(
        KafkaSettings(bootstrap_servers=bootstrap_servers), (TOPICS.metrics,), "rheostat_json", Source("lab"), 5000
    )


def make_metrics(kafka: KafkaSettings) -> None:
    with closing(admin_client(kafka, "test")) as admin:
        configs = {"message.timestamp.type": "CreateTime"}
        admin.create_topics([NewTopic(TOPICS.metrics, 2, 1, topic_configs=configs)])


def delete_metrics(kafka: KafkaSettings) -> None:
    with closing(admin_client(kafka, "test")) as admin:
        admin.delete_topics([TOPICS.metrics])


def set_value_bytes_max(kafka: KafkaSettings, bytes_max: int) -> None:
    """Sets the largest record of the signals topic, and waits until the brokers apply it."""
    change = {TOPICS.signals: {"max.message.bytes": str(bytes_max)}}
    with ClusterClient(kafka, "test") as client:
        until(lambda: not any(client.alter_topic_configs(change).values()), 10, "the setting is written")
    with closing(producer(kafka, "test")) as sender:
        until(lambda: takes(sender, PROBE_BYTES) is (bytes_max > PROBE_BYTES), 10, "the log's leader goes by it")


def takes(sender: KafkaProducer, bytes_: int) -> bool:
    """Returns whether the signals topic accepts a record of that size."""
    try:
        sender.send(TOPICS.signals, value=os.urandom(bytes_)).get(timeout=10)
    except MessageSizeTooLargeError:
        return False
    return True


def fill(kafka: KafkaSettings, until_ms: int) -> None:
    with closing(producer(kafka, "test")) as sender:
        for at_ms in range(until_ms - HISTORY_S * 1000, until_ms, EVERY_S * 1000):
            for node in NODES:
                one = Scrape("lab", node, NodeRole.BROKER, at_ms, (Sample(Metric.LEADER_COUNT, "", 7.0),))
                sender.send(TOPICS.metrics, key=one.key(), value=one.value(), partition=node % 2, timestamp_ms=at_ms)


def test_cluster_is_known_by_its_id_under_every_address(lab: Lab) -> None:
    here = lab.bootstrap_servers
    there = here.replace("127.0.0.1", "localhost")
    assert there != here
    assert kafka_ids([feed(here), feed(there), feed(here)], "test") == (lab.cluster_id,) * 3


def _work_off(bootstrap_servers: str, folder: Path, said: multiprocessing.Queue[Any]) -> None:
    """Processes a backlog: the signals topic refuses the first chunk; the metrics topic is deleted after the second."""
    one = feed(bootstrap_servers)
    elsewhere = feed(bootstrap_servers.replace("127.0.0.1", "localhost"))
    settings = StreamSettings(checkpoint_dir=folder, start="earliest", backlog_records_per_chunk=50)
    spark = spark_session(stream_jars(), SparkOptions("test", folder / "s", cores=2, driver_memory_mb=512))
    states: list[BacklogProgress] = []
    causes: list[str] = []
    ended, gone = threading.Event(), threading.Event()

    def heard(state: BacklogProgress) -> None:
        states.append(state)
        if len(states) == 4:  # Begun, begun again after the refusal, two chunks done.
            delete_metrics(one.kafka)
        if state.remaining_records == 0:
            ended.set()

    def failed(cause: str, in_s: float) -> None:
        causes.append(cause)
        if len(causes) == 1:
            set_value_bytes_max(one.kafka, 1 << 20)
        elif TOPICS.metrics in cause and not gone.is_set():
            gone.set()
            make_metrics(one.kafka)

    hears = RejectListener(lambda *_: None, lambda _: None)
    checkpoint_dir = folder / "checkpoint"
    checkpoint_dir.mkdir()
    settings = settings.model_copy(update={"checkpoint_dir": checkpoint_dir})
    # As a version has left it that did not ask for the cluster's id.
    before = checkpoint.open_record(checkpoint_dir, pipeline.made_with(spark, [one], settings))
    assert before.made_with.kafka_ids == ()
    with pipeline.start(
        spark,
        one.kafka,
        TOPICS,
        [one],
        settings,
        on_backlog=heard,
        on_backlog_failure=failed,
        on_reject=hears,
        on_history=HistoryListener(),
    ):
        finished = ended.wait(TIME_S_MAX)
    after = json.loads((checkpoint_dir / checkpoint.RECORD).read_text())
    with pipeline.start(
        spark,
        elsewhere.kafka,
        TOPICS,
        [elsewhere],
        settings,
        on_backlog=heard,
        on_backlog_failure=failed,
        on_reject=hears,
        on_history=HistoryListener(),
    ):
        moved = json.loads((checkpoint_dir / checkpoint.RECORD).read_text())
    said.put((finished, states, causes, after, moved))
    spark.stop()


def test_backfill_failures_are_reported_and_retried(lab: Lab, tmp_path: Path) -> None:
    kafka = lab.kafka_settings()
    make_metrics(kafka)
    with ClusterClient(kafka, "test") as client:
        ensure_topics(client, TOPICS)
    fill(kafka, int(time.time() * 1000) - 200_000)
    set_value_bytes_max(kafka, 100)
    context = multiprocessing.get_context("spawn")
    said: multiprocessing.Queue[Any] = context.Queue()
    child = context.Process(target=_work_off, args=(lab.bootstrap_servers, tmp_path, said))
    child.start()
    try:
        finished, states, causes, after, moved = said.get(timeout=2 * TIME_S_MAX)
        child.join(30)
    finally:
        child.kill()
        child.join()
    assert finished, (states, causes)
    total = HISTORY_S // EVERY_S * len(NODES)
    assert states[0] == BacklogProgress(total, total, 0)
    # Which of them is the producer's affair: it splits what is too large, and may be out of time before it cannot any more.
    assert causes[0].startswith("org.apache.kafka.common.errors."), causes
    assert states[1] == states[0], "a chunk that failed is not done"
    assert states[3].remaining_records < states[2].remaining_records < total
    # Nothing of what was left was made up or waited for: it is gone, and counted.
    assert states[-1] == BacklogProgress(total, 0, states[3].remaining_records)
    assert TOPICS.metrics in causes[-1], causes
    assert after["skipped"] == []
    assert after["made_with"]["kafka_ids"] == [lab.cluster_id]
    assert "localhost" in moved["made_with"]["sources"][0]
    assert moved["live"] == after["live"], "another address of the same Kafka is the same source"
