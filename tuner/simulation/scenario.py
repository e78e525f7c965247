"""Builds partitions and the initial throttle from the description of a cluster.

Topics are laid out as Kafka does it, one broker after the other. The moves are computed in moves.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.simulation.world import InitialRate, PartitionSpec, TopicLists, World

_RANDOM_STREAM = 4  # Streams 1 to 3 of the same seed are for load, controller and signals.


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world, and the goal of its move.

    Attributes:
        about: one sentence about the scenario.
        rate_bytes_per_s_max: the ceiling for a policy that sets throttles.
        deadline_s: seconds from the start of the moves; None: no deadline.
        share_max: share of every link that the move may use (0.25 is a quarter); None: no limit.
    """

    name: str
    about: str
    world: World
    rate_bytes_per_s_max: float
    deadline_s: float | None = None
    share_max: float | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    size_bytes: float  # Mean of a partition.
    write_bytes_per_s: float  # Mean to a partition.
    replication: int
    on: tuple[int, ...]  # The brokers that hold the topic; at least ``replication`` of them.
    leaders: tuple[int, ...]  # The brokers of ``on`` that lead partitions.
    spread_ratio: float = 0.0  # Standard deviation ÷ mean, of sizes and of write rates.
    # Replicas of each partition. If given, ``on`` and ``leaders`` are ignored.
    replicas: tuple[tuple[int, ...], ...] = ()


def lay_out(topics: Iterable[Topic], seed: int) -> list[PartitionSpec]:
    """Returns the partitions of the topics. Leaders and followers are placed round robin; sizes and write rates are random."""
    rng = np.random.default_rng([seed, _RANDOM_STREAM])
    partitions = []
    for topic in topics:
        size, write = (_spread(rng, topic.spread_ratio, topic.partitions) for _ in range(2))
        for p in range(topic.partitions):
            replicas = topic.replicas[p] if topic.replicas else _round_robin(topic, p)
            partitions.append(
                PartitionSpec(
                    topic.name,
                    p,
                    size_bytes=float(topic.size_bytes * size[p]),
                    write_bytes_per_s=float(topic.write_bytes_per_s * write[p]),
                    replicas=replicas,
                )
            )
    return partitions


def _spread(rng: np.random.Generator, ratio: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns random factors with a mean of 1; no factor is negative."""
    sigma = np.sqrt(np.log1p(ratio**2))
    return np.asarray(rng.lognormal(-(sigma**2) / 2, sigma, count), dtype=np.float64)


def _round_robin(topic: Topic, partition: int) -> tuple[int, ...]:
    leader = topic.leaders[partition % len(topic.leaders)]
    others = [b for b in topic.on if b != leader]
    if not others:
        return (leader,)
    # Each round over the leaders starts with another follower, so that two brokers do not always share their partitions.
    first = topic.on.index(leader) + partition // len(topic.leaders)
    return (leader, *(others[(first + i) % len(others)] for i in range(topic.replication - 1)))


def with_throttle(world: World, rate_bytes_per_s: int) -> World:
    """Returns the world with a throttle as kafka-reassign-partitions sets it: on both sides of all participants, with the lists."""
    moving = world.moving
    participants = sorted({b for p in moving for b in (*p.replicas, *p.adding)})
    topics = dict.fromkeys(p.topic for p in moving)

    def entries(topic: str, brokers_of: Callable[[PartitionSpec], tuple[int, ...]]) -> str:
        return ",".join(f"{p.partition}:{b}" for p in moving if p.topic == topic for b in brokers_of(p))

    return replace(
        world,
        rates=tuple(InitialRate(b, side, rate_bytes_per_s) for b in participants for side in Side),
        lists=tuple(TopicLists(t, entries(t, lambda p: p.replicas), entries(t, lambda p: p.adding)) for t in topics),
    )


def without_throttle(world: World) -> World:
    return replace(world, rates=(), lists=())


def sum_side_loads(world: World) -> dict[BrokerSide, SideLoad]:
    """Returns the load of the moves on each side, at mean write rates."""
    return side_loads(
        PlannedPartition(
            p.topic,
            p.partition,
            leader=p.replicas[0],
            isr=frozenset(p.replicas),
            write_bytes_per_s=p.write_bytes_per_s,
            lacking_bytes=dict.fromkeys(p.adding, p.size_bytes),
        )
        for p in world.moving
    )
