"""Draws plants: clusters, moves, loads and measurements within what Kafka and its collectors do, each from its number and a seed.

A plant is a world of the simulator. The worlds of worlds.py were chosen, and the law was tuned on them; plants are drawn, so that a
law that describes one plant rather than Kafka shows itself. The ranges are those of real brokers: quota windows of 3 and 11
samples, fetch settings from Kafka's defaults to ten times, scrapes every 1 to 15 s that arrive up to 12 s late, a p99 of a moment,
of a step or of Kafka's reservoir. Sizes are scaled so that T* is as drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from streaming.shared.contract import Side
from tuner.simulation.optimum import optimum_s
from tuner.simulation.world import (
    MIB,
    BrokerSpec,
    ClientLoad,
    Disturbance,
    FetchSettings,
    InitialRate,
    LatencyModel,
    LoadStep,
    P99Source,
    PartitionSpec,
    SignalDelivery,
    TopicLists,
    World,
)

MB = 1e6
_TOPIC = "orders"
_STREAM = 23  # Random stream of the plants.
_T_S = (120.0, 900.0)  # T* of a plant.
_T_ROUNDS = 4  # Scalings of the sizes until T* is near the drawn value.


class CapacityTold(StrEnum):
    """Whether the capacity of the brokers in the tuner's settings is right."""

    RIGHT = "right"
    WRONG = "wrong"  # Each broker's by a factor of 0.4 to 2.
    UNKNOWN = "unknown"


def draw_plant(seed: int, number: int, told: CapacityTold = CapacityTold.RIGHT) -> World:
    """Returns a plant. The same arguments give the same plant; what is told about capacity changes nothing else."""
    rng = np.random.default_rng([seed, number, _STREAM])
    brokers = _brokers(rng)
    ids = [b.broker for b in brokers]
    moves = _moves(rng, ids)
    share_max = float(rng.uniform(0.15, 0.6))
    loads = tuple(_load(rng, b, share_max) for b in brokers)
    world = World(
        seed=int(rng.integers(1 << 30)),
        brokers=tuple(brokers),
        partitions=(*moves, *_steady(rng, ids)),
        loads=loads,
        lists=_lists(moves),
        rates=_rates(rng, moves),
        disturbances=tuple(_steps(rng, ids)),
        tick_ms=int(rng.choice([100, 200, 250, 500])),
        moves_begin_s=float(rng.choice([0.0, 40.0])),  # Sensors are cold, or have followed steady replication.
        fetch=_fetch(rng, brokers[0].link_in_bytes_per_s, len(moves) / len({p.adding for p in moves})),
        latency=_latency(rng),
        delivery=_delivery(rng),
    )
    world = _with_t(world, float(np.exp(rng.uniform(*np.log(_T_S)))))
    queue_ratio = _queue_ratio(seed, number, world.latency.objective_utilisation)
    world = replace(world, latency=replace(world.latency, queue_ratio=queue_ratio))
    # A generator of its own, so that the other draws are the same in all three cases.
    return _tell(np.random.default_rng([seed, number, _STREAM, 1]), world, told)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _brokers(rng: np.random.Generator) -> list[BrokerSpec]:
    count = round(_log_uniform(rng, 2, 60))
    link = _log_uniform(rng, 60 * MB, 1_000 * MB)
    disk = link * _log_uniform(rng, 0.6, 5.0)
    specs = [BrokerSpec(b, link, link, disk, 1.5 * disk) for b in range(1, count + 1)]
    if rng.random() < 0.2:  # One broker with a disk that takes less than its link.
        slow = int(rng.integers(count))
        specs[slow] = replace(specs[slow], disk_write_bytes_per_s=0.4 * link, disk_read_bytes_per_s=0.6 * link)
    return specs


