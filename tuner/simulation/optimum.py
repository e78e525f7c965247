"""Computes T*, the time that no schedule of the world's moves can beat, even with full knowledge of the future.

The latency objective limits the utilisation of every link. T* is the smallest T for which, on every broker and in each direction,

    ∫₀ᵀ c(t) dt ≥ Σ (b + ∫₀ᵀ w(t) dt)

    c  capacity that clients and in-sync replication leave below the permitted utilisation
    b  bytes of a move at its start
    w  writes to the move's partition

If bytes were a fluid, the moves could end at T* with the constant rates b ÷ T* + w. T* ignores thread limits, the size of single
fetches and the quota window. It includes the simulated load with its noise, but no losses of brokers or changes of leaders.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.cluster import Cluster
from tuner.simulation.latency import objective_utilisations
from tuner.simulation.numbers import Floats, sums
from tuner.simulation.world import World


def optimum_s(world: World) -> float | None:
    """Returns T* in seconds from the start of the moves; None if the world's time is too short for any schedule."""
    cluster = Cluster(world)
    replicas = cluster.replicas
    replicas.start_moves()
    replicas.rebuild(cluster.lists)
    begin = int(world.moves_begin_s)
    share = objective_utilisations(world.latency)
    free_out, free_in = (free[begin:] for free in cluster.clients.free_bytes_per_s(replicas, share))
    adding = np.flatnonzero(replicas.adding)
    if len(adding) == 0:
        return 0.0
    count = cluster.count
    source, target = replicas.leader[replicas.partition[adding]], replicas.broker[adding]
    weight = replicas.weight_bytes_per_s[replicas.partition[adding]]
    written_before = weight * cluster.clients.factors[:begin].sum(axis=0)[source]
    size, factors = replicas.lag_bytes[adding] + written_before, cluster.clients.factors[begin:]
    # From each leader (row) to each new replica's broker (column): mean bytes/s written to the moving partitions.
    write_rates = sums(source * count + target, weight, count * count).reshape(count, count)
    spare = [
        _spare(free_out, sums(source, size, count), factors * write_rates.sum(axis=1)),
        _spare(free_in, sums(target, size, count), factors @ write_rates),
    ]
    worst = np.minimum(spare[0].min(axis=1), spare[1].min(axis=1))
    fits = np.flatnonzero(worst >= 0.0)
    if len(fits) == 0:
        return None
    first = int(fits[0])
    if first == 0:
        return 0.0
    # Between two seconds every value of ``spare`` is linear. The value that reaches zero last determines T*.
    earlier = np.concatenate([s[first - 1] for s in spare])
    later = np.concatenate([s[first] for s in spare])
    negative = earlier < 0.0
    return first - 1 + float((-earlier[negative] / (later[negative] - earlier[negative])).max())


def _spare(free: Floats, size: Floats, written: Floats) -> Floats:
    """Returns by second and broker the bytes that can be carried until this second − the bytes to carry; negative: T is later."""
    carried = np.vstack([np.zeros(free.shape[1]), np.cumsum(free - written, axis=0)])
    # A broker without moves does not limit T*.
    return np.where(size > 0.0, carried - size, 0.0)
