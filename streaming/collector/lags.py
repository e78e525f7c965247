"""Reduces the lags of a node, thousands on a large broker, to few samples. Pure.

    lags by partition ─→ sums ─→ one sample each
                      ─→ by fetcher thread ─→ the threads of the sources that lag most
                      ─→ the partitions that lag most ─→ the leaders' offsets and sizes, read in the next round

A thread copies from one source broker. All threads of one source are listed together, so that a reader can tell a full thread from
idle threads. The number of samples is bounded: it does not grow with the cluster.

Invariant: an unknown lag yields no sample, because Kafka drops half of the lag series when its number of fetchers changes; a
missing series does not mean that the lag is 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from streaming.collector.exposition import Reading
from streaming.shared.contract import (
    Metric,
    Sample,
    TopicPartition,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)
from streaming.shared.fetcher_threads import read_client_id

THREADS_MAX = 24  # Fetcher threads of a node with samples of their own.
PARTITIONS_MAX = 10  # Partitions of a node with samples of their own.
LEADER_LOGS_MAX = 50  # Partitions of the whole cluster whose leaders are asked for offset and size in a round.


@dataclass(frozen=True, slots=True)
class LeaderLog:
    """The log of a partition's leader. A field is None if it is unknown."""

    end_offset: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LaggingReplica:
    """A replica that lags, and the leader that its fetcher thread names."""

    topic: str
    partition: int
    leader: int
    lag_messages: float


@dataclass(slots=True)
class _ThreadLag:
    """The lags of one fetcher thread."""

    partitions: int = 0
    lag_sum: float = 0.0
    lag_max: float = 0.0
    adding_partitions: int = 0
    adding_lag_sum: float = 0.0


def sum_samples(reading: Reading, followed: Iterable[TopicPartition]) -> list[Sample]:
    """Returns the sum of a node's lags and the lags of tracked partitions.

    The sum covers only the known lags, so it is too small while series are missing. If no lag is known, there is no sum, unless the
    node follows no partition.

    Args:
        followed: tracked partitions that the node follows.
    """
    lags = reading.lags
    samples = [
        Sample(Metric.FOLLOWED_LAG, partition_labels(*key), lags[key][0])
        for key in sorted(set(followed))
        if key in lags
    ]
    if lags or _follows_nothing(reading.samples):
        samples.append(Sample(Metric.REPLICA_LAG_SUM, "", sum(lag for lag, _ in lags.values())))
    return samples


def lag_samples(
    reading: Reading, adding: Collection[TopicPartition], leader_logs: Mapping[TopicPartition, LeaderLog]
) -> list[Sample]:
    """Returns the samples about the lags of a node (``Metric.LAG_…``); none if no lag is known.

    Args:
        adding: partitions of which a reassignment adds a replica to this node.
        leader_logs: logs of leaders, as read in this round.
    """
    if not reading.lags and not _follows_nothing(reading.samples):
        return []
    threads = _by_client_id(reading, adding)
    named = {thread: lag for name, lag in threads.items() if (thread := read_client_id(name)) is not None}
    samples = [
        Sample(Metric.LAG_PARTITIONS, "", sum(t.partitions for t in threads.values())),
        Sample(Metric.LAG_SUM, "", sum(t.lag_sum for t in threads.values())),
        Sample(Metric.LAG_MAX, "", max((t.lag_max for t in threads.values()), default=0.0)),
        Sample(Metric.LAG_ADDING_PARTITIONS, "", sum(t.adding_partitions for t in threads.values())),
        Sample(Metric.LAG_ADDING_SUM, "", sum(t.adding_lag_sum for t in threads.values())),
    ]
    if named or not reading.lags:
        samples.append(Sample(Metric.LAG_THREADS, "", len(named)))
    fetched_bytes = {read_client_id(name): value for name, value in reading.fetched_bytes.items()}
    for thread in _listed(named):
        samples += _thread_samples(thread, named[thread], fetched_bytes.get(thread))
    for key in _worst(reading, adding):
        samples += _partition_samples(key, *reading.lags[key], leader_logs.get(key, LeaderLog()))
    return samples


def lagging_replicas(samples: Iterable[Sample]) -> list[LaggingReplica]:
    """Returns the lagging partitions in a node's samples, if the name of their fetcher thread tells their leader."""
    replicas = []
    for sample in samples:
        if sample.name == Metric.LAG_PARTITION and "source=" in sample.labels:
            fields = dict(field.split("=", 1) for field in sample.labels.split(","))
            leader, partition = int(fields["source"]), int(fields["partition"])
            replicas.append(LaggingReplica(fields["topic"], partition, leader, sample.value))
    return replicas