def _moves(rng: np.random.Generator, ids: Sequence[int]) -> list[PartitionSpec]:
    """Returns partitions that move from old to new brokers; with two brokers, copies that stay on both."""
    new_count = max(1, min(len(ids) - 1, round(_log_uniform(rng, 1, 6))))
    old, new = list(ids[:-new_count]), list(ids[-new_count:])
    replicas = min(int(rng.choice([2, 3])), len(old))
    count = max(new_count, round(_log_uniform(rng, 1, 300)))
    sizes = rng.lognormal(0.0, float(rng.uniform(0.1, 1.0)), count)
    write = float(rng.choice([0.0, 0.2, 1.0, 2.0])) * MB / max(1.0, count / 20)
    gives_up = bool(rng.random() < 0.7)
    moves = []
    for i in range(count):
        holds = tuple(old[(i + k) % len(old)] for k in range(replicas))
        removing = (holds[-1],) if gives_up and len(holds) > 1 else ()
        moves.append(
            PartitionSpec(
                _TOPIC, i, float(sizes[i]), write, replicas=holds, adding=(new[i % len(new)],), removing=removing
            )
        )
    return moves


def _steady(rng: np.random.Generator, ids: Sequence[int]) -> list[PartitionSpec]:
    """Returns small partitions through which brokers follow each other; each broker follows up to five others."""
    write = _log_uniform(rng, 0.01, 0.5) * MB
    pairs = [(a, ids[(k + step) % len(ids)]) for k, a in enumerate(ids) for step in range(1, min(6, len(ids)))]
    return [PartitionSpec("rest", i, 1 * MB, write, pair) for i, pair in enumerate(pairs)]


def _load(rng: np.random.Generator, broker: BrokerSpec, share_max: float) -> ClientLoad:
    used = float(rng.uniform(0.05, share_max)) * min(broker.link_in_bytes_per_s, broker.disk_write_bytes_per_s)
    daily = float(rng.choice([0.0, 0.0, 0.3]))
    return ClientLoad(
        broker.broker,
        in_bytes_per_s=0.8 * used,
        out_bytes_per_s=float(rng.uniform(0.5, 1.2)) * used,
        daily_ratio=daily,
        daily_phase_s=float(rng.uniform(0.0, 900.0)),
        day_s=900.0,
        noise_ratio=float(rng.uniform(0.02, 0.15)),
        noise_s=_log_uniform(rng, 2.0, 60.0),
    )


def _steps(rng: np.random.Generator, ids: Sequence[int]) -> list[Disturbance]:
    """Returns steps of load for minutes, and bursts of a second."""
    steps: list[Disturbance] = []
    for _ in range(int(rng.integers(0, 3))):
        at_s, some = float(rng.uniform(60, 600)), _some(rng, ids)
        steps.append(LoadStep(at_s, at_s + float(rng.uniform(60, 240)), some, float(rng.uniform(0.5, 1.5))))
    for _ in range(int(rng.integers(0, 6))):
        at_s = float(rng.integers(20, 900))
        steps.append(LoadStep(at_s, at_s + 1.0, _some(rng, ids), float(rng.uniform(1.2, 2.0))))
    return steps


def _some(rng: np.random.Generator, ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(b) for b in sorted(rng.choice(ids, size=int(rng.integers(1, len(ids) + 1)), replace=False)))


def _lists(moves: Sequence[PartitionSpec]) -> tuple[TopicLists, ...]:
    leaders = ",".join(f"{p.partition}:{b}" for p in moves for b in p.replicas)
    followers = ",".join(f"{p.partition}:{b}" for p in moves for b in p.adding)
    return (TopicLists(_TOPIC, leader=leaders, follower=followers),)


def _rates(rng: np.random.Generator, moves: Sequence[PartitionSpec]) -> tuple[InitialRate, ...]:
    """Returns one rate for all sides, from far too low to no limit in effect."""
    rate = round(_log_uniform(rng, 1 * MB, 200 * MB))
    old = sorted({b for p in moves for b in p.replicas})
    new = sorted({b for p in moves for b in p.adding})
    return (
        *(InitialRate(b, Side.LEADER, rate) for b in old),
        *(InitialRate(b, Side.FOLLOWER, rate) for b in new),
    )


