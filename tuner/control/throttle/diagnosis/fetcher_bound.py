"""Is it the fetcher threads that hold a move back, where the throttle does not?

Intuition: a throttle that is not filled has let through all that came. Something else is slow then, and one suspect can be
counted: of the partitions that move onto a broker, how many hang on one of its threads while others have none of them? More
threads, or one more or less, would part them; a higher throttle would not. See fetcher_load.py for how they meet.

A count accuses nobody by itself: bytes have to come, and as fast as a thread that is busy brings them. A disk or a network that
is broken brings fewer.

Invariant: it is only ever a word about what the throttle is not; no rate follows from it.

Vocabulary:
    crowd    the moving partitions of one thread: of one destination, from one leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streaming.shared.contract import MoveSignal
from tuner.control.throttle.diagnosis.fetcher_choice import choose_fetcher_load, is_worthwhile
from tuner.control.throttle.diagnosis.fetcher_load import (
    FetchedPartition,
    FetchedReplica,
    FetchPair,
    count_idle_threads,
    estimate_load,
    estimate_loads,
    replicas_by_pair,
)
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.fetchers import NUM_REPLICA_FETCHERS, client_id
from tuner.core.throttle_limits import MB

# Kafka hands out a megabyte of a partition at a time, so a thread that waits for nothing but a long round trip still makes that
# in a third of a second. What is slower is not busy.
THREAD_BYTES_PER_S_MIN = 3 * MB


@dataclass(frozen=True, slots=True)
class FetcherCollision:
    destination: int
    leader: int
    thread: int
    size: int
    moving: int  # Onto the destination from that leader, on all its threads.
    threads: int  # num.replica.fetchers of the destination.
    better: int  # The value to go for.
    size_then: int  # Of the largest crowd with it.

    def __str__(self) -> str:
        return (
            f"{self.size} of the {self.moving} partitions that move onto broker {self.destination} from broker {self.leader} are "
            f"copied by one thread of {self.threads}, {client_id(self.thread, self.leader)}; with "
            f"{NUM_REPLICA_FETCHERS}={self.better} it would be {self.size_then} at most"
        )


def find_fetcher_collision(
    destination: int, moves: Iterable[PartitionMove], fetchers: Mapping[int, int], signal: MoveSignal | None
) -> FetcherCollision | None:
    """The crowd that holds the move onto this broker back; to be asked where it has stalled and no throttle binds.

    Args:
        moves: onto it.
        fetchers: num.replica.fetchers, by broker; without the destination's nothing can be said.
        signal: of its follower side.
    """
    threads = fetchers.get(destination)
    if threads is None or signal is None or _gained_bytes_per_s(signal) < THREAD_BYTES_PER_S_MIN:
        return None
    by_pair = _onto(destination, moves)
    if not by_pair:
        return None
    today, all_of = estimate_load(by_pair, {destination: threads}), estimate_loads(by_pair)
    then = choose_fetcher_load(today, all_of)
    if not is_worthwhile(today, then) or today.busiest is None or then.fetchers is None:
        return None
    _, leader, thread = today.busiest
    return FetcherCollision(
        destination,
        leader,
        thread,
        round(today.load_max),
        len(by_pair[(destination, leader)]),
        threads,
        then.fetchers,
        round(then.load_max),
    )


def count_idle_threads_of_moves(live: LiveCluster) -> dict[int, int]:
    """By destination: threads that have none of what moves although another towards the same leader has two or more of it.

    Destinations whose num.replica.fetchers is not known are absent.
    """
    led = [m for m in live.moves if m.leader >= 0]
    found = dict.fromkeys(sorted({b for m in led for b in m.destinations if b in live.fetchers}), 0)
    # One thread alone cannot be idle, and one is what most brokers have.
    several = {b: live.fetchers[b] for b in found if live.fetchers[b] > 1}
    if several:
        found |= count_idle_threads([(m.topic, m.partition, m.leader, m.adding) for m in led], several)
    return found


def _onto(destination: int, moves: Iterable[PartitionMove]) -> dict[FetchPair, list[FetchedReplica]]:
    found = replicas_by_pair(FetchedPartition(m.topic, m.partition, m.leader, (destination,)) for m in moves)
    return {pair: those for pair, those in found.items() if pair[1] >= 0}


def _gained_bytes_per_s(signal: MoveSignal) -> float:
    took_s = sum(step.dt_s for step in signal.steps)
    return sum(step.gained_bytes for step in signal.steps) / took_s if took_s > 0 else 0.0
