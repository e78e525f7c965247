"""Computes the load of each fetcher thread for any num.replica.fetchers, and which topics collide on threads (after LINE).

Kafka assigns partitions to brokers round-robin, and to fetcher threads by a formula that is round-robin too. If the number of
brokers and the number of threads share a factor, partitions collide. With 25 brokers and 5 threads, the numbers of the partitions
that one broker follows from one leader are 25 apart. So all of these partitions use the same thread, and four threads are idle.
Twice as many threads may not help; one thread more or less does.

Invariant: the total load of all threads does not depend on their number.

Vocabulary:
    pair      a follower and a leader that it fetches from.
    thread    one fetcher thread of a pair.
    load      bytes/s that a thread copies if write rates are known, else its number of partitions.
    idle      threads of a pair without partitions, while another thread of the pair has two or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import NamedTuple

from tuner.core.fetchers import fetcher_number_from_hash, topic_hash

FETCHERS_MAX = 32

FetchPair = tuple[int, int]  # Follower, leader.
FetcherThread = tuple[int, int, int]  # Follower, leader, thread.
Fetchers = Mapping[int, int]  # num.replica.fetchers of each follower.


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition and the followers that copy it."""

    topic: str
    partition: int
    leader: int
    followers: tuple[int, ...]
    load: float = 1.0


class FetchedReplica(NamedTuple):  # A tuple for speed: a large cluster has half a million, each used 32 times.
    """One partition of a pair. Its thread is ``number`` modulo the number of threads."""

    topic: str
    number: int
    load: float


@dataclass(frozen=True, slots=True)
class FetcherLoad:
    """Load of the fetcher threads with one num.replica.fetchers.

    Attributes:
        fetchers: num.replica.fetchers; None: brokers have different values.
        load_max: load of the busiest thread.
        partitions_max: most partitions on one thread, which is not always the busiest.
        idle: number of idle threads.
    """

    fetchers: int | None
    load_max: float = 0.0
    busiest: FetcherThread | None = None
    partitions_max: int = 0
    idle: int = 0


@dataclass(frozen=True, slots=True)
class TopicCollision:
    """A topic whose partitions share a thread while other threads of the pair are idle.

    Attributes:
        idle: idle threads over all pairs, counting this topic alone.
        follower, leader: the worst pair.
        partitions: partitions of the topic on the worst pair.
        threads: threads that they use there.
    """

    topic: str
    idle: int
    follower: int
    leader: int
    partitions: int
    threads: int

    @property
    def partitions_per_thread(self) -> float:
        return self.partitions / self.threads


def replicas_by_pair(partitions: Iterable[FetchedPartition]) -> dict[FetchPair, list[FetchedReplica]]:
    """Returns the replicas that each pair copies."""
    hashes: dict[str, int] = {}
    by_pair: dict[FetchPair, list[FetchedReplica]] = {}
    for p in partitions:
        hash_code = hashes.get(p.topic)
        if hash_code is None:
            hash_code = hashes[p.topic] = topic_hash(p.topic)
        replica = FetchedReplica(p.topic, fetcher_number_from_hash(hash_code, p.partition), p.load)
        for follower in p.followers:
            if follower != p.leader:
                by_pair.setdefault((follower, p.leader), []).append(replica)
    return by_pair


def count_idle_threads(partitions: Sequence[tuple[str, int, int, Sequence[int]]], fetchers: Fetchers) -> dict[int, int]:
    """Returns ``FetcherLoad.idle`` of each follower alone. Much faster than ``estimate_load`` for tens of thousands of partitions.

    Args:
        partitions: topic, partition, leader, followers.
        fetchers: num.replica.fetchers of the followers to count; other followers are skipped.
    """
    counts = Counter((follower, leader) for _, _, leader, followers in partitions for follower in followers)
    idle = {follower: 0 for follower, leader in counts if follower in fetchers and follower != leader}
    # On a large cluster most pairs have one partition, which cannot collide.
    numbers_by_pair: dict[FetchPair, list[int]] = {
        pair: [] for pair, count in counts.items() if count > 1 and pair[0] in idle and pair[0] != pair[1]
    }
    hashes: dict[str, int] = {}
    for topic, partition, leader, followers in partitions:
        for follower in followers:
            numbers = numbers_by_pair.get((follower, leader))
            if numbers is None:
                continue
            hash_code = hashes.get(topic)
            if hash_code is None:
                hash_code = hashes[topic] = topic_hash(topic)
            numbers.append(fetcher_number_from_hash(hash_code, partition))
    for (follower, _), numbers in numbers_by_pair.items():
        n = fetchers[follower]
        idle[follower] += min(len(numbers), n) - len({number % n for number in numbers})
    return idle


def loads_by_thread(
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], fetchers: Fetchers
) -> dict[FetcherThread, tuple[float, int]]:
    """Returns the load and the number of partitions of each thread that has any."""
    loads: dict[FetcherThread, tuple[float, int]] = {}
    for (follower, leader), replicas in by_pair.items():
        for replica in replicas:
            thread = (follower, leader, replica.number % fetchers[follower])
            load, count = loads.get(thread, (0.0, 0))
            loads[thread] = (load + replica.load, count + 1)
    return loads


