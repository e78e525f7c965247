"""The collector during a throttled move: its records, and the effect of a silent node on others."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import NewTopic
from kafka.errors import ThrottlingQuotaExceededError
from lab_parts import RHEOSTAT, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import HOST
from rheostat.lab.tools import reassign_partitions, tool_command
from streaming.collector.loop import Collector, CollectorConnections
from streaming.collector.settings import CollectorSettings
from streaming.shared.contract import Metric, NodeRole, Sample, Scrape, Topics, partition_labels
from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.cluster import ClusterClient

LAB = LabSpec(brokers=3)
TOPIC = "moving"
PARTITIONS = 2
LEADER, FOLLOWER, DESTINATION, CONTROLLER = 1, 2, 3, 100
PRELOAD_BYTES = 120_000_000
THROTTLE_BYTES_PER_S = 300_000  # Nearly seven minutes for the whole move: longer than these tests take.
INTERVAL_S = 2.0
# An agent on a busy machine answers late; the cluster does not wait for a hanging broker as long.
TIMEOUT_S, REQUEST_TIMEOUT_S = 1.8, 1.0
# A round that finds a node silent asks the cluster again through another broker, and so comes late, once; a busy machine
# delays another.
LOST_ROUNDS_MAX = 3


@dataclass(slots=True)
class Seen:
    """The published scrapes of a collector with their times."""

    scrapes: list[tuple[float, Scrape]] = field(default_factory=list)

    def publish(self, scrape: Scrape) -> None:
        self.scrapes.append((time.monotonic(), scrape))

    def of(self, node: int, since_s: float = 0.0, until_s: float = float("inf")) -> list[tuple[float, Scrape]]:
        return [(at, s) for at, s in list(self.scrapes) if s.node == node and since_s <= at <= until_s]

    def newest(self, node: int) -> tuple[Sample, ...]:
        """Returns the samples of the newest scrape that its agent answered; none before the first."""
        answered = (
            s.samples for _, s in reversed(self.of(node)) if any(x.name.startswith("kafka_") for x in s.samples)
        )
        return next(answered, ())

    def lost_rounds(self, node: int, since_s: float, until_s: float) -> float:
        """Returns how many records fewer than rounds there are of a node."""
        return (until_s - since_s) / INTERVAL_S - len(self.of(node, since_s, until_s))


@pytest.fixture(scope="module")
def move(lab: Lab) -> None:
    """Two partitions move from broker 2 to broker 3, far slower than in practice."""
    replicas = {p: [LEADER, FOLLOWER] for p in range(PARTITIONS)}
    with lab.admin() as admin:
        admin.create_topics(
            [NewTopic(TOPIC, num_partitions=-1, replication_factor=-1, replica_assignments=replicas)]
        )  # fmt: skip
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, TOPIC,
        rate_bytes_per_s=None, record_bytes=100_000, total_bytes=PRELOAD_BYTES, properties=("batch.size=800000", "linger.ms=5"),
    ) as load:  # fmt: skip
        load.wait(60)
    target = {(TOPIC, p): [LEADER, DESTINATION] for p in range(PARTITIONS)}
    reassign_partitions(
        lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE_BYTES_PER_S)
    )
    return


@pytest.fixture
def seen(lab: Lab, move: None) -> Iterator[tuple[Collector, Seen]]:
    """A running collector in this process, so that its counts can be read."""
    settings = CollectorSettings(interval_s=INTERVAL_S, timeout_s=TIMEOUT_S, endpoints=lab.jmx_urls())
    seen, stop = Seen(), threading.Event()
    kafka = lab.kafka_settings().model_copy(update={"request_timeout_s": REQUEST_TIMEOUT_S})
    with ClusterClient(kafka, "test-collector") as client, ClusterClient(kafka, "test-scan") as scan_client:
        collector = Collector(settings, "lab", CollectorConnections(client, scan_client), seen.publish, window_s=30)
        thread = threading.Thread(target=collector.run, args=(stop,))
        thread.start()
        try:
            until(lambda: len(seen.scrapes) >= 2 * len(lab.nodes), 30, "two rounds have ended")
            yield collector, seen
        finally:
            stop.set()
            thread.join(timeout=30)
            assert not thread.is_alive()


def value(samples: tuple[Sample, ...], name: str, labels: str = "") -> float | None:
    found = [s.value for s in samples if s.name == name and s.labels == labels]
    assert len(found) <= 1, f"{name} stands twice"
    return found[0] if found else None


def test_each_scrape_is_one_metrics_record(lab: Lab, move: None, lab_config_file: Path, tmp_path: Path) -> None:
    env = {"RHEOSTAT_COLLECTOR__INTERVAL_S": str(INTERVAL_S), "RHEOSTAT_COLLECTOR__TIMEOUT_S": str(TIMEOUT_S)}
    env["RHEOSTAT_COLLECTOR__HTTP__PORT"] = "0"
    with running(
        *RHEOSTAT, "collect", "--config", lab_config_file, log=tmp_path / "collect.log", env=env
    ) as collect:  # fmt: skip
        records = read_metrics(lab, until_each_node_has=4)
        with urllib.request.urlopen(collect.lines()[0]["http"], timeout=30) as answer:
            about_itself = answer.read().decode()
        assert collect.end(signal.SIGTERM) == 0
        # On a busy machine an agent may answer too late.
        told = [line["event"] for line in collect.lines() if "node" not in line]
        assert told == ["collector started", "the collector acts"]

    for node in lab.nodes:
        assert f'rheostat_collector_last_scrape_timestamp_seconds{{cluster="lab",node="{node}"}}' in about_itself
    assert 'rheostat_collector_full_scans_total{cluster="lab"} 1.0' in about_itself
    assert 'rheostat_collector_records_failed_total{cluster="lab"} 0.0' in about_itself

    by_node: dict[int, list[dict[str, Any]]] = {}
    for key, body in records:
        assert key == f"lab|{body['node']}".encode()
        assert (body["v"], body["cluster"]) == (1, "lab")
        by_node.setdefault(body["node"], []).append(body)
    assert sorted(by_node) == [1, 2, 3, 100]
    for node, bodies in by_node.items():
        assert {b["role"] for b in bodies} == {
            NodeRole.CONTROLLER.value if node == CONTROLLER else NodeRole.BROKER.value
        }
        times = [b["ts"] for b in bodies]
        assert times == sorted(set(times))
        steps_s = [(b - a) / 1000 for a, b in pairwise(times)]
        assert 0.5 * INTERVAL_S < statistics.median(steps_s) < 1.5 * INTERVAL_S, steps_s
        assert abs(times[-1] / 1000 - time.time()) < 30


def read_metrics(lab: Lab, *, until_each_node_has: int) -> list[tuple[bytes, dict[str, Any]]]:
    topic = Topics.with_prefix("rheostat").metrics
    with ClusterClient(lab.kafka_settings(), "test") as client:
        until(lambda: client.partitions([topic]), 30, f"{topic} exists")
    reader = consumer(lab.kafka_settings(), "test-reader", auto_offset_reset="earliest")
    found: list[tuple[bytes, dict[str, Any]]] = []
    try:
        reader.assign([TopicPartition(topic, p) for p in sorted(reader.partitions_for_topic(topic) or ())])

        def enough() -> bool:
            for batch in reader.poll(timeout_ms=500).values():
                found.extend((record.key, json.loads(record.value)) for record in batch)
            nodes = [body["node"] for _, body in found]
            return all(nodes.count(node) >= until_each_node_has for node in lab.nodes)

        until(enough, 60, f"{until_each_node_has} records of each node")
    finally:
        reader.close(timeout_ms=2000)
    return found


def test_samples_describe_the_throttled_move(seen: tuple[Collector, Seen], lab: Lab) -> None:
    _, published = seen
    labels = [partition_labels(TOPIC, p) for p in range(PARTITIONS)]

    newest = published.newest

    def is_whole() -> bool:
        """Whether the newest scrapes have the throttled bytes, and what the cluster says of each replica."""
        return (
            (value(newest(DESTINATION), Metric.FOLLOWER_THROTTLED) or 0) > 0
            and {value(newest(LEADER), Metric.LED_COUNTED, at) for at in labels} == {2}
            and all(value(newest(b), Metric.FOLLOWED_SIZE, at) for b in (FOLLOWER, DESTINATION) for at in labels)
            and all(value(newest(DESTINATION), Metric.FOLLOWED_LAG, at) for at in labels)
            and value(newest(LEADER), Metric.LEADER_RATE) == value(newest(DESTINATION), Metric.FOLLOWER_RATE)
        )

    until(is_whole, 60, "throttled bytes and all replicas are seen")
    leader, follower, destination = newest(LEADER), newest(FOLLOWER), newest(DESTINATION)

    for node in (leader, follower, destination):
        for name in (Metric.CLIENT_IN, Metric.REPLICATION_IN, Metric.REPLICATION_OUT, Metric.PARTITION_COUNT):
            assert value(node, name) is not None, name
        assert 0 <= (value(node, Metric.HANDLER_IDLE) or 0) <= 1.05
        assert value(node, Metric.TOTAL_TIME_P99, "request=Produce") is not None
    # kafka-reassign-partitions sets both rates on every broker that takes part.
    for node in (leader, destination):
        assert value(node, Metric.LEADER_RATE) == THROTTLE_BYTES_PER_S
        assert value(node, Metric.FOLLOWER_RATE) == THROTTLE_BYTES_PER_S

    sizes = [value(leader, Metric.LED_SIZE, at) or 0 for at in labels]
    assert sum(sizes) == pytest.approx(PRELOAD_BYTES, rel=0.02)
    for at, size in zip(labels, sizes, strict=True):
        # The in-sync follower and the adding replica both use up the leader's quota.
        assert value(leader, Metric.LED_COUNTED, at) == 2
        assert 0 < (value(leader, Metric.LED_REMAINING, at) or 0) <= size
        assert value(destination, Metric.FOLLOWED_LEADER_SIZE, at) == size
        assert 0 <= (value(destination, Metric.FOLLOWED_SIZE, at) or 0) < size
        assert value(destination, Metric.FOLLOWED_ADDING, at) == 1
        assert value(destination, Metric.FOLLOWED_COUNTED, at) == 1
        assert value(follower, Metric.FOLLOWED_SIZE, at) == size
        assert value(follower, Metric.FOLLOWED_ADDING, at) == 0
        assert value(follower, Metric.LED_SIZE, at) is None
        assert value(leader, Metric.FOLLOWED_SIZE, at) is None

    # What the followers lack, in messages of 100 KB: thousands of series on a big broker, one number and a few here.
    lags = [value(destination, Metric.FOLLOWED_LAG, at) or 0 for at in labels]
    assert sum(lags) > 50, lags
    assert (value(destination, Metric.REPLICA_LAG_SUM) or 0) >= sum(lags)
    assert value(leader, Metric.FOLLOWED_LAG, labels[0]) is None
    assert not any("consumerlag" in s.name for s in destination)

    controller = newest(CONTROLLER)
    assert published.of(CONTROLLER)[-1][1].role is NodeRole.CONTROLLER
    assert any(s.name.startswith("kafka_controller_") for s in controller)
    assert not any(s.name.startswith("rheostat_") for s in controller)


# Kafka registers this one and gives NaN for it, right after a rejection too; a number that is none leaves no sample.
NEVER_A_NUMBER = {Metric.MUTATION_THROTTLE_TIME}
OF_CONTROLLERS = ("kafka_controller_", "kafka_server_controllermutation_")


def mutation_quota(lab: Lab, *change: str) -> None:
    command = tool_command(
        lab.artifacts, "kafka.admin.ConfigCommand", "--bootstrap-server", lab.bootstrap_servers,
        "--alter", *change, "--entity-type", "users", "--entity-default",
    )  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.fixture
def mutations_refused(lab: Lab) -> Iterator[None]:
    """The default user exceeds a quota of one partition every ten seconds."""
    mutation_quota(lab, "--add-config", "controller_mutation_rate=0.1")
    try:
        with lab.admin("test-mutations") as admin:
            numbers = count(1)

            def is_refused() -> bool:
                """Whether the controller refuses the next creation; its copy of the quota may be a moment late."""
                try:
                    admin.create_topics(
                        [NewTopic(f"mutation-{next(numbers)}", num_partitions=10, replication_factor=1)]
                    )
                except ThrottlingQuotaExceededError:
                    return True
                return False

            until(is_refused, 30, "a creation beyond the quota is refused")
        yield
    finally:
        mutation_quota(lab, "--delete-config", "controller_mutation_rate")


def test_every_kafka_metric_of_the_contract_arrives(seen: tuple[Collector, Seen], mutations_refused: None) -> None:
    _, published = seen
    wanted = {name for key, name in vars(Metric).items() if key.isupper() and name.startswith("kafka_")}
    of_controllers = {name for name in wanted if name.startswith(OF_CONTROLLERS)}
    assert len(of_controllers) > 15, "the names above no longer tell the two apart"

    def missing(nodes: tuple[int, ...], names: set[str]) -> set[str]:
        return names - {s.name for node in nodes for s in published.newest(node)}

    # Kafka has the rate of copies between log directories only after the first such copy; test_log_dirs_live.py makes one.
    # Both sides' throttled rates are there only where throttled bytes flow, so the brokers are taken together.
    brokers = (LEADER, FOLLOWER, DESTINATION)
    wait_until_none_missing(lambda: missing(brokers, wanted - of_controllers - {Metric.LOG_DIR_COPIED}), 60)
    wait_until_none_missing(lambda: missing((CONTROLLER,), of_controllers - NEVER_A_NUMBER), 60)

    def refused() -> float:
        return value(published.newest(CONTROLLER), Metric.MUTATIONS_REJECTED, "request=CreateTopics") or 0

    # The controller may have been scraped between the creation that was let through and the one that was refused.
    until(lambda: refused() >= 1, 30, "the controller counts what it refuses")
    assert missing((CONTROLLER,), NEVER_A_NUMBER), "it is a number now: take it off the list"
    newest = published.newest(CONTROLLER)
    assert (value(newest, Metric.MUTATION_TOKENS, "user=ANONYMOUS") or 0) < 0
    incoming = [s.labels for s in newest if s.name == Metric.NETWORK_IN]
    assert incoming
    assert all(labels.startswith("listener=CONTROLLER,networkprocessor=") for labels in incoming)


def wait_until_none_missing(missing: Callable[[], set[str]], timeout_s: float) -> None:
    """Waits until nothing is missing; a failure names what still is."""
    deadline = time.monotonic() + timeout_s
    while names := missing():
        assert time.monotonic() < deadline, f"still missing: {sorted(names)}"
        threading.Event().wait(0.2)


def test_remaining_bytes_shrink_at_throttle_rate(seen: tuple[Collector, Seen], lab: Lab) -> None:
    _, published = seen

    def remaining() -> list[tuple[int, float]]:
        return [
            (scrape.ts_ms, sum(s.value for s in scrape.samples if s.name == Metric.LED_REMAINING))
            for _, scrape in published.of(LEADER)
            if any(s.name == Metric.LED_REMAINING for s in scrape.samples)
        ]

    until(
        lambda: (times := [at for at, _ in remaining()]) and times[-1] - times[0] > 11_000,
        60,
        "more than one period of the quota's window",
    )
    (first_ms, first), (last_ms, last) = remaining()[0], remaining()[-1]

    gained_per_s = (first - last) / (last_ms - first_ms) * 1000
    assert 0 < gained_per_s < 8 * THROTTLE_BYTES_PER_S  # Kafka lets bursts pass, but not the whole log.


def test_frozen_broker_loses_only_its_own_records(seen: tuple[Collector, Seen], lab: Lab) -> None:
    collector, published = seen
    process = lab.nodes[FOLLOWER].process
    assert process is not None
    failures_before = dict(collector.counts.scrape_failures)

    frozen_s = time.monotonic()
    os.kill(process.pid, signal.SIGSTOP)
    try:
        # Past the nine seconds after which the controller fences it and the cluster forgets it.
        until(lambda: collector.counts.scrape_failures.get(FOLLOWER, 0) >= 8, 90, "eight failures are counted")
        thawed_s = time.monotonic()
        lost = {node: published.lost_rounds(node, frozen_s, thawed_s) for node in (LEADER, DESTINATION, CONTROLLER)}
        # Kafka goes on naming a fenced broker to who asks for those too; we want the ones that are there.
        with ClusterClient(KafkaSettings(bootstrap_servers=f"{HOST}:{lab.nodes[LEADER].port}"), "test") as client:
            until(lambda: sorted(e.node for e in client.brokers()) == [LEADER, DESTINATION], 10, "it is not alive")
        of_frozen = published.of(FOLLOWER, frozen_s + INTERVAL_S + TIMEOUT_S, thawed_s)
    finally:
        os.kill(process.pid, signal.SIGCONT)

    assert max(lost.values()) < LOST_ROUNDS_MAX, lost
    assert not any(s.name.startswith("kafka_") for _, scrape in of_frozen for s in scrape.samples)
    for node in (LEADER, DESTINATION, CONTROLLER):
        assert collector.counts.scrape_failures.get(node, 0) == failures_before.get(node, 0)
    # The others' records still tell of the move: it is not theirs that is silent.
    leader = published.newest(LEADER)
    assert value(leader, Metric.LED_REMAINING, partition_labels(TOPIC, 0)) is not None

    def back() -> bool:
        later = published.of(FOLLOWER, thawed_s)
        return bool(later) and value(later[-1][1].samples, Metric.CLIENT_IN) is not None

    until(back, 15, "its records come again")

    def whole() -> bool:
        _, newest = published.of(FOLLOWER, thawed_s)[-1]
        return newest.role is NodeRole.BROKER and any(s.name == Metric.FOLLOWED_SIZE for s in newest.samples)

    until(whole, 20, "it is a broker again, with what the cluster says of it")
    assert published.of(FOLLOWER, thawed_s)[0][1].role is NodeRole.BROKER


def test_restarted_broker_is_scraped_again(seen: tuple[Collector, Seen], lab: Lab) -> None:
    collector, published = seen
    node = lab.nodes[FOLLOWER]
    before = collector.counts.scrape_failures.get(FOLLOWER, 0)

    node.stop(20)
    stopped_s = time.monotonic()
    until(lambda: collector.counts.scrape_failures.get(FOLLOWER, 0) >= before + 4, 60, "four failures are counted")
    lost = {n: published.lost_rounds(n, stopped_s, time.monotonic()) for n in (LEADER, DESTINATION, CONTROLLER)}
    assert max(lost.values()) < LOST_ROUNDS_MAX, lost

    node.start(lab._java, lab.artifacts)
    started_s = time.monotonic()

    def back() -> bool:
        later = published.of(FOLLOWER, started_s)
        return bool(later) and later[-1][1].role is NodeRole.BROKER and len(later[-1][1].samples) > 10

    until(back, 45, "its records come again")
