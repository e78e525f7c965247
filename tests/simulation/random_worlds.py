"""Worlds drawn from a seed: a cluster of brokers, a day's load, and moves of some of the partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streaming.shared.contract import Side
from tuner.simulation.world import (
    BrokerSpec,
    ClientLoad,
    Disturbance,
    InitialRate,
    LoadStep,
    PartitionSpec,
    TopicLists,
    World,
)

_TOPIC = "orders"


@dataclass(frozen=True, slots=True)
class WorldShape:
    """The given properties of a world; the rest is drawn. Defaults: a medium cluster on 10 GbE, a tenth of it moving."""

    brokers: int = 50
    partitions_per_broker: int = 10
    moving_share: float = 0.1
    size_bytes: float = 20e9  # Mean of a partition.
    write_bytes_per_s: float = 4e6
    link_bytes_per_s: float = 1.25e9
    disk_bytes_per_s: float = 1.5e9
    utilisation: float = 0.4  # By clients and in-sync replication, mean.
    daily_ratio: float = 0.2
    noise_ratio: float = 0.05
    steps: int = 2
    rate_bytes_per_s: int | None = 50_000_000  # Throttle that stands at the start on all who take part; None: none.
    duration_s_max: float = 3_600.0


def draw_world(seed: int, shape: WorldShape = WorldShape()) -> World:
    """The replication factor is 3; each moving partition replaces its last replica by one on another broker."""
    rng = np.random.default_rng([seed, 0])
    ids = list(range(1, shape.brokers + 1))
    partitions = _partitions(rng, shape, ids)
    moving = [p for p in partitions if p.adding]
    rates: list[InitialRate] = []
    if shape.rate_bytes_per_s is not None:
        rates += [InitialRate(b, Side.LEADER, shape.rate_bytes_per_s) for b in sorted({p.replicas[0] for p in moving})]
        rates += [InitialRate(b, Side.FOLLOWER, shape.rate_bytes_per_s) for b in sorted({p.adding[0] for p in moving})]
    return World(
        seed=seed,
        brokers=tuple(BrokerSpec(b, *[shape.link_bytes_per_s] * 2, *[shape.disk_bytes_per_s] * 2) for b in ids),
        partitions=tuple(partitions),
        loads=tuple(_loads(rng, shape, ids, partitions)),
        lists=(_lists(moving),) if rates else (),
        rates=tuple(rates),
        disturbances=tuple(_steps(rng, shape, ids)),
        duration_s_max=shape.duration_s_max,
    )


def _partitions(rng: np.random.Generator, shape: WorldShape, ids: list[int]) -> list[PartitionSpec]:
    count = shape.brokers * shape.partitions_per_broker
    moves = set(rng.choice(count, round(count * shape.moving_share), replace=False).tolist())
    sizes = rng.lognormal(-0.125, 0.5, count) * shape.size_bytes
    writes = rng.lognormal(-0.125, 0.5, count) * shape.write_bytes_per_s
    found = []
    for i in range(count):
        chosen = [ids[j] for j in rng.choice(len(ids), min(4, len(ids)), replace=False)]
        replicas = tuple(chosen[:3])
        to = (chosen[3],) if i in moves and len(chosen) > 3 else ()
        found.append(
            PartitionSpec(
                _TOPIC, i, float(sizes[i]), float(writes[i]), replicas, adding=to, removing=replicas[2:] if to else ()
            )
        )
    return found


def _loads(
    rng: np.random.Generator, shape: WorldShape, ids: list[int], partitions: list[PartitionSpec]
) -> list[ClientLoad]:
    """Client loads that complete each broker's mean utilisation."""
    led = dict.fromkeys(ids, 0.0)
    followed = dict.fromkeys(ids, 0.0)
    for p in partitions:
        led[p.replicas[0]] += p.write_bytes_per_s
        for follower in p.replicas[1:]:
            followed[follower] += p.write_bytes_per_s
    target = shape.utilisation * shape.link_bytes_per_s
    found = []
    for b in ids:
        busy = target * float(rng.uniform(0.7, 1.3))
        found.append(
            ClientLoad(
                b,
                in_bytes_per_s=max(0.0, busy - led[b] - followed[b]),
                out_bytes_per_s=max(0.0, busy - 3 * led[b]),
                daily_ratio=shape.daily_ratio,
                daily_phase_s=float(rng.uniform(0.0, 86_400.0)),
                noise_ratio=shape.noise_ratio,
            )
        )
    return found


def _steps(rng: np.random.Generator, shape: WorldShape, ids: list[int]) -> list[Disturbance]:
    found: list[Disturbance] = []
    for _ in range(shape.steps):
        at_s = float(rng.uniform(0.0, shape.duration_s_max / 2))
        those = tuple(sorted(ids[j] for j in rng.choice(len(ids), max(1, len(ids) // 5), replace=False)))
        lasts_s = float(rng.uniform(60.0, 600.0))
        found.append(LoadStep(at_s, at_s + lasts_s, those, factor=float(rng.uniform(1.1, 1.5))))
    return found


def _lists(moving: list[PartitionSpec]) -> TopicLists:
    """The lists of kafka-reassign-partitions: old replicas on the leader side, new ones on the follower side."""
    return TopicLists(
        _TOPIC,
        leader=",".join(f"{p.partition}:{b}" for p in moving for b in p.replicas),
        follower=",".join(f"{p.partition}:{b}" for p in moving for b in p.adding),
    )
