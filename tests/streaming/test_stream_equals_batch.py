"""The stream's final signals equal those of one batch over all records, for any order and division into micro-batches.

``build`` is used for both; the stream adds state, which is stored, read back and removed. Each example is a generated cluster
whose nodes restart, disappear, move partitions, repeat records and send garbage. One number defines it: hypothesis prints it
when an example fails, and ``random_batches`` repeats it. Use ``--hypothesis-seed=random`` for other examples.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from stream_cases import MB, OURS, T0, TOPICS, Logged, Stream, changed, decoded, numbered, raw, scrape

from streaming.pipeline import build
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    Metric,
    MoveSignal,
    NodeRole,
    ReplicationSignal,
    TenantSignal,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)

NODES = 6
SCRAPES = 20
EVERY_S = 5
LATENESS_S = 10

NONSENSE: tuple[bytes | None, ...] = (
    None,
    b"",
    b"{}",
    b"[1]",
    b"\xff\xfe",
    b'{"v":2}',
    b"NaN",
    b'{"v":1,"cluster":"c"}',
)


@dataclass
class Node:
    """The samples of one node, whose history is drawn from ``chance``."""

    chance: random.Random
    id: int
    cluster: str
    clock_s: float
    in_parts: bool
    counts: dict[str | tuple[str, str], float] = field(default_factory=dict)
    sizes: dict[int, tuple[float, float]] = field(default_factory=dict)  # Partition → own and leader's bytes.

    def advance(self) -> None:
        chance = self.chance
        if chance.random() < 0.06:
            self.counts.clear()  # Restarted.
        for name in (
            Metric.CLIENT_IN,
            Metric.REPLICATION_OUT,
            (Metric.NETWORK_IN, "listener=A,networkprocessor=0"),
            (Metric.NETWORK_IN, "listener=B,networkprocessor=1"),
            Metric.EVENT_QUEUE_TIME_COUNT,
            (Metric.TOTAL_TIME_COUNT, "request=Produce"),
            (Metric.MUTATIONS_REJECTED, "request=CreateTopics"),
        ):
            self.counts[name] = self.counts.get(name, 0) + chance.randrange(2000)
        for partition in range(4):
            if partition not in self.sizes and chance.random() < 0.2:
                self.sizes[partition] = (0.0, chance.randrange(1, 500) * MB)
            elif partition in self.sizes and chance.random() < 0.1:
                del self.sizes[partition]
        for partition, (own, leader) in self.sizes.items():
            leader = leader + chance.randrange(9) * MB if chance.random() < 0.95 else leader / 2
            self.sizes[partition] = (min(leader, own + chance.randrange(40) * MB), leader)

    def shows(self) -> dict[str | tuple[str, str], float]:
        chance = self.chance
        found = {name: count for name, count in self.counts.items() if chance.random() < 0.95}
        for gauge in (
            Metric.LEADER_RATE,
            Metric.HANDLER_IDLE,
            Metric.ACTIVE_CONTROLLER,
            Metric.EVENT_QUEUE_TIME_MEAN,
            (Metric.TOTAL_TIME_MEAN, "request=Produce"),
        ):
            if chance.random() < 0.7:
                found[gauge] = round(chance.random(), 3)
        for lag in (Metric.LAG_SUM, Metric.LAG_MAX, Metric.LAG_PARTITIONS, Metric.REPLICA_LAG_MAX):
            if chance.random() < 0.7:
                found[lag] = chance.randrange(500)
        for fetcher in range(2):
            if chance.random() < 0.7:
                found[Metric.LAG_THREAD_SUM, thread_labels(9, fetcher)] = chance.randrange(500)
                found[Metric.LAG_THREAD_BYTES, thread_labels(9, fetcher)] = self.counts[Metric.CLIENT_IN]
        for partition in range(3):
            labels = partition_labels("hot", partition)
            if chance.random() < 0.7:
                named = thread_partition_labels(9, 0, "hot", partition)
                found[Metric.LAG_PARTITION, chance.choice((named, labels))] = chance.randrange(500)
                found[Metric.LAG_PARTITION_END_OFFSET, labels] = self.counts[Metric.CLIENT_IN]
                found[Metric.LAG_PARTITION_SIZE, labels] = chance.randrange(10**9)
        for device in ("eth0", "bond0"):
            if chance.random() < 0.6:
                found[Metric.LINK_SPEED, f"device={device}"] = chance.choice((125.0, 1250.0)) * MB
        for tenant in ("user=u", "client_id=a%2Cb,user=u"):
            if chance.random() < 0.5:
                found[Metric.MUTATION_TOKENS, tenant] = chance.randrange(-50, 50)
        for partition, (own, leader) in self.sizes.items():
            labels = partition_labels("orders", partition)
            if (partition + self.id) % 2:
                found |= {(Metric.LED_SIZE, labels): leader, (Metric.LED_COUNTED, labels): 2}
                found |= {(Metric.LED_REMAINING, labels): leader - own} if own < leader else {}
            else:
                adding = float(own < leader)
                found |= {(Metric.FOLLOWED_SIZE, labels): own, (Metric.FOLLOWED_LEADER_SIZE, labels): leader}
                found |= {(Metric.FOLLOWED_ADDING, labels): adding, (Metric.FOLLOWED_COUNTED, labels): 1}
        return found


def random_batches(seed: int) -> list[list[Logged]]:
    """Micro-batches of records, each no later than the watermark allows."""
    chance = random.Random(seed)
    nodes = [
        Node(
            chance,
            id=n // 2,
            cluster="cd"[n % 2],
            clock_s=chance.choice((0, 0, 0, 12.5, 300, -300)),
            in_parts=chance.random() < 0.4,
        )
        for n in range(NODES)
    ]
    in_order: list[Logged] = sorted(_log(chance, nodes), key=lambda one: one.at_ms)
    taken = numbered(in_order)

    batches: list[list[Logged]] = [[]]
    waiting: list[Logged] = []
    end_ms, newest_ms = 0, 0
    for one in taken:
        if one.at_ms >= end_ms:
            chance.shuffle(batches[-1])
            still_in_time = [w for w in waiting if w.at_ms > newest_ms - LATENESS_S * 1000]
            assert still_in_time == waiting
            batches.append(waiting)
            waiting = []
            end_ms = one.at_ms + chance.choice((2_000, 12_000, 25_000))
        # What would be too late after this batch does not wait for the next.
        if one.at_ms > end_ms - LATENESS_S * 1000 and chance.random() < 0.15:
            waiting.append(one)
        else:
            batches[-1].append(one)
            newest_ms = max(newest_ms, one.at_ms)
    return [*batches[1:], waiting]


def _log(chance: random.Random, nodes: list[Node]) -> Iterator[Logged]:
    for k in range(SCRAPES):
        for node in nodes:
            node.advance()
            if chance.random() < 0.12:
                continue  # A gap.
            at_s = k * EVERY_S + chance.random() * 0.5
            found = list(node.shows().items())
            cut = chance.randrange(len(found) + 1) if node.in_parts else 0
            for part in (found[:cut], found[cut:]) if cut else (found,):
                role = NodeRole.BROKER if node.id else NodeRole.CONTROLLER
                one = scrape(at_s, dict(part), node=node.id, role=role, cluster=node.cluster)
                value = changed(one, ts=one.ts_ms + round(node.clock_s * 1000))
                record = Logged(value, one.ts_ms + chance.randrange(800))
                yield record
                if chance.random() < 0.1:
                    yield replace(record, at_ms=record.at_ms + chance.choice((0, 1, 3_000, 7_000)))
            if chance.random() < 0.04:
                yield Logged(chance.choice(NONSENSE), T0 + round(at_s * 1000))


@settings(
    settings.get_profile("streaming"),
    max_examples=3,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # To shrink a number tells nothing.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32 - 1))
def test_stream_gives_the_same_result_as_one_batch(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    batches = random_batches(seed)
    everything = [one for batch in batches for one in batch]
    # A rare seed draws none, and would say nothing about rejects.
    assume(any(one.value in NONSENSE for one in everything))

    stream = Stream(spark, tmp_path_factory.mktemp("stream"))
    stream.run(*batches)
    at_once = build([(raw(spark, everything), OURS)], TOPICS).collect()
    assert len({(row.topic, bytes(row.key)) for row in at_once}) == len(at_once), "a key has one value"

    assert stream.late == 0, f"random_batches({seed}) is to have no record behind the watermark"
    assert len(stream.batches) >= len([b for b in batches if b])
    for topic in (TOPICS.rejects, TOPICS.signals):
        expected = {bytes(row.key): bytes(row.value) for row in at_once if row.topic == topic}
        found = stream.final(topic)
        differ = {
            key: (found.get(key), expected.get(key))
            for key in found.keys() | expected.keys()
            if found.get(key) != expected.get(key)
        }
        some = [f"{key!r}\n  stream {a!r}\n  at once {b!r}" for key, (a, b) in sorted(differ.items())[:3]]
        assert not differ, f"random_batches({seed}), {topic}: {len(differ)} of {len(expected)} differ\n" + "\n".join(
            some
        )
        if topic == TOPICS.signals:
            assert {type(one) for one in decoded(expected)} == {
                BrokerSignal,
                MoveSignal,
                ReplicationSignal,
                ControllerSignal,
                TenantSignal,
            }
        else:
            offsets = {one.offset for one in everything if one.value in NONSENSE}
            assert {json.loads(value)["offset"] for value in expected.values()} == offsets != set()
