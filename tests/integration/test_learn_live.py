"""`rheostat learn` on a real cluster: it reads the history topic, and writes the profiles topic."""

from __future__ import annotations

import signal
import time
import urllib.request
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import psutil
import yaml
from kafka import TopicPartition
from lab_parts import RHEOSTAT, Running, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.contract import Topics
from streaming.shared.contract.history import PERIOD_S, BrokerHistory, HistoryPeriod
from streaming.shared.contract.learned_encoding import decode_profile, encode_history, history_key
from streaming.shared.contract.profiles import BrokerProfile, Profile
from streaming.shared.kafka import KafkaSettings, consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics

LAB = LabSpec(brokers=1)
PERIOD_MS = PERIOD_S * 1000
HOUR_MS = 3_600_000
PER_HOUR = HOUR_MS // PERIOD_MS
READ_S_MAX = 30.0


def config_for(lab: Lab, folder: Path, port: int, prefix: str) -> Path:
    settings = yaml.safe_load(lab_config(lab))
    settings["topics"] = {"prefix": prefix}
    settings["learn"] = {"http": {"port": port}}
    file = folder / "rheostat.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


def periods(cluster: str, hours: int, end_ms: int) -> list[HistoryPeriod]:
    """Returns the history of one broker with 20 MB/s by day and 5 MB/s by night."""
    first_ms = end_ms - hours * HOUR_MS
    return [
        HistoryPeriod(
            cluster=cluster,
            start_ms=first_ms + i * PERIOD_MS,
            brokers=(
                BrokerHistory(
                    broker=1,
                    signals=20,
                    client_in_bytes_per_s=load(first_ms + i * PERIOD_MS),
                    reassignment_in_bytes_per_s=0.0,
                    reassignment_out_bytes_per_s=0.0,
                    produce_p99_ms=9.0,
                ),
            ),
        )
        for i in range(hours * PER_HOUR)
    ]


def load(at_ms: int) -> float:
    return 20e6 if at_ms // HOUR_MS % 24 >= 8 else 5e6


def send(lab: Lab, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    sender = producer(kafka_of(lab), "test-history")
    try:
        for key, value in records:
            sender.send(topic, key=key, value=value)
        sender.flush(timeout=30)
    finally:
        sender.close(timeout=5)


def kafka_of(lab: Lab) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=lab.bootstrap_servers)


def profiles(lab: Lab, topic: str) -> tuple[dict[bytes, Profile], int]:
    """Returns the profiles by key, and how many records the topic has."""
    found: dict[bytes, Profile] = {}
    count = 0
    partition = TopicPartition(topic, 0)
    reader = consumer(kafka_of(lab), "test-profiles")
    try:
        reader.assign([partition])
        reader.seek_to_beginning(partition)
        end = reader.end_offsets([partition])[partition]
        until_s = time.monotonic() + READ_S_MAX
        while (reader.position(partition) or 0) < end and time.monotonic() < until_s:
            for record in reader.poll(timeout_ms=500).get(partition, ()):
                count += 1
                if record.value is not None:
                    found[record.key] = decode_profile(record.value)
    finally:
        reader.close()
    return found, count


