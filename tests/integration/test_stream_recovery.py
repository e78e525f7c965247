"""The stream processor after SIGKILL, without Kafka, and after an hour's absence. Each test has its own topics in one lab."""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, Running, is_java, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from streaming.checkpoint_lock import _JVM_GONE_S_MAX
from streaming.shared.contract import Metric, NodeRole, Sample, Scrape, Topics
from streaming.shared.kafka.clients import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.topics import ensure_topics

LAB = LabSpec(brokers=1)
INTERVAL_S = 1
NODES = 12
SEED = random.SystemRandom().randrange(10_000)
STARTED_S_MAX = 180.0  # On a busy machine Spark needs minutes to start.
LAST = (998, 999)  # Nodes whose scrapes end the load, one in each partition.


def config_for(lab: Lab, folder: Path, prefix: str, *, interval_s: int = INTERVAL_S, **stream: Any) -> Path:
    settings = yaml.safe_load(lab_config(lab))
    settings["topics"] = {"prefix": prefix}
    settings["collector"]["interval_s"] = interval_s
    settings["stream"] |= {"checkpoint_dir": str(folder / prefix), "driver_memory_mb": 512, **stream}
    file = folder / f"{prefix}.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


@contextmanager
def stream(config: Path, log: str = "stream") -> Iterator[Running]:
    with running(*RHEOSTAT, "stream", "--config", config, log=config.with_suffix(f".{log}.log")) as run:
        yield run


def events(run: Running, event: str) -> list[dict[str, Any]]:
    return [line for line in run.lines() if line["event"].startswith(event)]


def make_topics(lab: Lab, prefix: str) -> Topics:
    topics = Topics.with_prefix(prefix)
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, topics)
    return topics


def scrape(node: int, ts_ms: int, count: float) -> Scrape:
    return Scrape(
        "lab",
        node,
        NodeRole.BROKER,
        ts_ms,
        (Sample(Metric.CLIENT_IN, "", count), Sample(Metric.LEADER_COUNT, "", node)),
    )


