"""In-sync replicas that cannot keep up: they fall behind, and after a while they are not in sync any more.

Intuition: clients take their bytes first. Where a link or a disk is left with less than its in-sync replication needs, all
of that gets the same share of what it needs, and the rest is lag. A follower that has not caught up with its leader for
``replica.lag.time.max.ms`` leaves the ISR; from then on it counts among those who lag, and obeys a throttle that lists it.
So an overload that ends soon is caught up with unseen, and one that doesn't is made worse by a throttle.

Invariant: a follower lags by exactly the bytes that it was not given. One that is in sync and lags not at all costs nothing
here: as long as every link carries what is asked of it, nothing is computed.

Simplification: who has fallen behind takes an even part of what is spare, before anything that moves.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.demand import Demand
from tuner.simulation.numbers import Floats, Ints, sums
from tuner.simulation.replicas import Replicas

_NOBODY: Ints = np.zeros(0, dtype=np.int64)


class InSync:
    def __init__(self, replicas: Replicas, lag_s_max: float) -> None:
        self._replicas = replicas
        self._lag_s_max = lag_s_max
        self._lags_s: Floats = np.zeros(len(replicas.partition))  # By row, since it was last caught up.
        self._lagging = False

    def advance(self, dt_s: float, demand: Demand) -> tuple[Floats, Floats, Ints]:
        """One tick.

        Returns:
            By broker the bytes that in-sync replication got in and sent out beyond what it asked for in this tick, negative
            where it was given less; and the rows whose time is over.
        """
        replicas = self._replicas
        nothing = np.zeros(len(replicas.brokers))
        short = bool((demand.spare_in < 0.0).any() or (demand.spare_out < 0.0).any())
        if not short and not self._lagging:
            return nothing, nothing, _NOBODY
        rows, leader, follower = replicas.steady, replicas.steady_leader, replicas.steady_follower
        asked = demand.factor[leader] * replicas.steady_weight * dt_s
        share_in = _share(demand.steady_in, demand.spare_in)
        share_out = _share(demand.steady_out, demand.spare_out)
        missed = asked * (1.0 - np.minimum(share_in[follower], share_out[leader]))
        lag = replicas.lag_bytes[rows] + missed
        extra = np.minimum(lag, self._spare(lag, demand, dt_s))
        lag -= extra
        replicas.lag_bytes[rows] = lag
        replicas.told_lag_bytes[rows] = lag
        self._lags_s[rows] = np.where(lag > 0.0, self._lags_s[rows] + dt_s, 0.0)
        self._lagging = bool((lag > 0.0).any())
        more, count = extra - missed, len(replicas.brokers)
        late = rows[self._lags_s[rows] > self._lag_s_max]
        self._lags_s[late] = 0.0
        return sums(follower, more, count), sums(leader, more, count), late

    def _spare(self, lag: Floats, demand: Demand, dt_s: float) -> Floats:
        """What every row may take beyond what is written: an even part of what is spare at both of its ends."""
        replicas, count = self._replicas, len(self._replicas.brokers)
        leader, follower = replicas.steady_leader, replicas.steady_follower
        lags = (lag > 0.0).astype(np.float64)
        part_in = np.maximum(demand.spare_in, 0.0) / np.maximum(sums(follower, lags, count), 1.0)
        part_out = np.maximum(demand.spare_out, 0.0) / np.maximum(sums(leader, lags, count), 1.0)
        part: Floats = np.minimum(part_in[follower], part_out[leader]) * dt_s
        return part


def _share(asked: Floats, spare: Floats) -> Floats:
    """The part of ``asked`` that can be had: less than 1 where there is less than nothing to spare."""
    share: Floats = np.clip(1.0 + np.minimum(spare, 0.0) / np.maximum(asked, 1.0), 0.0, 1.0)
    return share
