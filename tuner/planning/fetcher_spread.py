"""Numbers the partitions of a placement so that few of them share a fetcher thread.

A placement has a replica list for each new partition. Kafka chooses the fetcher thread of a follower by the number of the partition
(tuner/core/fetchers.py), so the same replica lists in another order use other threads. The order changes nothing else: each broker
hosts and leads the same number of partitions, racks stay the same, and the same brokers share partitions.

Invariants: the result is the given placement in another order. The new order never has more collisions than the given order.

Terms:
    collision  a partition that gets a thread which already copies a partition of the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tuner.core.fetchers import fetcher_number_from_hash, topic_hash

Replicas = tuple[int, ...]  # The preferred leader first.
Thread = tuple[int, int, int]  # Follower, leader, thread.

# Number of replica lists that are compared for each partition. A higher number takes longer, and hardly avoids more collisions.
_CANDIDATES_MAX = 32


class SharedThreads(NamedTuple):
    """A measure of how much partitions share threads; a smaller tuple is better.

    Attributes:
        collisions: number of replicas that share a thread with an earlier partition of the topic.
        own: sum over all threads of (number of the topic's partitions)². The sum is smallest if all threads have the same number.
        all: sum over all threads of (number of the partitions of all topics)², less the part that does not change.
    """

    collisions: int
    own: int
    all: int


def count_threads(
    partitions: Iterable[tuple[str, int, int, Sequence[int]]], fetchers: Mapping[int, int]
) -> Counter[Thread]:
    """Returns the number of partitions on each thread.

    Args:
        partitions: topic, partition, leader, replicas.
        fetchers: num.replica.fetchers by broker; followers on other brokers are skipped.
    """
    hashes: dict[str, int] = {}
    counts: Counter[Thread] = Counter()
    for topic, partition, leader, replicas in partitions:
        if topic not in hashes:
            hashes[topic] = topic_hash(topic)
        number = fetcher_number_from_hash(hashes[topic], partition)
        for follower in replicas:
            if follower != leader and follower in fetchers:
                counts[(follower, leader, number % fetchers[follower])] += 1
    return counts


def spread_over_threads(
    topic: str,
    first_partition: int,
    placement: Sequence[Replicas],
    fetchers: Mapping[int, int],
    hosted: Mapping[Thread, int],
) -> tuple[Replicas, ...]:
    """Returns the replica lists in an order that avoids collisions.

    Args:
        first_partition: number of the first new partition.
        placement: replicas of each new partition.
        fetchers: num.replica.fetchers of all brokers of the placement.
        hosted: number of existing partitions on each thread.
    """
    threads = _TopicThreads(topic, fetchers, hosted)
    remaining, spread = list(placement), []
    for partition in range(first_partition, first_partition + len(placement)):
        # Of equal costs the first is chosen, so a placement without collisions stays as it is.
        costs = [threads.cost_of_adding(partition, replicas) for replicas in remaining[:_CANDIDATES_MAX]]
        chosen = remaining.pop(costs.index(min(costs)))
        threads.add(partition, chosen)
        spread.append(chosen)
    as_given = shared_threads(topic, first_partition, placement, fetchers, hosted)
    return tuple(spread) if threads.shared < as_given else tuple(placement)


def shared_threads(
    topic: str,
    first_partition: int,
    placement: Sequence[Replicas],
    fetchers: Mapping[int, int],
    hosted: Mapping[Thread, int],
) -> SharedThreads:
    """Returns how much the new partitions share threads; the arguments have the same meaning as in ``spread_over_threads``."""
    threads = _TopicThreads(topic, fetchers, hosted)
    for n, replicas in enumerate(placement):
        threads.add(first_partition + n, replicas)
    return threads.shared


class _TopicThreads:
    """The threads of one topic's new partitions, while they are placed one by one."""

    def __init__(self, topic: str, fetchers: Mapping[int, int], hosted: Mapping[Thread, int]) -> None:
        self._hash = topic_hash(topic)
        self._fetchers = fetchers
        self._hosted = hosted
        self._own: Counter[Thread] = Counter()
        self.shared = SharedThreads(0, 0, 0)

    def cost_of_adding(self, partition: int, replicas: Replicas) -> SharedThreads:
        """Returns by how much ``shared`` would grow."""
        collisions = own = all_topics = 0
        for thread in self._threads(partition, replicas):
            count = self._own[thread]
            collisions += count > 0
            own += 2 * count + 1
            all_topics += 2 * (count + self._hosted.get(thread, 0)) + 1
        return SharedThreads(collisions, own, all_topics)

    def add(self, partition: int, replicas: Replicas) -> None:
        cost = self.cost_of_adding(partition, replicas)
        self.shared = SharedThreads(*(total + more for total, more in zip(self.shared, cost, strict=True)))
        self._own.update(self._threads(partition, replicas))

    def _threads(self, partition: int, replicas: Replicas) -> list[Thread]:
        number = fetcher_number_from_hash(self._hash, partition)
        leader = replicas[0]
        return [(follower, leader, number % self._fetchers[follower]) for follower in replicas[1:]]