class Reader:
    """Reads a topic of one partition from its beginning, and continues with each call."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._consumer: KafkaConsumer = consumer(lab.kafka_settings(), "test")
        self._consumer.assign([TopicPartition(topic, 0)])
        self._consumer.seek_to_beginning()
        self.records: list[tuple[str, dict[str, Any]]] = []

    def look(self) -> list[tuple[str, dict[str, Any]]]:
        while polled := self._consumer.poll(timeout_ms=200):
            for found in polled.values():
                self.records += [(one.key.decode(), json.loads(one.value)) for one in found]
        return self.records

    def last(self) -> dict[str, dict[str, Any]]:
        """Returns the last value of each key."""
        return dict(self.look())

    def entities(self) -> set[str]:
        return {key.rpartition("|")[0] for key, _ in self.look()}

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def readers(lab: Lab, *topics: str) -> Iterator[list[Reader]]:
    made = [Reader(lab, topic) for topic in topics]
    try:
        yield made
    finally:
        for one in made:
            one.close()


class Load:
    """Writes scrapes of several nodes each second, with counter resets and some invalid records."""

    def __init__(self, lab: Lab, topic: str, seed: int) -> None:
        self._topic = topic
        self._random = random.Random(seed)
        self._producer: KafkaProducer = producer(lab.kafka_settings(), "test")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(timeout=10)
        self._producer.close(timeout=5)

    def end(self) -> None:
        """Writes the last records of both partitions."""
        self._done.set()
        self._thread.join(timeout=10)
        for partition, node in enumerate(LAST):
            one = scrape(node, int(time.time() * 1000), 0)
            self._producer.send(self._topic, key=one.key(), value=one.value(), partition=partition)
        self._producer.flush(timeout=10)

    def _run(self) -> None:
        counts = dict.fromkeys(range(NODES), 0.0)
        while not self._done.wait(INTERVAL_S):
            for node in counts:
                chance = self._random.random()
                counts[node] = 0.0 if chance < 0.03 else counts[node] + 1000 * chance
                one = scrape(node, int(time.time() * 1000), counts[node])
                value = one.value()[:40] if 0.5 < chance < 0.52 else one.value()
                self._producer.send(self._topic, key=one.key(), value=value, partition=node % 2)


def test_repeatedly_killed_stream_yields_same_signals(lab: Lab, tmp_path: Path) -> None:
    sys.stderr.write(f"seed {SEED}\n")  # Shown when it fails.
    chance = random.Random(SEED)
    topics, others = make_topics(lab, "killed"), make_topics(lab, "calm")
    # However long the starts take: a stream that is behind by more would mark its signals as backlog.
    in_order = {"backfill_after_s": 3600}
    config = config_for(lab, tmp_path, "killed", **in_order)
    twin = {"topic": topics.metrics, "format": "rheostat_json", "interval_s": INTERVAL_S}
    calm = config_for(lab, tmp_path, "calm", sources=[twin], **in_order)
    with readers(lab, topics.signals, topics.rejects, others.signals, others.rejects) as found:
        signals, rejects, calm_signals, calm_rejects = found
        with Load(lab, topics.metrics, SEED) as load:
            for i in range(3):
                with stream(config, f"kill{i}") as run:
                    until(
                        lambda: events(run, "the first batch is processed") or not run.alive(),
                        STARTED_S_MAX,
                        "a batch is done",
                    )
                    assert run.alive(), run.said()[-3000:]
                    threading.Event().wait(chance.uniform(0, 2.5))
                    run.descendants()
                    run.end(signal.SIGKILL)
                    if i > 0:  # Otherwise it has the time to end well, as it does when only Python dies.
                        for java in (p for p in run.left() if is_java(p)):
                            java.kill()
                    # As long as the next start waits for it: the first on a machine writes its class archive as it ends.
                    until(
                        lambda: not any(is_java(p) for p in run.left()), _JVM_GONE_S_MAX, "Spark's Java has ended too"
                    )
            with stream(config) as run, stream(calm) as other:
                until(
                    lambda: (
                        events(run, "the first batch is processed") and events(other, "the first batch is processed")
                    ),
                    STARTED_S_MAX,
                    "both run",
                )
                load.end()
                ended = {f"lab|broker|{node}" for node in LAST}
                until(lambda: ended <= signals.entities() & calm_signals.entities(), 120, "the last is there")
                try:
                    until(lambda: signals.last() == calm_signals.last(), 10, "both say the same")
                    until(lambda: rejects.last() == calm_rejects.last(), 10, "both refuse the same")
                except pytest.fail.Exception:
                    ours, theirs = signals.last(), calm_signals.last()
                    assert ours == theirs
                    assert rejects.last() == calm_rejects.last()
        assert len(signals.last()) > 30
        assert len(rejects.last()) > 0


def test_stream_waits_for_lost_cluster(lab: Lab, tmp_path: Path) -> None:
    topics = make_topics(lab, "away")
    node = lab.nodes[1]
    with stream(config_for(lab, tmp_path, "away")) as run:
        with readers(lab, topics.signals) as (signals,), Load(lab, topics.metrics, 1):
            until(lambda: signals.look() or not run.alive(), STARTED_S_MAX, "signals arrive")
        java = [p.pid for p in run.descendants() if is_java(p)]

        node.stop(20)
        try:
            restarts = "the Spark query of the stream ended and will be restarted"
            (said, *_) = until(lambda: events(run, restarts), 90, "it says that the query starts again")
        finally:  # The lab is the next test's as well.
            node.start(lab._java, lab.artifacts)
        assert "no answer from" in said["cause"]
        assert len(said["cause"]) < 600

        until(lambda: is_up(lab), 60, "the broker is back")
        with readers(lab, topics.signals) as (signals,), Load(lab, topics.metrics, 2):
            before = len(signals.look())
            until(lambda: len(signals.look()) > before, 60, "signals arrive again")
        assert [p.pid for p in run.descendants() if is_java(p)] == java, "the same process, the same JVM"
        assert run.end(signal.SIGTERM) == 0
        assert "Traceback" not in run.said()


def is_up(lab: Lab) -> bool:
    try:
        with ClusterClient(lab.kafka_settings().model_copy(update={"request_timeout_s": 3}), "test") as client:
            return all(one.leader is not None for one in client.partitions())
    except ClusterError:
        return False


HISTORY_S = 3600
HISTORY_EVERY_S = 5
HISTORY_NODES = (1, 2, 3)
WINDOW_S, LATENESS_S = 30, 10
GROWTH_BYTES_PER_S = 1000


def make_history(lab: Lab, topic: str, until_ms: int) -> None:
    """Writes an hour of records with past timestamps."""
    with lab.admin() as admin:
        configs = {"message.timestamp.type": "CreateTime"}
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1, topic_configs=configs)])
    sender = producer(lab.kafka_settings(), "test", linger_ms=50)
    for at_ms in range(until_ms - HISTORY_S * 1000, until_ms, HISTORY_EVERY_S * 1000):
        for node in HISTORY_NODES:
            send_growth(sender, topic, node, at_ms)
    sender.send(topic, value=b"nonsense", partition=0, timestamp_ms=until_ms - 1_000_000)
    sender.flush(timeout=30)
    sender.close(timeout=5)


def send_growth(sender: KafkaProducer, topic: str, node: int, at_ms: int) -> None:
    one = scrape(node, at_ms, at_ms / 1000 * GROWTH_BYTES_PER_S)
    sender.send(topic, key=one.key(), value=one.value(), partition=node % 2, timestamp_ms=at_ms)


@contextmanager
def continuous_growth(lab: Lab, topic: str) -> Iterator[None]:
    """Continues with scrapes of the same nodes."""
    done = threading.Event()

    def run() -> None:
        sender = producer(lab.kafka_settings(), "test")
        while not done.wait(1):
            for node in HISTORY_NODES:
                send_growth(sender, topic, node, int(time.time() * 1000))
        sender.close(timeout=5)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=10)


def test_after_an_hour_present_comes_first_and_past_whole(lab: Lab, tmp_path: Path) -> None:
    topics = Topics.with_prefix("late")
    hop_ms = HISTORY_EVERY_S * 1000
    history_end_ms = int(time.time() * 1000) // hop_ms * hop_ms - 100_000
    make_history(lab, topics.metrics, history_end_ms)
    make_topics(lab, "late")
    config = config_for(lab, tmp_path, "late", interval_s=HISTORY_EVERY_S, backlog_records_per_chunk=700)
    with readers(lab, topics.signals, topics.rejects) as (signals, rejects), continuous_growth(lab, topics.metrics):
        with stream(config, "killed") as run:
            until(lambda: len(events(run, "backlog: ")) > 1 or not run.alive(), STARTED_S_MAX, "chunks are done")
            said = events(run, "backlog: ")
            assert said[0]["event"] == f"backlog: 0 % of {said[0]['remaining_records']:,} records are processed"
            run.end(signal.SIGKILL)
            until(lambda: not any(is_java(p) for p in run.left()), 10, "Spark's Java has ended too")
        record = json.loads((tmp_path / "late" / "rheostat.json").read_text())
        (left,) = record["skipped"]
        whole_from_ms = record["whole_from_ms"]
        assert left["to_ms"] < whole_from_ms
        assert record["live"] == "live-2"
        assert sorted(path.name for path in (tmp_path / "late").glob("live-*")) == ["live-2"]

        with stream(config) as run:
            until(lambda: events(run, "backlog: 100 %") or not run.alive(), STARTED_S_MAX, "the backlog is done")
            assert run.end(signal.SIGTERM) == 0
        records, refused = signals.look(), rejects.last()

    assert len(refused) == 1
    past = [(i, key, value) for i, (key, value) in enumerate(records) if "backlog" in value]
    present = [(i, key, value) for i, (key, value) in enumerate(records) if "backlog" not in value]
    assert present[0][0] < past[0][0], "the present does not wait for the past"
    assert past[0][2]["window_end_ms"] > past[-1][2]["window_end_ms"] + HISTORY_S * 500, "newest first"
    assert all(value["window_end_ms"] > whole_from_ms for _, _, value in present)
    assert all(value["backlog"] is True and value["window_end_ms"] <= whole_from_ms for _, _, value in past)

    first_ms = history_end_ms - HISTORY_S * 1000
    ends = range(first_ms + hop_ms, history_end_ms + 1, hop_ms)
    by_key = {key: value for _, key, value in past}
    assert {f"lab|broker|{node}|{end}" for node in HISTORY_NODES for end in ends} <= by_key.keys()
    for end in ends[WINDOW_S // HISTORY_EVERY_S :]:
        for node in HISTORY_NODES:
            found = by_key[f"lab|broker|{node}|{end}"]
            assert (found["samples"], found["client_in_bytes_per_s"]) == (
                WINDOW_S // HISTORY_EVERY_S,
                GROWTH_BYTES_PER_S,
            )
    for _, key, value in past:  # None of them was ever less than its last one: no chunk's edge cuts a window.
        assert value["samples"] == by_key[key]["samples"]
