"""Computes which value of num.replica.fetchers puts the busy partitions of lagging followers on different threads.

The computation covers all partitions that the followers copy. The write rates of the partitions with the largest lags are measured.
The other bytes that a thread copies are divided equally among its other partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from streaming.shared.contract import ReplicationSignal
from tuner.core.fetcher_choice import choose_fetcher_load, is_worthwhile
from tuner.core.fetcher_load import (
    FetchedPartition,
    FetchedReplica,
    FetcherThread,
    FetchPair,
    estimate_load,
    estimate_loads,
)
from tuner.core.fetchers import fetcher_number_from_hash, topic_hash
from tuner.core.reassignment_plan import TopicPartition


class CopiedPartition(NamedTuple):
    """A partition that a follower copies; ``number`` gives its thread, see ``tuner.core.fetchers.fetcher_number``."""

    topic: str
    partition: int
    number: int


CopiedPartitions = Mapping[FetcherThread, Sequence[CopiedPartition]]


def copied_by_thread(
    layout: Iterable[FetchedPartition], followers: Iterable[int], fetchers: Mapping[int, int]
) -> dict[FetcherThread, list[CopiedPartition]]:
    """Returns the partitions of each fetcher thread of ``followers``. Followers with an unknown number of threads are left out."""
    known = {follower: fetchers[follower] for follower in followers if follower in fetchers}
    hashes: dict[str, int] = {}
    by_thread: dict[FetcherThread, list[CopiedPartition]] = defaultdict(list)
    for p in layout:  # Hundreds of thousands in a large cluster, and most of them are not on these followers.
        for follower in p.followers:
            if follower in known and follower != p.leader:
                hash_code = hashes.get(p.topic)
                if hash_code is None:
                    hash_code = hashes[p.topic] = topic_hash(p.topic)
                number = fetcher_number_from_hash(hash_code, p.partition)
                by_thread[(follower, p.leader, number % known[follower])].append(
                    CopiedPartition(p.topic, p.partition, number)
                )
    return dict(by_thread)


def better_fetchers(
    copied: CopiedPartitions, signals: Mapping[int, ReplicationSignal], fetchers: Mapping[int, int]
) -> int | None:
    """Returns the number of threads with which the busiest thread of the followers has clearly less load; None: there is none.

    Args:
        copied: the partitions of each thread of the followers.
        fetchers: num.replica.fetchers of the followers.
    """
    rates = _write_rates(signals.values())
    by_pair: dict[FetchPair, list[FetchedReplica]] = defaultdict(list)
    for thread, partitions in copied.items():
        follower, leader, _ = thread
        share = _share_of_others(thread, partitions, signals.get(follower), rates)
        by_pair[(follower, leader)] += [
            FetchedReplica(p.topic, p.number, rates.get((p.topic, p.partition), share)) for p in partitions
        ]
    if not by_pair:
        return None
    current = estimate_load(by_pair, {follower: fetchers[follower] for follower, _ in by_pair})
    best = choose_fetcher_load(current, estimate_loads(by_pair))
    return best.fetchers if is_worthwhile(current, best) else None


def _write_rates(signals: Iterable[ReplicationSignal]) -> dict[TopicPartition, float]:
    return {
        (lagging.topic, lagging.partition): lagging.write_bytes_per_s
        for signal in signals
        for lagging in signal.worst
        if lagging.write_bytes_per_s is not None
    }


def _share_of_others(
    thread: FetcherThread,
    partitions: Sequence[CopiedPartition],
    signal: ReplicationSignal | None,
    rates: Mapping[TopicPartition, float],
) -> float:
    """Returns the assumed write rate (bytes/s) of each partition of the thread without a measured rate."""
    _, leader, number = thread
    fetched = next(
        (
            t.fetched_bytes_per_s or 0.0
            for t in (signal.threads if signal else ())
            if (t.source, t.fetcher) == (leader, number)
        ),
        0.0,
    )
    known = [rates[(p.topic, p.partition)] for p in partitions if (p.topic, p.partition) in rates]
    others = len(partitions) - len(known)
    return max(0.0, fetched - sum(known)) / others if others else 0.0
