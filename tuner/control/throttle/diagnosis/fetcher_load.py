"""What each fetcher thread has to copy, for any num.replica.fetchers: which topics collide, and which value helps. After LINE.

Intuition: partitions are dealt to brokers in turn, and to fetcher threads in turn. Where the two turns share a factor they meet:
with 25 brokers and 5 threads the partitions that one broker follows from one leader are 25 apart, so all of them fall to the same
thread, and four have nothing to do. More threads then bring nothing; one more or one less would.

Invariant: the loads of all threads add up to the same whatever their number; only how they are shared out differs.

Vocabulary:
    pair      a follower and a leader it fetches from.
    cell      one thread of a pair: (follower, leader, thread).
    load      what a cell copies: bytes/s where write rates are known, else partitions.
    idle      threads of a pair that have nothing although another has two partitions or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from tuner.core.fetchers import fetcher_number_from_hash, topic_hash

FETCHERS_MAX = 32

FetchPair = tuple[int, int]  # Follower, leader.
FetcherThread = tuple[int, int, int]  # Follower, leader, thread.
Fetchers = Mapping[int, int]  # num.replica.fetchers of each follower.


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition that is copied."""

    topic: str
    partition: int
    leader: int
    followers: tuple[int, ...]
    load: float = 1.0


class FetchedReplica(NamedTuple):  # Half a million of them are gone through 32 times.
    """One partition on one pair; ``number`` modulo the number of threads is its thread."""

    topic: str
    number: int
    load: float


@dataclass(frozen=True, slots=True)
class FetcherLoad:
    """How the threads would stand with one setting."""

    fetchers: int | None  # None: brokers have different ones.
    load_max: float = 0.0
    busiest: FetcherThread | None = None
    partitions_max: int = 0  # Of one cell; not always the busiest's.
    idle: int = 0


@dataclass(frozen=True, slots=True)
class TopicCollision:
    """A topic of which partitions share a thread while others of the pair have none of it."""

    topic: str
    idle: int  # Over all pairs, counting this topic alone.
    follower: int  # The worst pair.
    leader: int
    partitions: int  # Of the topic, on that pair.
    threads: int  # That they use there.


def replicas_by_pair(partitions: Iterable[FetchedPartition]) -> dict[FetchPair, list[FetchedReplica]]:
    """What each pair has to copy."""
    hashes: dict[str, int] = {}
    found: dict[FetchPair, list[FetchedReplica]] = {}
    for p in partitions:
        code = hashes.get(p.topic)
        if code is None:
            code = hashes[p.topic] = topic_hash(p.topic)
        share = FetchedReplica(p.topic, fetcher_number_from_hash(code, p.partition), p.load)
        for follower in p.followers:
            if follower != p.leader:
                found.setdefault((follower, p.leader), []).append(share)
    return found


def count_idle_threads(partitions: Sequence[tuple[str, int, int, Sequence[int]]], fetchers: Fetchers) -> dict[int, int]:
    """``FetcherLoad.idle`` of each follower, without anything else: of tens of thousands of partitions in a fraction of the time.

    Args:
        partitions: topic, partition, leader, followers.
        fetchers: of the followers that are asked for; others are left out.
    """
    counts = Counter((follower, leader) for _, _, leader, followers in partitions for follower in followers)
    idle = {follower: 0 for follower, leader in counts if follower in fetchers and follower != leader}
    # On a large cluster most pairs have one partition, which cannot collide.
    numbers: dict[FetchPair, list[int]] = {
        pair: [] for pair, count in counts.items() if count > 1 and pair[0] in idle and pair[0] != pair[1]
    }
    hashes: dict[str, int] = {}
    for topic, partition, leader, followers in partitions:
        for follower in followers:
            those = numbers.get((follower, leader))
            if those is None:
                continue
            code = hashes.get(topic)
            if code is None:
                code = hashes[topic] = topic_hash(topic)
            those.append(fetcher_number_from_hash(code, partition))
    for (follower, _), those in numbers.items():
        n = fetchers[follower]
        idle[follower] += min(len(those), n) - len({number % n for number in those})
    return idle


def loads_by_thread(
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], fetchers: Fetchers
) -> dict[FetcherThread, tuple[float, int]]:
    """Load and partitions of each cell that has any."""
    found: dict[FetcherThread, tuple[float, int]] = {}
    for (follower, leader), those in by_pair.items():
        for share in those:
            cell = (follower, leader, share.number % fetchers[follower])
            load, count = found.get(cell, (0.0, 0))
            found[cell] = (load + share.load, count + 1)
    return found


