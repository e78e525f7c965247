"""From what a person says of a cluster to its partitions, and the throttle that stands when their move begins.

Intuition: nobody writes down the replicas of a hundred partitions. A topic is laid out as Kafka does it, one broker after
the other. Where they go from there is moves.py's.
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

_DRAWS = 4  # Apart from the streams of load, controller and signals, which the plant draws from the same seed.


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world with what is asked of it."""

    name: str
    about: str
    world: World
    rate_bytes_per_s_max: float  # The ceiling for a policy that turns throttles.
    deadline_s: float | None = None  # From the beginning of the moves.
    share_max: float | None = None  # Of every link: 0.25 is a quarter.


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    size_bytes: float  # Mean of a partition.
    write_bytes_per_s: float  # Mean to a partition.
    replication: int
    on: tuple[int, ...]  # At least as many brokers as replicas.
    leaders: tuple[int, ...]  # A part of ``on``.
    spread_ratio: float = 0.0  # Standard deviation of size and write rate over the mean.
    replicas: tuple[tuple[int, ...], ...] = ()  # Said one by one; then ``on`` and ``leaders`` mean nothing.


def lay_out(topics: Iterable[Topic], seed: int) -> list[PartitionSpec]:
    """Leaders one after the other, followers after them; sizes and write rates drawn around the mean."""
    rng = np.random.default_rng([seed, _DRAWS])
    found = []
    for topic in topics:
        size, write = (_spread(rng, topic.spread_ratio, topic.partitions) for _ in range(2))
        for p in range(topic.partitions):
            replicas = topic.replicas[p] if topic.replicas else _in_turn(topic, p)
            found.append(
                PartitionSpec(
                    topic.name,
                    p,
                    size_bytes=float(topic.size_bytes * size[p]),
                    write_bytes_per_s=float(topic.write_bytes_per_s * write[p]),
                    replicas=replicas,
                )
            )
    return found


def _spread(rng: np.random.Generator, ratio: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Factors with a mean of 1, none below 0."""
    sigma = np.sqrt(np.log1p(ratio**2))
    return np.asarray(rng.lognormal(-(sigma**2) / 2, sigma, count), dtype=np.float64)


def _in_turn(topic: Topic, partition: int) -> tuple[int, ...]:
    leader = topic.leaders[partition % len(topic.leaders)]
    others = [b for b in topic.on if b != leader]
    if not others:
        return (leader,)
    # Each round of the leaders begins with another follower, so that two brokers are no fixed pair.
    first = topic.on.index(leader) + partition // len(topic.leaders)
    return (leader, *(others[(first + i) % len(others)] for i in range(topic.replication - 1)))


def with_throttle(world: World, rate_bytes_per_s: int) -> World:
    """As kafka-reassign-partitions sets a throttle: both sides of all who take part, and the lists of what moves."""
    moving = world.moving
    part = sorted({b for p in moving for b in (*p.replicas, *p.adding)})
    topics = dict.fromkeys(p.topic for p in moving)

    def entries(topic: str, brokers_of: Callable[[PartitionSpec], tuple[int, ...]]) -> str:
        return ",".join(f"{p.partition}:{b}" for p in moving if p.topic == topic for b in brokers_of(p))

    return replace(
        world,
        rates=tuple(InitialRate(b, side, rate_bytes_per_s) for b in part for side in Side),
        lists=tuple(TopicLists(t, entries(t, lambda p: p.replicas), entries(t, lambda p: p.adding)) for t in topics),
    )


def without_throttle(world: World) -> World:
    return replace(world, rates=(), lists=())


def sum_side_loads(world: World) -> dict[BrokerSide, SideLoad]:
    """What the moves load onto each side, at mean write rates."""
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
