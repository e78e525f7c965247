"""Kafka's behaviour at the end of a step, for a new replica on its broker's throttled-replica list.

Broker 3 copies a large partition under a follower throttle that is always used up. Small partitions that clients write with
acks=all move there one after another: listed as throttled in one round, unlisted in the other.

A step that removes a replica ends with a new leader epoch, and every follower fetches again. Until the first response the
broker of the new replica does not know that it is in sync, so a listed replica is not fetched while the quota is used up. It
is in the ISR already, so clients with acks=all wait for it. The leader side never does that, because the leader knows its ISR.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Sequence

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from tuner.core.throttle_limits import MB

LAB = LabSpec(brokers=3)
SMALL = 8
RATE_BYTES_PER_S = round(3 * MB)
BULK_BYTES = 300 * MB  # Longer than both rounds.
AROUND_S = 1.5  # Before a step's end is seen, and what is sent in it may have waited for that.


class Writer:
    """Writes small records to all partitions in turn, and records the wait for acks=all."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.waited: list[tuple[float, float]] = []  # When sent, and for how long, in seconds.
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", linger_ms=0)
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        self._producer.flush(timeout=30)
        self._producer.close(timeout=10)

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(0.01):
            sent_s = time.monotonic()
            future = self._producer.send(self._topic, bytes(500), partition=number % SMALL)
            future.add_callback(lambda _, sent_s=sent_s: self.waited.append((sent_s, time.monotonic() - sent_s)))
            number += 1

    def worst_s(self, ended_s: float) -> float:
        return max(for_s for sent_s, for_s in self.waited if ended_s - AROUND_S < sent_s < ended_s + 0.5)


def filled(lab: Lab, topic: str, total_bytes: float) -> None:
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, topic, rate_bytes_per_s=None, record_bytes=10_000, total_bytes=round(total_bytes)
    ) as load:  # fmt: skip
        load.wait(120)


def moved(lab: Lab, client: ClusterClient, topic: str) -> list[float]:
    """Moves the partitions one by one from brokers 1 and 2 to 1 and 3; returns when each ended."""
    ended_s = []
    with lab.admin() as admin:
        for p in range(SMALL):
            admin.alter_partition_reassignments({TopicPartition(topic, p): [1, 3]})
            until(lambda: topic not in {s.topic for s in client.reassignments()}, 60, "a small partition has gone")
            ended_s.append(time.monotonic())
            # What was held up by this end is over before the next one.
            threading.Event().wait(1.0)
    return ended_s


def told(name: str, waits_s: Sequence[float]) -> str:
    return f"{name}: around its end a record waited for at most " + " ".join(f"{each:.2f}" for each in waits_s) + " s"


@pytest.mark.campaign
def test_only_listed_replica_delays_acknowledgements_at_its_end(lab: Lab) -> None:
    listed, unlisted = "listed", "unlisted"
    with ClusterClient(lab.kafka_settings(), "step-end") as client:
        with lab.admin() as admin:
            small = [NewTopic(t, replica_assignments={p: [1, 2] for p in range(SMALL)}) for t in (listed, unlisted)]
            admin.create_topics([*small, NewTopic("bulk", replica_assignments={0: [1], 1: [1]})])
        for topic, size in (("bulk", BULK_BYTES), (listed, SMALL * MB), (unlisted, SMALL * MB)):
            filled(lab, topic, size)
        on_3 = {RATE_KEYS[Side.FOLLOWER]: str(RATE_BYTES_PER_S)}
        assert client.alter_broker_configs({3: on_3}) == {3: None}
        lists = {"bulk": "0:3,1:3", listed: ",".join(f"{p}:3" for p in range(SMALL))}
        answers = client.alter_topic_configs({t: {LIST_KEYS[Side.FOLLOWER]: pairs} for t, pairs in lists.items()})
        assert set(answers.values()) == {None}
        with lab.admin() as admin:
            admin.alter_partition_reassignments({TopicPartition("bulk", p): [1, 3] for p in range(2)})
        folder = lab.nodes[3].home / "data"
        until(
            lambda: sum(f.stat().st_size for f in folder.glob("bulk-*/*.log")) > 8 * RATE_BYTES_PER_S,
            60,
            "the large copy has used its quota up for eight seconds",
        )
        worst = {}
        for topic in (listed, unlisted):
            with Writer(lab.bootstrap_servers, topic) as writer:
                ended_s = moved(lab, client, topic)
            worst[topic] = [writer.worst_s(each) for each in ended_s]
        assert "bulk" in {s.topic for s in client.reassignments()}, "the large copy ended before the steps did"
    figures = "\n".join(told(topic, waits_s) for topic, waits_s in worst.items())
    sys.stdout.write(f"\n{figures}\n")
    assert statistics.median(worst[listed]) >= 0.4, figures
    assert statistics.median(worst[unlisted]) <= 0.2, figures