def estimate_load(by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], fetchers: Fetchers) -> FetcherLoad:
    """Returns the load of the threads with these settings."""
    values = set(fetchers.values())
    sums = _LoadSums(values.pop() if len(values) == 1 else None)
    for pair, replicas in by_pair.items():
        sums.add_pair(pair, *_sum_by_thread(replicas, fetchers[pair[0]]))
    return sums.result()


def estimate_loads(
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], fetchers_max: int = FETCHERS_MAX
) -> tuple[FetcherLoad, ...]:
    """Returns the load for each value from 1 to ``fetchers_max``, the same on all brokers."""
    sums_by_n = {n: _LoadSums(n) for n in range(1, fetchers_max + 1)}
    heaviest_single = -1.0
    for pair, replicas in by_pair.items():
        if len(replicas) == 1:
            # Most pairs of a large cluster. The partition is alone on its thread, so only the heaviest such partition matters.
            if replicas[0].load > heaviest_single:
                heaviest_single = replicas[0].load
                for n, sums in sums_by_n.items():
                    sums.add_pair(pair, *_sum_by_thread(replicas, n))
            continue
        if len(replicas) <= _SMALL_PAIR_MAX:
            _add_small_pair(sums_by_n, pair, replicas)
            continue
        by_thread: dict[int, _ThreadSums] = {}
        for n in range(fetchers_max, 0, -1):
            # Thread i of n has the partitions of the threads i and i + n of 2 n. Adding these two sums halves the work.
            by_thread[n] = _fold(by_thread[2 * n], n) if 2 * n in by_thread else _sum_by_thread(replicas, n)
            sums_by_n[n].add_pair(pair, *by_thread[n])
    return tuple(sums.result() for sums in sums_by_n.values())


def _add_small_pair(sums_by_n: Mapping[int, _LoadSums], pair: FetchPair, replicas: Sequence[FetchedReplica]) -> None:
    """Adds a pair to the sums of each number of threads. A pair too light to change a maximum only adds its idle threads."""
    count, load = len(replicas), sum(replica.load for replica in replicas)
    numbers = [replica.number for replica in replicas]
    for n, sums in sums_by_n.items():
        if load > sums.load_max or count > sums.partitions_max:
            sums.add_pair(pair, *_sum_by_thread(replicas, n))
        else:
            sums.idle += min(count, n) - len({number % n for number in numbers})


_SMALL_PAIR_MAX = 8  # Partitions of a pair. For more, summing once and folding is faster.
_ThreadSums = tuple[list[float], list[int]]  # Load and partitions of each thread of a pair.


def _sum_by_thread(replicas: Sequence[FetchedReplica], n: int) -> _ThreadSums:
    loads, counts = [0.0] * n, [0] * n
    for _, number, load in replicas:
        loads[number % n] += load
        counts[number % n] += 1
    return loads, counts


def _fold(sums_of_two_n: _ThreadSums, n: int) -> _ThreadSums:
    loads, counts = sums_of_two_n
    return list(map(add, loads[:n], loads[n:])), list(map(add, counts[:n], counts[n:]))


@dataclass(slots=True)
class _LoadSums:
    """Accumulates a ``FetcherLoad`` pair by pair."""

    fetchers: int | None
    load_max: float = -1.0
    busiest: FetcherThread | None = None
    partitions_max: int = 0
    idle: int = 0

    def add_pair(self, pair: FetchPair, loads: Sequence[float], counts: Sequence[int]) -> None:
        """Adds the loads and the numbers of partitions of the threads of one pair."""
        used_threads = len(counts) - counts.count(0)
        self.idle += min(sum(counts), len(counts)) - used_threads
        self.partitions_max = max(self.partitions_max, *counts)
        if (load_max := max(loads)) > self.load_max:
            self.load_max, self.busiest = load_max, (*pair, loads.index(load_max))

    def result(self) -> FetcherLoad:
        return FetcherLoad(self.fetchers, max(0.0, self.load_max), self.busiest, self.partitions_max, self.idle)


def find_topic_collisions(
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], fetchers: Fetchers
) -> tuple[TopicCollision, ...]:
    """Returns the topics that collide with these settings, the worst first."""
    worst: dict[str, TopicCollision] = {}
    for (follower, leader), replicas in by_pair.items():
        n = fetchers[follower]
        counts: dict[str, int] = {}
        threads: dict[str, set[int]] = {}
        for replica in replicas:
            counts[replica.topic] = counts.get(replica.topic, 0) + 1
            threads.setdefault(replica.topic, set()).add(replica.number % n)
        for topic, count in counts.items():
            used_threads = len(threads[topic])
            idle = min(count, n) - used_threads
            if not idle:
                continue
            collision = TopicCollision(topic, idle, follower, leader, count, used_threads)
            worst_so_far = worst.get(topic)
            if worst_so_far is None:
                worst[topic] = collision
                continue
            worse = max(worst_so_far, collision, key=lambda c: (c.partitions_per_thread, c.partitions))
            worst[topic] = replace(worse, idle=worst_so_far.idle + idle)
    return tuple(sorted(worst.values(), key=lambda c: (-c.partitions_per_thread, -c.idle, c.topic)))
