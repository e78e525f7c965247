"""The worlds in which laws are compared: small clusters with gigabit links, each with one disturbance.

At the start all throttles are 50 MB/s, as set by an operator. Every broker follows every other one with a small rate, so that a
refused fetcher thread retries as soon as new data arrives. The worlds leave at least a quarter of the busiest link to the move,
except for the two that are called busy: with a tenth, any margin would cost a multiple of the time.

Of the shipped scenarios ``fetcher-collision`` is missing: there a single fetcher thread of 60 MB/s is the limit, which T* does not
contain, so every law needs 14.65 times T*. ``brokers-1000`` is the shipped scenario. ``brokers-100`` has links and loads like the
other worlds, because the shipped scenario takes three minutes only, most of them start and end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from rheostat.simulate.scenario_file import load_scenario
from streaming.shared.contract import Side
from tuner.simulation.world import (
    BrokerLoss,
    BrokerSpec,
    ClientLoad,
    Disturbance,
    InitialRate,
    LoadStep,
    PartitionSpec,
    SignalDelivery,
    SignalOutage,
    TopicLists,
    World,
)

MB = 1e6
LINK = 125 * MB
DISK = 400 * MB
HABIT_BYTES_PER_S = 50_000_000
_TOPIC = "orders"


def worlds(seed: int) -> dict[str, World]:
    """Returns the worlds by name, in the order of the table. Another seed gives other sizes, loads and noise."""
    return {name: make(np.random.default_rng([seed, i]), seed) for i, (name, make) in enumerate(_MAKERS.items())}


def _world(
    seed: int,
    brokers: Sequence[int],
    partitions: Sequence[PartitionSpec],
    loads: Sequence[ClientLoad],
    *,
    disturbances: Sequence[Disturbance] = (),
    duration_s_max: float = 2_400.0,
    disk_bytes_per_s: float = DISK,
    trickle: Sequence[tuple[int, int]] | None = None,
) -> World:
    """Returns a world.

    Args:
        trickle: the brokers that follow each other beside the move; by default every broker follows every other one.
    """
    moving = [p for p in partitions if p.adding]
    old = sorted({b for p in moving for b in p.replicas})
    new = sorted({b for p in moving for b in p.adding})
    return World(
        seed=seed,
        brokers=tuple(BrokerSpec(b, LINK, LINK, disk_bytes_per_s, disk_bytes_per_s) for b in brokers),
        partitions=(*partitions, *_in_sync(_pairs(brokers) if trickle is None else trickle)),
        loads=tuple(loads),
        lists=(
            TopicLists(
                _TOPIC,
                leader=",".join(f"{p.partition}:{b}" for p in moving for b in p.replicas),
                follower=",".join(f"{p.partition}:{b}" for p in moving for b in p.adding),
            ),
        ),
        rates=(
            *(InitialRate(b, Side.LEADER, HABIT_BYTES_PER_S) for b in old),
            *(InitialRate(b, Side.FOLLOWER, HABIT_BYTES_PER_S) for b in new),
        ),
        disturbances=tuple(disturbances),
        duration_s_max=duration_s_max,
    )


def _in_sync(pairs: Sequence[tuple[int, int]]) -> list[PartitionSpec]:
    """Returns small partitions beside the move, through which brokers follow each other with a small rate."""
    return [PartitionSpec("rest", i, 1 * MB, 0.05 * MB, pair) for i, pair in enumerate(pairs)]


def _pairs(brokers: Sequence[int]) -> list[tuple[int, int]]:
    return [(a, b) for a in brokers for b in brokers if a != b]


def _load(
    rng: np.random.Generator, brokers: Sequence[int], low: float = 0.3, high: float = 0.5, **others: float
) -> list[ClientLoad]:
    """Returns client loads: a random share of each broker's link, with noise of 5 % and a correlation time of 10 s."""
    drawn = {b: float(rng.uniform(low, high)) * LINK for b in brokers}
    return [ClientLoad(b, 0.8 * used, used, noise_ratio=0.05, **others) for b, used in drawn.items()]