def estimate_load(by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], fetchers: Fetchers) -> FetcherLoad:
    """How it stands with these settings."""
    values = set(fetchers.values())
    seen = _Seen(values.pop() if len(values) == 1 else None)
    for pair, those in by_pair.items():
        seen.take(pair, *_dealt(those, fetchers[pair[0]]))
    return seen.outlook()


def estimate_loads(
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], most: int = FETCHERS_MAX
) -> tuple[FetcherLoad, ...]:
    """For every value from 1, the same on all brokers."""
    seen = {n: _Seen(n) for n in range(1, most + 1)}
    alone = -1.0
    for pair, those in by_pair.items():
        if len(those) == 1:
            # On a large cluster most pairs are so: wherever the one goes, only the heaviest of them matters.
            if those[0].load > alone:
                alone = those[0].load
                for n, one in seen.items():
                    one.take(pair, *_dealt(those, n))
            continue
        if len(those) <= _FEW:
            _take_few(seen, pair, those)
            continue
        dealt: dict[int, _Dealt] = {}
        for n in range(most, 0, -1):
            # What 2 n threads have is known: n have the sums of two each. It is half of the work.
            dealt[n] = _folded(dealt[2 * n], n) if 2 * n in dealt else _dealt(those, n)
            seen[n].take(pair, *dealt[n])
    return tuple(one.outlook() for one in seen.values())


def _take_few(seen: Mapping[int, _Seen], pair: FetchPair, those: Sequence[FetchedReplica]) -> None:
    """Most pairs are light, and can neither be the busiest nor the fullest: then only their idle threads count."""
    count, load = len(those), sum(share.load for share in those)
    numbers = [share.number for share in those]
    for n, one in seen.items():
        if load > one.load_max or count > one.partitions_max:
            one.take(pair, *_dealt(those, n))
        else:
            one.idle += min(count, n) - len({number % n for number in numbers})


_FEW = 8  # Partitions of a pair; of more, dealing them out once and folding is the lesser work.
_Dealt = tuple[list[float], list[int]]  # Load and partitions of each thread of a pair.


def _dealt(those: Sequence[FetchedReplica], n: int) -> _Dealt:
    loads, counts = [0.0] * n, [0] * n
    for _, number, load in those:
        loads[number % n] += load
        counts[number % n] += 1
    return loads, counts


def _folded(of_two_n: _Dealt, n: int) -> _Dealt:
    loads, counts = of_two_n
    return list(map(add, loads[:n], loads[n:])), list(map(add, counts[:n], counts[n:]))


@dataclass(slots=True)
class _Seen:
    """An outlook in the making."""

    fetchers: int | None
    load_max: float = -1.0
    busiest: FetcherThread | None = None
    partitions_max: int = 0
    idle: int = 0

    def take(self, pair: FetchPair, loads: Sequence[float], counts: Sequence[int]) -> None:
        self.idle += min(sum(counts), len(counts)) - len(counts) + counts.count(0)
        self.partitions_max = max(self.partitions_max, *counts)
        if (most := max(loads)) > self.load_max:
            self.load_max, self.busiest = most, (*pair, loads.index(most))

    def outlook(self) -> FetcherLoad:
        return FetcherLoad(self.fetchers, max(0.0, self.load_max), self.busiest, self.partitions_max, self.idle)


def find_topic_collisions(
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]], fetchers: Fetchers
) -> tuple[TopicCollision, ...]:
    """Topics that collide with these settings, the worst first."""
    worst: dict[str, TopicCollision] = {}
    for (follower, leader), those in by_pair.items():
        n = fetchers[follower]
        counts: dict[str, int] = {}
        threads: dict[str, set[int]] = {}
        for share in those:
            counts[share.topic] = counts.get(share.topic, 0) + 1
            threads.setdefault(share.topic, set()).add(share.number % n)
        for topic, count in counts.items():
            used = len(threads[topic])
            idle = min(count, n) - used
            if not idle:
                continue
            here = TopicCollision(topic, idle, follower, leader, count, used)
            other = worst.get(topic)
            if other is None:
                worst[topic] = here
                continue
            keep = max(other, here, key=lambda one: (one.partitions / one.threads, one.partitions))
            worst[topic] = TopicCollision(
                topic, other.idle + idle, keep.follower, keep.leader, keep.partitions, keep.threads
            )
    return tuple(sorted(worst.values(), key=lambda one: (-one.partitions / one.threads, -one.idle, one.topic)))
