"""The worlds in which real brokers were measured (one machine, loopback, one disk), and how the figures were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.bursts.methods import (
    END_S,
    LOW,
    MB,
    MOMENTS,
    QUOTA_S,
    Bytes,
    Feedback,
    Method,
    Phases,
    changes,
    phases_of,
)
from streaming.shared.contract import Side
from tuner.simulation.cluster import Cluster
from tuner.simulation.numbers import Floats
from tuner.simulation.world import (
    BrokerSpec,
    ClientLoad,
    FetchSettings,
    InitialRate,
    OperatorWrite,
    PartitionSpec,
    TopicLists,
    World,
)

L, F = Side.LEADER, Side.FOLLOWER
BOTH = (L, F)
LINE_BYTES_PER_S = 150 * MB  # What a pair of brokers did when nothing held it.
ROUND_TRIP_S = 0.0035  # With 1 MiB responses a pair did 101 MB/s.
# Of the machine on which tests/traces/bursts was recorded: what a burst brought in its fullest 0.2 s, the median of runs.
RECORDED_LINE_BYTES_PER_S = 420 * MB
RECORDED_ROUND_TRIP_S = 0.002
BATCH_BYTES = 100_080  # What the recorder's producer sends at a time: one record of 100 kB.


def kept_ratio(fetch: FetchSettings) -> float:
    """Returns which part of the counted bytes a follower stores.

    A broker fills a response with the beginning of the next batch, which the follower discards.
    """
    return fetch.partition_bytes_max // BATCH_BYTES * BATCH_BYTES / fetch.partition_bytes_max


def machine(count: int, line_bytes_per_s: float = LINE_BYTES_PER_S) -> tuple[BrokerSpec, ...]:
    return tuple(BrokerSpec(b, *[line_bytes_per_s] * 4) for b in range(1, count + 1))


@cache
def phases(
    method: Method | Feedback,
    sides: tuple[Side, ...],
    tick_ms: int,
    fetch: FetchSettings | None = None,
    moments: tuple[float, float] = (0.0, 0.0),
    line_bytes_per_s: float = LINE_BYTES_PER_S,
) -> Phases:
    """Args:
    moments: delays of the two changes, each after the one before.
    line_bytes_per_s: throughput between the brokers without a throttle.
    """
    rates = changes(moments)
    opened = [] if isinstance(method, Feedback) else [write for change in rates for write in method(*change)]
    first = opened[0][1] if opened else LOW / QUOTA_S
    end_s = rates[-1][0] + END_S
    broker_of = {L: 1, F: 2}
    world = World(
        seed=1,
        brokers=machine(2, line_bytes_per_s),
        partitions=tuple(PartitionSpec("t", p, 700 * MB, 0.0, (1,), (2,)) for p in range(4)),
        lists=(TopicLists("t", *("*" if side in sides else "" for side in BOTH)),),
        rates=tuple(InitialRate(broker_of[s], s, round(first)) for s in sides),
        disturbances=tuple(OperatorWrite(at, broker_of[s], s, round(rate)) for at, rate in opened[1:] for s in sides),
        duration_s_max=end_s,
        tick_ms=tick_ms,
        fetch=fetch or FetchSettings(round_trip_s=ROUND_TRIP_S),
    )
    cluster = Cluster(world)
    got: list[float] = []
    for _ in range(round(end_s / world.tick_s)):
        if isinstance(method, Feedback):
            changed_s, _, target = max(change for change in rates if change[0] <= cluster.now_s)
            got_bytes = kept_ratio(world.fetch) * sum(got[-round(QUOTA_S / world.tick_s) :])
            for rate in method.writes(target, round(cluster.now_s - changed_s, 3), got_bytes):
                for s in sides:
                    cluster.controller.write(cluster.now_s, (broker_of[s], s), round(rate))
        got.append(float(cluster.step().catch_up_in_bytes[1]))
    return phases_of(Bytes(np.array(got), world.tick_s), moments)


def at_moments(
    method: Method | Feedback, sides: tuple[Side, ...], tick_ms: int, fetch: FetchSettings | None = None
) -> list[Phases]:
    return [phases(method, sides, tick_ms, fetch, moments) for moments in MOMENTS]


@dataclass(frozen=True)
class Catching:
    """A run like E1 to E6: topic t on [1, 2]; partition 0 moves to [1, 3] while clients write."""

    lag_mb: Floats  # At every second.
    byte_rate_mb_per_s: Floats  # Kafka's own, leader side of broker 1, at every second.
    done_s: float | None

    def drain_mb_per_s(self, from_s: int, cycles: int) -> float:
        """Returns the slope between equal phases of the 11 s cycle; positive: the lag grows."""
        until_s = from_s + 11 * cycles
        return float(self.lag_mb[until_s] - self.lag_mb[from_s]) / (until_s - from_s)


def catching(
    *,
    lists: TopicLists,
    rates: Sequence[InitialRate],
    write_mb_per_s: float = 3.0,
    lag_mb: float = 100.0,
    partitions: int = 1,
    seconds: int = 80,
    tick_ms: int = 50,
) -> Catching:
    """Producer, lists and rates exist for 13 s before the move begins."""
    began_s = 13
    moving = PartitionSpec("t", 0, (lag_mb - began_s * write_mb_per_s) * MB, write_mb_per_s * MB, (1, 2), (3,), (2,))
    resting = tuple(PartitionSpec("t", p, 60 * MB, write_mb_per_s * MB, (1, 2)) for p in range(1, partitions))
    world = World(
        seed=1,
        brokers=machine(3),
        partitions=(moving, *resting),
        loads=tuple(ClientLoad(b, reads_per_write=0.0) for b in (1, 2, 3)),
        lists=(lists,),
        rates=tuple(rates),
        duration_s_max=began_s + seconds,
        tick_ms=tick_ms,
        moves_begin_s=began_s,
        fetch=FetchSettings(round_trip_s=ROUND_TRIP_S),
    )
    cluster = Cluster(world)
    every = round(1 / world.tick_s)
    for _ in range(began_s * every):
        cluster.step()
    new = int(np.flatnonzero(cluster.replicas.broker == 2)[0])
    lag, rate = [], []
    done_s: float | None = None
    for tick in range(seconds * every + 1):
        if tick % every == 0:
            lag.append(cluster.replicas.lag_bytes[new] / MB if not cluster.replicas.in_sync[new] else 0.0)
            rate.append(cluster.quotas.rate_bytes_per_s[0] / MB)
        cluster.step()
        if done_s is None and cluster.replicas.in_sync[new]:
            done_s = tick * world.tick_s
    return Catching(np.array(lag), np.array(rate), done_s)
