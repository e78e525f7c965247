"""Generates collector records of an invented cluster, thousands per second.

Every record is encoded once with placeholders for the time and for one counter. Encoding JSON each time would dominate the
benchmark.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from streaming.collector.lags import PARTITIONS_MAX
from streaming.shared.contract import (
    Metric,
    NodeRole,
    Sample,
    Scrape,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)
from streaming.signal_fields import BROKER_COUNTERS, BROKER_GAUGES

_TS, _COUNT = 1_111_111_111_111, 222_222_222_222.0
CLUSTER = "bench"
_LAGS = (
    Metric.LAG_PARTITIONS,
    Metric.LAG_SUM,
    Metric.LAG_MAX,
    Metric.LAG_ADDING_PARTITIONS,
    Metric.LAG_ADDING_SUM,
    Metric.LAG_THREADS,
)
_THREAD_LAGS = (
    Metric.LAG_THREAD_PARTITIONS,
    Metric.LAG_THREAD_SUM,
    Metric.LAG_THREAD_MAX,
    Metric.LAG_THREAD_BYTES,
)


@dataclass(frozen=True, slots=True)
class Shape:
    nodes: int
    samples: int = 50
    partitions: int = 0  # That move, on each node, as a follower.
    every_s: float = 5.0
    lag_threads: int = 0  # Fetcher threads whose lag each node reports, with as many samples as the collector sends.

    @property
    def samples_per_scrape(self) -> int:
        lags = len(_LAGS) + len(_THREAD_LAGS) * self.lag_threads + 3 * PARTITIONS_MAX if self.lag_threads else 0
        return self.samples + 4 * self.partitions + lags

    @property
    def name(self) -> str:
        return f"n{self.nodes}p{self.partitions}" + (f"t{self.lag_threads}" if self.lag_threads else "")


def _lag_samples(threads: int, rng: random.Random) -> list[Sample]:
    """Returns the samples of a follower with this many fetcher threads, of which the first lags."""
    if not threads:
        return []
    samples = [Sample(name, "", rng.random() * 1000) for name in _LAGS]
    for thread in range(threads):
        labels = thread_labels(thread // 2, thread % 2)
        samples += [Sample(name, labels, _COUNT if name == Metric.LAG_THREAD_BYTES else 1.0) for name in _THREAD_LAGS]
    for partition in range(PARTITIONS_MAX):
        labels = partition_labels("orders", partition)
        samples += [
            Sample(Metric.LAG_PARTITION, thread_partition_labels(0, 0, "orders", partition), 500.0),
            Sample(Metric.LAG_PARTITION_END_OFFSET, labels, _COUNT),
            Sample(Metric.LAG_PARTITION_SIZE, labels, _COUNT),
        ]
    return samples


class Template:
    """The record of one node, with placeholders for its two changing numbers."""

    def __init__(self, node: int, shape: Shape, rng: random.Random) -> None:
        counters = [name for name, labels in BROKER_COUNTERS.values() if labels is not None]
        samples = [Sample(name, "", _COUNT) for name in counters]
        samples += [Sample(name, labels or "", rng.random() * 1000) for name, labels in BROKER_GAUGES.values()]
        samples += [Sample(Metric.NETWORK_IN, f"listener=PLAINTEXT,networkprocessor={i}", _COUNT) for i in range(3)]
        samples += [
            Sample(f"kafka_server_other_metric_{i}", "", rng.random()) for i in range(shape.samples - len(samples))
        ]
        for p in range(shape.partitions):
            labels = partition_labels("orders", p)
            samples += [
                Sample(Metric.FOLLOWED_SIZE, labels, _COUNT),
                Sample(Metric.FOLLOWED_LEADER_SIZE, labels, _COUNT * 2),
                Sample(Metric.FOLLOWED_COUNTED, labels, 1.0),
                Sample(Metric.FOLLOWED_ADDING, labels, 1.0),
            ]
        samples += _lag_samples(shape.lag_threads, rng)
        scrape = Scrape(CLUSTER, node, NodeRole.BROKER, _TS, tuple(samples))
        self.key = scrape.key()
        head, tail = scrape.value().split(str(_TS).encode())
        self._parts = (head, tail.split(repr(_COUNT).encode()))
        self._rate = 1e6 * (1 + rng.random())
        self._reset_s = rng.uniform(60, 2000)

    def at(self, ts_ms: int) -> bytes:
        # A restart now and then: the counters begin again.
        count = repr(round(self._rate * math.fmod(ts_ms / 1000, self._reset_s), 1)).encode()
        head, tail = self._parts
        return head + str(ts_ms).encode() + count.join(tail)


def templates(shape: Shape, seed: int = 1) -> list[Template]:
    rng = random.Random(seed)
    return [Template(node, shape, rng) for node in range(1, shape.nodes + 1)]


def history(shape: Shape, scrapes: int, until_ms: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Yields key, value and time of ``scrapes`` scrapes of every node in the order of time; the last is at ``until_ms``."""
    nodes = templates(shape)
    for back in range(scrapes - 1, -1, -1):
        for i, node in enumerate(nodes):
            ts_ms = until_ms - int(1000 * shape.every_s * (back + 1 - (i + 1) / len(nodes)))
            yield node.key, node.at(ts_ms), ts_ms
