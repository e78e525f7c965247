"""T*: no schedule of the world's moves is faster, however well it knows the future.

For every broker and direction, what clients and in-sync replication leave free up to the objective, summed up to T, must
carry the bytes of its moves and what is written to them until T:

    ∫₀ᵀ c(t) dt ≥ Σ (b + ∫₀ᵀ w(t) dt)      T* is the least T where all of them hold

Constant rates b/T* + w meet every constraint in the fluid model, so the bound is tight there; thread limits, whole fetches
and the quota's window are not in it. The load is the drawn one, noise included; brokers that go and leaders that move are not.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.cluster import Cluster
from tuner.simulation.numbers import Floats, sums
from tuner.simulation.world import World


def optimum_s(world: World) -> float | None:
    """Seconds from the beginning of the moves; None when the world's time is too short for any schedule."""
    cluster = Cluster(world)
    replicas = cluster.replicas
    replicas.start_moves()
    cluster.replicas.rebuild(cluster.lists)
    begin = int(world.moves_begin_s)
    share = world.latency.objective_utilisation
    free_out, free_in = (free[begin:] for free in cluster.clients.free_bytes_per_s(replicas, share))
    adding = np.flatnonzero(replicas.adding)
    if len(adding) == 0:
        return 0.0
    count = cluster.count
    source, target = replicas.leader[replicas.partition[adding]], replicas.broker[adding]
    size, weight = replicas.lag_bytes[adding], replicas.weight_bytes_per_s[replicas.partition[adding]]
    factors = cluster.clients.factors[begin:]
    pairs = sums(source * count + target, weight, count * count).reshape(count, count)
    spare = [
        _spare(free_out, sums(source, size, count), factors * pairs.sum(axis=1)),
        _spare(free_in, sums(target, size, count), factors @ pairs),
    ]
    worst = np.minimum(spare[0].min(axis=1), spare[1].min(axis=1))
    fits = np.flatnonzero(worst >= 0.0)
    if len(fits) == 0:
        return None
    first = int(fits[0])
    if first == 0:
        return 0.0
    # Between two seconds every sum is a straight line; the last of them to come up to zero decides.
    before = np.concatenate([s[first - 1] for s in spare])
    after = np.concatenate([s[first] for s in spare])
    late = before < 0.0
    return first - 1 + float((-before[late] / (after[late] - before[late])).max())


def _spare(free: Floats, size: Floats, written: Floats) -> Floats:
    """By second, from 0 on, and broker: what could have been carried less what must have been."""
    carried = np.vstack([np.zeros(free.shape[1]), np.cumsum(free - written, axis=0)])
    # A broker that takes no part holds nobody up.
    return np.where(size > 0.0, carried - size, 0.0)