def _moves(
    rng: np.random.Generator,
    count: int,
    total_bytes: float,
    old: Sequence[Sequence[int]],
    new: Sequence[int],
    write_bytes_per_s: float = 1.0 * MB,
    gives_up: bool = True,
) -> list[PartitionSpec]:
    """Returns ``count`` partitions of random sizes; each has its replica on one of ``old`` and moves to one of ``new``, in turn."""
    drawn = rng.lognormal(0.0, 0.3, count)
    sizes = drawn / drawn.sum() * total_bytes
    return [
        PartitionSpec(
            _TOPIC,
            i,
            float(sizes[i]),
            write_bytes_per_s,
            replicas=tuple(old[i % len(old)]),
            adding=(new[i % len(new)],),
            removing=(tuple(old[i % len(old)])[-1],) if gives_up else (),
        )
        for i in range(count)
    ]


def _two(rng: np.random.Generator, seed: int) -> World:
    return _world(seed, (1, 2), _moves(rng, 6, 30e9, [(1,)], [2], 0.0), _load(rng, (1, 2), 0.1, 0.2))


def _two_produce(rng: np.random.Generator, seed: int) -> World:
    return _world(seed, (1, 2), _moves(rng, 6, 25e9, [(1,)], [2], 2 * MB, gives_up=False), _load(rng, (1, 2), 0.2, 0.3))


def _one_to_two(rng: np.random.Generator, seed: int) -> World:
    return _world(seed, (1, 2, 3), _moves(rng, 8, 30e9, [(1,)], [2, 3]), _load(rng, (1, 2, 3)))


def _two_to_one(rng: np.random.Generator, seed: int) -> World:
    return _world(seed, (1, 2, 3), _moves(rng, 8, 30e9, [(1, 2), (2, 1)], [3]), _load(rng, (1, 2, 3)))


def _one_to_two_produce(rng: np.random.Generator, seed: int) -> World:
    """Two destinations; clients write 16 MB/s to the moving partitions."""
    return _world(seed, (1, 2, 3), _moves(rng, 8, 30e9, [(1,)], [2, 3], 2 * MB), _load(rng, (1, 2, 3), 0.2, 0.3))


def _two_to_one_produce(rng: np.random.Generator, seed: int) -> World:
    """The same with one destination, while the second replica also follows."""
    moves = _moves(rng, 8, 30e9, [(1, 2), (2, 1)], [3], 2 * MB)
    return _world(seed, (1, 2, 3), moves, _load(rng, (1, 2, 3), 0.2, 0.3))


def _broker_add(rng: np.random.Generator, seed: int) -> World:
    old = [(1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2)]
    return _world(seed, range(1, 6), _moves(rng, 16, 50e9, old, [5]), _load(rng, range(1, 6)))


def _broker_replace(rng: np.random.Generator, seed: int) -> World:
    """Broker 4 is lost; broker 5 takes over its replicas."""
    old = [(1, 2, 4), (2, 3, 4), (3, 1, 4)]
    return _world(
        seed,
        range(1, 6),
        _moves(rng, 15, 45e9, old, [5]),
        _load(rng, range(1, 6)),
        disturbances=[BrokerLoss(0.0, 1e6, 4)],
    )


def _decommission(
    rng: np.random.Generator, seed: int, low: float = 0.1, high: float = 0.25, duration_s_max: float = 3_600.0
) -> World:
    old = [(6, 1), (6, 2), (6, 3), (6, 4), (6, 5)]
    moves = _moves(rng, 15, 15e9, old, [2, 3, 4, 5, 1])
    return _world(seed, range(1, 7), moves, _load(rng, range(1, 7), low, high), duration_s_max=duration_s_max)


def _decommission_busy(rng: np.random.Generator, seed: int) -> World:
    """The broker that is removed leads all partitions, and its clients leave little bandwidth."""
    return _decommission(rng, seed, 0.3, 0.5, 7_200.0)


def _hot_partition(rng: np.random.Generator, seed: int, low: float = 0.1, high: float = 0.25) -> World:
    moves = _moves(rng, 8, 30e9, [(1, 2), (2, 3), (3, 1)], [4, 5])
    moves[0] = replace(moves[0], write_bytes_per_s=12 * MB)
    return _world(seed, range(1, 6), moves, _load(rng, range(1, 6), low, high))


