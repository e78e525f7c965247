"""The plans: brokers join a cluster of a hundred and take over a share of all partitions; or the plan of the real brokers.

Sizes are skewed like those of production topics: most partitions are small, and a few are hundreds of times larger. The write rate
of a partition roughly follows its size, and one in twenty is hot. Everything is drawn from the seed.
"""

from __future__ import annotations

import numpy as np

from streaming.shared.contract import Side
from tuner.simulation.world import BrokerSpec, ClientLoad, ControllerModel, InitialRate, PartitionSpec, World

MB = 1e6
LINK = 1_250 * MB  # 10 Gbit/s.
RATE_BYTES_PER_S = 150_000_000  # The throttle on every side.
BROKERS, PARTITIONS = 100, 20_000
FOUR_BROKERS, FOUR_PARTITIONS_EACH, FOUR_RATE_BYTES_PER_S = 4, 40, 3_000_000
FOUR_MEGABYTES_OF = {"sand": 0.25, "gravel": 0.5, "stones": 1.0, "rocks": 3.0, "boulders": 13.0}  # Of each partition.
FOUR_LOADED, FOUR_LOAD_BYTES_PER_S = "boulders", 3.0 * MB
_TOPICS = 200
_REPLICATION = 3
_SIZE_SIGMA = 1.5  # Of the logarithm: the largest of 20,000 is a hundred times the mean.
_KEPT_S = 6 * 3600.0  # Retention.
_HOT_SHARE, _HOT_BYTES_PER_S = 0.05, 1 * MB
_UNEVEN_SIGMA = 0.3  # Of how many partitions a broker leads.


def joining(
    seed: int,
    *,
    brokers: int = BROKERS,
    new: int | None = None,
    partitions: int = PARTITIONS,
    drains_s: float = 1_500.0,
) -> World:
    """Returns a world in which new brokers have joined: one replica of every partition of the plan moves to one of them.

    Args:
        new: number of new brokers; by default a fifth of all.
        drains_s: time of the new brokers at their throttles, if load were even and nothing were written.
    """
    new = brokers // 5 if new is None else new
    rng = np.random.default_rng([seed, 8])
    old, those = np.arange(brokers - new), np.arange(brokers - new, brokers)
    total_bytes = drains_s * RATE_BYTES_PER_S * new
    return _world(seed, rng, brokers, _partitions(rng, partitions, old, those, total_bytes))


def evening(seed: int, *, brokers: int = BROKERS, partitions: int = PARTITIONS, drains_s: float = 1_000.0) -> World:
    """Returns a world in which one replica of every partition of the plan moves from one random broker to another."""
    rng = np.random.default_rng([seed, 9])
    every = np.arange(brokers)
    total_bytes = drains_s * RATE_BYTES_PER_S * brokers
    return _world(seed, rng, brokers, _partitions(rng, partitions, every, every, total_bytes))


def ends(number: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns present and target replicas: the leader stays, and the follower moves to a broker without a replica."""
    first = number % FOUR_BROKERS
    old, new = ((1, 2), (2, 3), (3, 1))[number // FOUR_BROKERS % 3]
    return (first, (first + old) % FOUR_BROKERS), (first, (first + new) % FOUR_BROKERS)


def four_brokers(seed: int, *, heard_after_s: float = 0.041) -> World:
    """Returns the world of real.py: 200 partitions of five sizes; clients write to the largest.

    Leaders stay, and by symmetry every side copies the same amount.

    Args:
        heard_after_s: time from the decision on a step to its first byte: prepare handshake, throttle, request, propagation.
    """
    partitions = []
    for topic, megabytes in FOUR_MEGABYTES_OF.items():
        for p in range(FOUR_PARTITIONS_EACH):
            before, after = ends(p)
            write = FOUR_LOAD_BYTES_PER_S / FOUR_PARTITIONS_EACH if topic == FOUR_LOADED else 0.0
            partitions.append(
                PartitionSpec(topic, p, megabytes * MB, write, replicas=before, adding=after[1:], removing=before[1:])
            )
    brokers = range(FOUR_BROKERS)
    return World(
        seed=seed,
        brokers=tuple(BrokerSpec(b, LINK, LINK, 2 * LINK, 2 * LINK) for b in brokers),
        partitions=tuple(partitions),
        loads=tuple(ClientLoad(b) for b in brokers),
        rates=tuple(InitialRate(b, side, FOUR_RATE_BYTES_PER_S) for b in brokers for side in Side),
        controller=ControllerModel(propagation_s_max=heard_after_s),
        duration_s_max=600.0,
        tick_ms=100,
        moves_begin_s=float("inf"),
    )


FOUR = "four brokers"
WORLDS = {"joining": joining, "evening": evening}


def _partitions(
    rng: np.random.Generator, count: int, old: np.ndarray, new: np.ndarray, total_bytes: float
) -> list[PartitionSpec]:
    size = rng.lognormal(0.0, _SIZE_SIGMA, count)
    size *= total_bytes / size.sum()
    write = size / _KEPT_S * rng.lognormal(0.0, 0.5, count)
    hot = rng.random(count) < _HOT_SHARE
    write[hot] += _HOT_BYTES_PER_S * rng.lognormal(0.0, 0.5, int(hot.sum()))
    weight = rng.lognormal(0.0, _UNEVEN_SIGMA, len(old))
    found = []
    for i in range(count):
        replicas = rng.choice(old, _REPLICATION, replace=False, p=weight / weight.sum())
        to = int(rng.choice(new))
        while to in replicas:
            to = int(rng.choice(new))
        gone = int(replicas[int(rng.integers(_REPLICATION))])
        found.append(
            PartitionSpec(
                f"topic-{i % _TOPICS}",
                i // _TOPICS,
                float(size[i]),
                float(write[i]),
                replicas=tuple(int(b) for b in replicas),
                adding=(to,),
                removing=(gone,),
            )
        )
    return found


def _world(seed: int, rng: np.random.Generator, brokers: int, partitions: list[PartitionSpec]) -> World:
    loads = [
        ClientLoad(b, float(u) * LINK, float(u) * LINK, noise_ratio=0.1)
        for b, u in enumerate(rng.uniform(0.1, 0.5, brokers))
    ]
    part = sorted({b for p in partitions for b in (p.replicas[0], *p.adding)})
    return World(
        seed=seed,
        brokers=tuple(BrokerSpec(b, LINK, LINK, 2 * LINK, 2 * LINK) for b in range(brokers)),
        partitions=tuple(partitions),
        loads=tuple(loads),
        rates=tuple(InitialRate(b, side, RATE_BYTES_PER_S) for b in part for side in Side),
        duration_s_max=4 * 3600.0,
        tick_ms=1000,
        moves_begin_s=float("inf"),
    )
