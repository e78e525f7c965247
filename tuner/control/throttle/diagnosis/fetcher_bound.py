"""Finds a fetcher collision that explains a stalled move: partitions that share one fetcher thread while other threads are idle.

If a throttle is not used up, it does not limit the move, and a higher throttle would not help. If the cause is a collision, another
number of fetcher threads would separate the colliding partitions. fetcher_load.py explains why partitions collide.

A collision counts only if bytes arrive at the rate of a busy thread. A slower move has another cause, such as a disk or the
network. The result only explains the stall; no rate depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streaming.shared.contract import MoveSignal
from streaming.shared.fetcher_threads import client_id
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.fetcher_choice import choose_fetcher_load, is_worthwhile
from tuner.core.fetcher_load import (
    FetchedPartition,
    FetchedReplica,
    FetchPair,
    count_idle_threads,
    estimate_load,
    estimate_loads,
    replicas_by_pair,
)
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.core.throttle_limits import MB

# A fetch returns up to 1 MB of a partition. Even with a long round trip, a busy thread needs at most a third of a second for it.
THREAD_BYTES_PER_S_MIN = 3 * MB


@dataclass(frozen=True, slots=True)
class FetcherCollision:
    """The busiest fetcher thread of a destination, and a better number of threads.

    Attributes:
        leader: the broker from which the busiest thread copies.
        thread: number of the busiest thread.
        thread_partitions: moving partitions on the busiest thread.
        moving_partitions: partitions that move from ``leader`` onto the destination, on all threads.
        threads: num.replica.fetchers of the destination.
        better_threads: the recommended num.replica.fetchers.
        better_thread_partitions: moving partitions on the busiest thread with ``better_threads``.
    """

    destination: int
    leader: int
    thread: int
    thread_partitions: int
    moving_partitions: int
    threads: int
    better_threads: int
    better_thread_partitions: int

    def __str__(self) -> str:
        return (
            f"{self.thread_partitions} of the {self.moving_partitions} partitions that move onto broker {self.destination} "
            f"from broker {self.leader} are copied by one thread of {self.threads}, {client_id(self.thread, self.leader)}; with "
            f"{NUM_REPLICA_FETCHERS}={self.better_threads} one thread would copy at most {self.better_thread_partitions} of them"
        )


def find_fetcher_collision(
    destination: int, moves: Iterable[PartitionMove], fetchers: Mapping[int, int], signal: MoveSignal | None
) -> FetcherCollision | None:
    """Returns the collision that limits a stalled move onto this broker; None: there is none.

    The caller has checked that no throttle limits the move.

    Args:
        moves: the moves onto the destination.
        fetchers: num.replica.fetchers, by broker. Without the destination's value there is no result.
        signal: signal of the destination's follower side.
    """
    threads = fetchers.get(destination)
    if threads is None or signal is None or _gained_bytes_per_s(signal) < THREAD_BYTES_PER_S_MIN:
        return None
    by_pair = _moving_replicas(destination, moves)
    if not by_pair:
        return None
    # The load of a thread is its number of moving partitions. ``better`` has the best number of threads.
    current = estimate_load(by_pair, {destination: threads})
    better = choose_fetcher_load(current, estimate_loads(by_pair))
    if not is_worthwhile(current, better) or current.busiest is None or better.fetchers is None:
        return None
    _follower, leader, thread = current.busiest
    return FetcherCollision(
        destination=destination,
        leader=leader,
        thread=thread,
        thread_partitions=round(current.load_max),
        moving_partitions=len(by_pair[(destination, leader)]),
        threads=threads,
        better_threads=better.fetchers,
        better_thread_partitions=round(better.load_max),
    )


def count_idle_threads_of_moves(live: LiveCluster) -> dict[int, int]:
    """Returns the idle threads of each destination whose num.replica.fetchers is known.

    A thread is idle if it copies no moving partition while another thread towards the same leader copies two or more.
    """
    moves = [move for move in live.moves if move.leader >= 0]
    destinations = {broker for move in moves for broker in move.destinations if broker in live.fetchers}
    idle = dict.fromkeys(sorted(destinations), 0)
    # Most brokers have a single thread, which cannot be idle.
    fetchers = {broker: live.fetchers[broker] for broker in idle if live.fetchers[broker] > 1}
    if fetchers:
        partitions = [(move.topic, move.partition, move.leader, move.adding) for move in moves]
        idle |= count_idle_threads(partitions, fetchers)
    return idle


def _moving_replicas(destination: int, moves: Iterable[PartitionMove]) -> dict[FetchPair, list[FetchedReplica]]:
    """Returns the replicas that move onto the destination, by (follower, leader), without moves that have no leader."""
    by_pair = replicas_by_pair(FetchedPartition(m.topic, m.partition, m.leader, (destination,)) for m in moves)
    return {(follower, leader): replicas for (follower, leader), replicas in by_pair.items() if leader >= 0}


def _gained_bytes_per_s(signal: MoveSignal) -> float:
    duration_s = sum(step.dt_s for step in signal.steps)
    return sum(step.gained_bytes for step in signal.steps) / duration_s if duration_s > 0 else 0.0