def _hot_partition_busy(rng: np.random.Generator, seed: int) -> World:
    """Steady-state replication and client reads leave a few per cent of the link to the move."""
    return _hot_partition(rng, seed, 0.3, 0.5)


def _diurnal(rng: np.random.Generator, seed: int) -> World:
    """The load of a day within 15 minutes."""
    loads = _load(rng, range(1, 5), daily_ratio=0.35, day_s=900.0, daily_phase_s=float(rng.uniform(0.0, 900.0)))
    return _world(seed, range(1, 5), _moves(rng, 12, 60e9, [(1, 2), (2, 3), (3, 1)], [4]), loads)


def _load_step(rng: np.random.Generator, seed: int) -> World:
    at_s = float(rng.uniform(120.0, 200.0))
    steps = [LoadStep(at_s, at_s + 240.0, (1, 4), 1.5), LoadStep(at_s + 400.0, at_s + 520.0, (4,), 1.4)]
    moves = _moves(rng, 12, 45e9, [(1, 2), (2, 3), (3, 1)], [4])
    return _world(seed, range(1, 5), moves, _load(rng, range(1, 5)), disturbances=steps)


def _disk_bound(rng: np.random.Generator, seed: int) -> World:
    """Disks that are slower than the links."""
    moves = _moves(rng, 9, 25e9, [(1, 2), (2, 3), (3, 1)], [4])
    return _world(seed, range(1, 5), moves, _load(rng, range(1, 5), 0.2, 0.35), disk_bytes_per_s=90 * MB)


def _flapping_isr(rng: np.random.Generator, seed: int) -> World:
    """A replica that does not move is offline for twenty seconds every three minutes."""
    losses = [BrokerLoss(at_s, at_s + 20.0, 3) for at_s in (100.0, 280.0, 460.0)]
    moves = _moves(rng, 10, 35e9, [(1, 2, 3), (2, 1, 3)], [4, 5])
    return _world(seed, range(1, 6), moves, _load(rng, range(1, 6)), disturbances=losses)


def _stale_metrics(rng: np.random.Generator, seed: int) -> World:
    """A tenth of the scrapes is lost, the others come late, and a broker twice sends none."""
    outages = [SignalOutage(90.0, 170.0, (1,)), SignalOutage(260.0, 320.0, (4,))]
    moves = _moves(rng, 12, 40e9, [(1, 2), (2, 3), (3, 1)], [4])
    world = _world(seed, range(1, 5), moves, _load(rng, range(1, 5)), disturbances=outages)
    return replace(world, delivery=SignalDelivery(delay_s_min=3.0, delay_s_max=7.0, loss_ratio=0.1))


def _brokers_100(rng: np.random.Generator, seed: int) -> World:
    """Ten brokers join a cluster of ninety."""
    brokers, new = range(1, 101), range(91, 101)
    old = [(b, b % 90 + 1, (b + 1) % 90 + 1) for b in range(1, 91)]
    moves = _moves(rng, 180, 250e9, old, new)
    return _world(seed, brokers, moves, _load(rng, brokers), trickle=[(b, b % 100 + 1) for b in brokers])


def _brokers_1000(_: np.random.Generator, seed: int) -> World:
    return load_scenario("brokers-1000", seed).world


_MAKERS: dict[str, Callable[[np.random.Generator, int], World]] = {
    "kip73-2node": _two,
    "kip73-2node-produce": _two_produce,
    "kip73-3node-1to2": _one_to_two,
    "kip73-3node-2to1": _two_to_one,
    "broker-add": _broker_add,
    "broker-replace": _broker_replace,
    "decommission": _decommission,
    "hot-partition": _hot_partition,
    "diurnal": _diurnal,
    "load-step": _load_step,
    "disk-bound": _disk_bound,
    "flapping-isr": _flapping_isr,
    "stale-metrics": _stale_metrics,
    "decommission-busy": _decommission_busy,
    "hot-partition-busy": _hot_partition_busy,
    # Drawn by their place here, so what comes later leaves those before it as they were.
    "kip73-3node-1to2-produce": _one_to_two_produce,
    "kip73-3node-2to1-produce": _two_to_one_produce,
    "brokers-100": _brokers_100,
    "brokers-1000": _brokers_1000,
}