def metric(port: int, name: str) -> float | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as page:
            lines = page.read().decode().splitlines()
    except OSError:
        return None
    return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{")), None)


def started(log: Path, config: Path) -> AbstractContextManager[Running]:
    return running(*RHEOSTAT, "learn", "--config", config, log=log)


def test_history_becomes_profiles_that_follow_and_survive_a_restart(lab: Lab, tmp_path: Path) -> None:
    prefix, port = "learnt", free_ports(1)[0]
    config = config_for(lab, tmp_path, port, prefix)
    cluster = yaml.safe_load(config.read_text())["cluster"]
    topics = Topics.with_prefix(prefix)
    with ClusterClient(kafka_of(lab), "test-topics") as client:
        ensure_topics(client, topics, [topics.history, topics.profiles])
    now_hour_ms = round(time.time() * 1000) // HOUR_MS * HOUR_MS
    end_ms = now_hour_ms - HOUR_MS
    history = periods(cluster, 5 * 24, end_ms + PERIOD_MS * PER_HOUR)
    past, coming = history[:-PER_HOUR], history[-PER_HOUR:]
    other = replace(past[0], cluster="another", brokers=(replace(past[0].brokers[0], broker=77),))
    hostile = [
        (b"progress", b"a record of the stream about itself"),
        (f"{cluster}|x".encode(), b"no JSON"),
        (f"{cluster}|y".encode(), encode_history(replace(past[0], start_ms=now_hour_ms + 48 * HOUR_MS))),
    ]
    send(lab, topics.history, [(history_key(p), encode_history(p)) for p in (*past, other, coming[0])] + hostile)

    with started(tmp_path / "learn.log", config) as learn:
        until(lambda: metric(port, "rheostat_learn_profiles") == 1, 40, "a profile is made")
        until(lambda: profiles(lab, topics.profiles)[1] >= 1, 20, "it is in the topic")
        found, _ = profiles(lab, topics.profiles)
        until(lambda: metric(port, "rheostat_learn_refused_records_total") == 2, 20, "two records are refused")
        until(lambda: metric(port, "rheostat_learn_periods_total") == len(past) + 1, 20, "all periods are read")
        [profile] = found.values()
        assert isinstance(profile, BrokerProfile)
        assert (profile.cluster, profile.broker, profile.start_ms) == (cluster, 1, end_ms)
        for step in (0, 5, 11, 23):
            expected = load(end_ms + step * HOUR_MS)
            assert abs((profile.client_in.bytes_per_s[step] or 0.0) - expected) < 0.3 * expected
        assert profile.quiet_p99_ms[0] == 9.0

        later = replace(coming[0], start_ms=end_ms + HOUR_MS)
        send(lab, topics.history, [(history_key(p), encode_history(p)) for p in (*coming[1:], later)])
        until(
            lambda: metric(port, "rheostat_learn_learned_to_timestamp_seconds") == now_hour_ms / 1000, 20, "it follows"
        )
        until(lambda: profiles(lab, topics.profiles)[1] >= 2, 20, "the next profile is in the topic")
        rss = psutil.Process(learn.pid).memory_info().rss
        assert rss < 250e6
        before, records = profiles(lab, topics.profiles)
        assert learn.end(signal.SIGTERM) == 0
        assert "Traceback" not in learn.said()

    with started(tmp_path / "again.log", config) as again:
        until(lambda: metric(port, "rheostat_learn_profiles") == 1, 40, "all was read again")
        until(
            lambda: any(line["event"] == "learn has computed the profiles" for line in again.lines()),
            10,
            "all was learned again",
        )
        assert again.end(signal.SIGTERM) == 0
    assert profiles(lab, topics.profiles) == (before, records), "the same history gives the same profiles"


def test_first_minutes_of_a_history_give_a_profile(lab: Lab, tmp_path: Path) -> None:
    prefix, port = "young", free_ports(1)[0]
    config = config_for(lab, tmp_path, port, prefix)
    cluster = yaml.safe_load(config.read_text())["cluster"]
    topics = Topics.with_prefix(prefix)
    now_ms = round(time.time() * 1000) // PERIOD_MS * PERIOD_MS
    history = [replace(p, start_ms=now_ms + (i - 3) * PERIOD_MS) for i, p in enumerate(periods(cluster, 1, now_ms)[:3])]
    with started(tmp_path / "learn.log", config) as learn:
        until(lambda: metric(port, "rheostat_learn_profiles") == 0, 40, "it waits for the history")
        for count, period in enumerate(history, 1):
            send(lab, topics.history, [(history_key(period), encode_history(period))])
            until(lambda n=count: metric(port, "rheostat_learn_periods_total") == n, 20, "it follows")
        until(lambda: any(p.made_at_ms == now_ms for p in broker_profiles(lab, topics)), 20, "each period counts")
        [profile] = broker_profiles(lab, topics)
        assert profile.step_at(now_ms - 1) is not None
        assert profile.quiet_p99_ms[0] == 9.0
        assert learn.end(signal.SIGTERM) == 0


def broker_profiles(lab: Lab, topics: Topics) -> list[BrokerProfile]:
    return [p for p in profiles(lab, topics.profiles)[0].values() if isinstance(p, BrokerProfile)]
