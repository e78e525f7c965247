"""Replication lag on real brokers: a follower was away and catches up slowly, and the signals name its thread and partition."""

from __future__ import annotations

import json
import re
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, MakeLab, rheostat, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.collector.loop import Collector, CollectorConnections
from streaming.collector.settings import CollectorSettings
from streaming.shared.contract import (
    BrokerSignal,
    Metric,
    ReplicationSignal,
    Scrape,
    Topics,
    decode_signal,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient, PartitionState
from streaming.shared.kafka_names import LEADER_RATE, LEADER_REPLICAS
from tuner.core.fetchers import fetcher_id

FETCHERS = 2
LAB = LabSpec(brokers=3, broker_settings={"num.replica.fetchers": str(FETCHERS)})
LEADER, FOLLOWER = 1, 2
HOT = "hot"
RECORD_BYTES = 10_000
MISSED_RECORDS = 6_000
WRITES_PER_S = 10.0
CATCH_UP_BYTES_PER_S = 400_000


@contextmanager
def steady_writer(lab: Lab) -> Iterator[None]:
    """Writes ``WRITES_PER_S`` records to partition 0 until the block ends."""
    stop = threading.Event()

    def write() -> None:
        sender = producer(lab.kafka_settings(), "test-writer", linger_ms=20, compression_type=None)
        began = time.monotonic()
        sent = 0
        while not stop.wait(0.05):
            while sent < (time.monotonic() - began) * WRITES_PER_S:
                sender.send(HOT, value=bytes(RECORD_BYTES), partition=0)
                sent += 1
        sender.close(timeout=5)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=20)


def log_ends(client: ClusterClient) -> tuple[int, ...] | None:
    """Returns the log end offsets of partition 0 on leader and follower; None while one of them does not answer.

    A follower answers a debugging client too. A client whose metadata are from the time without the follower refreshes them first.
    """
    asked = [PartitionState(HOT, 0, broker, (broker,), (broker,)) for broker in (LEADER, FOLLOWER)]
    found = [client.log_end_offsets([state]).get((HOT, 0)) for state in asked]
    ends = tuple(end for end in found if end is not None)
    return ends if len(ends) == len(asked) else None


def true_lag(client: ClusterClient) -> int:
    leader_end, follower_end = until(lambda: log_ends(client), 30, "leader and follower tell their log end offsets")
    return leader_end - follower_end


