"""The worlds in which the facts about real brokers were measured: one machine, loopback, one disk; and how they were read."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from streaming.contract import Side
from tuner.simulation.cluster import Cluster
from tuner.simulation.numbers import Floats
from tuner.simulation.world import (
    BrokerSpec,
    ClientLoad,
    FetchSettings,
    OperatorWrite,
    PartitionSpec,
    StartRate,
    TopicLists,
    World,
)

MB = 1e6
L, F = Side.LEADER, Side.FOLLOWER
BOTH = (L, F)
LINE_BYTES_PER_S = 150 * MB  # What a pair of brokers did when nothing held it.
ROUND_TRIP_S = 0.0035  # With 1 MiB responses a pair did 101 MB/s.

Writes = list[tuple[float, float]]  # (when, rate in bytes/s)
Method = Callable[[float, float, float], Writes]  # (when, from, to) → writes


def machine(count: int) -> tuple[BrokerSpec, ...]:
    return tuple(BrokerSpec(b, *[LINE_BYTES_PER_S] * 4) for b in range(1, count + 1))


def in_one_step(at_s: float, _: float, to: float) -> Writes:
    return [(at_s, to)]


def linear(steps: int, step_s: float) -> Method:
    def writes(at_s: float, live: float, to: float) -> Writes:
        return [(at_s + i * step_s, live + (to - live) * (i + 1) / steps) for i in range(steps)]

    return writes


@dataclass(frozen=True)
class Bytes:
    """Bytes that reached the follower's disk, tick by tick."""

    by_tick: Floats
    tick_s: float

    def between(self, from_s: float, to_s: float) -> Bytes:
        return Bytes(self.by_tick[round(from_s / self.tick_s) : round(to_s / self.tick_s)], self.tick_s)

    def peak_mb(self, span_s: float = 1.0) -> float:
        """The largest that passed within ``span_s``."""
        return float(np.convolve(self.by_tick, np.ones(round(span_s / self.tick_s))).max()) / MB

    def silence_s(self) -> float:
        longest = run = 0
        for got in self.by_tick:
            run = run + 1 if got <= 0 else 0
            longest = max(longest, run)
        return longest * self.tick_s

    def mean_mb_per_s(self) -> float:
        return float(self.by_tick.mean()) / self.tick_s / MB


@dataclass(frozen=True)
class Phases:
    """5 MB/s, then 20, then 5 again, on a pair of brokers: four partitions, no production."""

    start: Bytes
    up: Bytes
    down: Bytes


@dataclass(frozen=True)
class Feedback:
    """The bound follows what passed: (bytes of the last 11 s + a second's worth of the target) ÷ 11, then the target."""

    every_s: float
    lasts_s: float = 13.0

    def writes(self, target: float, since_s: float, got: Bytes) -> list[float]:
        """The rate to set ``since_s`` after the change, if it is time to."""
        if since_s > self.lasts_s or since_s % self.every_s > 1e-6:
            return []
        if since_s == self.lasts_s:
            return [target]
        window = got.by_tick[-round(11 / got.tick_s) :]
        return [(float(window.sum()) + target) / 11.0]


UP_S, DOWN_S, END_S = 25.0, 25.0, 35.0  # How long each of the three rates stands.


@cache
def phases(
    method: Method | Feedback,
    sides: tuple[Side, ...],
    tick_ms: int,
    fetch: FetchSettings | None = None,
    moments: tuple[float, float] = (0.0, 0.0),
) -> Phases:
    """
    Args:
        moments: how much later the two changes come, each after the one before.
    """
    up_at_s = UP_S + moments[0]
    down_at_s = up_at_s + DOWN_S + moments[1]
    rates = [(0.0, 0.0, 5 * MB), (up_at_s, 5 * MB, 20 * MB), (down_at_s, 20 * MB, 5 * MB)]
    opened = [] if isinstance(method, Feedback) else [write for change in rates for write in method(*change)]
    first = opened[0][1] if opened else 5 * MB / 11
    end_s = down_at_s + END_S
    broker_of = {L: 1, F: 2}
    world = World(
        seed=1,
        brokers=machine(2),
        partitions=tuple(PartitionSpec("t", p, 700 * MB, 0.0, (1,), (2,)) for p in range(4)),
        lists=(TopicLists("t", *("*" if side in sides else "" for side in BOTH)),),
        rates=tuple(StartRate(broker_of[s], s, round(first)) for s in sides),
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
            so_far = Bytes(np.array(got), world.tick_s)
            for rate in method.writes(target, round(cluster.now_s - changed_s, 3), so_far):
                for s in sides:
                    cluster.controller.write(cluster.now_s, (broker_of[s], s), round(rate))
        got.append(float(cluster.step().caught_in_bytes[1]))
    flow = Bytes(np.array(got), world.tick_s)
    return Phases(flow.between(0, up_at_s), flow.between(up_at_s, down_at_s), flow.between(down_at_s, end_s))


# What a change does depends on the moment of the quota's cycle at which it comes: a dozen of each, spread over 11 s.
MOMENTS = tuple((0.25 * (i * 20 % 47), float(i)) for i in range(12))


def at_moments(
    method: Method | Feedback, sides: tuple[Side, ...], tick_ms: int, fetch: FetchSettings | None = None
) -> list[Phases]:
    return [phases(method, sides, tick_ms, fetch, moments) for moments in MOMENTS]


def each(read: Callable[[Phases], float], runs: Sequence[Phases]) -> list[float]:
    return sorted(read(run) for run in runs)


def typical(read: Callable[[Phases], float], runs: Sequence[Phases]) -> float:
    """The mean of the middle half: whole responses and whole backoffs make a median jump from one to the next."""
    found = each(read, runs)
    quarter = len(found) // 4
    return statistics.mean(found[quarter : len(found) - quarter])


@dataclass(frozen=True)
class Catching:
    """A run of the kind E1 to E6: topic t on [1, 2], partition 0 goes to [1, 3] while it is written to."""

    lag_mb: Floats  # At every second.
    byte_rate_mb_per_s: Floats  # Kafka's own, leader side of broker 1, at every second.
    done_s: float | None

    def drain_mb_per_s(self, from_s: int, cycles: int) -> float:
        """Slope between equal phases of the 11 s cycle; + is falling behind."""
        until_s = from_s + 11 * cycles
        return float(self.lag_mb[until_s] - self.lag_mb[from_s]) / (until_s - from_s)


def catching(
    *,
    lists: TopicLists,
    rates: Sequence[StartRate],
    write_mb_per_s: float = 3.0,
    lag_mb: float = 100.0,
    partitions: int = 1,
    seconds: int = 80,
    tick_ms: int = 50,
) -> Catching:
    """The producer runs, and lists and rates stand, for 13 s before the move begins."""
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
