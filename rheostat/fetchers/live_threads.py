"""Computes the write rate, the copy rate and the lag of each fetcher thread from the sizes of logs. Does no I/O.

A thread copies the partitions of one leader to one follower. The growth of the leaders' logs is the write rate, and the growth of
the followers' logs is the copy rate. The difference in size is the lag in bytes.

Retention may remove a file from one log some minutes before it does so from another. So the lag of an in-sync replica is limited to
the bytes written in 30 s, because a replica with a larger lag has left the ISR.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from rheostat.fetchers.report import FetchersReport, analyse_fetchers
from streaming.shared.fetcher_threads import client_id
from streaming.shared.kafka.values import PartitionState
from tuner.core.fetcher_load import FetchedPartition, Fetchers, FetcherThread
from tuner.core.fetchers import fetcher_id
from tuner.core.reassignment_plan import TopicPartition

IN_SYNC_LAG_S_MAX = 30.0  # Kafka's default of replica.lag.time.max.ms.
# A partition (or thread) counts as idle below this share of the bytes of the busiest partition (or thread).
BUSY_RATIO = 0.05
_NAMES_MAX = 8

SizesByBroker = Mapping[int, Mapping[TopicPartition, int]]  # Bytes of each log; brokers that do not answer are absent.


class ThreadRow(NamedTuple):
    """One fetcher thread.

    Attributes:
        partitions: all partitions of the thread, the partition with the most writes first.
        written_bytes_per_s: the write rate of its partitions, which the thread has to copy.
        copied_bytes_per_s, lag_bytes: None if the follower does not answer.
        out_of_sync: replicas of the thread that are not in the ISR.
    """

    thread: FetcherThread
    partitions: tuple[TopicPartition, ...]
    written_bytes_per_s: float
    copied_bytes_per_s: float | None
    lag_bytes: float | None
    out_of_sync: int

    @property
    def client_id(self) -> str:
        _, leader, thread = self.thread
        return client_id(thread, leader)

    @property
    def lag_change_bytes_per_s(self) -> float | None:
        return None if self.copied_bytes_per_s is None else self.written_bytes_per_s - self.copied_bytes_per_s


@dataclass(frozen=True, slots=True)
class LiveThreads:
    """The state of all threads over the last seconds.

    Attributes:
        rows: the threads, the thread with the largest lag first.
        worst_collision: the thread with the worst collision of busy partitions that another number of threads would separate; None
            if there is no such thread.
    """

    window_s: float
    report: FetchersReport
    rows: tuple[ThreadRow, ...]
    worst_collision: ThreadRow | None


@dataclass(slots=True)
class LogSizes:
    """The newest samples of all logs. ``add`` adds a sample and drops samples that are older than the window."""

    window_s: float
    _samples: deque[tuple[float, SizesByBroker]] = field(default_factory=deque)

    def add(self, at_s: float, sizes: SizesByBroker) -> None:
        """Adds a sample.

        Args:
            at_s: monotonic time.
        """
        self._samples.append((at_s, sizes))
        # At least two samples stay, because a rate needs two.
        while len(self._samples) > 2 and at_s - self._samples[1][0] >= self.window_s:
            self._samples.popleft()

    @property
    def measured_s(self) -> float:
        """The time between the first and the last sample; 0 with fewer than two samples."""
        return self._samples[-1][0] - self._samples[0][0] if self._samples else 0.0

    def size(self, broker: int, key: TopicPartition) -> int | None:
        return self._samples[-1][1].get(broker, {}).get(key)

    def growth_bytes_per_s(self, broker: int, key: TopicPartition) -> float | None:
        """Returns how fast a log grows (bytes/s) over the samples that contain it. Removals by retention are ignored.

        Returns None if fewer than two samples contain the log, or if the newest sample does not contain it. Without the newest
        sample, the rate would cover another time than the other rates.
        """
        sizes = [
            (at_s, by_broker[broker][key]) for at_s, by_broker in self._samples if key in by_broker.get(broker, ())
        ]
        if len(sizes) < 2 or sizes[-1][0] != self._samples[-1][0]:
            return None
        span_s = sizes[-1][0] - sizes[0][0]
        return (
            sum(max(0, after - before) for (_, before), (_, after) in pairwise(sizes)) / span_s if span_s > 0 else None
        )


def analyse_threads(
    source: str,
    states: Sequence[PartitionState],
    fetchers: Fetchers,
    logs: LogSizes,
    *,
    thread_bytes_per_s_max: float | None = None,
) -> LiveThreads:
    """Returns the state of all threads.

    Args:
        source: where the figures are from, as text for the operator.
        fetchers: num.replica.fetchers of each broker that is alive; followers on other brokers are left out.
        thread_bytes_per_s_max: the highest rate of one thread; None if not known.
    """
    led = [state for state in states if state.leader >= 0]
    written = {_key(s): logs.growth_bytes_per_s(s.leader, _key(s)) or 0.0 for s in led}
    by_writes = any(written.values())
    report = analyse_fetchers(
        source,
        [
            FetchedPartition(s.topic, s.partition, s.leader, s.replicas, load=written[_key(s)] if by_writes else 1.0)
            for s in led
        ],
        fetchers,
        by_writes=by_writes,
        thread_bytes_per_s_max=thread_bytes_per_s_max if by_writes else None,
    )
    rows = sorted(
        _rows(led, fetchers, logs, written), key=lambda r: (-(r.lag_bytes or 0), -r.written_bytes_per_s, r.thread)
    )
    collision = _worst_collision(rows, written) if by_writes and report.is_worthwhile else None
    return LiveThreads(logs.measured_s, report, tuple(rows), collision)


def _key(state: PartitionState) -> TopicPartition:
    return (state.topic, state.partition)


def _rows(
    states: Iterable[PartitionState], fetchers: Fetchers, logs: LogSizes, written: Mapping[TopicPartition, float]
) -> Iterable[ThreadRow]:
    by_thread: dict[FetcherThread, list[PartitionState]] = defaultdict(list)
    for state in states:
        for follower in state.replicas:
            if follower != state.leader and follower in fetchers:
                number = fetcher_id(state.topic, state.partition, fetchers[follower])
                by_thread[(follower, state.leader, number)].append(state)
    for thread, copied in by_thread.items():
        follower = thread[0]
        lags = [_lag_bytes(state, follower, logs, written[_key(state)]) for state in copied]
        growths = [logs.growth_bytes_per_s(follower, _key(state)) for state in copied]
        known_lags, known_growths = [lag for lag in lags if lag is not None], [g for g in growths if g is not None]
        yield ThreadRow(
            thread,
            tuple(sorted(map(_key, copied), key=lambda key: (-written[key], key))),
            sum(written[_key(state)] for state in copied),
            sum(known_growths) if known_growths else None,
            sum(known_lags) if known_lags else None,
            sum(follower not in state.isr for state in copied),
        )


def _lag_bytes(state: PartitionState, follower: int, logs: LogSizes, written_bytes_per_s: float) -> float | None:
    leader_size, own_size = logs.size(state.leader, _key(state)), logs.size(follower, _key(state))
    if leader_size is None or own_size is None:
        return None
    lag = max(0, leader_size - own_size)
    return min(lag, written_bytes_per_s * IN_SYNC_LAG_S_MAX) if follower in state.isr else lag


def _worst_collision(rows: Sequence[ThreadRow], written: Mapping[TopicPartition, float]) -> ThreadRow | None:
    """Returns the first row with two busy partitions. The rows are in order: the largest lag first, then the highest write rate."""
    busiest = max(written.values())
    return next((r for r in rows if sum(written[p] >= BUSY_RATIO * busiest for p in r.partitions) > 1), None)


def collision_text(threads: LiveThreads) -> str | None:
    """Returns the worst collision as a sentence; None if there is none."""
    row = threads.worst_collision
    if row is None:
        return None
    follower, leader, _ = row.thread
    names = [f"{topic}-{partition}" for topic, partition in row.partitions]
    shown = ", ".join(names[:_NAMES_MAX]) + (f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else "")
    used = sum(r.thread[:2] == row.thread[:2] for r in threads.rows)
    idle = threads.report.fetchers[follower] - used
    beside = f", while {idle} of its threads for broker {leader} have no partition" if idle else ""
    return f"Worst collision: {row.client_id} on broker {follower} copies {shown}{beside}."


def to_record(threads: LiveThreads, at_ms: int) -> dict[str, Any]:
    """Returns the state as a JSON object.

    Args:
        at_ms: milliseconds since the epoch.
    """
    report, worst = threads.report, threads.worst_collision
    return {
        "at_ms": at_ms,
        "window_s": round(threads.window_s, 3),
        "num_replica_fetchers": {str(broker): n for broker, n in sorted(report.fetchers.items())},
        "best": report.best.fetchers if report.is_worthwhile else None,
        "worst_collision": None if worst is None else {"follower": worst.thread[0], "client_id": worst.client_id},
        "threads": [
            {
                "follower": row.thread[0],
                "leader": row.thread[1],
                "thread": row.thread[2],
                "client_id": row.client_id,
                "partitions": len(row.partitions),
                "busiest_partition": {"topic": row.partitions[0][0], "partition": row.partitions[0][1]},
                "written_bytes_per_s": round(row.written_bytes_per_s),
                "copied_bytes_per_s": None if row.copied_bytes_per_s is None else round(row.copied_bytes_per_s),
                "lag_bytes": None if row.lag_bytes is None else round(row.lag_bytes),
                "out_of_sync": row.out_of_sync,
            }
            for row in sorted(threads.rows, key=lambda row: row.thread)
        ],
    }