def _fetch(rng: np.random.Generator, link_bytes_per_s: float, partitions: float) -> FetchSettings:
    """Returns fetch settings that can fill a destination's link three times, because T* does not contain limits of fetcher threads.

    Args:
        partitions: moving partitions of each destination.
    """
    response, partition = _log_uniform(rng, 2, 50) * MIB, _log_uniform(rng, 0.5, 5) * MIB
    fastest_s = min(response, partition * partitions) / (3 * link_bytes_per_s)
    return FetchSettings(
        response_bytes_max=response,
        partition_bytes_max=partition,
        wait_s=float(rng.choice([0.1, 0.5, 0.5, 1.0])),
        backoff_s=float(rng.choice([0.5, 1.0, 1.0])),
        fetchers=int(rng.choice([1, 1, 2, 4, 8])),
        quota_samples=int(rng.choice([3, 11, 11, 11])),
        round_trip_s=min(_log_uniform(rng, 0.0005, 0.02), fastest_s),
    )


def _latency(rng: np.random.Generator) -> LatencyModel:
    source = P99Source(rng.choice([P99Source.MOMENT, P99Source.STEP, P99Source.RESERVOIR]))
    return LatencyModel(source, base_ms=_log_uniform(rng, 2, 20), objective_utilisation=float(rng.uniform(0.8, 0.93)))


def _queue_ratio(seed: int, number: int, objective_utilisation: float) -> float:
    """Returns how much of the latency grows with the queue: on half of the plants as with random arrivals, on the others less.

    The objective is at least twice the latency of an idle broker.
    """
    rng = np.random.default_rng([seed, number, _STREAM, 2])
    random_arrivals = bool(rng.random() < 0.5)
    objective_ratio = _log_uniform(rng, 2.0, 1.0 / (1.0 - objective_utilisation))
    return 1.0 if random_arrivals else (objective_ratio - 1.0) * (1.0 / objective_utilisation - 1.0)


def _delivery(rng: np.random.Generator) -> SignalDelivery:
    every_s = float(rng.choice([1.0, 5.0, 5.0, 10.0, 15.0]))
    late_s = float(rng.uniform(0.0, 12.0))
    return SignalDelivery(
        scrape_every_s=every_s,
        delay_s_min=0.5 * late_s,
        delay_s_max=late_s,
        loss_ratio=float(rng.choice([0.0, 0.0, 0.05])),
    )


def _with_t(world: World, t_s: float) -> World:
    """Returns the world with sizes for which T* is about ``t_s``, and with time for a law that is several times slower."""
    world = replace(world, duration_s_max=world.moves_begin_s + 4 * t_s)
    spread = sum(p.size_bytes for p in world.moving)
    link = world.brokers[0].link_in_bytes_per_s
    world = _scaled(world, 0.1 * link * t_s / spread)
    for _ in range(_T_ROUNDS):
        found = optimum_s(world)
        world = _scaled(world, 0.25 if found is None else t_s / max(found, 1.0))
    return replace(world, duration_s_max=world.moves_begin_s + 6 * t_s + 600.0)


def _scaled(world: World, factor: float) -> World:
    return replace(
        world,
        partitions=tuple(replace(p, size_bytes=factor * p.size_bytes) if p.adding else p for p in world.partitions),
    )


def _tell(rng: np.random.Generator, world: World, told: CapacityTold) -> World:
    ratios: dict[CapacityTold, Any] = {
        CapacityTold.RIGHT: lambda: 1.0,
        CapacityTold.WRONG: lambda: _log_uniform(rng, 0.4, 2.0),
        CapacityTold.UNKNOWN: lambda: None,
    }
    return replace(world, brokers=tuple(replace(b, configured_capacity_ratio=ratios[told]()) for b in world.brokers))