def make_follower_lag(lab: Lab, client: ClusterClient) -> None:
    """Writes to partition 0 while the follower is away, and lets it catch up slowly. Returns when the follower answers."""
    lab.nodes[FOLLOWER].stop(20)
    sender = producer(lab.kafka_settings(), "test-missed", compression_type=None)
    for _ in range(MISSED_RECORDS):
        sender.send(HOT, value=bytes(RECORD_BYTES), partition=0)
    sender.flush(timeout=120)
    sender.close(timeout=10)
    client.alter_broker_configs({LEADER: {LEADER_RATE: str(CATCH_UP_BYTES_PER_S)}})
    client.alter_topic_configs({HOT: {LEADER_REPLICAS: f"0:{LEADER}"}})
    lab.start_again(FOLLOWER)
    assert true_lag(client) > 0


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A lab of its own for each test, as a lag of the topic would outlast the test that made it."""
    made = make_lab(LAB)
    with made.admin() as admin:
        admin.create_topics([NewTopic(HOT, replica_assignments={p: [LEADER, FOLLOWER] for p in range(2)})])
    return made


def test_collector_reduces_lag_to_thread_and_partition(lab: Lab) -> None:
    scrapes: dict[int, Scrape] = {}
    settings = CollectorSettings(endpoints={FOLLOWER: lab.nodes[FOLLOWER].jmx_url})
    thread = thread_labels(LEADER, fetcher_id(HOT, 0, FETCHERS))
    idle = thread_labels(LEADER, fetcher_id(HOT, 1, FETCHERS))
    with ClusterClient(lab.kafka_settings(), "test") as client, ClusterClient(lab.kafka_settings(), "scan") as scan:
        collector = Collector(
            settings,
            "lab",
            CollectorConnections(client, scan),
            lambda scrape: scrapes.update({scrape.node: scrape}),
            window_s=30.0,
        )

        def samples() -> dict[tuple[str, str], float]:
            collector.round()
            found = scrapes.pop(FOLLOWER, None)
            return {(sample.name, sample.labels): sample.value for sample in found.samples} if found else {}

        def in_step_samples() -> dict[tuple[str, str], float] | None:
            found = samples()
            return found if (Metric.LAG_SUM, "") in found else None

        in_step = until(in_step_samples, 60, "the follower's agent and the cluster answer", every_s=1.0)
        assert (in_step[Metric.LAG_SUM, ""], in_step[Metric.LAG_MAX, ""]) == (0, 0)
        assert not [name for name, _ in in_step if name == Metric.LAG_PARTITION]

        make_follower_lag(lab, client)
        labels = partition_labels(HOT, 0)
        seen: dict[tuple[str, str], float] = {}

        def has_leader_log_and_threads() -> bool:
            seen.clear()
            seen.update(samples())
            has_both_threads = {(Metric.LAG_PARTITION_SIZE, labels), (Metric.LAG_THREAD_SUM, idle)} <= seen.keys()
            return has_both_threads and seen.get((Metric.LAG_THREAD_BYTES, thread), 0.0) > 0

        # The collector reads the leader's log in the round after it saw the lag. Kafka gives a thread its lag with the thread's
        # first response, and an idle thread's first response may come later than the busy one's. The busy thread's bytes begin at 0.
        until(
            has_leader_log_and_threads,
            120,
            lambda: f"a lag with its leader's log and both threads; {seen}",
            every_s=1.0,
        )
        lag = seen[Metric.LAG_SUM, ""]
        assert lag == pytest.approx(true_lag(client), abs=11 * CATCH_UP_BYTES_PER_S / RECORD_BYTES)
        assert seen[Metric.LAG_PARTITION, thread_partition_labels(LEADER, fetcher_id(HOT, 0, FETCHERS), HOT, 0)] == lag
        assert seen[Metric.LAG_PARTITION_END_OFFSET, labels] == MISSED_RECORDS
        assert seen[Metric.LAG_PARTITION_SIZE, labels] == pytest.approx(MISSED_RECORDS * RECORD_BYTES, rel=0.1)
        assert seen[Metric.LAG_THREAD_SUM, thread] == seen[Metric.LAG_MAX, ""] == lag
        assert seen[Metric.LAG_THREAD_SUM, idle] == 0
        assert seen[Metric.LAG_THREAD_BYTES, thread] > 0
        assert seen[Metric.LAG_ADDING_PARTITIONS, ""] == 0
        assert seen[Metric.REPLICA_LAG_SUM, ""] == lag

        client.alter_broker_configs({LEADER: {LEADER_RATE: None}})
        until(lambda: samples().get((Metric.LAG_SUM, "")) == 0, 60, "the follower has caught up", every_s=1.0)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_lag_of_returning_follower_is_measured_by_thread_and_partition(lab: Lab, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "rheostat.yaml"
    settings = json.loads(lab_config(lab, dry_run=True, http={"port": port}))
    settings["stream"]["checkpoint_dir"] = str(tmp_path / "checkpoint")
    config.write_text(json.dumps(settings))
    signals = consumer(lab.kafka_settings(), "test-signals", auto_offset_reset="earliest")

    with (
        running(*RHEOSTAT, "run", "--config", config, log=tmp_path / "run.log"),
        ClusterClient(lab.kafka_settings(), "test") as client,
    ):
        until(lambda: client.partitions([HOT, Topics.with_prefix("rheostat").signals]), 60, "the topics exist")
        signals.subscribe([Topics.with_prefix("rheostat").signals])
        newest: dict[str, ReplicationSignal] = {}
        # From the newest sample to the record of the signal, for the lag and for the other signals of the same broker.
        delays_s: dict[type, list[float]] = {ReplicationSignal: [], BrokerSignal: []}

        def latest() -> ReplicationSignal | None:
            for records in signals.poll(timeout_ms=200).values():
                for record in records:
                    one = decode_signal(record.value)
                    if (
                        not isinstance(one, BrokerSignal | ReplicationSignal)
                        or one.broker != FOLLOWER
                        or one.samples < 2
                    ):
                        continue
                    delays_s[type(one)].append((record.timestamp - one.sampled_at_ms) / 1000)
                    if isinstance(one, ReplicationSignal):
                        newest["one"] = one
            return newest.get("one")

        in_step = until(latest, 400, "a signal of the follower in step")
        assert (in_step.lag_sum_messages, in_step.lag_max_s, in_step.worst) == (0, 0, ())

        make_follower_lag(lab, client)
        returned_ms = 1000 * time.time()
        with steady_writer(lab):
            for delays in delays_s.values():
                delays.clear()

            def measured() -> ReplicationSignal | None:
                one = latest()
                if one is None or one.trend is None or one.trend_5min is None or one.samples < 5:
                    return None
                # Samples from before the return would turn the trend upwards.
                began_ms = one.sampled_at_ms - 1000 * one.trend.span_s
                return one if began_ms > returned_ms and one.worst and one.worst[0].lag_bytes is not None else None

            found = until(measured, 150, lambda: f"the lag in seconds and bytes; {newest.get('one')}")
            _check_against_kafka(found, true_lag(client), time.time())
            _check_outputs(config, port)
    signals.close()
    assert statistics.median(delays_s[ReplicationSignal]) < statistics.median(delays_s[BrokerSignal]) + 0.5, delays_s


def _check_against_kafka(found: ReplicationSignal, lag: int, now_s: float) -> None:
    age_s = now_s - found.sampled_at_ms / 1000
    caught_up = (CATCH_UP_BYTES_PER_S / RECORD_BYTES) * (age_s + 11)  # Kafka's quota lets 11 s pass at once.
    assert found.lag_sum_messages == pytest.approx(lag, abs=caught_up + WRITES_PER_S * age_s)
    assert found.lag_sum_messages == found.lag_max_messages > 500
    assert found.trend is not None
    assert found.trend.slope_messages_per_s < -5
    assert found.trend.r2 is not None
    (worst,) = found.worst
    thread = fetcher_id(HOT, 0, FETCHERS)
    assert (worst.topic, worst.partition, worst.source, worst.fetcher) == (HOT, 0, LEADER, thread)
    assert worst.write_messages_per_s == pytest.approx(WRITES_PER_S, rel=0.25)
    assert worst.lag_s == pytest.approx(worst.lag_messages / WRITES_PER_S, rel=0.3)
    assert worst.lag_bytes == pytest.approx(worst.lag_messages * RECORD_BYTES, rel=0.3)
    by_thread = {(t.source, t.fetcher): t for t in found.threads}
    full = by_thread[LEADER, thread]
    assert full.lag_sum_messages == found.lag_sum_messages
    assert full.fetched_bytes_per_s is not None
    assert 0.4 * CATCH_UP_BYTES_PER_S < full.fetched_bytes_per_s < 4 * CATCH_UP_BYTES_PER_S
    assert sum(t.lag_sum_messages or 0 for t in found.threads) == full.lag_sum_messages


def _check_outputs(config: Path, port: int) -> None:
    """The tuner's page, API and metrics, and the command, show the follower."""

    def read(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def lag_on_metrics_page() -> bool:
        found = re.search(
            rf'^rheostat_replication_lag_messages{{[^}}]*broker="{FOLLOWER}"}} (\S+)$', read("/metrics"), re.M
        )
        return found is not None and float(found[1]) > 100

    until(lag_on_metrics_page, 60, "the tuner has the lag", every_s=1.0)
    page: dict[str, Any] = json.loads(read("/api/v1/replication"))
    assert page["followers"][0]["broker"] == FOLLOWER
    assert f"{HOT}-0" in read("/page/replication")

    def partition_in_signals() -> bool:
        done = rheostat("signals", "--config", config, "--kind", "replication", "--wide")
        return done.returncode == 0 and f"{HOT}-0" in done.stdout

    # The command refuses signals of more than 15 s, which a busy machine has at times.
    until(partition_in_signals, 60, "the command shows the partition", every_s=1.0)