def leader_logs_to_read(replicas: Iterable[LaggingReplica], brokers: Collection[int]) -> dict[TopicPartition, int]:
    """Returns the partitions that lag most, with their leaders; at most ``LEADER_LOGS_MAX`` partitions.

    Args:
        brokers: leaders that may be asked.
    """
    lags: dict[TopicPartition, LaggingReplica] = {}
    for replica in replicas:
        key = (replica.topic, replica.partition)
        if replica.leader in brokers and (key not in lags or lags[key].lag_messages < replica.lag_messages):
            lags[key] = replica
    worst = heapq.nlargest(LEADER_LOGS_MAX, lags, key=lambda key: (lags[key].lag_messages, key))
    return {key: lags[key].leader for key in worst}


def _follows_nothing(samples: Iterable[Sample]) -> bool:
    """Returns whether the node's partition and leader counts show that it follows nothing."""
    counts = {s.name: s.value for s in samples if s.name in (Metric.PARTITION_COUNT, Metric.LEADER_COUNT)}
    return len(counts) == 2 and counts[Metric.PARTITION_COUNT] == counts[Metric.LEADER_COUNT]


def _by_client_id(reading: Reading, adding: Collection[TopicPartition]) -> dict[str, _ThreadLag]:
    threads: dict[str, _ThreadLag] = {}
    for key, (lag, client_id) in reading.lags.items():
        thread = threads.get(client_id)
        if thread is None:
            thread = threads[client_id] = _ThreadLag()
        if adding and key in adding:
            thread.adding_partitions += 1
            thread.adding_lag_sum += lag
            continue
        thread.partitions += 1
        if lag:  # Most replicas have no lag.
            thread.lag_sum += lag
            thread.lag_max = max(thread.lag_max, lag)
    return threads


def _listed(threads: Mapping[tuple[int, int], _ThreadLag]) -> list[tuple[int, int]]:
    """Returns the threads (fetcher, source) of the sources with the largest lags."""
    lag_by_source: dict[int, float] = {}
    for (_, source), thread in threads.items():
        lag_by_source[source] = lag_by_source.get(source, 0.0) + thread.lag_sum
    order = sorted(threads, key=lambda thread: (-lag_by_source[thread[1]], thread[1], thread[0]))
    return order[:THREADS_MAX]


def _worst(reading: Reading, adding: Collection[TopicPartition]) -> list[TopicPartition]:
    """Returns the partitions with the largest lags; none without lag."""
    behind = [(lag, key) for key, (lag, _) in reading.lags.items() if lag and key not in adding]
    return [key for _, key in heapq.nlargest(PARTITIONS_MAX, behind)]


def _thread_samples(thread: tuple[int, int], lag: _ThreadLag, fetched_bytes: float | None) -> list[Sample]:
    fetcher, source = thread
    labels = thread_labels(source, fetcher)
    samples = [
        Sample(Metric.LAG_THREAD_PARTITIONS, labels, lag.partitions),
        Sample(Metric.LAG_THREAD_SUM, labels, lag.lag_sum),
        Sample(Metric.LAG_THREAD_MAX, labels, lag.lag_max),
    ]
    if lag.adding_partitions:
        samples.append(Sample(Metric.LAG_THREAD_ADDING_PARTITIONS, labels, lag.adding_partitions))
        samples.append(Sample(Metric.LAG_THREAD_ADDING_SUM, labels, lag.adding_lag_sum))
    if fetched_bytes is not None:
        samples.append(Sample(Metric.LAG_THREAD_BYTES, labels, fetched_bytes))
    return samples


def _partition_samples(key: TopicPartition, lag: float, client_id: str, leader: LeaderLog) -> list[Sample]:
    thread, labels = read_client_id(client_id), partition_labels(*key)
    lag_labels = labels if thread is None else thread_partition_labels(thread[1], thread[0], *key)
    samples = [Sample(Metric.LAG_PARTITION, lag_labels, lag)]
    if leader.end_offset is not None:
        samples.append(Sample(Metric.LAG_PARTITION_END_OFFSET, labels, leader.end_offset))
    if leader.size_bytes is not None:
        samples.append(Sample(Metric.LAG_PARTITION_SIZE, labels, leader.size_bytes))
    return samples
