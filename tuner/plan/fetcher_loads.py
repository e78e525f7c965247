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

from tuner.model.fetchers import numbered, topic_hash

FETCHERS_MAX = 32
# A change makes every thread start anew, and is not worth less than this.
GAIN_MIN = 0.2
# Of what one thread can copy: above it, a burst of writes makes followers leave the in-sync set.
THREAD_FILL_MAX = 0.6

Pair = tuple[int, int]  # Follower, leader.
Cell = tuple[int, int, int]  # Follower, leader, thread.
Fetchers = Mapping[int, int]  # num.replica.fetchers of each follower.


@dataclass(frozen=True, slots=True)
class Followed:
    """One partition that is copied."""

    topic: str
    partition: int
    leader: int
    followers: tuple[int, ...]
    load: float = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """One partition on one pair; ``number`` modulo the number of threads is its thread."""

    topic: str
    number: int
    load: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """How the threads would stand with one setting."""

    fetchers: int | None  # None: brokers have different ones.
    load_max: float = 0.0
    busiest: Cell | None = None
    partitions_max: int = 0  # Of one cell; not always the busiest's.
    idle: int = 0


@dataclass(frozen=True, slots=True)
class Collision:
    """A topic of which partitions share a thread while others of the pair have none of it."""

    topic: str
    idle: int  # Over all pairs, counting this topic alone.
    follower: int  # The worst pair.
    leader: int
    partitions: int  # Of the topic, on that pair.
    threads: int  # That they use there.


def shares(partitions: Iterable[Followed]) -> dict[Pair, list[Share]]:
    """What each pair has to copy."""
    hashes: dict[str, int] = {}
    found: dict[Pair, list[Share]] = {}
    for p in partitions:
        code = hashes.get(p.topic)
        if code is None:
            code = hashes[p.topic] = topic_hash(p.topic)
        share = Share(p.topic, numbered(code, p.partition), p.load)
        for follower in p.followers:
            if follower != p.leader:
                found.setdefault((follower, p.leader), []).append(share)
    return found


def cells(by_pair: Mapping[Pair, Sequence[Share]], fetchers: Fetchers) -> dict[Cell, tuple[float, int]]:
    """Load and partitions of each cell that has any."""
    found: dict[Cell, tuple[float, int]] = {}
    for (follower, leader), those in by_pair.items():
        for share in those:
            cell = (follower, leader, share.number % fetchers[follower])
            load, count = found.get(cell, (0.0, 0))
            found[cell] = (load + share.load, count + 1)
    return found


def outlook(by_pair: Mapping[Pair, Sequence[Share]], fetchers: Fetchers) -> Outlook:
    """How it stands with these settings."""
    values = set(fetchers.values())
    load_max, busiest, partitions_max, idle = -1.0, None, 0, 0
    for (follower, leader), those in by_pair.items():
        n = fetchers[follower]
        threads = [share.number % n for share in those]
        loads = [0.0] * n
        for thread, share in zip(threads, those, strict=True):
            loads[thread] += share.load
        counts = Counter(threads)
        idle += min(len(those), n) - len(counts)
        partitions_max = max(partitions_max, *counts.values())
        if (most := max(loads)) > load_max:
            load_max, busiest = most, (follower, leader, loads.index(most))
    return Outlook(values.pop() if len(values) == 1 else None, max(0.0, load_max), busiest, partitions_max, idle)


def outlooks(by_pair: Mapping[Pair, Sequence[Share]], most: int = FETCHERS_MAX) -> tuple[Outlook, ...]:
    """For every value from 1, the same on all brokers."""
    followers = {follower for follower, _ in by_pair}
    found = [outlook(by_pair, dict.fromkeys(followers, n)) for n in range(1, most + 1)]
    # Where nothing is copied there is no broker to take the value from.
    return tuple(Outlook(n) if not by_pair else one for n, one in enumerate(found, start=1))


def collisions(by_pair: Mapping[Pair, Sequence[Share]], fetchers: Fetchers) -> tuple[Collision, ...]:
    """Topics that collide with these settings, the worst first."""
    worst: dict[str, Collision] = {}
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
            here = Collision(topic, idle, follower, leader, count, used)
            other = worst.get(topic)
            if other is None:
                worst[topic] = here
                continue
            keep = max(other, here, key=lambda one: (one.partitions / one.threads, one.partitions))
            worst[topic] = Collision(
                topic, other.idle + idle, keep.follower, keep.leader, keep.partitions, keep.threads
            )  # fmt: skip
    return tuple(sorted(worst.values(), key=lambda one: (-one.idle, one.topic)))


def best(today: Outlook, all_of: Sequence[Outlook], thread_bytes_per_s_max: float | None = None) -> Outlook:
    """The outlook to go for: today's where none is clearly better, else the fewest threads that none betters clearly.

    Args:
        all_of: for 1, 2, 3 and so on.
        thread_bytes_per_s_max: what one thread can copy, if that is known: then it is enough that the busiest has room.
    """
    if thread_bytes_per_s_max is not None:
        roomy = THREAD_FILL_MAX * thread_bytes_per_s_max
        enough = [one for one in (today, *all_of) if one.load_max <= roomy]
        if enough:
            return enough[0]
    bar = min(one.load_max for one in all_of) / (1 - GAIN_MIN)
    return next(one for one in (today, *all_of) if one.load_max <= bar * (1 + 1e-9))
